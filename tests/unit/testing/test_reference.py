"""Definitions computed by numpy: against values by hand, and against the interpreter."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, ExecutionError
from minitensor.ir import interpret
from minitensor.testing import drawn, evaluate_by_numpy, programs, small_arrays
from tests.parts import times


def outputs(tensors, *arrays):
    return evaluate_by_numpy(mt.lower(tensors), arrays)


def test_elementwise_with_padding():
    A = mt.placeholder((4,), "int32", name="A")
    B = mt.compute((4,), lambda i: mt.if_then_else(i > 0, A[i - 1], 7), name="B")
    (b,) = outputs([A, B], np.array([1, 2, 3, 4], np.int32))
    assert b.tolist() == [7, 1, 2, 3]
    assert b.dtype == np.int32


def test_a_reduction_over_two_axes_and_one_over_none():
    A = mt.placeholder((2, 3, 4), "int8", name="A")
    j, k = mt.reduce_axis(3), mt.reduce_axis(4)
    B = mt.compute((2,), lambda i: mt.sum(A[i, j, k], axis=[j, k]), name="B")
    z = mt.reduce_axis(0)
    C = mt.compute((2,), lambda i: mt.max(A[i, z, z], axis=z), name="C")
    a = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    b, c = outputs([A, B, C], a)
    assert b.tolist() == a.sum((1, 2), dtype=np.int8).tolist()
    assert c.tolist() == [-128, -128]


def test_argmax_takes_the_first_of_several():
    A = mt.placeholder((2, 4), name="A")
    k = mt.reduce_axis(4)
    B = mt.compute((2,), lambda i: mt.argmax(A[i, k], axis=k), name="B")
    (b,) = outputs([A, B], np.array([[1, 5, 5, 2], [3, 3, 3, 3]], np.float32))
    assert b.tolist() == [1, 0]


def test_a_scan_runs_in_order():
    A = mt.placeholder((5,), "int64", name="A")
    S = mt.update(
        (5,), lambda S, i: mt.if_then_else(i > 0, S[i - 1], 0) + A[i], dtype="int64", name="S"
    )
    (s,) = outputs([A, S], np.arange(5))
    assert s.tolist() == [0, 1, 3, 6, 10]


def test_divisions_by_zero_and_conversions_are_total():
    A = mt.placeholder((4,), "int32", name="A")
    X = mt.placeholder((4,), "float64", name="X")
    Q = mt.compute((4,), lambda i: A[i] // A[3 - i], name="Q")
    R = mt.compute((4,), lambda i: A[i] % A[3 - i], name="R")
    T = mt.compute((4,), lambda i: X[i].astype("int8"), name="T")
    U = mt.compute((4,), lambda i: X[i].astype("uint64"), name="U")
    a, x = np.array([7, -7, 2, 0], np.int32), np.array([np.nan, -1.5, 300.7, 2.0**63])
    q, r, t, u = outputs([A, X, Q, R, T, U], a, x)
    assert (q.tolist(), r.tolist()) == ([0, -4, -1, 0], [0, 1, -5, 0])
    assert t.tolist() == [0, -1, 44, 0]
    assert u.tolist() == [0, 2**64 - 1, 300, 2**63]


def test_a_read_outside_is_found_where_it_is_wanted():
    A = mt.placeholder((3,), "int32", name="A")
    P = mt.placeholder((2,), "int32", name="P")
    B = mt.compute((2,), lambda i: A[P[i]], name="B")
    a = np.arange(3, dtype=np.int32)
    assert outputs([A, P, B], a, np.array([2, 0], np.int32))[0].tolist() == [2, 0]
    with pytest.raises(ExecutionError, match=r"A is read at 3 of axis 0, outside \[0, 3\)"):
        outputs([A, P, B], a, np.array([2, 3], np.int32))


def test_a_schedule_is_none_of_its_business():
    A = mt.placeholder((4,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((4,), lambda i: A[i] + 1, name="B")]))
    s.split("i", [2, 2])
    with pytest.raises(ArgumentError, match="has been scheduled"):
        evaluate_by_numpy(s.program, [np.zeros(4, np.float32)])


@pytest.mark.slow
def test_it_agrees_with_the_interpreter():
    for n in range(times(75, 150)):
        program = drawn(programs(), f"reference {n}")
        arrays = small_arrays(program, n)
        expected, _ = interpret(program, arrays)
        for mine, other in zip(evaluate_by_numpy(program, arrays), expected):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
