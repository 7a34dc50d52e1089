"""Boosting: against trees by the book, what is learnt, what is refused."""

import ast
import pathlib
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import GradientBoostedTrees, Samples, extract_features, gbt
from tests.unit.search.gbt import reference

NAN, INF = np.nan, np.inf
OBJECTIVES = pytest.mark.parametrize("objective", ["squared", "rank"])


def made_up(seed=0, programs=200, columns=8, missing=0.0):
    """Programs of several statements, and labels that follow from their features."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 5, programs)
    owners = np.repeat(np.arange(programs), counts)
    features = random.normal(size=(len(owners), columns)).astype(np.float32)
    cost = np.exp(np.maximum(features[:, 0], features[:, 1]) + (features[:, 2] > 0))
    features[random.random(features.shape) < missing] = NAN
    return Samples(features, counts), np.bincount(owners, cost) ** -0.5


def fitted(samples, labels, objective="squared", **parameters):
    """Trees that learnt throughputs, as a search has them learn."""
    y, weight = reference.ansor(labels)
    trees = GradientBoostedTrees(objective, **parameters)
    return trees.fit(samples, y, weight if objective == "squared" else None)


def pairs_in_order(scores, labels):
    faster = labels[:, None] > labels
    return float(((scores[:, None] - scores)[faster] > 0).mean())


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 5))
    return X, 3 * X[:, 0] - 2 * (X[:, 1] > 0.2) + X[:, 2] * X[:, 0]


def explained(y, predicted):
    return 1 - np.var(y - predicted) / np.var(y)


# ---- against the book


@pytest.mark.parametrize("seed", range(6))
def test_trees_are_those_by_the_book(seed):
    random = np.random.default_rng(seed)
    owners = np.sort(random.integers(0, 12, 36))
    features = random.integers(0, 6, (36, 4)).astype(np.float32)
    features[random.random(features.shape) < 0.1 * (seed % 3)] = NAN
    labels = random.uniform(0, 9, 12)
    labels[:2] = [NAN, 0.0]
    found = fitted(
        Samples(features, np.bincount(owners, minlength=12)),
        labels,
        n_trees=4,
        max_depth=3,
        learning_rate=0.4,
        cover=0.1 * (seed % 2),
    )
    start, trees = reference.fit(features, owners.tolist(), labels.tolist(), found)
    assert found.start == start and len(found.trees) == len(trees) == 4
    for tree, (splits, values) in zip(found.trees, trees):
        assert set(np.flatnonzero(tree.feature >= 0)) == set(splits)
        for node, split in splits.items():
            assert tree.feature[node] == split.column
            assert tree.threshold[node] == np.float32(split.threshold)
            assert tree.missing_left[node] == split.missing_left
            assert tree.gain[node] == pytest.approx(split.gain, rel=1e-9)
        assert {leaf: tree.value[leaf] for leaf in values} == values  # to the last bit


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_scores_are_sums_of_the_leaves_that_rows_end_in(missing):
    samples, labels = made_up(missing=missing)
    trees = fitted(samples, labels, n_trees=8, max_depth=4)
    unseen = np.concatenate([samples.table[:50], np.full((1, 8), NAN), np.full((1, 8), INF)])
    unseen = np.concatenate([unseen, -unseen, np.float32(1e30) * unseen])
    rows = trees.predict_rows(unseen)
    for row, score in zip(unseen, rows):
        expected = 0.0
        for tree in trees.trees:
            expected += reference.walk(tree, np.clip(row, -3.4028235e38, 3.4028235e38))
        assert score == expected
    sums = trees.predict(Samples(unseen[:100], [30, 0, 70]))
    wanted = [rows[:30].sum(), 0.0, rows[30:100].sum()]
    assert sums == pytest.approx([trees.start + part for part in wanted])


def test_rows_that_are_alike_score_alike(data):
    """Rows that differ only in columns that no split asks for are one row to the trees."""
    X, y = data
    trees = GradientBoostedTrees(n_trees=3, max_depth=2).fit(X, y)
    table = X[:50]
    used = {int(column) for tree in trees.trees for column in tree.feature if column >= 0}
    unused = [column for column in range(table.shape[1]) if column not in used]
    assert unused
    other = table.copy()
    other[:, unused] = 77.0
    both = trees.predict_rows(np.concatenate([table, other, table[::-1]]))
    alone = np.array([trees.predict_rows(row[None])[0] for row in table])
    np.testing.assert_array_equal(both, np.concatenate([alone, alone, alone[::-1]]))


def test_shallow_trees_have_small_arrays():
    features = np.repeat([[0.0], [1.0]], 4, axis=0)
    one = Samples(features, np.ones(8, np.int64))
    trees = fitted(one, [1, 1, 1, 1, 4, 4, 4, 4], n_trees=3, max_depth=9)
    assert {len(tree.feature) for tree in trees.trees} == {3}
    assert trees.trees[0].rows.tolist() == [8, 4, 4]
    assert trees.trees[0].cover == pytest.approx([2 * 5.0, 2 * 1.0, 2 * 4.0])


@pytest.mark.parametrize("learning_rate", [0.1, 0.5, 1.0])
def test_no_tree_makes_the_squared_loss_worse(learning_rate):
    """Even where all of a program's many statements are alike, and so move together."""
    random = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 12)
    features = random.normal(size=(60, 5))[owners] + 0.01 * random.normal(size=(720, 5))
    samples, labels = Samples(features, np.full(60, 12)), random.uniform(0, 1, 60)
    y, weight = reference.ansor(labels)
    trees = fitted(samples, labels, n_trees=30, learning_rate=learning_rate)
    whole = trees.trees

    def loss(count):
        trees.trees = whole[:count]
        return float((weight * (trees.predict(samples) - y) ** 2).sum())

    losses = [loss(count) for count in range(len(whole) + 1)]
    assert all(after <= before for before, after in pairwise(losses))
    assert losses[-1] < losses[0] / 4


