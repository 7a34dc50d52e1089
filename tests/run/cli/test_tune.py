"""`minitensor tune` as users run it: small searches with a compiler."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import Log
from minitensor.search.tune import roofline
from tests.unit.search.tune.made import LIMITS

pytestmark = pytest.mark.usefixtures("processes")

SIZE = ("--size", "m=64,n=64,k=64")
STOPS_WITHIN = 3.0


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, private_cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(private_cache))
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "measure_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "remember_limits", lambda limits: limits)


@pytest.mark.slow
def test_a_search_and_one_that_goes_on(run, tmp_path):
    words = ("tune", "matmul", *SIZE, "--json")
    first = run(*words, "--trials", "8").json()
    assert first["trials"] == 8 and first["known"] == 0
    assert first["best_seconds"] > 0 and first["measuring"] > 0
    again = run(*words, "--trials", "8").json()
    assert (again["trials"], again["known"]) == (8, 8)
    assert set(first["time"]) == {"propose", "emit", "compile", "check", "run", "wait"}
    assert set(again["time"]) <= {"propose", "check"}  # the outputs that are expected
    assert again["measuring"] == pytest.approx(again["time"].get("check", 0.0), abs=1e-4)
    assert again["trace"] == first["trace"]
    more = run(*words, "--trials", "12", "-o", "best.json").json()
    assert (more["trials"], more["known"]) == (12, 8)
    assert more["best_seconds"] <= first["best_seconds"]
    program = mt.lower(mt.workloads.matmul(m=64, n=64, k=64), name="matmul")
    written, keys = mt.Schedule(program).trace, Counter[str]()
    for record in Log(tmp_path / "tuning.jsonl"):
        keys[record.trace_key] += record.parsed() != written  # it may win the finals
    assert sum(n > 0 for n in keys.values()) == 12
    assert sum(keys.values()) <= 12 + 2  # nothing was measured twice, but for winners of finals

    schedule = mt.load_best("tuning.jsonl", program)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    assert np.allclose(mt.build(schedule)(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert run("compile", "matmul", *SIZE, "--trace", "best.json").status == 0
    assert run("log", "best", "tuning.jsonl").status == 0


@pytest.mark.slow
def test_a_users_program_and_its_explanation(run, user_file):
    done = run("tune", f"{user_file}:program", "--trials", "4", "--explain", "--cores", "1")
    assert done.status == 0
    assert done.out.startswith("product: ")
    for heading in ("how fast", "the sketch", "the schedule", "what was tried"):
        assert f"\n{heading}" in done.out
    of_a_sketch = "\nthe sketch, number " in done.out  # the program as written may be faster
    assert ("\nits decisions\n" in done.out) == of_a_sketch
    assert "product: 4 of 4, round 1; best " in done.err
    assert "\r" not in done.err and "\x1b" not in done.err


def interruptible():
    """What was started in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.slow
def test_ctrl_c_stops_within_seconds_and_keeps_everything(tmp_path):
    log = tmp_path / "tuning.jsonl"
    words = ["tune", "matmul", *SIZE, "--trials", "5000", "--log", str(log)]
    with subprocess.Popen(
        [sys.executable, "-m", "minitensor", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        while not list(Log(log)):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        start = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - start
    assert process.returncode == 130
    records, report = Log(log).read()
    assert records and report.skipped == 0
    kept = "1 candidate is" if len(records) == 1 else f"{len(records)} candidates are"
    assert f"stopped; {kept} kept in {log}: the same command" in err
    assert out.startswith("matmul: ")
    assert "Traceback" not in err
    assert took < STOPS_WITHIN


@pytest.mark.slow
def test_a_gpu_by_its_cost_and_what_became_of_the_schedule(run, tmp_path):
    words = (*SIZE, "--target", "cuda-emulator", "--device", "h100")
    told = run("tune", "matmul", *words, "--trials", "3", "--quiet", "-o", "best.json").out
    assert "on h100 (nothing was measured)" in told
    assert "s.bind(" in told and 'target="cuda-emulator")' in told
    explained = run("explain", "matmul", *words, "--trace", "best.json").out
    assert "__global__" in explained and "grid (" in explained
