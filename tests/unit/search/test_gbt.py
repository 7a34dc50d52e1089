"""Boosting: against trees by the book, what is learnt, what is refused."""

import ast
import pathlib
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search import gbt
from minitensor.search.gbt import Booster, failed, ranked
from minitensor.search.gbt.labels import throughputs
from tests.unit.search import gbt_reference as reference

NAN, INF = np.nan, np.inf


def made_up(seed=0, programs=200, columns=8, missing=0.0):
    """Features, owners and labels of programs whose speed follows from their features."""
    random = np.random.default_rng(seed)
    owners = np.repeat(np.arange(programs), random.integers(1, 5, programs))
    features = random.normal(size=(len(owners), columns)).astype(np.float32)
    cost = np.exp(np.maximum(features[:, 0], features[:, 1]) + (features[:, 2] > 0))
    features[random.random(features.shape) < missing] = NAN
    return features, owners, np.bincount(owners, cost) ** -0.5


def pairs_in_order(scores, labels):
    faster = labels[:, None] > labels
    return float(((scores[:, None] - scores)[faster] > 0).mean())


@pytest.mark.parametrize("seed", range(6))
def test_trees_are_those_by_the_book(seed):
    random = np.random.default_rng(seed)
    owners = random.integers(0, 12, 36)
    features = random.integers(0, 6, (36, 4)).astype(np.float32)
    features[random.random(features.shape) < 0.1 * (seed % 3)] = NAN
    labels = random.uniform(0, 9, 12)
    labels[:2] = [NAN, 0.0]
    booster = Booster(trees=4, depth=3, learning_rate=0.4, cover=0.1 * (seed % 2))
    model = booster.fit(features, owners, labels)
    start, trees = reference.fit(features, owners.tolist(), labels.tolist(), booster)
    assert model.start == start and len(model.trees) == len(trees) == 4
    for tree, (splits, values) in zip(model.trees, trees):
        assert set(np.flatnonzero(tree.feature >= 0)) == set(splits)
        for node, split in splits.items():
            assert tree.feature[node] == split.column
            assert tree.threshold[node] == np.float32(split.threshold)
            assert tree.missing_left[node] == split.missing_left
            assert tree.gain[node] == pytest.approx(split.gain, rel=1e-9)
        assert {leaf: tree.value[leaf] for leaf in values} == values  # to the last bit


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_scores_are_sums_of_the_leaves_that_rows_end_in(missing):
    features, owners, labels = made_up(missing=missing)
    model = Booster(trees=8, depth=4).fit(features, owners, labels)
    unseen = np.concatenate([features[:50], np.full((1, 8), NAN), np.full((1, 8), INF)])
    unseen = np.concatenate([unseen, -unseen, np.float32(1e30) * unseen])
    rows = model.predict_rows(unseen)
    for row, score in zip(unseen, rows):
        expected = 0.0
        for tree in model.trees:
            expected += reference.walk(tree, np.clip(row, -3.4028235e38, 3.4028235e38))
        assert score == expected
    numbers = np.arange(len(rows)) % 7
    sums = model.predict(unseen, numbers)
    for number in range(7):
        assert sums[number] == pytest.approx(model.start + rows[numbers == number].sum())


def test_shallow_trees_have_small_arrays():
    features = np.repeat([[0.0], [1.0]], 4, axis=0)
    model = Booster(trees=3, depth=9).fit(features, np.arange(8), [1, 1, 1, 1, 4, 4, 4, 4])
    assert {len(tree.feature) for tree in model.trees} == {3}
    assert model.trees[0].rows.tolist() == [8, 4, 4]
    assert model.trees[0].cover == pytest.approx([2 * 5.0, 2 * 1.0, 2 * 4.0])


@pytest.mark.parametrize(("loss", "least"), [("squared", 0.8), ("rank", 0.93)])
def test_programs_never_seen_are_put_in_order(loss, least):
    features, owners, labels = made_up(0, 1500)
    model = Booster(trees=40).fit(features, owners, labels, loss=loss)
    unseen, numbers, truth = made_up(1, 400)
    assert pairs_in_order(model.predict(unseen, numbers), truth) > least


def test_a_score_of_the_squared_loss_is_a_throughput():
    features, owners, labels = made_up(0, 1500)
    model = Booster(trees=100).fit(features, owners, 1e12 * labels)
    scores = model.predict(features, owners)
    assert np.abs(scores - labels / labels.max()).mean() < 0.03


