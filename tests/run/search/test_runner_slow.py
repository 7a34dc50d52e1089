"""Candidates that are hopeless cost little: one call, or less."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import minitensor as mt
from minitensor.search.runner import Runner, Settings, Status, Task
from minitensor.search.runner.timing import Repeats
from tests.run.search.bad_kernels import COUNT, kernel, task

SOURCE = f"""
#include <time.h>
static int slowly(const float *A, float *B, double seconds) {{
    struct timespec t = {{(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)}};
    nanosleep(&t, 0);
    for (int i = 0; i < {COUNT}; i++) B[i] = 2 * A[i];
    return 0;
}}
int slow(const float *A, float *B, void *workspace) {{ return slowly(A, B, 0.4); }}
int wrong(const float *A, float *B, void *workspace) {{ slowly(A, B, 0.4); B[3] = 0; return 0; }}
static int calls;
int slow_once(const float *A, float *B, void *workspace) {{
    return calls++ ? 0 : slowly(A, B, 0.4);
}}
int once(const float *A, float *B, void *workspace) {{
    float nowhere[{COUNT}];
    return slowly(A, calls++ ? nowhere : B, 0.01);
}}
int hopeless(const float *A, float *B, void *workspace) {{ return slowly(A, B, 30); }}
"""


@pytest.mark.slow
def test_a_first_call_that_takes_long_is_the_only_one():
    work = task()
    candidates = [kernel(name, work, SOURCE) for name in ("slow", "wrong", "hopeless")]
    with Runner(work, Settings(hopeless=100.0)) as runner:
        runner.build(candidates)
        start = time.monotonic()
        slow, wrong, hopeless = runner.measure(candidates, best=0.01)
        took = time.monotonic() - start
        (calm,) = runner.measure(candidates[:1], best=0.3)
    assert slow.status is Status.OK
    assert slow.early and len(slow.times) == 1 and 0.4 <= slow.median < 1.5
    assert wrong.status is Status.WRONG
    assert hopeless.status is Status.TIMEOUT and "within 1 s" in hopeless.message
    assert took < 8
    assert not calm.early and len(calm.times) + calm.spoilt >= 3  # others may run meanwhile


@pytest.mark.slow
def test_a_hopeless_one_has_a_tenth_of_a_second_or_ten_times_the_best():
    work = task()
    candidates = [kernel(name, work, SOURCE) for name in ("slow", "wrong")]
    with Runner(work) as runner:
        hopeless, _ = runner.measure(candidates, best=0.001)
        (patient,) = runner.measure(candidates[1:], best=0.3)
    assert hopeless.status is Status.TIMEOUT and "within 0.1 s" in hopeless.message
    assert patient.status is Status.WRONG


@pytest.mark.slow
@pytest.mark.parametrize(("name", "best"), [("slow_once", 0.05), ("once", 0.001)])
def test_what_is_stopped_early_is_right_when_it_is_called_again(name, best):
    work = task()
    with Runner(work) as runner:
        (result,) = runner.measure([kernel(name, work, SOURCE)], best=best)
    assert result.status is Status.INCOMPLETE
    assert result.message.endswith(", when it is called again")


@pytest.mark.slow
def test_where_even_the_best_takes_long_one_call_is_its_time():
    work = task()
    with Runner(work, Settings(time_limit=2.0)) as runner:
        (slow,) = runner.measure([kernel("slow", work, SOURCE)])
    assert slow.status is Status.OK
    assert not slow.early and len(slow.times) == 1 and 0.4 <= slow.median < 1.5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_processor_that_is_shared_is_noticed():
    before = os.sched_getaffinity(0)
    hog = f"import os\nos.sched_setaffinity(0, {{{min(before)}}})\nprint(flush=True)\nwhile 1: pass"
    with subprocess.Popen([sys.executable, "-c", hog], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            os.sched_setaffinity(0, {min(before)})
            repeats = Repeats(lambda: sum(range(10_000_000)), lambda: None)
            assert not repeats.add(1)
        finally:
            os.sched_setaffinity(0, before)
            process.kill()
    assert repeats.spoilt and not repeats.good


@pytest.mark.slow
def test_what_is_not_written_is_seen_where_the_result_is_nan():
    A = mt.placeholder((64,), name="A")
    program = mt.lower([A, mt.compute((64,), lambda i: mt.sqrt(A[i]), name="B")])
    nothing = "int nothing(const float *A, float *B, void *workspace) { return 0; }"
    work = Task.of(program, inputs=[-np.ones(64, np.float32)])
    with Runner(work) as runner:
        (found,) = runner.measure([kernel("nothing", work, nothing)])
    assert found.status is Status.INCOMPLETE
    assert "64 of 64 elements" in found.message


def test_inputs_are_drawn_where_the_result_is_a_number():
    A = mt.placeholder((64,), name="A")
    program = mt.lower([A, mt.compute((64,), lambda i: mt.log(A[i]), name="B")])
    work = Task.of(program)
    assert np.isfinite(work.arrays["B"]).all()
    assert len(np.unique(work.arrays["A"])) > 2
