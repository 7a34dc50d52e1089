"""Files of an earlier version (0.1, commit 16056df) are read: a log, a trace."""

from dataclasses import replace
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
    assert report == Report(good=6, old=6)
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


def test_an_argument_that_earlier_versions_had_not_is_written_only_where_it_is_given():
    s = mt.Schedule(PROGRAM)
    s.cache_read("C", "B", "local")
    assert '"place"' not in s.trace.to_json()
    s.cache_read("C", "A", "local", place=0)
    assert '"place": 0' in s.trace.to_json()
    assert calls(mt.Trace.from_json(s.trace.to_json())) == calls(s.trace)


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


def test_a_former_name_that_is_the_name_of_another_loop_now_is_refused():
    """`i2` was the first loop of `relu`; in this program it is one of `last` now."""
    A = mt.placeholder((8, 8), name="A")
    C = mt.compute((8, 8), lambda i, j: A[i, j] * 2, name="C")
    D = mt.compute((8, 8), lambda i, j: C[i, j] + 1, name="relu")
    program = mt.lower([A, mt.compute((8, 8), lambda i2, j2: D[i2, j2], name="last")])
    trace = mt.Trace.from_json((RECORDED / "stages.json").read_text(encoding="utf-8"))
    with pytest.raises(mt.ScheduleError, match="'i2', which may be another loop now") as refused:
        trace.apply(program)
    assert "record the trace again" in refused.value.advice and refused.value.step == 1


def test_a_former_name_that_a_step_gives_another_loop_now_is_refused():
    """A second copy had the loop ax0_2, which the split makes now."""
    s = mt.Schedule(PROGRAM)
    s.cache_read("C", "A", "global")
    s.cache_read("C", "B", "global")
    s.split(s.get_loops("C")[0], [None, 2])
    s.parallel(s.get_loops("B_global")[0])
    with pytest.raises(mt.ScheduleError, match="may be another loop now") as refused:
        replace(s.trace, version=1).apply(PROGRAM)
    assert refused.value.step == 4


def test_loops_of_the_first_stage_keep_their_names():
    s = mt.Schedule(chain())
    s.split("i", [None, 4])
    s.parallel("j")
    assert replace(s.trace, version=1).apply(chain()).program == s.program


def test_a_log_whose_key_has_former_names_of_loops_is_too_old():
    with pytest.raises(mt.TuningError, match=r"version 0\.1 are too old .* search again"):
        mt.load_best(RECORDED / "stages.jsonl", chain(), TARGET)


def test_a_trace_is_replayed():
    text = (RECORDED / "trace.json").read_text(encoding="utf-8")
    schedule = mt.Trace.from_json(text).apply(PROGRAM)
    assert schedule.trace.to_json() == text.replace('_trace": 1', '_trace": 2')
    assert mt.Trace.from_json(text).opened().to_json() == text.replace("[8, 4]", "null", 1)
    assert len(schedule.get_loops("C")) == 5
