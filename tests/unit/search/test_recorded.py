"""Files of an earlier version (0.1, commit 16056df) are read: a log, a trace."""

from pathlib import Path

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
    assert schedule.trace == best.parsed()
    assert sorted(r.status for r in records).count("ok") == 5


def test_every_record_of_a_log_replays():
    for record in Log(RECORDED / "log.jsonl"):
        assert record.parsed().apply(PROGRAM).trace.to_json() == record.parsed().to_json()


def test_a_trace_is_replayed():
    text = (RECORDED / "trace.json").read_text(encoding="utf-8")
    schedule = mt.Trace.from_json(text).apply(PROGRAM)
    assert schedule.trace.to_json() == text
    assert len(schedule.get_loops("C")) == 5
