"""Schedules that try to make too much of something compute what the plain program computes."""

import numpy as np
import pytest

import minitensor as mt
from tests.bounded import CASES

pytestmark = pytest.mark.slow

BUILT = [
    "a_hundred_unrolled_loops",
    "unrolled_lanes",
    "an_unrolled_tile_with_guards",
    "eight_guarded_axes",
    "guarded_axes_in_parallel",
    "doublings_inlined",
    "five_hundred_inputs",
    "a_thousand_splits_and_fusions",
]
REFUSED = {
    "a_large_expression_inlined_into_another": "R5",
    "a_large_expression_inlined_into_a_hundred": "R5",
}


@pytest.mark.many
@pytest.mark.parametrize("name", BUILT)
def test_it_is_built_and_right(name):
    s = CASES[name]()
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 4, b.shape).astype(b.dtype) for b in s.program.inputs]
    np.testing.assert_array_equal(mt.build(s)(*arrays), mt.build(s.history[0])(*arrays))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    with pytest.raises(mt.ScheduleError) as caught:
        CASES[name]()
    assert caught.value.rule == REFUSED[name]
