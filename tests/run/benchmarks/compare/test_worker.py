"""Measuring small workloads in this process, and one in a process of its own."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import minitensor as mt
from benchmarks.compare import results as results_
from benchmarks.compare import work, worker
from benchmarks.compare.baselines import BASELINES, Baseline
from benchmarks.compare.implementation import Implementation
from benchmarks.compare.results import Report, result_of_json
from minitensor.runtime import limits, native_target
from minitensor.search import Log, new_record
from tutorials.schedules import HAND_SCHEDULES, HandSchedule

PACE = {"rounds": 2, "burst": 0.0, "warm": 0.0, "least_calls": 1}
SMALLEST = min(
    (k for k in HAND_SCHEDULES if HAND_SCHEDULES[k].flop), key=lambda k: HAND_SCHEDULES[k].flop
)


def steps(s, target):
    (block,) = s.get_blocks()
    s.parallel(s.get_loops(block)[0])
    yield "Threads", "Rows are independent."


def matmul():
    return mt.lower(mt.workloads.matmul(16, 24, 8), name="small")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small hand schedules, and a machine that is measured in a moment."""
    product = HandSchedule("small", matmul, steps, ("B",), 6144, 2816, "matmul", {})
    add = mt.workloads.transpose_add(16, 16)
    moving = HandSchedule(
        "moving", lambda: mt.lower(add, name="t"), steps, (), 0, 3072, "transpose_add", {}
    )
    for module in (work, results_):
        monkeypatch.setattr(module, "HAND_SCHEDULES", {"small": product, "moving": moving})
    monkeypatch.setattr(limits, "STEPS", 1000)
    monkeypatch.setattr(limits, "ARRAY_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "BURST_SECONDS", 0.001)


def job(**changes):
    values = {"threads": 1, "keys": ["small"], "baselines": ["numpy"], "options": {}, "pace": PACE}
    return {**values, "limits": False, "without": {}, **changes}


def told(a_job):
    events = []
    worker.work_off(a_job, lambda event: events.append(json.loads(json.dumps(event))))
    return events


def results(events):
    return [result_of_json(e["result"]) for e in events if e["event"] == "result"]


@pytest.mark.slow
def test_what_a_search_found_takes_part(tmp_path):
    program, target = matmul(), native_target(mt.Target("c", num_cores=1))
    s = mt.Schedule(program)
    s.unroll(s.get_loops("C")[2])
    log = Log(tmp_path / "log.jsonl")
    log.append(new_record(program, target, s.trace, seconds=[1e-6]))
    options = {"log": str(log.path)}
    (found,) = results(told(job(options=options)))
    assert [e.name for e in found.entries] == [
        "ours",
        "ours bound",
        "tuned",
        "tuned bound",
        "numpy",
    ]
    (other,) = results(told(job(options=options, threads=2)))
    assert [e.name for e in other.entries] == ["ours", "ours bound", "numpy"]
    assert "but not for Target(kind='c', num_cores=2" in other.dropped["tuned"]


@pytest.mark.slow
def test_everybody_is_measured_in_every_round():
    events = told(job(keys=["small", "moving"], limits=True))
    assert Counter(e["event"] for e in events) == {
        "limits": 1,
        "begin": 2,
        "enter": 4,
        "round": 4,
        "result": 2,
    }
    product, moving = results(events)
    assert [e.name for e in product.entries] == ["ours", "ours bound", "numpy"]
    assert [e.name for e in moving.entries] == ["ours", "numpy"]
    assert all(len(e.fastest) == len(e.typical) == 2 for e in product.entries)
    assert len(product.roof) == len(moving.roof) == 2
    assert product.dropped == {}
    assert product.of_roof(product.entry("ours")) > 0
    assert all(limit > 0 for limit in events[0]["limits"].values())


def entering(monkeypatch, enter):
    monkeypatch.setitem(BASELINES, "other", Baseline("other", {}, enter))
    (result,) = results(told(job(baselines=["numpy", "other"])))
    assert result.entry("numpy") is not None
    return result


def test_a_wrong_implementation_is_dropped(monkeypatch):
    def enter(name, work, threads, options):
        yield Implementation(name, lambda: work.expected + 1, np.asarray)

    result = entering(monkeypatch, enter)
    assert result.entry("other") is None
    assert "wrong: it is off by 1" in result.dropped["other"]


def test_an_implementation_that_raises_is_dropped(monkeypatch):
    def enter(name, work, threads, options):
        raise RuntimeError("no such operator")
        yield

    assert entering(monkeypatch, enter).dropped == {"other": "RuntimeError: no such operator"}


def test_an_implementation_that_killed_a_process_is_left_out():
    (result,) = results(told(job(without={"small": {"numpy": "signal 11"}})))
    assert result.dropped == {"numpy": "signal 11"}
    assert result.entry("numpy") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, r in BASELINES.items() if not r.missing and not r.asked])
def test_every_baseline_that_is_here_computes_it_right(name):
    (result,) = results(told(job(baselines=[name])))
    assert result.dropped == {}


@pytest.mark.slow
def test_the_command_measures_in_a_process_of_its_own(run, tmp_path):
    words = [SMALLEST, "--quick", "--rounds", "1", "--baselines", "numpy", "--threads", "1"]
    folder = tmp_path / "results"
    done = run(*words, "--json", "--save", folder)
    assert done.status == 0, done.err
    report = Report.from_json(done.out)
    (one,) = report.runs
    assert len(one.cores) in (0, 1)
    assert one.limits.threads == 1
    assert one.results[0].entry("numpy") is not None
    assert one.results[0].entry("ours") is not None
    assert {path.suffix for path in folder.iterdir()} == {".json", ".md"}


@pytest.mark.slow
@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="Ctrl-C is ignored: the tests were started in the background of a shell",
)
def test_control_c_ends_it_with_what_was_measured():
    words = [SMALLEST, "--rounds", "100000", "--baselines", "numpy", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.compare", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if line.startswith("[1/1]"):
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()  # which its worker notices at its next word
    assert process.returncode == 130
    assert "Interrupted" in out
    assert "Traceback" not in err


def test_a_workload_that_does_not_fit_into_memory(monkeypatch):
    def full(shapes):
        raise MemoryError("Unable to allocate 4.00 TiB for an array with shape (1048576, 1048576)")

    monkeypatch.setattr(work, "normal_arrays", full)
    (result,) = results(told(job()))
    assert result.entries == []
    (reason,) = result.dropped.values()
    assert reason.startswith("too large for memory: Unable to allocate 4.00 TiB")
    assert reason.endswith("time it with smaller sizes")
