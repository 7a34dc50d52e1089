"""The learner with the interface of libraries."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import GradientBoostedTrees, extract_features


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 5))
    return X, 3 * X[:, 0] - 2 * (X[:, 1] > 0.2) + X[:, 2] * X[:, 0]


def explained(y, predicted):
    return 1 - np.var(y - predicted) / np.var(y)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_squared_estimates_labels_of_any_size(data, scale):
    X, y = data
    trees = GradientBoostedTrees(objective="squared", n_trees=60, max_depth=4)
    assert trees.fit(X[:400], scale * y[:400]) is trees
    assert explained(scale * y[400:], trees.predict(X[400:])) > 0.9
    assert int(np.argmax(trees.importance())) == 0


def test_rank_orders_within_groups(data):
    X, y = data
    group = np.arange(600) % 3
    shifted = y + 100.0 * group  # says nothing within a group
    trees = GradientBoostedTrees(objective="rank").fit(X[:450], shifted[:450], group=group[:450])
    scores = trees.predict(X[450:])
    one, other = np.triu_indices(150, 1)
    differ = np.abs(y[450:][one] - y[450:][other]) > 0.2
    right = (scores[one] > scores[other]) == (y[450:][one] > y[450:][other])
    assert right[differ].mean() > 0.9


def test_weights_say_what_matters(data):
    X, y = data
    weight = (X[:, 3] > 0).astype(float)
    wrong = np.where(X[:, 3] > 0, y, -y)
    trees = GradientBoostedTrees().fit(X, wrong, weight=weight)
    heavy = weight > 0
    assert explained(y[heavy], trees.predict(X[heavy])) > 0.9


def test_a_sample_of_several_statements_is_their_sum():
    rng = np.random.default_rng(1)
    tables = [rng.uniform(0, 1, (2, 3)) for _ in range(400)]
    y = np.array([table[:, 0].sum() for table in tables])
    trees = GradientBoostedTrees(n_trees=80, max_depth=3).fit(tables[:300], y[:300])
    predicted = trees.predict(tables[300:])
    assert predicted.shape == (100,)
    assert explained(y[300:], predicted) > 0.9


def test_features_of_schedules_are_samples():
    program = mt.lower(mt.workloads.matmul(8, 8, 8))
    tables = [extract_features(mt.Schedule(program)) for _ in range(2)]
    trees = GradientBoostedTrees().fit(tables, [1.0, 2.0])
    assert trees.predict(tables).tolist() == [1.5, 1.5]


@pytest.mark.parametrize("objective", ["squared", "rank"])
@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_failures_are_below_what_was_measured(data, objective, lost):
    X, y = data
    y = np.where(X[:, 4] > 0, y, lost)
    scores = GradientBoostedTrees(objective=objective).fit(X, y).predict(X)
    assert np.isfinite(scores).all()
    assert np.median(scores[X[:, 4] <= 0]) < np.quantile(scores[X[:, 4] > 0], 0.05)


def test_a_failure_is_worse_than_measurements_that_are_all_alike():
    X = np.array([[0.0], [0.0], [1.0]] * 20)
    scores = GradientBoostedTrees().fit(X, [-5.0, -5.0, np.nan] * 20).predict(X)
    assert scores[2] < scores[0]


@pytest.mark.parametrize("objective", ["squared", "rank"])
@pytest.mark.parametrize(
    "y", [[], [1.0], [2.0] * 5, [np.nan] * 5, [np.inf, 1, 2, 3, -np.inf], [1e308, -1e308, 0]]
)
def test_no_labels_make_it_raise(objective, y):
    X = np.arange(2.0 * len(y)).reshape(len(y), 2)
    scores = GradientBoostedTrees(objective=objective).fit(X, y).predict(X)
    assert scores.shape == (len(y),)
    assert np.isfinite(scores).all()


def test_the_same_seed_gives_the_same_bits(data):
    X, y = data
    one, other = (GradientBoostedTrees("rank", seed=7).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"objective": "cubed"}, "squared, rank"),
        ({"n_trees": -1}, "n_trees"),
        ({"max_depth": 0}, "max_depth"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_wrong_parameters(arguments, text):
    with pytest.raises(mt.ArgumentError, match=text):
        GradientBoostedTrees(**arguments)


def test_wrong_arrays(data):
    X, y = data
    trees = GradientBoostedTrees(n_trees=2)
    with pytest.raises(mt.ArgumentError, match="call fit"):
        trees.predict(X)
    with pytest.raises(mt.ArgumentError, match="a label for each of 600"):
        trees.fit(X, y[:5])
    with pytest.raises(mt.ArgumentError, match="same number of columns"):
        trees.fit([X[:, :2], X[:, :3]], [1, 2])
    with pytest.raises(mt.ArgumentError, match="features"):
        trees.fit([[[1, 2], [3]]], [1])
    assert trees.fit([], []).predict([]).shape == (0,)
    with pytest.raises(mt.ArgumentError, match="columns"):
        trees.fit(X, y).predict(X[:, :2])
