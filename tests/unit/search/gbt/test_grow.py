"""One tree: against a search by the book, and its arithmetic."""

import numpy as np
import pytest

from minitensor.search.gbt import bins as binning
from minitensor.search.gbt import grow as growing
from minitensor.search.gbt.bins import LARGEST, binned, finite
from minitensor.search.gbt.grow import Growth, grow, packed
from tests.unit.search.gbt import reference

NAN = np.nan


def table(seed, rows, columns, values, missing):
    random = np.random.default_rng(seed)
    made = random.integers(0, values, (rows, columns)).astype(np.float32)
    made[random.random(made.shape) < missing] = NAN
    return made


def check(features, gradient, hessian, limits):
    """Compare with the reference; returns the tree."""
    data = binned(features, 255)
    found = grow(data, gradient, hessian, limits)
    splits, ends = reference.grow(features, gradient.tolist(), hessian.tolist(), limits)
    assert set(np.flatnonzero(found.column >= 0)) == set(splits)
    for node, split in splits.items():
        column, code = found.column[node], found.code[node]
        cuts = data.cuts[column]
        assert data.origin[column] == split.column
        assert (cuts[code] if code < len(cuts) else LARGEST) == split.threshold
        assert found.missing_left[node] == split.missing_left
        assert found.gain[node] == pytest.approx(split.gain, rel=1e-9)
    assert found.leaf.tolist() == ends
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("missing", [0.0, 0.15, 0.6])
def test_every_split_is_the_one_by_the_book(seed, missing):
    random = np.random.default_rng(seed)
    features = table(seed, 40, 5, 2 + 3 * (seed % 4), missing)
    limits = Growth(1 + seed % 4, (0.01, 1.0, 0.3)[seed % 3], 1e-6, (0.0, 2.0)[seed % 2])
    check(features, random.normal(size=40), random.uniform(0, 2, 40), limits)


@pytest.mark.parametrize("seed", range(6))
def test_ties_go_to_the_first(seed):
    """Columns that are copies of each other, and gradients that are small integers."""
    random = np.random.default_rng(seed)
    features = table(seed, 30, 2, 3, 0.2 * (seed % 2))
    features = np.concatenate([features, features[:, ::-1], features], axis=1)
    check(features, random.integers(-2, 3, 30).astype(float), np.ones(30), Growth(3, 1.0, 1e-6, 0))


def test_columns_of_all_widths_compete(monkeypatch):
    """Columns of many and of few values are in different groups, and scored in several parts."""
    monkeypatch.setattr(growing, "CHUNK", 64)
    monkeypatch.setattr(growing, "BATCH", 50)
    monkeypatch.setattr(binning, "NARROWEST", 2)
    random = np.random.default_rng(0)
    kinds = [(40, 0.0), (2, 0.0), (5, 0.3)]
    parts = [table(k, 60, 3, values, missing) for k, (values, missing) in enumerate(kinds)]
    features = np.concatenate(parts, axis=1)[:, random.permutation(9)]
    assert len(binned(features, 255).groups) >= 4
    for seed in range(5):
        gradient = np.random.default_rng(seed).normal(size=60)
        check(features, gradient, np.ones(60), Growth(4, 1.0, 1e-6, 0.0))


def test_missing_rows_that_weigh_nearly_everything():
    """Twice the sum of the hessians is met on the way; it must not run into the gradients."""
    features = np.array([[0], [1], [2], [NAN], [NAN], [NAN]], np.float32)
    gradient = np.array([1.0, -1.0, 0.5, 3.0, 2.0, 2.5])
    for scale in np.exp2(np.arange(-1, 1, 0.05)):
        hessian = np.array([1, 1, 1, 100, 100, 100]) * scale
        check(features, gradient, hessian, Growth(2, 1.0, 1e-6, 0.0))