def test_what_the_first_split_gains_is_what_the_loss_loses_at_most():
    samples, labels = made_up(3, 300)
    y, w = reference.ansor(labels)
    trees = fitted(samples, labels, n_trees=1, max_depth=1, learning_rate=1.0, lambda_=1e-6)
    before = float((w * (trees.start - y) ** 2).sum())
    after = float((w * (trees.predict(samples) - y) ** 2).sum())
    slopes = 2 * w * (trees.start - y)
    owners = samples.owners
    whole = 0.5 * slopes[owners].sum() ** 2 / (2 * w * samples.counts)[owners].sum()
    assert before - after >= trees.trees[0].gain[0] + whole - 1e-3


# ---- what is learnt


@pytest.mark.parametrize(("objective", "least"), [("squared", 0.8), ("rank", 0.93)])
def test_programs_never_seen_are_put_in_order(objective, least):
    trees = fitted(*made_up(0, 1500), objective, n_trees=40)
    unseen, truth = made_up(1, 400)
    assert pairs_in_order(trees.predict(unseen), truth) > least


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("origin", [0.0, 10.0, 1e4])
def test_squared_estimates_labels_of_any_size(data, scale, origin):
    X, y = data[0], scale * (data[1] + origin)
    trees = GradientBoostedTrees(objective="squared", n_trees=60, max_depth=4)
    assert trees.fit(X[:400], y[:400]) is trees
    assert explained(y[400:], trees.predict(X[400:])) > 0.9
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
    named = GradientBoostedTrees(objective="rank")
    named.fit(X[:450], shifted[:450], group=np.array(["a", "b", "c"])[group[:450]])
    assert named.to_json() == trees.to_json()


@pytest.mark.slow
@OBJECTIVES
def test_weights_say_what_matters(data, objective):
    X, y = data
    weight = (X[:, 3] > 0).astype(float)
    wrong = np.where(X[:, 3] > 0, y, -y)
    trees = GradientBoostedTrees(objective).fit(X, wrong, weight=weight)
    heavy = weight > 0
    assert pairs_in_order(trees.predict(X[heavy]), y[heavy]) > 0.9
    plain, ones = (GradientBoostedTrees(objective).fit(X, y, w) for w in (None, np.ones(600)))
    assert plain.to_json() == ones.to_json()
    assert not GradientBoostedTrees(objective).fit(X, y, np.zeros(600)).trees


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


def test_samples_are_tables_and_a_matrix_of_their_sums():
    table = np.arange(12.0).reshape(4, 3)
    samples = Samples(table, [1, 0, 3])
    assert [part.tolist() for part in samples] == [table[:1].tolist(), [], table[1:].tolist()]
    assert len(samples) == 3 and samples[2].tolist() == samples[-1].tolist() == table[1:].tolist()
    assert [len(part) for part in samples[:2]] == [1, 0]
    sums = [table[0].tolist(), [0.0] * 3, table[1:].sum(0).tolist()]
    assert np.asarray(samples).tolist() == sums
    assert np.asarray(samples, np.float32).dtype == np.float32
    assert list(Samples(np.zeros((0, 3)), [])) == []


@pytest.mark.slow
@OBJECTIVES
@pytest.mark.parametrize("lost", [NAN, INF, -INF])
def test_failures_are_below_what_was_measured(data, objective, lost):
    X, y = data
    y = np.where(X[:, 4] > 0, y, lost)
    scores = GradientBoostedTrees(objective=objective).fit(X, y).predict(X)
    assert np.isfinite(scores).all()
    assert np.median(scores[X[:, 4] <= 0]) < np.quantile(scores[X[:, 4] > 0], 0.05)