@pytest.mark.parametrize("learning_rate", [0.1, 0.5, 1.0])
def test_no_tree_makes_the_squared_loss_worse(learning_rate):
    """Even where all of a program's many statements are alike, and so move together."""
    random = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 12)
    features = random.normal(size=(60, 5))[owners] + 0.01 * random.normal(size=(720, 5))
    labels = random.uniform(0, 1, 60)
    y = labels / labels.max()
    model = Booster(trees=30, learning_rate=learning_rate).fit(features, owners, labels)

    def loss(count):
        scores = replace(model, trees=model.trees[:count]).predict(features, owners)
        return float((np.maximum(y, 0.1) * (scores - y) ** 2).sum())

    losses = [loss(count) for count in range(len(model.trees) + 1)]
    assert all(after <= before for before, after in pairwise(losses))
    assert losses[-1] < losses[0] / 4


def test_what_the_first_question_gains_is_what_the_loss_loses_at_most():
    features, owners, labels = made_up(3, 300)
    y = labels / labels.max()
    model = Booster(trees=1, depth=1, learning_rate=1.0, lambda_=1e-6).fit(features, owners, labels)
    w = np.maximum(y, 0.1)
    before = float((w * (model.start - y) ** 2).sum())
    after = float((w * (model.predict(features, owners) - y) ** 2).sum())
    slopes = 2 * w * (model.start - y)
    whole = 0.5 * slopes[owners].sum() ** 2 / (2 * w * np.bincount(owners))[owners].sum()
    assert before - after >= model.trees[0].gain[0] + whole - 1e-3


def test_labels_are_compared_within_their_group():
    features, owners, labels = made_up(0, 600)
    groups = np.array(["conv", "dense"])[np.arange(600) % 2]
    scaled = np.where(groups == "conv", 1.0, 1e6) * labels
    one = Booster(trees=10).fit(features, owners, scaled, groups)
    y = throughputs(scaled, (groups == "dense").astype(np.int64))
    other = Booster(trees=10).fit(features, owners, y)
    assert one.to_json() == other.to_json()
    assert one.to_json() != Booster(trees=10).fit(features, owners, scaled).to_json()


