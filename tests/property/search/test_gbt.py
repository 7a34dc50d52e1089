"""The cost model under whatever a search may bring: labels, features, files."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from minitensor.errors import ArgumentError
from minitensor.search.gbt import Booster, Model, failed, files, ranked
from minitensor.search.gbt.bins import binned, cut, finite
from minitensor.search.gbt.grow import Limits
from tests.unit.search import gbt_reference as reference
from tests.unit.search.test_gbt_grow import check

NAN, INF = np.nan, np.inf

numbers = st.floats(width=64) | st.sampled_from(
    [0.0, -0.0, 1.0, NAN, INF, -INF, 5e-324, -5e-324, 1e-310, 1.8e308 / 2, -1e308, 1e38, 3.5e38]
)


singles = st.floats(width=32, allow_nan=False)


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
    """Features, programs, labels and groups."""
    features = draw(tables())
    rows = len(features)
    count = draw(st.integers(min(rows, 1), 20))
    owners = draw(arrays.arrays(np.int64, rows, elements=st.integers(0, max(count - 1, 0))))
    labels = draw(arrays.arrays(np.float64, count, elements=numbers))
    groups = draw(st.none() | arrays.arrays(np.int64, count, elements=st.integers(-2, 2)))
    return features, owners, labels, groups


boosters = st.builds(
    Booster,
    trees=st.integers(0, 4),
    depth=st.integers(1, 5),
    learning_rate=st.floats(1e-6, 1),
    bins=st.integers(2, 255),
    lambda_=st.floats(1e-6, 1e6),
    gain=st.floats(0, 1),
    cover=st.floats(0, 1),
    partners=st.integers(1, 20),
)
losses = st.sampled_from(["squared", "rank"])
many = settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])


@many
@given(problem=problems(), booster=boosters, loss=losses)
@example(problem=(np.empty((0, 3)), [], [], None), booster=Booster(), loss="rank")
@example(problem=(np.ones((1, 1)), [0], [NAN], None), booster=Booster(), loss="squared")
def test_no_labels_make_it_raise_and_none_that_failed_is_put_above_a_measured_one(
    problem, booster, loss
):
    features, owners, labels, groups = problem
    model = booster.fit(features, owners, labels, groups, loss=loss)
    scores = model.predict(features, owners, len(labels))
    assert np.isfinite(scores).all()
    lost = failed(labels)
    order = ranked(scores, lost)
    assert sorted(order) == list(range(len(labels)))
    measured = order[: np.count_nonzero(~lost)]
    assert not lost[measured].any()
    for one, other in pairwise(measured):
        assert (-scores[one], one) <= (-scores[other], other)
    known = [label for label, gone in zip(labels, lost) if not gone]
    if groups is None and len(set(known)) <= 1 and len(known) in (0, len(labels)):
        assert not model.trees
        assert len(set(scores.tolist())) <= 1
    assert model.to_json() == booster.fit(features, owners, labels, groups, loss=loss).to_json()


@many
@given(problem=problems(), unseen=tables(), booster=boosters)
def test_scores_are_what_a_walk_through_the_trees_finds(problem, unseen, booster):
    features, owners, labels, groups = problem
    model = booster.fit(features, owners, labels, groups)
    if unseen.shape[1] != features.shape[1]:
        unseen = np.resize(unseen, (len(unseen), features.shape[1]))
    for table in (features, unseen):
        for row, score in zip(finite(table), model.predict_rows(table)):
            expected = 0.0
            for tree in model.trees:
                expected += reference.walk(tree, row)
            assert score == expected


@many
@given(tables(most_columns=3), st.integers(2, 255))
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
    check(*problem, Limits(depth, lambda_, 1e-3, cover))


def trained():
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 3))
    features[random.random(features.shape) < 0.1] = NAN
    return Booster(trees=2, depth=2).fit(features, np.arange(60) // 2, random.uniform(size=30))


MODEL = trained()
TEXT = MODEL.to_json()
NPZ = files.to_npz(MODEL.columns, MODEL.start, MODEL.trees)


@st.composite
def damaged(draw, data):
    """A few places overwritten, cut out, or doubled."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(result)))
        match draw(st.integers(0, 3)):
            case 0:
                result[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                result[place : place + draw(st.integers(1, 40))] = b""
            case 2:
                result[place:place] = draw(st.binary(max_size=8))
            case 3:
                result[place : place + 8] = draw(st.sampled_from([b"\xff" * 8, bytes(8)]))
    return bytes(result)


def survives(read, data):
    """Reading raises our error, or gives a model that scores anything."""
    try:
        model = Model(*read(data))
    except ArgumentError as refused:
        assert "not a minitensor cost model" in str(refused)
        return
    features = np.array([[0.0] * model.columns, [NAN] * model.columns, [INF] * model.columns])
    assert np.isfinite(model.predict(features, [0, 1, 2])).all()
    assert model.text() and model.importance().shape == (model.columns,)


@settings(many, max_examples=600)
@given(damaged(NPZ))
@pytest.mark.slow
def test_damaged_archives(data):
    survives(files.from_npz, data)


@settings(many, max_examples=600)
@given(damaged(TEXT.encode()))
@pytest.mark.slow
def test_damaged_text(data):
    survives(lambda d: files.from_json(d.decode("ascii", "replace")), data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["format", "trees", "feature", "value"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@many
@given(st.sampled_from(["format", "version", "columns", "start", "trees"]), json_values)
def test_wrong_values_in_text(key, value):
    survives(files.from_json, json.dumps({**json.loads(TEXT), key: value}))