def test_a_failure_is_worse_than_measurements_that_are_all_alike():
    X = np.array([[0.0], [0.0], [1.0]] * 20)
    scores = GradientBoostedTrees().fit(X, [-5.0, -5.0, NAN] * 20).predict(X)
    assert scores[2] < scores[0]


@OBJECTIVES
@pytest.mark.parametrize(
    "y",
    [
        *([], [1.0], [NAN], [INF, -INF], [2.0] * 5, [NAN] * 5, [0.0, 0.0]),
        *([INF, 1, 2, 3, -INF], [1e308, -1e308, 0], [1e-320, 1e-320], [5e-324, 1e-323]),
    ],
    ids=str,
)
def test_no_labels_make_it_raise(objective, y):
    X = np.arange(2.0 * len(y)).reshape(len(y), 2)
    trees = GradientBoostedTrees(objective=objective).fit(X, y)
    scores = trees.predict(X)
    assert scores.shape == (len(y),) and np.isfinite(scores).all()
    if len({v for v in y if np.isfinite(v)}) < 2 and (np.isfinite(y).all() or not len(y) > 1):
        assert not trees.trees and len(set(scores.tolist())) <= 1
    assert "starts at" in trees.text()


def test_rows_and_columns_that_are_not_there():
    empty = GradientBoostedTrees().fit(np.empty((0, 4)), [])
    assert empty.predict(np.empty((0, 4))).shape == (0,)
    assert empty.predict(np.ones((2, 4))).tolist() == [0.0] * 2
    bare = GradientBoostedTrees().fit(np.empty((6, 0)), np.arange(6.0))
    assert not bare.trees and bare.predict(np.empty((6, 0))).shape == (6,)
    samples, labels = made_up(0, 50)
    more = Samples(samples.table, [*samples.counts, 0])  # a program without statements
    trees = fitted(more, [*labels, 5.0], n_trees=3)
    assert trees.predict(more)[50] == trees.start
    rank = fitted(more, [*labels, 5.0], "rank", n_trees=3)
    assert rank.predict(more)[50] == 0.0


def test_importance():
    samples, labels = made_up(0, 600)
    trees = fitted(samples, labels, n_trees=10)
    gain = trees.importance()
    assert set(np.argsort(-gain)[:3]) == {0, 1, 2}
    assert gain.sum() == pytest.approx(sum(tree.gain.sum() for tree in trees.trees))


def test_text():
    trees = fitted(*made_up(0, 60), n_trees=2, max_depth=2)
    text = trees.text([f"column {n}" for n in range(8)])
    assert text.startswith(f"every sample starts at {trees.start:.5g}\n\ntree 1 of 2\ncolumn ")
    assert text.count("tree ") == 2 and "f0" not in text


def test_more_bins_see_more():
    values = np.arange(1000.0)[:, None]
    labels = np.where(values[:, 0] < 437, 1.0, 5.0)
    exact, rough = (
        GradientBoostedTrees(n_trees=1, max_depth=1, bins=bins).fit(values, labels)
        for bins in (255, 2)
    )
    assert abs(exact.trees[0].threshold[0] - 436.5) < 4
    assert rough.trees[0].threshold[0] == 499.5


def test_features_of_any_real_type():
    samples, labels = made_up(0, 100)
    rows = np.rint(10 * samples.table)[:100]
    types = ("int8", "int64", "float16", "float32", "float64", "longdouble")
    tables = [*(rows.astype(dtype) for dtype in types), rows.tolist(), np.asfortranarray(rows)]
    texts = {GradientBoostedTrees(n_trees=3).fit(x, labels).to_json() for x in tables}
    assert len(texts) == 1
    assert GradientBoostedTrees(n_trees=3).fit(rows > 0, labels.tolist()).trees


def test_the_arguments_stay_as_they_are():
    samples, labels = made_up(0, 50, missing=0.1)
    arrays = samples.table, samples.counts, labels
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    for objective in ("squared", "rank"):
        fitted(samples, labels, objective, n_trees=3).predict(samples)
    for array, copy in zip(arrays, copies):
        assert np.array_equal(array, copy, equal_nan=True)


# ---- what is refused

