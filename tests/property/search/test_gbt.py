"""Boosted trees under whatever a search may bring: labels and features."""

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from minitensor.search import GradientBoostedTrees, Samples
from minitensor.search.gbt.bins import binned, cut, finite
from minitensor.search.gbt.grow import Growth
from minitensor.search.gbt.loss import Rank
from tests.unit.search.gbt import reference
from tests.unit.search.gbt.test_grow import check
from tests.unit.search.gbt.test_loss import rank_loss, slope

NAN, INF = np.nan, np.inf

numbers = st.floats(width=64) | st.sampled_from(
    [0.0, -0.0, 1.0, NAN, INF, -INF, 5e-324, -5e-324, 1e-310, 1.8e308 / 2, -1e308, 1e38, 3.5e38]
)


@st.composite
def tables(draw, rows=None, most_columns=5):
    """Columns of anything, of few values, constant, or all zero."""
    rows = draw(st.integers(0, 30)) if rows is None else rows
    columns = []
    for _ in range(draw(st.integers(0, most_columns))):
        values = draw(st.lists(numbers, min_size=1, max_size=draw(st.sampled_from([1, 3, 30]))))
        columns.append(draw(arrays.arrays(np.float64, rows, elements=st.sampled_from(values))))
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0))


@st.composite
def problems(draw):
    """Samples, labels and groups."""
    counts = draw(st.lists(st.integers(0, 4), max_size=12))
    samples = Samples(draw(tables(sum(counts))), counts)
    labels = draw(arrays.arrays(np.float64, len(counts), elements=numbers))
    groups = draw(st.none() | arrays.arrays(np.int64, len(counts), elements=st.integers(-2, 2)))
    return samples, labels, groups


boosted = st.builds(
    GradientBoostedTrees,
    objective=st.sampled_from(["squared", "rank"]),
    n_trees=st.integers(0, 4),
    max_depth=st.integers(1, 5),
    learning_rate=st.floats(1e-6, 1),
    bins=st.integers(2, 255),
    lambda_=st.floats(1e-6, 1e6),
    gain=st.floats(0, 1),
    cover=st.floats(0, 1),
    partners=st.integers(1, 20),
)
many = settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])


@many
@given(problem=problems(), trees=boosted)
@example(
    problem=(Samples(np.empty((0, 3)), []), [], None), trees=GradientBoostedTrees(objective="rank")
)
@example(problem=(Samples(np.ones((1, 1)), [1]), [NAN], None), trees=GradientBoostedTrees())
def test_no_labels_make_it_raise(problem, trees):
    samples, labels, groups = problem
    scores = trees.fit(samples, labels, group=groups).predict(samples)
    assert scores.shape == (len(labels),) and np.isfinite(scores).all()
    known = {label for label in labels if np.isfinite(label)}
    if len(known) <= 1 and (not known or np.isfinite(labels).all()):
        assert not trees.trees and len(set(scores.tolist())) <= 1
    text = trees.to_json()
    assert text == trees.fit(samples, labels, group=groups).to_json()
    again = GradientBoostedTrees.from_json(text)
    assert again.predict(samples).tobytes() == scores.tobytes()


@many
@given(problem=problems(), unseen=tables(), trees=boosted)
def test_scores_are_what_a_walk_through_the_trees_finds(problem, unseen, trees):
    samples, labels, groups = problem
    trees.fit(samples, labels, group=groups)
    if unseen.shape[1] != samples.table.shape[1]:
        unseen = np.resize(unseen, (len(unseen), samples.table.shape[1]))
    for table in (samples.table, unseen):
        for row, score in zip(finite(table), trees.predict_rows(table)):
            expected = 0.0
            for tree in trees.trees:
                expected += reference.walk(tree, row)
            assert score == expected


@many
@given(tables(most_columns=3), st.integers(2, 255))
@example(np.array([[0.0], [1.0], [2.0], [2.0], [2.0], [2.0]]), 2)
def test_codes_and_cuts_say_the_same(table, most):
    values = finite(table)
    data = binned(values, most)
    for codes, origin, cuts in zip(data.codes, data.origin, data.cuts):
        column = values[:, origin]
        there = column == column
        assert (codes[~there] == len(cuts) + 1).all()
        assert len(cuts) < most
        assert (np.diff(cuts) > 0).all()
        for code, bound in enumerate(cuts):
            left = codes[there] <= code
            assert np.array_equal(left, column[there] <= bound)
            assert left.any() and not left.all()
    kept = set(data.origin.tolist())
    for origin in range(values.shape[1]):
        column = values[:, origin]
        kinds = len(set(column[column == column].tolist())) + bool((column != column).any())
        informative = kinds > 1 and (column == column).any()
        assert (origin in kept) == informative


@many
@given(
    arrays.arrays(np.float32, st.integers(1, 400), elements=st.floats(width=32, allow_nan=False))
)
def test_cuts_lie_between_neighbours(values):
    ordered = np.sort(finite(values))
    distinct = np.unique(ordered)
    for most in (2, 5, 255):
        cuts = cut(ordered, most)
        below = np.searchsorted(distinct, cuts, side="right")
        assert (below > 0).all() and (below < len(distinct)).all() and (np.diff(below) > 0).all()
        assert len(cuts) < most
        if len(distinct) <= most:
            assert len(cuts) == len(distinct) - 1


@st.composite
def small_problems(draw):
    rows = draw(st.integers(1, 25))
    table = draw(
        arrays.arrays(
            np.float32,
            (rows, draw(st.integers(1, 4))),
            elements=st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.0, NAN]),
        )
    )
    gradient = draw(
        arrays.arrays(np.float64, rows, elements=st.integers(-3, 3) | st.floats(-100, 100))
    )
    hessian = draw(arrays.arrays(np.float64, rows, elements=st.integers(0, 3) | st.floats(0, 1e6)))
    return table, gradient, hessian


@many
@given(
    problem=small_problems(),
    depth=st.integers(1, 4),
    lambda_=st.sampled_from([0.125, 1.0, 10.0]),
    cover=st.sampled_from([0.0, 1.5]),
)
def test_every_split_is_the_one_by_the_book(problem, depth, lambda_, cover):
    check(*problem, Growth(depth, lambda_, 1e-3, cover))


@st.composite
def rankings(draw):
    """Labels, weights, groups and scores of some samples."""
    count = draw(st.integers(1, 8))
    of = lambda elements, kind=np.float64: draw(arrays.arrays(kind, count, elements=elements))
    labels = of(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1))
    return labels, of(st.floats(0, 2)), of(st.integers(0, 2), np.int64), of(st.floats(-20, 20))


@many
@given(rankings())
def test_the_slopes_of_the_rank_loss_are_those_of_finite_differences(ranking):
    labels, weights, groups, scores = ranking
    loss = Rank(labels, weights, np.unique(groups, return_inverse=True)[1].reshape(-1), 16, 0)
    slopes, curvatures = loss.derivatives(scores)
    for place in range(len(scores)):
        found = slope(lambda s: rank_loss(loss, s, groups), scores, place, 1e-5)
        assert abs(slopes[place] - found) < 1e-6
    assert (curvatures >= 0).all() and abs(slopes.sum()) < 1e-9
