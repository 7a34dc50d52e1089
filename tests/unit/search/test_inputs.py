"""The data that a search generates: what indexes stays where there is something to index."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.search import random_inputs
from minitensor.search.inputs import indexed
from minitensor.search.measure import reference

INTERPRETER = Target("interpreter")


def gathered(index, *, extent=100, dtype="int32", count=60):
    """Elements of A[extent] at index(ids, i) for all i < count."""
    A = mt.placeholder((extent,), name="A")
    ids = mt.placeholder((count,), dtype, name="ids")
    B = mt.compute((count,), lambda i: A[index(ids, i)], name="B")
    return mt.lower([A, ids, B], name="gathered")


@pytest.mark.parametrize(
    ("index", "least", "most"),
    [
        (lambda ids, i: ids[i], 0, 99),
        (lambda ids, i: ids[i] * 2 + 1, 0, 49),
        (lambda ids, i: 99 - ids[i], 0, 99),
        (lambda ids, i: 80 - ids[i] * 3, -6, 26),
        (lambda ids, i: ids[i] + i, 0, 40),
        (lambda ids, i: ids[i] - 3, 3, 102),
        (lambda ids, i: ids[i] + ids[i // 2], 0, 49),
        (lambda ids, i: ids[i] % 50, 0, 99),
        (lambda ids, i: mt.minimum(ids[i], 50), 0, 99),
    ],
)
def test_what_indexes_is_drawn_from_the_extent(index, least, most):
    program = gathered(index)
    assert indexed(program) == {"ids": (least, most)}
    (_, ids) = random_inputs(program, 0)
    assert least <= ids.min() and ids.max() <= most
    assert len(set(ids.tolist())) > 15
    given, _ = reference(program, INTERPRETER, None, 0)
    np.testing.assert_array_equal(given[1], ids)


@pytest.mark.parametrize(("dtype", "most"), [("int8", 127), ("uint8", 255), ("int64", 299)])
def test_what_indexes_fits_its_type(dtype, most):
    program = gathered(lambda ids, i: ids[i], extent=300, dtype=dtype)
    assert indexed(program) == {"ids": (0, most)}


def test_what_indexes_two_axes_fits_both():
    A, ids = mt.placeholder((7, 30), name="A"), mt.placeholder((9,), "int32", name="ids")
    B = mt.compute((9,), lambda i: A[ids[i], ids[i]], name="B")
    assert indexed(mt.lower([A, ids, B])) == {"ids": (0, 6)}


def test_integers_that_index_nothing_are_small():
    A = mt.placeholder((99,), "int32", name="A")
    program = mt.lower([A, mt.compute((99,), lambda i: A[i] * 2, name="B")])
    assert indexed(program) == {}
    assert set(random_inputs(program, 0)[0].tolist()) == set(range(-4, 5))


def test_data_that_is_computed_before_it_indexes():
    A, ids = mt.placeholder((5,), name="A"), mt.placeholder((60,), "int32", name="ids")
    P = mt.compute((60,), lambda i: ids[i] * ids[i] + ids[i], name="P")
    program = mt.lower([A, ids, mt.compute((60,), lambda i: A[P[i]], name="B")])
    given, _ = reference(program, INTERPRETER, None, 0)
    assert set(given[1].tolist()) == {0, 1}


def test_where_no_data_suits_the_user_is_asked_for_some():
    program = gathered(lambda ids, i: ids[i] + i * 2, count=70)
    assert indexed(program) == {"ids": (0, 0)}
    with pytest.raises(mt.ArgumentError, match=r"no random inputs suit gathered: .* inputs="):
        reference(program, INTERPRETER, None, 0)
    ids = np.full(70, -100, "int32")
    with pytest.raises(mt.MinitensorError):
        reference(program, INTERPRETER, [np.zeros(100, "float32"), ids], 0)
