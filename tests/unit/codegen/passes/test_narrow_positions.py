"""Positions of extrema are int32 where every one of them is known to fit, with the same results."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, lowered
from minitensor.ir import Alloc, interpret, stmts_of
from minitensor.testing import assert_equivalent

TARGET = Target("c", num_cores=1, vector_bits=256)
ORDER = [name for name, _ in PASSES]


def narrowed(program):
    """The program after the pass."""
    return lowered(program, TARGET, PASSES[: ORDER.index("narrow_positions") + 1], check=True)


def integers(program):
    """The integer types of the temporaries after the pass."""
    allocs = [s.buffer for s in stmts_of(narrowed(program).body) if isinstance(s, Alloc)]
    return {str(b.dtype) for b in allocs if b.dtype.kind == "int"}


def extremum(reducer, shape, dtype="float32"):
    X = mt.placeholder(shape, dtype, name="X")
    k = mt.reduce_axis(shape[-1], "k")
    return mt.lower([X, mt.compute(shape[:-1], lambda i: reducer(X[i, k], axis=k), name="Y")])


def in_lanes(program, lanes):
    """A schedule with partial results in lanes."""
    s = mt.Schedule(program)
    _, lane = s.split("k", [None, lanes])
    block = s.rfactor(lane)
    (*_, lane) = s.compute_at(block, s.get_loops("Y")[0])
    s.vectorize(lane)
    return s


def same_after_the_pass(program, arrays):
    (wanted,), (found,) = (interpret(p, arrays, ["Y"])[0] for p in (program, narrowed(program)))
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("reducer", [mt.argmax, mt.argmin])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_positions_are_narrow(reducer, dtype, lanes):
    s = in_lanes(extremum(reducer, (3, 21), dtype), lanes)
    temporaries = {s.buffer for s in stmts_of(narrowed(s.program).body) if isinstance(s, Alloc)}
    assert {str(b.dtype) for b in temporaries if b.name.startswith("Y_rf")} == {"int32", dtype}
    rng = np.random.default_rng(0)
    same_after_the_pass(s.program, [rng.integers(-4, 5, (3, 21)).astype(dtype)])


@pytest.mark.parametrize("reducer", [mt.argmax, mt.argmin])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_rows_of_one_value(reducer, value):
    x = np.full((2, 21), value, np.float32)
    x[1, ::2] = 0
    s = in_lanes(extremum(reducer, (2, 21)), 8)
    same_after_the_pass(s.program, [x])
    wanted = (np.argmax if reducer is mt.argmax else np.argmin)(x, axis=1)
    assert mt.interpret(s.program, x).tolist() == wanted.tolist()
    assert mt.build(s, TARGET)(x).tolist() == wanted.tolist()


def test_the_position_over_nothing():
    s = mt.Schedule(extremum(mt.argmax, (2, 0)))
    assert not integers(s.program)
    same_after_the_pass(s.program, [np.empty((2, 0), np.float32)])


def test_a_position_that_does_not_fit_stays_wide():
    X = mt.placeholder((2, 1 << 20, 1 << 11), "int8", name="X")
    j, k = mt.reduce_axis(1 << 20, "j"), mt.reduce_axis(1 << 11, "k")
    s = mt.Schedule(
        mt.lower([X, mt.compute((2,), lambda i: mt.argmax(X[i, j, k], axis=[j, k]), name="Y")])
    )
    s.rfactor("j")
    assert "int64" in integers(s.program)


@pytest.mark.parametrize("used", ["added", "given"])
def test_what_is_not_known_to_be_a_position_stays_wide(used):
    """A count that is used as a number; and values that a user gives."""
    X = mt.placeholder((3, 8), "int64", name="X")
    k = mt.reduce_axis(8, "k")
    if used == "added":
        T = mt.compute((3, 8), lambda i, j: (i * 8 + j).astype("int64"), name="T")
        Y = mt.compute((3, 8), lambda i, j: T[i, j] + X[i, j], name="Y")
    else:
        T = mt.compute((3, 8), lambda i, j: mt.select(X[i, j] > 3, X[i, j], 5), name="T")
        Y = mt.compute((3,), lambda i: mt.max(T[i, k], axis=k), name="Y")
    program = mt.lower([X, Y])
    assert integers(program) == {"int64"}
    same_after_the_pass(program, [np.arange(24).reshape(3, 8) * (1 << 40)])


def test_the_largest_int32_is_no_position():
    """It stands for the largest int64, in a comparison too."""
    X = mt.placeholder((4,), "int32", name="X")
    T = mt.compute((4,), lambda i: X[i].astype("int64"), name="T")
    Y = mt.compute((4,), lambda i: mt.select(T[i] < mt.const(2**63 - 1, "int64"), 1, 0), name="Y")
    program = mt.lower([X, Y])
    assert integers(program) == {"int64"}
    same_after_the_pass(program, [np.array([0, 2**31 - 1, -(2**31), 5], np.int32)])


def test_a_position_that_is_not_asked_for_is_not_read():
    """`if_then_else` on narrow positions still reads only the side that is chosen."""
    X, k = mt.placeholder((5, 6), name="X"), mt.reduce_axis(6, name="k")
    Q = mt.compute((5,), lambda i: mt.argmax(X[i, k], axis=k), name="Q")
    R = mt.compute((5,), lambda i: mt.if_then_else(i < 3, Q[i * 2], 1), name="R")
    program = mt.lower([X, mt.compute((5,), lambda i: R[i] + 1, name="C")])
    assert_equivalent(program, mt.Schedule(program), targets=("interpreter", "passes", "c"))
