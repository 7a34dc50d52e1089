"""What a command works on: operators and their sizes, and objects of users' files."""

import argparse
import sys

import pytest

import minitensor as mt
from minitensor.cli import subject
from minitensor.cli.errors import CommandError, UsageError


def resolve(name, **given):
    defaults = {"size": {}, "small": False, "benchmark": False, "trace": None}
    return subject.resolve(argparse.Namespace(subject=name, **{**defaults, **given}))


# ---- operators


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("m=128", {"m": 128}),
        ("m=128, n=64,k=-1", {"m": 128, "n": 64, "k": -1}),
        ("kernel=3x5,layout=NHWC", {"kernel": (3, 5), "layout": "NHWC"}),
    ],
)
def test_sizes(text, sizes):
    assert subject._sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "m", "m=", "=3", "m=1,,n=2", "m-n=3", "m=1,m=2"])
def test_bad_sizes(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected NAME=VALUE|given twice"):
        subject._sizes(text)


def test_sizes_replace_those_of_the_base():
    a, b = resolve("matmul", size={"m": 3}).programs[0].inputs
    assert (a.shape, b.shape) == ((3, 1024), (1024, 1024))
    a, b = resolve("matmul", size={"m": 3}, small=True).programs[0].inputs
    assert (a.shape, b.shape) == ((3, 5), (5, 6))


def test_unknown_operator_gets_suggestions():
    with pytest.raises(UsageError, match="did you mean softmax"):
        resolve("sofmax")
    with pytest.raises(UsageError, match="show --list"):
        resolve("zzz")


def test_unknown_argument_lists_those_there_are():
    with pytest.raises(UsageError, match="softmax has no argument 'k'; it takes m, n"):
        resolve("softmax", size={"k": 3})


def test_sizes_that_make_no_sense_are_the_operators_to_refuse():
    with pytest.raises(mt.ArgumentError, match="m=0"):
        resolve("matmul", size={"m": 0})


def test_every_operator_resolves():
    for name in mt.workloads.WORKLOADS:
        assert resolve(name, small=True).programs[0].outputs


# ---- operations


def test_operations_are_counted_as_papers_do():
    assert resolve("matmul", size={"m": 2, "n": 3, "k": 5}).flop == 2 * 2 * 3 * 5
    sizes = {"c": 4, "f": 8, "h": 5, "w": 6}
    assert resolve("conv2d", size=sizes).flop == 2 * 8 * 5 * 6 * 4 * 9
    assert resolve("row_sum").flop == 0
    assert resolve("elementwise_chain", small=True).flop == 0


def test_a_schedule_does_not_change_the_count(user_file):
    assert resolve(f"{user_file}:s").flop == resolve(f"{user_file}:program").flop == 2 * 8 * 8 * 4


# ---- files


def test_program_and_schedule_of_a_file(user_file):
    assert len(resolve(f"{user_file}:program").programs) == 1
    assert len(resolve(f"{user_file}:s").programs) == 3


def test_a_file_may_import_its_neighbours_and_print(tmp_path, capsys):
    (tmp_path / "neighbour_of_mine.py").write_text("SIZE = 3\n")
    path = tmp_path / "mine.py"
    path.write_text(
        "import minitensor as mt\nfrom neighbour_of_mine import SIZE\nprint('loud')\n"
        "p = mt.lower(mt.workloads.row_sum(m=SIZE, n=SIZE))\n"
    )
    before = list(sys.path)
    try:
        assert resolve(f"{path}:p").programs[0].inputs[0].shape == (3, 3)
    finally:
        sys.modules.pop("neighbour_of_mine", None)
    assert sys.path == before
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "loud\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "mine.py, line 1: SyntaxError"),
        ("import minitensor as mt\nmt.placeholder((0.5,))\n", "line 2: ArgumentError: expected"),
        ("raise SystemExit('stop')\n", "SystemExit: stop"),
        ("import no_such_module_here\n", "line 1: ModuleNotFoundError"),
        ("raise ValueError\n", "mine.py, line 1: ValueError"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(tmp_path, text, said):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(CommandError) as caught:
        resolve(f"{path}:x")
    assert said in str(caught.value)


def test_missing_file_and_missing_name(user_file, tmp_path):
    with pytest.raises(CommandError, match="there is no file"):
        resolve(f"{tmp_path}/nowhere.py:p")
    with pytest.raises(CommandError, match=r"'q' is not there; choose .*:program or .*:s"):
        resolve(f"{user_file}:q")
    with pytest.raises(CommandError, match="'number' is of type int"):
        resolve(f"{user_file}:number")
    with pytest.raises(UsageError, match="say which object is meant"):
        resolve(str(user_file))


def test_a_file_without_programs(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(CommandError, match="no Program and no Schedule at its top level"):
        resolve(f"{path}:p")


def test_sizes_are_not_for_files(user_file):
    with pytest.raises(UsageError, match="are for named operators"):
        resolve(f"{user_file}:s", size={"m": 3})


# ---- traces


def test_a_trace_is_applied(trace_file, tmp_path):
    assert len(resolve("matmul", small=True, trace=str(trace_file)).programs) == 4


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"minitensor_trace": 1}', '{"minitensor_trace": 99, "steps": []}']
)
def test_a_bad_trace_is_named(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"trace\.json: not a trace"):
        resolve("matmul", small=True, trace=str(path))


def test_a_trace_that_cannot_be_read(tmp_path):
    with pytest.raises(CommandError, match=r"cannot read the trace .*: No such file"):
        resolve("matmul", trace=str(tmp_path / "nowhere.json"))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(CommandError, match="not UTF-8"):
        resolve("matmul", trace=str(binary))


def test_a_trace_of_another_program_is_refused_with_its_step(trace_file):
    with pytest.raises(mt.ScheduleError) as caught:
        resolve("row_sum", small=True, trace=str(trace_file))
    assert caught.value.step == 1


def test_a_trace_is_not_for_a_schedule(user_file, trace_file):
    with pytest.raises(UsageError, match="has been scheduled already"):
        resolve(f"{user_file}:s", trace=str(trace_file))
