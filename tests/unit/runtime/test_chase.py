"""The sizes of caches from latencies, and the program that measures these."""

import pytest

from minitensor.runtime.chase import FOOTPRINTS, cache_sizes, program, read_latencies
from tests.latencies import MACHINES


@pytest.mark.parametrize("name", MACHINES)
def test_sizes_are_those_before_the_latency_rises(name):
    latencies, sizes = MACHINES[name]
    assert cache_sizes(latencies) == sizes


@pytest.mark.parametrize("name", MACHINES)
def test_a_tenth_of_noise_is_less_than_any_margin(name):
    """The worst of it: what fits is slow, and what does not is fast; or the other way round."""
    latencies, (l1, l2) = MACHINES[name]
    for near, far in ((0.9, 1.1), (1.1, 0.9)):
        for size in (l1, l2):
            worst = {s: t * (near if s < (size or 0) else far) for s, t in latencies.items()}
            assert cache_sizes(worst) == (l1, l2)


@pytest.mark.parametrize("latencies, sizes", [
    ({}, (None, None)),
    ({16384: 1.0}, (None, None)),
    ({16384: 1.0, 24576: 3.0}, (16384, None)),
    ({size: 1.0 if size < 1 << 20 else 9.0 for size in FOOTPRINTS}, (None, None)),
    (dict.fromkeys(FOOTPRINTS, 0.0), (None, None)),
])  # fmt: skip
def test_latencies_that_show_nothing(latencies, sizes):
    assert cache_sizes(latencies) == sizes


@pytest.mark.parametrize("printed, latencies", [
    ("16384 1.015\n24576 1.022\n", {16384: 1.015, 24576: 1.022}),
    ("16384 1.015", {}),
    ("16384 nan\n", {}),
    ("16384 1.015\nSegmentation fault\n", {}),
    ("", {}),
])  # fmt: skip
def test_what_the_program_prints(printed, latencies):
    assert read_latencies(printed) == latencies


def test_the_program_goes_through_all_footprints():
    assert f"{{ {', '.join(map(str, FOOTPRINTS))} }}" in program()
    assert (FOOTPRINTS[0], FOOTPRINTS[-1]) == (16 << 10, 4 << 20)
    assert list(FOOTPRINTS) == sorted(set(FOOTPRINTS))
