"""Files of an earlier version (0.1, commit 16056df) are read: a log, a trace."""

from pathlib import Path

import pytest

import minitensor as mt
from minitensor.search import Log, Report

RECORDED = Path(__file__).parent / "recorded"
PROGRAM = mt.lower(mt.workloads.matmul(m=16, n=32, k=8), name="matmul")
TARGET = mt.Target("c", num_cores=2, vector_bits=256)


def test_a_log_is_read_and_its_best_schedule_applied():
    log = Log(RECORDED / "log.jsonl")
    records, report = log.read()
    assert report == Report(good=6)
    assert len(log.measured(PROGRAM, TARGET)) == 6
    best = log.best(PROGRAM, TARGET)
    schedule = mt.load_best(log, PROGRAM, TARGET)
    assert calls(schedule.trace) == calls(best.parsed())
    assert sorted(r.status for r in records).count("ok") == 5


def test_every_record_of_a_log_replays():
    """Loops that a step made may be named otherwise now; the trace refers to the step."""
    for record in Log(RECORDED / "log.jsonl"):
        given, replayed = record.parsed(), record.parsed().apply(PROGRAM).trace
        assert calls(replayed) == calls(given)


def calls(trace):
    return [(step.primitive, step.arguments) for step in trace.steps]


def chain():
    """A program of two stages; the second had the loops i2 and j2 in version 0.1."""
    A = mt.placeholder((8, 8), name="A")
    C = mt.compute((8, 8), lambda i, j: A[i, j] * 2, name="C")
    D = mt.compute((8, 8), lambda i, j: C[i, j] + 1, name="relu")
    return mt.lower([A, D], name="chain")


def test_a_trace_that_uses_former_names_of_loops_is_too_old():
    trace = mt.Trace.from_json((RECORDED / "stages.json").read_text(encoding="utf-8"))
    with pytest.raises(mt.ScheduleError, match="there is no loop 'i2'") as refused:
        trace.apply(chain())
    assert refused.value.rule == "A1" and "version 0.1" in str(refused.value)
    assert "relu_i" in refused.value.advice


def test_a_log_whose_key_has_former_names_of_loops_is_too_old():
    with pytest.raises(mt.TuningError, match=r"version 0\.1 are too old .* search again"):
        mt.load_best(RECORDED / "stages.jsonl", chain(), TARGET)


def test_a_trace_is_replayed():
    text = (RECORDED / "trace.json").read_text(encoding="utf-8")
    schedule = mt.Trace.from_json(text).apply(PROGRAM)
    assert schedule.trace.to_json() == text
    assert len(schedule.get_loops("C")) == 5
