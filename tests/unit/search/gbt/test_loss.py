"""The losses: their derivatives, and why a step never makes the squared one worse."""

import math

import numpy as np
import pytest

from minitensor.search.gbt.loss import Rank, Squared


def squared_loss(loss, scores):
    return float((loss.weight * (scores - loss.label) ** 2).sum())


def rank_loss(loss, scores, groups):
    total = 0.0
    for a in range(len(scores)):
        for b in range(len(scores)):
            if groups[a] == groups[b] and loss.label[a] > loss.label[b]:
                weight = loss.weight[a] * loss.weight[b]
                total += weight * math.log1p(math.exp(scores[b] - scores[a]))
    return total


def slope(function, scores, place, step=1e-6):
    up, down = scores.copy(), scores.copy()
    up[place] += step
    down[place] -= step
    return (function(up) - function(down)) / (2 * step)


def test_the_slopes_of_the_squared_loss():
    random = np.random.default_rng(0)
    y, w, n = random.uniform(0, 1, 6), random.uniform(0, 1, 6), random.integers(1, 5, 6)
    loss, scores = Squared(y, w, n), random.normal(size=6)
    slopes, curvatures = loss.derivatives(scores)
    for p in range(6):
        assert slopes[p] == pytest.approx(slope(lambda s: squared_loss(loss, s), scores, p))
    assert curvatures == pytest.approx(2 * w * n)
    assert slope(lambda s: squared_loss(loss, np.full(6, s[0])), np.full(1, loss.start()), 0) == (
        pytest.approx(0, abs=1e-9)
    )


def test_the_curvature_bounds_what_moving_the_statements_does():
    """Taylor's formula with the diagonal 2wn instead of the true matrix is never too small."""
    random = np.random.default_rng(1)
    y, w, n = random.uniform(0, 1, 6), random.uniform(0, 1, 6), random.integers(1, 9, 6)
    loss, scores = Squared(y, w, n), random.normal(size=6)
    slopes, curvatures = loss.derivatives(scores)
    owners = np.repeat(np.arange(6), n)
    before = squared_loss(loss, scores)
    for _ in range(200):
        moves = random.normal(size=len(owners)) * 10 ** random.uniform(-3, 3)
        after = squared_loss(loss, scores + np.bincount(owners, moves))
        bound = before + (slopes[owners] * moves + curvatures[owners] / 2 * moves**2).sum()
        assert after <= bound + 1e-9 * abs(bound)
    alike = np.ones(len(owners))  # there it is exact
    bound = before + (slopes[owners] + curvatures[owners] / 2).sum()
    assert squared_loss(loss, scores + np.bincount(owners, alike)) == pytest.approx(bound)


def test_the_derivatives_of_the_rank_loss_over_all_pairs():
    random = np.random.default_rng(2)
    y = np.array([0.1, 0.9, 0.5, 0.5, 0.0, 1.0, 1.0, 0.3])
    groups = np.array([1, 0, 1, 1, 0, 1, 0, 2])
    loss = Rank(y, random.uniform(0.5, 1, 8), groups, 16, 0)
    scores = random.normal(size=8)
    slopes, curvatures = loss.derivatives(scores)

    def first(s, p):
        return slope(lambda v: rank_loss(loss, v, groups), s, p)

    for p in range(8):
        assert slopes[p] == pytest.approx(first(scores, p), abs=1e-8)
        second = slope(lambda s: first(s, p), scores, p, 1e-3)
        assert curvatures[p] == pytest.approx(2 * second, abs=1e-4)
    assert slopes[7] == curvatures[7] == 0  # alone in its group


def test_large_groups_are_paired_at_random_within_themselves():
    groups = np.repeat([3, 0, 8], [50, 4, 1])
    loss = Rank(np.arange(55.0), np.ones(55), groups, 5, 0)
    pairs = [loss._pairs(members) for members in loss.members]
    assert sorted(len(first) for first, _ in pairs) == [0, 6, 250]
    for first, second in pairs:
        assert (groups[first] == groups[second]).all() and (first != second).all()
    again = Rank(np.arange(55.0), np.ones(55), groups, 5, 0)
    other = Rank(np.arange(55.0), np.ones(55), groups, 5, 1)
    scores = np.zeros(55)
    same = loss.__class__(np.arange(55.0), np.ones(55), groups, 5, 0).derivatives(scores)
    assert np.array_equal(same[0], again.derivatives(scores)[0])
    assert not np.array_equal(same[0], other.derivatives(scores)[0])
    assert not np.array_equal(same[0], again.derivatives(scores)[0])  # drawn anew


def test_far_apart_scores_do_not_overflow():
    loss = Rank(np.array([0.0, 1.0]), np.ones(2), np.zeros(2, np.int64), 4, 0)
    for scores in ([1e300, -1e300], [-1e300, 1e300]):
        slopes, curvatures = loss.derivatives(np.array(scores))
        assert np.isfinite(slopes).all() and (curvatures == 0).all()
    assert loss.derivatives(np.array([800.0, -800.0]))[0].tolist() == [1.0, -1.0]


def test_no_programs():
    none, numbers = np.empty(0), np.empty(0, np.int64)
    assert Squared(none, none, numbers).start() == 0
    for loss in (Squared(none, none, numbers), Rank(none, none, numbers, 4, 0)):
        slopes, curvatures = loss.derivatives(none)
        assert slopes.shape == curvatures.shape == (0,)