WRONG_PARAMETERS = [
    ("objective", "cubed"), ("n_trees", -1), ("n_trees", 2.0), ("n_trees", True),
    ("n_trees", 10**9), ("max_depth", 0), ("max_depth", 13), ("learning_rate", 0.0),
    ("learning_rate", 1.5), ("learning_rate", NAN), ("learning_rate", "1"), ("bins", 1),
    ("bins", 256), ("lambda_", 0.0), ("lambda_", INF), ("gain", -1.0), ("cover", NAN),
    ("partners", 0), ("seed", -1), ("seed", 2**64), ("seed", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG_PARAMETERS)
def test_parameters_out_of_range(name, value):
    with pytest.raises(mt.ArgumentError, match=f"{name}="):
        GradientBoostedTrees(**{name: value})


WRONG_ARGUMENTS = {
    "features in one axis": {"X": [1.0, 2.0]},
    "features that are text": {"X": [["a"], ["b"]]},
    "features that are complex": {"X": [[1j], [2j]]},
    "ragged features": {"X": [[1.0], [1.0, 2.0]]},
    "a ragged table": {"X": [[[1, 2], [3]], [[1, 2]]]},
    "features that are objects": {"X": [[None], [1.0]]},
    "too many columns": {"X": np.empty((2, 2**16 + 1), np.int8)},
    "tables of other columns": {"X": [np.ones((1, 2)), np.ones((1, 3))]},
    "too few labels": {"y": [1.0]},
    "labels in two axes": {"y": [[1.0, 2.0]]},
    "labels that are text": {"y": ["a", "b"]},
    "labels that are objects": {"y": [None, 1.0]},
    "too few groups": {"group": [0]},
    "groups that are no names": {"group": [0.5, 1.5]},
    "too many weights": {"weight": [1.0, 1.0, 1.0]},
    "negative weights": {"weight": [1.0, -1.0]},
    "weights that are no numbers": {"weight": [1.0, NAN]},
    "heavy weights": {"weight": [1.0, 1e7]},
}


@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_arguments_that_are_refused(wrong):
    right = {"X": [[1.0], [2.0]], "y": [1.0, 2.0]}
    trees = GradientBoostedTrees(n_trees=1).fit(**right)
    before = trees.to_json()
    with pytest.raises(mt.ArgumentError, match="expected"):
        trees.fit(**{**right, **wrong})
    assert trees.to_json() == before


def test_predictions_that_are_refused():
    trees = GradientBoostedTrees(n_trees=2)
    with pytest.raises(mt.ArgumentError, match="call fit"):
        trees.predict([[1.0]])
    trees.fit([[1.0], [2.0]], [1.0, 2.0])
    for wrong in ([[1.0, 2.0]], [1.0], [["a"]]):
        with pytest.raises(mt.ArgumentError, match="expected"):
            trees.predict(wrong)
    assert GradientBoostedTrees().fit([], []).predict([]).shape == (0,)


# ---- the same bits


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
from minitensor.search import GradientBoostedTrees, Samples
random = np.random.default_rng(5)
samples = Samples(random.normal(size=(900, 30)).astype("f"), [3] * 300)
labels = random.uniform(0, 1, 300)
for objective in ("squared", "rank"):
    trees = GradientBoostedTrees(objective, n_trees=6, seed=3).fit(samples, labels, labels)
    scores = trees.predict(samples)
    print(hashlib.sha256(trees.to_json().encode() + scores.tobytes()).hexdigest())
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
    for objective in ("squared", "rank"):
        one, again = (fitted(*arguments, objective, n_trees=5, seed=1) for _ in range(2))
        assert one.to_json() == again.to_json()
    other = fitted(*arguments, "rank", n_trees=5, seed=2)
    assert other.to_json() != again.to_json()


def test_the_page_prints_what_is_printed():
    random = np.random.default_rng(0)
    tile = random.integers(10, 24, 600)
    lanes, cores = 2 ** random.integers(0, 5, 600), 2 ** random.integers(0, 4, 600)
    features = np.stack([tile, lanes, cores], axis=1)
    time = np.where(tile > 18, 3.0, 1.0) / (lanes * cores)
    speed = 1 / np.bincount(np.repeat(np.arange(300), 2), time)
    y = speed / speed.max()
    trees = GradientBoostedTrees(n_trees=20, max_depth=2)
    trees.fit(Samples(features, [2] * 300), y, weight=np.maximum(y, 0.1))
    page = (pathlib.Path(__file__).parents[4] / "docs" / "cost_model.md").read_text()
    first = trees.text(["log2 tile bytes", "lanes", "cores"]).split("\n\ntree 2")[0]
    assert first in page
    scores = trees.predict([np.array([[14, 16, 8]] * 2), np.array([[20, 1, 1]] * 2)])
    assert scores[0] > scores[1]
    defaults = GradientBoostedTrees()
    assert f"at most {defaults.bins} bins" in page
    assert f"{defaults.n_trees} trees of depth {defaults.max_depth}" in page
