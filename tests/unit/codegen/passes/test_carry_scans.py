"""Scans carry values in registers, with identical results; other loops are not changed."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, lowered
from minitensor.ir import interpret, numpy_dtype

TARGET = Target("c", num_cores=1, vector_bits=256)
ORDER = [name for name, _ in PASSES]


def carried(program):
    """The program after the pass."""
    return lowered(program, TARGET, PASSES[: ORDER.index("carry_scans") + 1], check=True)


def same(program, expected):
    """The pass carries something, or not, and the results are the same to the bit."""
    after = carried(program)
    assert ("_carry" in str(after)) == expected
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=b.shape).astype(numpy_dtype(b.dtype)) for b in program.inputs]
    names = [b.name for b in program.outputs]
    wanted, found = (interpret(p, arrays, names)[0] for p in (program, after))
    built = mt.build(program, TARGET)(*arrays)
    for one, other in zip(wanted, found):
        assert one.tobytes() == other.tobytes()
    assert np.asarray(built).tobytes() == wanted[0].tobytes()


def scan(before, shape=(5, 12), dtype="float32"):
    """B[i, j] from A and from what `before` reads of B."""
    A = mt.placeholder(shape, dtype, name="A")
    return mt.lower([A, mt.update(shape, lambda B, i, j: before(A, B, i, j), name="B")])


def total(A, B, i, j):
    return mt.if_then_else(j >= 1, B[i, j - 1], 0) + A[i, j]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64"])
def test_a_sum_of_all_before(dtype):
    same(scan(total, dtype=dtype), True)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_several_rows_at_once(rows):
    s = mt.Schedule(scan(total))
    i, j = s.get_loops("B")
    i_0, i_1 = s.split(i, [None, rows])
    s.reorder(i_0, j, i_1)
    s.unroll(i_1)
    same(s.program, True)


def test_it_is_read_twice():
    same(scan(lambda A, B, i, j: mt.if_then_else(j >= 1, B[i, j - 1] * B[i, j - 1], A[i, j])), True)


def twice(A, B, i, j):
    return mt.if_then_else(j >= 2, B[i, j - 1] + B[i, j - 2], A[i, j])


def down(A, B, i, j):
    return mt.if_then_else(i >= 1, B[i - 1, j], 0) + A[i, j]


def far(A, B, i, j):
    return mt.if_then_else(j >= 3, B[i, j - 3], 0) + A[i, j]


@pytest.mark.parametrize("before", [twice, down, far])
def test_what_was_stored_earlier_is_read_from_memory(before):
    same(scan(before), False)


def test_a_scan_that_is_cut_in_two():
    """The first iteration of the inner loop reads what the outer one before it stored."""
    s = mt.Schedule(scan(total))
    s.split("j", [None, 4])
    same(s.program, False)
