"""The check of a candidate's result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.codegen import Target
from minitensor.search import random_inputs
from minitensor.search.measure import BLOCK, difference, reference

INTERPRETER = Target("interpreter")


def doubled(dtype="float32", shape=(4,)):
    A = mt.placeholder(shape, dtype, name="A")
    B = mt.compute(shape, lambda *i: A[i] + A[i], name="B")
    return mt.lower([A, B], name="doubled")


def expected_of(program, inputs=None):
    """The one output of a program, and what it should hold."""
    (buffer,) = program.outputs
    return buffer, reference(program, INTERPRETER, inputs, 0)[1][0]


@pytest.mark.parametrize(
    ("dtype", "off_by", "is_right"),
    [
        ("float32", 1e-6, True),
        ("float32", 1e-2, False),
        ("float64", 1e-6, False),
        ("float16", 1e-2, True),
        ("int32", 1, False),
    ],
)
def test_tolerance_suits_the_type(dtype, off_by, is_right):
    buffer, expected = expected_of(doubled(dtype), [np.array([1, 2, 3, 4], dtype)])
    assert difference(buffer, expected, expected) is None
    measured = expected.copy()
    measured[2] += np.asarray(off_by, dtype)
    wrong = difference(buffer, measured, expected)
    assert (wrong is None) is is_right
    if wrong:
        assert "B[2]" in wrong
        assert "1 of 4" in wrong


def test_nan_and_infinity_are_values_like_others():
    inputs = [np.array([np.nan, np.inf, -np.inf, 1.0], "float32")]
    buffer, expected = expected_of(doubled(), inputs)
    assert difference(buffer, expected.copy(), expected) is None
    wrong = difference(buffer, np.array([0.0, np.inf, -np.inf, 2.0], "float32"), expected)
    assert wrong.startswith("B[0] is 0.0")


def test_outputs_of_no_elements_and_of_no_axes():
    for program in (doubled(shape=(0,)), mt.lower(mt.workloads.full_sum(m=3, n=3))):
        buffer, expected = expected_of(program)
        assert difference(buffer, expected.copy(), expected) is None


def test_inputs_must_fit():
    with pytest.raises(mt.ArgumentError, match="dtype float32"):
        expected_of(doubled(), [np.zeros(4)])
    with pytest.raises(mt.ArgumentError, match=r"1 arrays \(A\)"):
        expected_of(doubled(), [])


def test_random_inputs():
    first, second = (random_inputs(doubled("uint8", (99,)), seed)[0] for seed in (0, 0))
    assert first.dtype == np.uint8
    assert first.max() == 4
    np.testing.assert_array_equal(first, second)


ODD = (0.0, -0.0, 1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))


@given(st.data())
def test_blocks_say_what_the_whole_says(data):
    """Arrays are compared by blocks first; numpy's comparison of the whole decides alike."""
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16"]))
    count = data.draw(st.sampled_from([0, 1, 7, BLOCK, BLOCK + 1]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    with np.errstate(all="ignore"):
        expected = rng.integers(-8, 9, count).astype(dtype)
        measured = expected.copy()
        for _ in range(min(count, data.draw(st.integers(0, 3)))):
            at, value = data.draw(st.integers(0, count - 1)), data.draw(st.sampled_from(ODD))
            expected[at] = value
            measured[at] = value if data.draw(st.booleans()) else data.draw(st.sampled_from(ODD))
        buffer = doubled(dtype, (count,)).outputs[0]
        tolerance = buffer.dtype.tolerance
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        if count and data.draw(st.booleans()):
            off_by = float(largest) * tolerance * data.draw(st.sampled_from([0.5, 2.0]))
            measured[count - 1] += np.asarray(off_by, dtype)
        near = np.isclose(
            measured, expected, rtol=0.0, atol=tolerance * float(largest), equal_nan=True
        )
        assert (difference(buffer, measured, expected) is None) == bool(near.all())
