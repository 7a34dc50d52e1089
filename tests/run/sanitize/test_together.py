"""Sanitizers in use: in the oracle, for texts of many kernels, from several threads of Python."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
import minitensor.sanitize
from minitensor.codegen import Target, generate, generate_together
from minitensor.runtime import find_toolchain, native_target
from minitensor.sanitize import (
    Sanitizer,
    check_races,
    load_sanitized,
    run_guarded,
    run_sanitized,
)
from minitensor.testing import assert_equivalent, small_arrays
from tests.run.sanitize.racy import CASES, forced


def doubled(body):
    """Rows of A doubled by an intrinsic with this body, in parallel."""
    a = mt.placeholder((8,), "float32", name="a")
    c = mt.compute((8,), lambda i: a[i] * 2.0, name="c")
    twice = mt.intrinsic("twice", [a, c], c=body, strides={"a": [1], "c": [1]})
    A = mt.placeholder((4, 8), "float32", name="A")
    C = mt.compute((4, 8), lambda y, x: A[y, x] * 2.0, name="C")
    schedule = mt.Schedule(mt.lower([A, C], name="doubled"))
    schedule.tensorize("x", twice)
    schedule.parallel("y")
    return mt.lower([A, C]), schedule


GOOD = "for (int i = 0; i < 8; ++i) c[i] = 2 * a[i];"


def test_the_oracle_says_what_a_body_touches():
    assert_equivalent(*doubled(GOOD), targets=["c"])
    with pytest.raises(AssertionError, match=r"doubled writes outside C: float32\[4, 8\], 0 bytes"):
        assert_equivalent(*doubled(GOOD + " c[8] = 2 * a[7];"), targets=["c"])
    with pytest.raises(AssertionError, match="doubled reads outside A"):
        assert_equivalent(*doubled(GOOD + " c[0] = a[0] + a[0] + 0 * a[8];"), targets=["c"])
    with pytest.raises(AssertionError, match=r"doubled does not write C\[0, 7\], nor 3 others"):
        assert_equivalent(*doubled("for (int i = 0; i < 7; ++i) c[i] = 2 * a[i];"), targets=["c"])


def test_races_of_a_body():
    x = np.ones((4, 8), np.float32)
    assert check_races(doubled(GOOD)[1], x) == []
    kept = "static float k[8]; for (int i = 0; i < 8; ++i) k[i] = a[i]; memcpy(c, k, 32);"
    found = check_races(doubled(f"static int calls; calls++; {GOOD}")[1], x)
    assert {race.iterations for race in found} == {(0, 1)}
    both = kept.replace("memcpy", "__builtin_memcpy") + GOOD
    assert {race.buffer for race in check_races(doubled(both)[1], x)} == {""}
    beyond = check_races(doubled(GOOD + "c[8] = 0;")[1], x)
    assert [(r.buffer, r.index, r.writes) for r in beyond] == [("C", (1, 0), (True, True))]


@pytest.mark.slow
def test_racy_and_clean_kernels_of_one_text():
    target = native_target(Target("c", num_cores=2))
    programs, racy = [], []
    for case in CASES[::4]:
        schedule, loop, _ = case.make()
        programs += [schedule.program, forced(schedule.program, loop)]
        racy += [False, True]
    emitted = generate_together([(p, target) for p in programs], hooks=True)
    kernels = load_sanitized(Sanitizer.RACES, emitted, find_toolchain())
    for program, kernel, is_racy in zip(programs, kernels, racy):
        outcome = run_sanitized(Sanitizer.RACES, kernel, small_arrays(program, 0))
        assert bool(outcome.faults) == is_racy, program


def test_several_threads_of_python_check_at_once():
    target = native_target(Target("c", num_cores=2))
    _, good = doubled(GOOD)
    _, bad = doubled("static int calls; calls++; " + GOOD)
    toolchain = find_toolchain()
    kernels = [
        load_sanitized(Sanitizer.RACES, [generate(s.program, target, hooks=True)], toolchain)[0]
        for s in (good, bad)
    ]
    (plain,) = load_sanitized(Sanitizer.GUARDS, [generate(good.program, target)], toolchain)
    x = np.ones((4, 8), np.float32)

    def check(n):
        if n % 3 == 2:
            return len(run_guarded(plain, [x]).faults)
        return len(run_sanitized(Sanitizer.RACES, kernels[n % 3], [x]).faults)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(check, range(60))) == [0, 3, 0] * 20


def test_arrays_that_do_not_fit_are_refused():
    target = native_target(Target("c", num_cores=2))
    (kernel,) = load_sanitized(
        Sanitizer.GUARDS, [generate(doubled(GOOD)[1].program, target)], find_toolchain()
    )
    with pytest.raises(mt.ArgumentError, match="expected A of shape"):
        run_guarded(kernel, [np.ones((4, 9), np.float32)])
    with pytest.raises(mt.ArgumentError, match="expected 1 array "):
        run_guarded(kernel, [])


def test_the_c_files_are_part_of_the_package():
    root = Path(minitensor.sanitize.__file__).parent
    assert sorted(p.name for p in root.glob("*.c")) == ["address.c", "guards.c", "races.c"]
    project = (root.parents[1] / "pyproject.toml").read_text()
    assert '"sanitize/*.c"' in project
