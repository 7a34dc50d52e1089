"""`minitensor bench`: the words that it refuses, and the table, of given times."""

import io
from dataclasses import replace

import pytest

import minitensor as mt
from minitensor.cli.bench import Compared
from minitensor.cli.console import Console
from minitensor.runtime import Limits, Turns
from minitensor.search import Roofline


def compared(limits):
    turns = {"scheduled": Turns([0.01, 0.02, 0.01]), "as defined": Turns([0.04, 0.1, 0.02])}
    target = mt.Target("c", num_cores=1, vector_bits=256)
    return Compared("mine.py:s", target, Roofline(10**9, 10**6, limits), turns)


def test_a_ratio_is_the_median_of_those_within_the_rounds():
    assert compared(None).ratio("as defined") == 4.0  # of 4, 5 and 2


def test_the_table():
    console = Console(io.StringIO(), colour=False, width=100)
    limits = Limits(1, 256, 200.0, 200.0, 30.0, 28.0, 29.0)
    title, own, definition, busy = compared(limits).lines(console)
    assert busy.startswith("  the machine is busy: a slowest turn took 5 times as long as the fast")
    assert title == "mine.py:s, 1 thread"
    assert own.split() == ["scheduled", "10", "ms,", "100", "GFLOP/s,", "50", "%", "of", "peak"]
    assert definition.endswith("scheduled is 4 x as fast")
    unknown = replace(compared(limits), roofline=Roofline(10**9, 10**6, None))
    assert "peak" not in "".join(unknown.lines(console))


def test_json():
    described = compared(None).described()
    assert described["seconds"] == {"scheduled": 0.01, "as defined": 0.04}
    assert described["times_as_fast_as"] == {"as defined": 4.0}
    assert described["rounds"]["as defined"] == [0.04, 0.1, 0.02]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "subject"),
        (["nosuch"], "there is no operator 'nosuch'"),
        (["matmul", "--rounds", "0"], "expected at least one round"),
        (["matmul", "--rounds", "x"], "invalid int value"),
        (["matmul", "--target", "interpreter"], "the interpreter is as slow"),
    ],
)
def test_bad_usage(run, words, reason):
    done = run("bench", *words)
    assert (done.status, done.out) == (2, "")
    assert reason in done.err


def test_a_log_is_for_a_program_without_steps(run, user_file):
    done = run("bench", f"{user_file}:s", "--log", "log.jsonl")
    assert done.status == 2
    assert "has steps already" in done.err


def test_a_log_that_is_not_there(run, user_file):
    done = run("bench", f"{user_file}:program", "--log", "nowhere.jsonl", "--vector-bits", "256")
    assert done.status == 1
    assert "nowhere.jsonl" in done.err


@pytest.mark.parametrize("command", [["bench", "matmul", "--small"], ["demo", "--quick"]])
def test_no_compiler(run, no_compiler, command):
    done = run(*command)
    assert (done.status, done.out) == (1, "")
    assert "no C compiler is found" in done.err


def test_threads_that_cannot_be(run, no_compiler):
    done = run("demo", "--threads", "0")
    assert done.status == 1
    assert "num_cores=0" in done.err
