"""Labels: what is a measurement, parts of the best, the order of candidates."""

import numpy as np
import pytest

from minitensor.search.gbt import failed, ranked
from minitensor.search.gbt.labels import summed, throughputs

NAN, INF = np.nan, np.inf


def test_what_failed():
    labels = [1.0, 0.0, -0.0, -1.0, NAN, INF, -INF, 5e-324, 1e308]
    assert failed(labels).tolist() == [False, *[True] * 6, False, False]


def test_throughputs_are_parts_of_the_best_of_a_group():
    labels = np.array([2.0, 8.0, NAN, 5.0, 10.0, INF, -1.0, 0.0])
    groups = np.array([0, 0, 0, 2, 2, 2, 1, 1])
    assert throughputs(labels, groups).tolist() == [0.25, 1, 0, 0.5, 1, 0, 0, 0]


def test_what_is_measured_is_above_what_failed_however_small():
    labels = np.array([1e308, 5e-324, 1e-308, 0.0])
    parts = throughputs(labels, np.zeros(4, np.int64))
    assert parts[0] == 1 and parts[1] > 0 and parts[2] > 0 and parts[3] == 0
    assert throughputs(np.array([5e-324, 1e-323]), np.zeros(2, np.int64)).tolist() == [0.5, 1.0]
    assert throughputs(np.empty(0), np.empty(0, np.int64)).shape == (0,)


def test_ranked():
    assert ranked([0.5, 2.0, 0.5, NAN, 1.0]).tolist() == [1, 4, 0, 2, 3]
    assert ranked([9.0, 2.0, INF, NAN], [True, False, True, False]).tolist() == [1, 3, 2, 0]
    assert ranked([-INF, 3.0], [False, True]).tolist() == [0, 1]
    assert ranked([]).tolist() == []


@pytest.mark.parametrize("count", [0, 3])
def test_sums_of_nothing_are_zeros_that_can_be_added_to(count):
    sums = summed(np.empty(0, np.int64), np.empty(0), count)
    sums += 0.5
    assert sums.tolist() == [0.5] * count
