"""The correlation of ranks, held against scipy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitensor.search.tried import spearman

scipy = pytest.importorskip("scipy.stats")

numbers = st.sampled_from([0.0, 1.0, -2.5, 3.0, 1e9, -math.inf, math.inf])


@given(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=12))
def test_as_scipy(pairs):
    a, b = zip(*pairs)
    found = spearman(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found is None
    else:
        # infinities have ranks as other numbers have; scipy takes ranks itself
        expected = scipy.pearsonr(scipy.rankdata(a), scipy.rankdata(b)).statistic
        assert found == pytest.approx(expected)
        assert found == pytest.approx(spearman(b, a))
        assert found == pytest.approx(-spearman([-x for x in a], b))


def test_orders():
    assert spearman([1, 2, 3, 4], [10, 20, 30, 1e9]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)


@pytest.mark.parametrize(("a", "b"), [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3])])
def test_too_few_or_constant(a, b):
    assert spearman(a, b) is None
