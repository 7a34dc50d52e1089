"""Features as small numbers."""

import numpy as np
import pytest

from minitensor.search import GradientBoostedTrees
from minitensor.search.gbt.bins import LARGEST, NARROWEST, binned, cut, finite

NAN, INF = np.nan, np.inf


def floats(*values):
    return np.array(values, np.float32)


def test_few_values_have_a_bin_each():
    data = binned(floats(3, 1, 2, 1, 3, 9)[:, None], 255)
    assert data.codes.tolist() == [[2, 0, 1, 0, 2, 3]]
    assert [cuts.tolist() for cuts in data.cuts] == [[1.5, 2.5, 6.0]]


def test_many_values_have_bins_of_about_as_many_rows():
    values = np.random.default_rng(0).exponential(size=10_000).astype(np.float32)
    for most in (2, 3, 16, 63, 255):
        data = binned(values[:, None], most)
        counts = np.bincount(data.codes[0])
        assert len(counts) == most
        assert counts.max() - counts.min() <= 2


def test_a_value_that_is_common_does_not_take_all_cuts():
    values = np.concatenate([np.zeros(900), np.arange(1, 101)]).astype(np.float32)
    data = binned(values[:, None], 20)
    assert data.cuts[0][0] == 0.5
    assert len(data.cuts[0]) >= 2


def test_columns_that_say_nothing_are_left_out():
    same = np.full(4, 7.0)
    table = np.stack([same, np.arange(4), same * NAN, [NAN, 1, 1, 1], same * INF], axis=1)
    data = binned(finite(table), 63)
    assert sorted(data.origin) == [1, 3]
    assert [group.missing for group in data.groups] == [False, True]
    assert data.codes[list(data.origin).index(3)].tolist() == [1, 0, 0, 0]


def test_groups_cover_the_columns_in_the_order_of_the_table():
    random = np.random.default_rng(0)
    kinds = random.permutation([2, 3, 40, 40, 200, 2, 90, 17])
    table = np.stack([random.integers(0, k, 5000) for k in kinds], axis=1).astype(np.float32)
    table[0, ::3] = NAN
    data = binned(table, 255)
    assert [g.first for g in data.groups] == [0, *(g.last for g in data.groups[:-1])]
    assert data.groups[-1].last == len(data.codes) == len(kinds)
    for group in data.groups:
        origin = data.origin[group.first : group.last].tolist()
        assert origin == sorted(origin)
        assert group.width >= NARROWEST
        for column in range(group.first, group.last):
            bins = len(data.cuts[column]) + 1 + group.missing
            assert group.missing == (data.codes[column].max() == len(data.cuts[column]) + 1)
            assert data.codes[column].max() < bins <= group.width


def test_infinities_are_the_largest_numbers():
    assert finite(np.array([INF, -INF, 1e300, -1e39])).tolist() == [LARGEST, -LARGEST] * 2
    assert np.isnan(finite(np.array([NAN]))).all()
    data = binned(finite(np.array([[-INF], [-1], [1e39], [NAN], [5]])), 63)
    assert data.codes.tolist() == [[0, 1, 3, 4, 2]]
    assert all(np.isfinite(cuts).all() for cuts in data.cuts)


@pytest.mark.parametrize(
    "values",
    [
        floats(1, np.nextafter(np.float32(1), np.float32(2))),
        floats(-LARGEST, LARGEST),
        floats(np.nextafter(LARGEST, np.float32(0)), LARGEST),
        floats(0, 1e-45),
        floats(-1e-45, 0, 1e-45),
        floats(-LARGEST, -1, 0, 1e-45, 1, LARGEST),
    ],
    ids=["neighbours", "extremes", "large", "tiny", "tinier", "all"],
)
def test_a_cut_separates_its_neighbours(values):
    cuts = cut(values, 255)
    assert len(cuts) == len(values) - 1
    assert (values[:-1] <= cuts).all() and (cuts < values[1:]).all()


def test_a_value_on_a_cut_is_below_it():
    """Where float32 has nothing between two values, the lower one is the cut."""
    low = np.float32(1)
    column = np.array([low, np.nextafter(low, np.float32(2))] * 3)
    data = binned(column[:, None], 63)
    assert data.cuts[0].tolist() == [1.0] and data.codes.tolist() == [[0, 1] * 3]
    trees = GradientBoostedTrees(n_trees=1, max_depth=1).fit(column[:, None], column > 1)
    scores = trees.predict(column[:, None]).tolist()
    assert scores == sorted(set(scores)) * 3


def test_no_rows_and_no_columns():
    for shape in ((0, 5), (5, 0), (0, 0)):
        data = binned(np.empty(shape, np.float32), 63)
        assert data.codes.shape == (0, shape[0]) and not data.groups