def test_nothing_to_split():
    same = np.full((8, 3), 5.0, np.float32)
    different = np.arange(8, dtype=np.float32)[:, None]
    gradient, hessian = np.arange(8.0) - 3, np.ones(8)
    for features, g, h in [
        (same, gradient, hessian),
        (np.full((8, 2), NAN, np.float32), gradient, hessian),
        (different, np.zeros(8), hessian),
        (different, gradient, np.zeros(8)),
        (different, np.full(8, 1e-9), hessian),
        (np.empty((0, 3), np.float32), np.empty(0), np.empty(0)),
        (np.empty((8, 0), np.float32), gradient, hessian),
    ]:
        found = grow(binned(features, 63), g, h, Growth(3, 1.0, 1e-6, 0.0))
        assert (found.column == -1).all() and (found.leaf == 0).all()
    assert grow(binned(different, 63), gradient, hessian, Growth(3, 1.0, 1e-6, 0.0)).column[0] == 0


def test_limits():
    features = np.arange(32, dtype=np.float32)[:, None]
    gradient, hessian = np.sin(np.arange(32.0)), np.ones(32)

    def splits(depth=4, lambda_=1.0, gain=0.0, cover=0.0):
        limits = Growth(depth, lambda_, gain, cover)
        return grow(binned(features, 63), gradient, hessian, limits)

    deep = splits()
    assert np.count_nonzero(splits(depth=1).column >= 0) == 1
    bound = np.sort(deep.gain[deep.gain > 0])[2]
    assert (splits(gain=bound).gain[splits(gain=bound).column >= 0] > bound).all()
    counts = np.bincount(splits(cover=5.0).leaf)
    assert counts[counts > 0].min() >= 5
    counts = np.bincount(deep.leaf)
    assert counts[counts > 0].min() < 5


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 3.7, 1e30, 1e300])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_packed_numbers_are_exact(scale, rows):
    random = np.random.default_rng(rows)
    gradient = scale * random.normal(size=rows) * 10.0 ** random.integers(-6, 1, rows)
    hessian = scale * random.uniform(0, 1, rows)
    found = packed(gradient, hessian)
    assert np.array_equal(found.numbers, np.rint(found.numbers))
    numbers = found.numbers.astype(np.int64)
    g, h = numbers >> growing.HESSIAN_BITS, numbers & (2**growing.HESSIAN_BITS - 1)
    assert np.abs(g).sum() < 2**growing.GRADIENT_BITS
    assert h.sum() < 2 ** (growing.HESSIAN_BITS - 1)
    # g * 2**bits + h, summed, is below 2**53: doubles add it exactly
    assert growing.GRADIENT_BITS + growing.HESSIAN_BITS <= 52
    for values, integers, unit in (
        (gradient, g, found.gradient_unit),
        (hessian, h, found.hessian_unit),
    ):
        assert np.frexp(unit)[0] == 0.5  # a power of two
        assert (np.abs(integers * unit - values) <= unit / 2).all()
        least = 2.0**growing.SMALLEST_UNIT
        bits = growing.GRADIENT_BITS if values is gradient else growing.HESSIAN_BITS - 1
        assert unit <= max(least, 2 * np.abs(values).sum() / (2**bits - rows))


def test_the_most_rows_have_room():
    for bits in (growing.GRADIENT_BITS, growing.HESSIAN_BITS - 1):
        assert 2**bits - growing.MOST_ROWS >= 2**bits / 4


def test_the_order_of_the_rows_does_not_matter():
    random = np.random.default_rng(3)
    features = finite(random.normal(size=(500, 20)))
    gradient, hessian = random.normal(size=500), random.uniform(0, 1, 500)
    order = random.permutation(500)
    limits = Growth(6, 1.0, 1e-6, 0.0)
    one = grow(binned(features, 31), gradient, hessian, limits)
    other = grow(binned(features[order], 31), gradient[order], hessian[order], limits)
    for name in ("column", "code", "missing_left", "gain"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.leaf[order], other.leaf)


def test_rounding_up_has_room_too():
    for bits, rows in ((growing.GRADIENT_BITS, 1024), (growing.HESSIAN_BITS - 1, 4096)):
        values = np.full(rows, 2.0**bits / rows - 0.49)
        integers, unit = growing._integers(values, bits)
        assert unit == 2.0 and integers.sum() < 2.0**bits
        assert (np.abs(integers * unit - values) <= unit / 2).all()
