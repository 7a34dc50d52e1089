"""What a person sees of a search, wherever it is shown."""

import io
import re
import sys
import types
from collections import Counter

import pytest

from minitensor.errors import ArgumentError
from minitensor.search import Ledger
from minitensor.search.tune import progress as module
from minitensor.search.tune import roofline
from minitensor.search.tune.progress import (
    Display,
    Lines,
    Notebook,
    Rewritten,
    Standing,
    Teller,
    clock,
    failures_text,
    machine_text,
    screen_of,
)
from minitensor.search.tune.roofline import Roofline
from tests.unit.search.tune.made import LIMITS, TARGET, found, product, progress


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)
    monkeypatch.delenv("TERM", raising=False)


@pytest.fixture
def teller():
    return Teller("product", Roofline(10**8, 10**6, LIMITS))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Puts a terminal in the place of stderr (pytest has its own there until a test begins)."""

    def attach():
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return attach


@pytest.fixture
def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)


# ---- words


def test_a_line(teller):
    assert teller.standing(progress()).line() == (
        "product: 48 of 64, round 3; 3 failed (2 not built, 1 wrong result); "
        "best 1.25 ms, 80 GFLOP/s, 80 % of peak; model rank correlation 0.71; 0:31, 0:10 left; "
        "spent compile 38%, run 22%, propose 20%"
    )


def test_what_is_not_known_is_left_out(teller):
    nothing = {"correlation": None, "best": float("inf"), "ledger": Ledger()}
    first = progress(trials=8, failures=Counter(), **nothing)
    assert (
        teller.standing(first).line() == "product: 8 of 64, round 3; best none yet; 0:31, 3:40 left"
    )


def test_a_machine_that_is_busy_or_slower_is_told():
    tried = [
        types.SimpleNamespace(known=False, status="ok", busy=number < 3) for number in range(8)
    ]
    assert machine_text(progress(latest=tuple(tried))) == (
        "busy (3 of 8 candidates were interrupted)"
    )
    assert machine_text(progress(latest=tuple(tried[2:]))) == ""
    assert machine_text(progress(drift=1.31)) == "calls take 1.31 times as long as at first"
    standing = Standing("product", {"tried": "8 of 64", "machine": "busy"})
    assert standing.line() == "product: 8 of 64; machine busy"
    assert ("machine", "busy") in standing.rows()


def test_what_was_in_the_log_took_no_time(teller):
    def time(**state):
        return teller.standing(progress(**state)).known["time"]

    assert time(round=0, trials=16, elapsed=0.0, known=16) == "0:00"
    # 10 s for the 8 since then: 40 left
    assert time(trials=24, elapsed=10.0, known=16) == "0:10, 0:50 left"
    assert time(trials=64, elapsed=60.0, known=16) == "1:00"


def test_all_from_the_log(teller):
    text = teller.standing(progress(round=0, trials=64)).known["tried"]
    assert text == "64 of 64, all from the log"


def test_rows(teller):
    rows = dict(teller.standing(progress()).rows())
    assert rows["tried"] == "##################------  48 of 64, round 3"
    assert list(rows) == ["tried", "failed", "best", "model", "time", "spent"]
    assert Standing("a", {"tried": "measuring"}).rows() == [("tried", "measuring")]


def test_kinds_from_a_log_are_printable():
    assert failures_text(Counter({"\x1b[31mbad": 2})) == "2 failed (2 ?[31mbad)"
    assert failures_text(Counter({"crashed": 0})) == ""


def test_clock():
    assert [clock(s) for s in (0, 7.4, 59.6, 754, 3723)] == [
        "0:00", "0:07", "1:00", "12:34", "1:02:03",
    ]  # fmt: skip


# ---- which screen


def test_nothing_is_shown_off_a_terminal_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert screen_of(None) is None
    assert isinstance(screen_of(True), Lines)


def test_a_process_may_have_no_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert screen_of(True) is None


def test_on_a_terminal_without_rich_a_line(terminal, without_rich):
    terminal()
    assert isinstance(screen_of(None), Rewritten)


def test_on_a_dumb_terminal_plain_lines(terminal, monkeypatch):
    terminal()
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(screen_of(None), Lines)


@pytest.mark.parametrize("wrong", [1, 0, "yes", []])
def test_progress_is_a_bool_or_none(wrong):
    with pytest.raises(ArgumentError, match="True, False, or None"):
        Display.of(wrong, product(), TARGET)


def test_false_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", None)  # nor is the machine measured
    stream = terminal()
    with Display.of(False, product(), TARGET) as display:
        display.update(progress())
    assert stream.getvalue() == ""


# ---- the screens


def test_lines_come_every_few_seconds_and_at_the_end():
    stream, now = io.StringIO(), [0.0]
    lines = Lines(stream, lambda: now[0])
    for seconds, text in ((0, "a"), (1, "b"), (4.9, "c"), (5, "d"), (6, "e"), (7, "f")):
        now[0] = seconds
        lines.show(Standing("p", {"tried": text}, 0.1))
    assert stream.getvalue() == "p: a\np: d\n"
    lines.close()
    lines.close()
    assert stream.getvalue() == "p: a\np: d\np: f\n"


def test_a_rewritten_line_is_cut_at_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    line = Rewritten(stream)
    line.show(Standing("p", {"tried": "x" * 50}))
    line.show(Standing("p", {"tried": "short"}))
    line.close()
    assert stream.getvalue() == f"\r\x1b[Kp: {'x' * 15}…\r\x1b[Kp: short\n"


def test_a_whole_search_on_a_terminal_without_rich(terminal, without_rich, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream = terminal()
    _, told = found()
    with Display.of(None, product(), TARGET) as display:
        for one in told:
            display.update(one)
    shown = stream.getvalue().split("\r\x1b[K")
    assert "measuring what this machine" in shown[1]
    assert len(shown) == 3 + len(told)
    last = told[-1]
    failed = sum(last.failures.values())
    assert shown[-1].startswith(
        f"product: {last.trials} of 40, round {last.round}; {failed} failed ("
    )
    assert shown[-1].endswith("\n") and "\n" not in "".join(shown[:-1])


def test_a_table(terminal, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "100")
    stream = terminal()
    _, told = found()
    with Display.of(None, product(), TARGET) as display:
        assert isinstance(display._screen, module.Table)
        for one in told:
            display.update(one)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    last = text.rpartition("product")[2]
    failed = sum(told[-1].failures.values())
    assert f"  {told[-1].trials} of 40, round {told[-1].round}" in last
    assert re.search(r"best +[\d.]+ [mµn]s, [\d.]+ GFLOP/s, [\d.]+ % of peak", last)
    assert re.search(rf"failed +{failed} failed \(\d not built, \d wrong result\)", last)
    assert sys.stderr is stream


def test_what_is_printed_to_a_pipe_stays_there(terminal, monkeypatch, capsys):
    pytest.importorskip("rich")
    stream = terminal()
    with Display.of(None, product(), TARGET) as display:
        display.update(progress())
        print("a callback's")
    assert capsys.readouterr().out == "a callback's\n"
    assert "callback" not in stream.getvalue()


@pytest.mark.parametrize("failure", [OSError(5, "gone"), ValueError("closed")])
def test_a_terminal_that_is_gone_does_not_end_the_search(failure):
    class Gone:
        shown = 0

        def show(self, standing):
            self.shown += 1
            if standing.done is not None:
                raise failure

        def close(self):
            raise AssertionError("it was given up")

    gone = Gone()
    with Display(product(), TARGET, gone) as display:
        display.update(progress())
        display.update(progress())
    assert gone.shown == 3


# ---- notebooks


class Handle:
    def __init__(self, contents):
        self.contents = contents

    def update(self, content, raw):
        assert raw
        self.contents.append(content)


@pytest.fixture
def notebook(monkeypatch):
    """A process that serves a notebook; what its cell shows, one after the other."""
    contents = []

    def display(content, raw, display_id):
        assert raw and display_id
        contents.append(content)
        return Handle(contents)

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    shows = types.ModuleType("IPython.display")
    shows.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    return contents


def test_a_notebook_has_one_output_that_changes(notebook, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Display.of(None, product(), TARGET) as display:
        assert isinstance(display._screen, Notebook)
        display.update(progress())
    assert stream.getvalue() == ""
    assert len(notebook) == 3
    text = notebook[-1]["text/plain"]
    assert "\r" not in text and "\x1b" not in text
    assert text.splitlines()[0] == "product"
    assert "  tried   ##################------  48 of 64, round 3" in text


def test_ipython_on_a_terminal_is_a_terminal(notebook, terminal, without_rich, monkeypatch):
    terminal()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: types.SimpleNamespace())
    assert isinstance(screen_of(None), Rewritten)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert isinstance(screen_of(None), Rewritten)
