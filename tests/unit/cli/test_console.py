"""What is printed on a terminal and off one."""

import io
import sys

import pytest

from minitensor.cli.console import PLAIN_WIDTH, Console, aligned, indented


def console(colour=False, width=40):
    return Console(io.StringIO(), colour, width)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (io.StringIO(), {}, False),
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(monkeypatch, stream, environment, coloured):
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = Console.of_process()
    assert found.colour is coloured
    assert stream.isatty() or found.width == PLAIN_WIDTH


def test_style_leaves_plain_text_plain():
    assert console().styled("word", "bold", "red") == "word"
    assert console(colour=True).styled("word", "bold", "red") == "\x1b[1;31mword\x1b[0m"


def test_code_on_a_terminal_reads_the_same_without_its_colours():
    text = "for i in range(4):\n    C[i] = 0.0"
    plain = "".join(
        part.partition("m")[2] for part in ("m" + console(True, 99).code(text)).split("\x1b[")
    )
    assert console().code(text) == text
    assert plain == text


def test_without_rich_code_is_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert console(True).code("for i in range(4):") == "for i in range(4):"


def test_difference():
    before = "a\nb\nc\nd\ne\nf\ng"
    after = "a\nB\nc\nd\ne\nf\nG"
    assert console().difference(before, after).splitlines() == [
        "  a",
        "- b",
        "+ B",
        "  c",
        "  ...",
        "  f",
        "- g",
        "+ G",
    ]
    assert console().difference("a", "a") == "  (no change)"


def test_table_and_indentation():
    rows = [("a", "1"), ("long", "22")]
    assert aligned(rows, right=[1]) == ["a      1", "long  22"]
    assert indented("a\n\nb", 2) == "  a\n\n  b"
