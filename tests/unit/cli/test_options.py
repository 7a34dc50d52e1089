"""An option that is given twice adds up or is refused; none is dropped."""

import argparse

import pytest

from minitensor.cli.main import _parser

SWITCHES = (argparse._StoreTrueAction, argparse._HelpAction, argparse._VersionAction)
ADDING = {"size", "only", "history", "shape", "input", "trust"}
"""The options that add up."""


def options(parser):
    """Every option of a parser and of its commands, with the words before it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options(command)
        elif action.option_strings and not isinstance(action, SWITCHES):
            yield pytest.param(parser, action, id=f"{parser.prog} {action.option_strings[-1]}")


@pytest.mark.parametrize("parser, action", list(options(_parser())))
def test_no_option_of_any_command_is_dropped(parser, action, capsys):
    """Typed twice, with every command, by the parser itself."""
    values = {"size": ("m=1", "n=2"), "only": ("nest", "order")}
    values |= {"shape": ("x=1x2", "y=3"), "input": ("x=a.npy", "y=b.npy")}
    first, second = values.get(action.dest, (next(iter(action.choices or "1")),) * 2)
    for needed in parser._actions:  # what else the command asks for
        needed.required = False
        needed.nargs = "?" if not needed.option_strings else needed.nargs
    option = action.option_strings[-1]
    words = [option, str(first), option, str(second)]
    if action.dest in ADDING:
        found = getattr(parser.parse_args(words), action.dest)
        assert len(found) == 2
        return
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert "given twice: " in capsys.readouterr().err


def test_sizes_add_up(run):
    apart = run("show", "matmul", "--size", "m=2", "--size", "n=3", "--size", "k=4")
    assert apart.out == run("show", "matmul", "--size", "m=2,n=3,k=4").out
    assert "A: float32[2, 4], B: float32[4, 3], C: float32[2, 3]" in apart.out


@pytest.mark.parametrize(
    "words, said",
    [
        (["--size", "m=1", "--size", "m=2"], "argument --size: m is given twice: 1, then 2"),
        (["--size", "m=1,m=2"], "argument --size: m is given twice: 1, then 2"),
        (["--size", "m=1", "--siz", "m=1"], "argument --size: m is given twice: 1, then 1"),
        (["--cores", "1", "--cores", "2"], "argument --cores: given twice: 1, then 2"),
        (["--gpu", "--gpu", "h100"], "argument --gpu: given twice: 'a100', then 'h100'"),
        (["--size", "m=64", "n=64"], "one word: --size m=64,n=64"),
    ],
)
def test_what_cannot_add_up_is_refused_by_name(run, words, said):
    done = run("show", "matmul", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_a_switch_may_be_repeated(run):
    assert run("show", "matmul", "--small", "--small").status == 0


def test_parsing_leaves_no_trace(run):
    """Two runs of a process share no parser and no default."""
    assert "float32[2, 6]" in run("show", "matmul", "--small", "--size", "m=2").out
    assert "float32[2, 6]" not in run("show", "matmul", "--small").out
