"""Noise does not change the sizes of caches that a measurement shows."""

from hypothesis import given
from hypothesis import strategies as st

from minitensor.runtime.chase import FOOTPRINTS, cache_sizes
from tests.latencies import MACHINES

NOISE = st.lists(st.floats(0.9, 1.1), min_size=len(FOOTPRINTS), max_size=len(FOOTPRINTS))


@given(st.sampled_from(sorted(MACHINES)), NOISE)
def test_a_tenth_more_or_less_changes_nothing(name, noise):
    latencies, sizes = MACHINES[name]
    noisy = {size: time * n for (size, time), n in zip(latencies.items(), noise)}
    assert cache_sizes(noisy) == sizes
