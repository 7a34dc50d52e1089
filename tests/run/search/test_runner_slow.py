"""Candidates that are hopeless cost little: one call, or less."""

import time

import pytest

from minitensor.search.runner import Runner, Settings, Status
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
int hopeless(const float *A, float *B, void *workspace) {{ return slowly(A, B, 30); }}
"""


@pytest.mark.slow
def test_a_first_call_that_takes_long_is_the_only_one():
    work = task()
    candidates = [kernel(name, work, SOURCE) for name in ("slow", "wrong", "hopeless")]
    with Runner(work, Settings(hopeless=100.0)) as runner:
        runner.build(candidates)
        start = time.monotonic()
        slow, wrong, hopeless = runner.measure(candidates, best=0.001)
        took = time.monotonic() - start
        (calm,) = runner.measure(candidates[:1], best=0.3)
    assert slow.status is Status.OK
    assert slow.early and len(slow.times) == 1 and 0.4 <= slow.median < 1.5
    assert wrong.status is Status.WRONG
    assert hopeless.status is Status.TIMEOUT and "within 2.1 s" in hopeless.message
    assert took < 8
    assert not calm.early and len(calm.times) >= 3
