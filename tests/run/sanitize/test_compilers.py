"""Faults of compilers that campaigns found in text that is right."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import generate
from minitensor.sanitize import check_memory
from minitensor.testing import assert_equivalent


def neighbours():
    """Each element with the two after it, guarded where there is none."""
    A = mt.placeholder((8,), "uint32", name="A")
    B = mt.placeholder((8,), "uint32", name="B")

    def after(i, far):
        return mt.if_then_else(i < 8 - far, B[i + far], mt.const(0, "uint32"))

    def least(i):
        larger = mt.select(B[i] < after(i, 1), B[i], after(i, 1))
        return mt.minimum(A[i], mt.select(larger == after(i, 2), larger, after(i, 2)))

    return mt.lower([A, B, mt.compute((8,), least, name="P")])


@pytest.mark.slow
def test_a_guarded_read_does_not_go_behind_its_buffer():
    arrays = [np.arange(8, dtype=np.uint32) for _ in range(2)]
    assert check_memory(neighbours(), *arrays, target=mt.Target("c", num_cores=1)) == []


@pytest.mark.slow
def test_nor_does_one_that_is_collected_lane_by_lane():
    A = mt.placeholder((2,), "int32", name="A")

    def near(i, far):
        inside = mt.logical_and(i >= 2, i < min(4, 4 - far))
        return mt.if_then_else(inside, A[i - 2 + far], mt.const(0, "int32"))

    s = mt.Schedule(mt.lower([A, mt.compute((8,), lambda i: near(i, 0) + near(i, 1), name="P")]))
    s.vectorize("i")
    target = mt.Target("c", num_cores=1)
    assert check_memory(s.program, np.array([3, 1], np.int32), target=target) == []


@pytest.mark.slow
def test_a_group_that_is_read_backwards_does_not_go_behind_its_buffer():
    A = mt.placeholder((32, 4), "int8", name="A")

    def mirrored(i, j):
        return mt.if_then_else(j < 2, A[31 - i, j + 2], mt.const(0, "int8"))

    P = mt.compute((32, 4), lambda i, j: mt.maximum(A[i, j], mirrored(i, j)), name="P")
    s = mt.Schedule(mt.lower([A, P]))
    s.vectorize("j")  # cut where the guard holds, in two loops that gcc writes out
    target = mt.Target("c", num_cores=1)
    array = np.arange(128, dtype=np.int8).reshape(32, 4)
    assert check_memory(s.program, array, target=target) == []


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("columns", [[0, 1, 2], [1, 0], [0, 1, 2, 2]])
def test_guarded_neighbours_are_read_where_they_are(dtype, columns):
    A = mt.placeholder((6, len(set(columns))), dtype, name="A")

    def padded(i, j):
        inside = mt.logical_and(i >= 2, i < 8)
        column = j if columns[-1] != 0 else 1 - j
        return mt.if_then_else(inside, A[i - 2, mt.minimum(column, 2)], mt.const(1, dtype))

    program = mt.lower([A, mt.compute((16, len(columns)), padded, name="P")])
    s = mt.Schedule(program)
    s.unroll("j")
    assert_equivalent(program, s)


def test_nor_is_a_guarded_read_that_two_elements_share_taken_for_two_neighbours():
    A = mt.placeholder((4,), "uint32", name="A")
    P = mt.compute((4,), lambda i: A[i] + A[i], name="P")

    def updated(R, n, i, j):
        term = mt.if_then_else(i < 2, P[i * 2].astype("int64"), mt.const(1, "int64"))
        return R[n, i, j] * 2 + term

    k = mt.reduce_axis(1, name="k")
    zero = mt.const(0, "int64")
    R = mt.update((5, 32, 2), updated, axis=k, init=zero, dtype="int64", name="R")
    S = mt.compute((5, 32, 2), lambda n, i, j: R[n, i, j].astype("int32"), name="S")
    program = mt.lower([A, S])
    s = mt.Schedule(program)
    s.reverse_compute_at("S", s.get_loops("R")[1])
    assert_equivalent(program, s, arrays=[np.array([3, 1, 2, 0], np.uint32)])


@pytest.mark.parametrize("stage", ["in the expression", "in a buffer"])
def test_a_conversion_and_back_is_not_taken_for_nothing(stage):
    # gcc dropped (double)(float) of two elements side by side, which became one vector
    A, B, P = (mt.placeholder((54,), "float64", name=name) for name in "ABP")
    T = mt.compute((48,), lambda i: B[i].astype("float32"), name="T")

    def difference(i):
        half = (A[i + 5] / P[i]).astype("float16").astype("float64")
        single = B[i].astype("float32") if stage == "in the expression" else T[i]
        return half - single.astype("float64") * A[i + 5]

    program = mt.lower([A, B, P, mt.compute((48,), difference, name="Q")])
    s = mt.Schedule(program)
    outer, inner = s.split(s.get_loops("Q")[0], [None, 2])
    if stage == "in a buffer":
        s.compute_at("T", outer)
        s.unroll(s.get_loops("T")[-1])
    s.unroll(inner)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=54) for _ in range(3)]
    expected = mt.interpret(program, *arrays)
    np.testing.assert_array_equal(mt.build(s.program)(*arrays), expected)


def test_a_guarded_store_is_not_lost():
    # gcc made masked stores of it, and the copy out of the small array read what was never written
    A = mt.placeholder((37, 12, 2), "float64", name="A")
    program = mt.lower([A, mt.compute(A.shape, lambda *_: mt.const(1.0, "float64"), name="P")])
    s = mt.Schedule(program)
    s.cache_write("P", "local")
    s.compute_at("P", "ax1")
    s.split(s.get_loops("P")[-1], [3, None, 16], tail="guard")
    np.testing.assert_array_equal(mt.build(s.program)(np.zeros(A.shape)), np.ones(A.shape))


def crashing():
    """A program whose text gcc 12 crashes on, in its vectorizer."""
    A = mt.placeholder((32, 17, 1, 1), "int64", name="A")
    k = mt.reduce_axis(1, name="k")
    P = mt.compute(
        (23, 31),
        lambda i, j: mt.prod((A[k, k, 0, k] * A[i, mt.minimum(j, 16), k, 0]) + 3, axis=k),
        name="P",
    )
    one = mt.reduce_axis(1, name="one")

    def guarded(i, j):
        inside = mt.logical_and(j >= 0, j < 9)
        return mt.if_then_else(inside, A[i, j * 2, one, one], mt.const(0, "int64"))

    Q = mt.compute(
        (32, 17, 1, 1),
        lambda i, j, _, __: mt.max(mt.maximum(P[j, one], guarded(i, j)), axis=one),
        name="Q",
    )
    m = mt.reduce_axis(12, name="m")
    both = mt.comm_reducer(
        lambda x, y: (x[0] + y[0], mt.maximum(x[1], y[1])), (0, -(2**63)), "sum_and_max"
    )
    _, S = mt.compute(
        (7,),
        lambda i: both((P[i, i] + m.astype("int64"), A[m, m, 0, mt.minimum(m, 0)]), axis=m),
        name="S",
    )
    return mt.lower([A, Q, S])


def test_a_compiler_that_crashes_does_not_end_it():
    s = mt.Schedule(crashing())
    s.vectorize("j")
    assert_equivalent(s.history[0], s, ["c"])


def test_what_a_condition_reads_itself_is_no_guarded_read():
    A = mt.placeholder((8,), "float32", name="A")
    B = mt.compute((8,), lambda i: mt.if_then_else(A[i] < 0, 0.0, A[i]), name="B")
    text = generate(mt.lower([A, B]), mt.Target("c", num_cores=1, vector_bits=512)).source
    assert "__asm__" not in text
    text = generate(neighbours(), mt.Target("c", num_cores=1, vector_bits=512)).source
    assert text.count("__asm__") == 1
    text = generate(neighbours(), mt.Target("c", num_cores=1, vector_bits=256)).source
    assert "__asm__" not in text