@pytest.mark.parametrize("loss", ["squared", "rank"])
def test_weights(loss):
    features, owners, labels = made_up(0, 100)
    booster = Booster(trees=5)
    plain = booster.fit(features, owners, labels, loss=loss)
    assert (
        plain.to_json()
        == booster.fit(features, owners, labels, weights=np.ones(100), loss=loss).to_json()
    )
    none = booster.fit(features, owners, labels, weights=np.zeros(100), loss=loss)
    assert not none.trees
    odd = np.arange(100) % 2
    chosen = odd[owners] == 1
    half = booster.fit(features, owners, labels, weights=odd, loss=loss)
    alone = booster.fit(features[chosen], owners[chosen] // 2, labels[1::2], loss=loss)
    if loss == "squared" and labels[1::2].max() == labels.max():
        assert half.start == pytest.approx(alone.start)
    assert half.to_json() != plain.to_json()


def test_candidates_that_fail_are_learnt_to_be_slow():
    features, owners, labels = made_up(0, 800)
    fails = np.zeros(800, bool)
    np.logical_or.at(fails, owners, features[:, 5] > 1.0)
    labels[fails] = np.resize([0.0, NAN, INF, -INF, -3.0], np.count_nonzero(fails))
    assert np.array_equal(failed(labels), fails)
    for loss in ("squared", "rank"):
        model = Booster().fit(features, owners, labels, loss=loss)
        unseen, numbers, _ = made_up(1, 300)
        lost = np.zeros(300, bool)
        np.logical_or.at(lost, numbers, unseen[:, 5] > 1.0)
        scores = model.predict(unseen, numbers)
        assert pairs_in_order(scores, (~lost).astype(float)) > 0.85
        order = ranked(model.predict(features, owners), failed(labels))
        assert not fails[order[: np.count_nonzero(~fails)]].any()


@pytest.mark.parametrize("loss", ["squared", "rank"])
@pytest.mark.parametrize(
    "labels",
    [
        [],
        [3.0],
        [NAN],
        [INF, -INF],
        [2.0, 2.0, 2.0],
        [0.0, 0.0, 0.0],
        [-1.0, -2.0, NAN],
        [1e-320, 1e-320],
    ],
    ids=str,
)
def test_labels_that_say_nothing(labels, loss):
    count = len(labels)
    features = np.random.default_rng(0).normal(size=(2 * count, 3))
    owners = np.arange(2 * count) // 2
    model = Booster().fit(features, owners, labels, loss=loss)
    assert not model.trees
    scores = model.predict(features, owners)
    assert scores.shape == (count,) and len(set(scores.tolist())) <= 1
    assert model.importance().tolist() == [0.0] * 3
    assert "starts at" in model.text()


def test_rows_and_columns_that_are_not_there():
    empty = Booster().fit(np.empty((0, 4)), [], [])
    assert empty.predict(np.empty((0, 4)), []).shape == (0,)
    assert empty.predict(np.ones((2, 4)), [0, 2]).tolist() == [0.0] * 3
    bare = Booster().fit(np.empty((6, 0)), np.arange(6), np.arange(6.0))
    assert not bare.trees and bare.predict(np.empty((6, 0)), np.arange(6)).shape == (6,)
    features, owners, labels = made_up(0, 50)
    more = Booster(trees=3).fit(features, owners, [*labels, 5.0])  # a program without statements
    scores = more.predict(features, owners, count=51)
    assert scores[50] == more.start and len(scores) == 51
    assert np.array_equal(more.predict(features, owners), scores[:50])
    rank = Booster(trees=3).fit(features, owners, [*labels, 5.0], loss="rank")
    assert rank.predict(features, owners, count=52)[50:].tolist() == [0.0, 0.0]


def test_importance():
    features, owners, labels = made_up(0, 600)
    model = Booster(trees=10).fit(features, owners, labels)
    gain = model.importance()
    assert set(np.argsort(-gain)[:3]) == {0, 1, 2}
    assert gain.sum() == pytest.approx(sum(tree.gain.sum() for tree in model.trees))
    asked = np.concatenate([tree.feature[tree.feature >= 0] for tree in model.trees])
    assert np.array_equal(model.importance("count"), np.bincount(asked, minlength=8))
    cover = sum(tree.cover[tree.feature >= 0].sum() for tree in model.trees)
    assert model.importance("cover").sum() == pytest.approx(cover)
    with pytest.raises(ArgumentError, match="kind='weight'"):
        model.importance("weight")


def test_text_of_a_model():
    features, owners, labels = made_up(0, 60)
    model = Booster(trees=2, depth=2).fit(features, owners, labels)
    text = model.text([f"column {n}" for n in range(8)])
    assert text.startswith(f"every program starts at {model.start:.5g}\n\ntree 1 of 2\ncolumn ")
    assert text.count("tree ") == 2 and "f0" not in text


def test_more_bins_see_more():
    values = np.arange(1000.0)[:, None]
    labels = np.where(values[:, 0] < 437, 1.0, 5.0)
    exact = Booster(trees=1, depth=1, bins=255).fit(values, np.arange(1000), labels)
    rough = Booster(trees=1, depth=1, bins=2).fit(values, np.arange(1000), labels)
    assert abs(exact.trees[0].threshold[0] - 436.5) < 4
    assert rough.trees[0].threshold[0] == 499.5


def test_features_of_any_real_type():
    features, owners, labels = made_up(0, 100)
    features = np.rint(10 * features)
    booster = Booster(trees=3)
    texts = {
        booster.fit(features.astype(dtype), owners, labels).to_json()
        for dtype in ("int8", "int64", "float16", "float32", "float64", "longdouble")
    }
    texts.add(booster.fit(features.tolist(), owners.tolist(), labels.tolist()).to_json())
    texts.add(booster.fit(np.asfortranarray(features), owners[::1], labels).to_json())
    texts.add(booster.fit(features[::-1][::-1], owners.astype("uint16"), labels).to_json())
    assert len(texts) == 1
    assert booster.fit(features > 0, owners, labels).trees


def test_the_arguments_stay_as_they_are():
    arguments = made_up(0, 50, missing=0.1)
    for array in arguments:
        array.setflags(write=False)
    copies = [array.copy() for array in arguments]
    for loss in ("squared", "rank"):
        Booster(trees=3).fit(*arguments, loss=loss).predict(*arguments[:2])
    for array, copy in zip(arguments, copies):
        assert np.array_equal(array, copy, equal_nan=True)


WRONG_PARAMETERS = [
    ("trees", -1), ("trees", 2.0), ("trees", True), ("trees", 10**9), ("depth", 0), ("depth", 13),
    ("learning_rate", 0.0), ("learning_rate", 1.5), ("learning_rate", NAN), ("learning_rate", "1"),
    ("bins", 1), ("bins", 256), ("lambda_", 0.0), ("lambda_", INF), ("gain", -1.0), ("cover", NAN),
    ("partners", 0), ("seed", -1), ("seed", 2**64),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG_PARAMETERS)
def test_parameters_out_of_range(name, value):
    with pytest.raises(ArgumentError, match=f"{name}="):
        Booster(**{name: value})


WRONG_ARGUMENTS = {
    "features in one axis": {"features": [1.0, 2.0]},
    "features that are text": {"features": [["a"], ["b"]]},
    "features that are complex": {"features": [[1j], [2j]]},
    "ragged features": {"features": [[1.0], [1.0, 2.0]]},
    "features that are objects": {"features": [[None], [1.0]]},
    "too many columns": {"features": np.empty((2, 2**16 + 1), np.int8)},
    "programs that are no integers": {"programs": [0.0, 1.0]},
    "too few programs": {"programs": [0]},
    "a program without a label": {"programs": [0, 2]},
    "a negative program": {"programs": [-1, 0]},
    "programs in two axes": {"programs": [[0], [1]]},
    "labels in two axes": {"labels": [[1.0, 2.0]]},
    "labels that are text": {"labels": ["a", "b"]},
    "labels that are objects": {"labels": [None, 1.0]},
    "too few groups": {"groups": [0]},
    "groups that are no names": {"groups": [0.5, 1.5]},
    "too many weights": {"weights": [1.0, 1.0, 1.0]},
    "negative weights": {"weights": [1.0, -1.0]},
    "weights that are no numbers": {"weights": [1.0, NAN]},
    "heavy weights": {"weights": [1.0, 1e7]},
    "no loss": {"loss": "absolute"},
}


@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_arguments_that_are_refused(wrong):
    right = {"features": [[1.0], [2.0]], "programs": [0, 1], "labels": [1.0, 2.0]}
    Booster().fit(**right)
    with pytest.raises(ArgumentError, match="expected"):
        Booster().fit(**{**right, **wrong})


def test_predictions_that_are_refused():
    model = Booster().fit([[1.0], [2.0]], [0, 1], [1.0, 2.0])
    for features, programs, count in (
        ([[1.0, 2.0]], [0], None),
        ([[1.0]], [5], 5),
        ([[1.0]], [0], -1),
        ([[1.0]], [0], 2**40),
        ([[1.0]], [0], 1.0),
        ([[1.0]], [2**60], None),
        ([[1.0]], [0, 1], None),
    ):
        with pytest.raises(ArgumentError, match="expected"):
            model.predict(features, programs, count)
    assert model.predict(np.empty((0, 1)), [], 3).tolist() == [model.start] * 3


def test_only_numpy_and_no_blas():
    """BLAS adds in another order with another number of threads."""
    for path in sorted(pathlib.Path(gbt.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                inside = name.startswith(("minitensor.search.gbt", "minitensor.errors"))
                assert inside or name.split(".")[0] in {"numpy", *sys.stdlib_module_names}, name
            assert not isinstance(getattr(node, "op", None), ast.MatMult)
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"dot", "vdot", "inner", "matmul", "einsum", "linalg"}


SCRIPT = """
import hashlib, numpy as np
from minitensor.search.gbt import Booster
random = np.random.default_rng(5)
features = random.normal(size=(900, 30)).astype("f")
owners = np.repeat(np.arange(300), 3)
labels = random.uniform(0, 1, 300)
for loss in ("squared", "rank"):
    model = Booster(trees=6, seed=3).fit(features, owners, labels, loss=loss)
    scores = model.predict(features, owners)
    print(hashlib.sha256(model.to_json().encode() + scores.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_bits_in_every_process_and_with_any_number_of_threads(monkeypatch):
    results = set()
    for threads, seed in (("1", "0"), ("2", "1"), ("1", "2")):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            monkeypatch.setenv(name, threads)
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
        results.add(done.stdout)
    assert len(results) == 1 and len(results.pop().split()) == 2


def test_the_same_bits_again():
    arguments = made_up(4, 150)
    for loss in ("squared", "rank"):
        one, again = (Booster(trees=5, seed=1).fit(*arguments, loss=loss) for _ in range(2))
        assert one.to_json() == again.to_json()
    other = Booster(trees=5, seed=2).fit(*arguments, loss="rank")
    assert other.to_json() != again.to_json()


def test_the_page_prints_what_is_printed():
    random = np.random.default_rng(0)
    tile = random.integers(10, 24, 600)
    lanes, cores = 2 ** random.integers(0, 5, 600), 2 ** random.integers(0, 4, 600)
    features = np.stack([tile, lanes, cores], axis=1)
    programs = np.repeat(np.arange(300), 2)
    time = np.where(tile > 18, 3.0, 1.0) / (lanes * cores)
    model = Booster(trees=20, depth=2).fit(features, programs, 1 / np.bincount(programs, time))
    page = (pathlib.Path(__file__).parents[3] / "docs" / "cost_model.md").read_text()
    first = model.text(["log2 tile bytes", "lanes", "cores"]).split("\n\ntree 2")[0]
    assert first in page
    scores = model.predict([[14, 16, 8], [14, 16, 8], [20, 1, 1], [20, 1, 1]], [0, 0, 1, 1])
    assert ranked(scores).tolist() == [0, 1]
    defaults = Booster()
    assert f"at most {defaults.bins} bins" in page and f"{defaults.trees} trees of depth" in page
