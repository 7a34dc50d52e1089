"""rfactor."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    fed_rowsum,
    horner,
    matmul,
    matmul_relu,
    row_scans,
    rowsum,
    scan,
    start,
    total,
)


def axes(n=2, k=3, r=4, reducer=mt.sum):
    """C[i] = a reduction over k and r of A[i, k, r]"""
    A = mt.placeholder((n, k, r), name="A")
    K, R = mt.reduce_axis(k, name="k"), mt.reduce_axis(r, name="r")
    C = mt.compute((n,), lambda i: reducer(A[i, K, R], axis=[K, R]), name="C")
    return mt.lower([A, C])


def test_rfactor():
    s = mt.Schedule(total(64))
    s.split("k", [4, 16])
    assert s.rfactor("k_0") == "S_rf"
    golden(
        s,
        """
        S_rf = empty(float32[4])
        for k_0 in range(4):
            for k_1 in range(16):
                if k_1 == 0:
                    S_rf[k_0] = 0.0
                S_rf[k_0] += A[k_0*16 + k_1]
        for S_k_0 in range(4):
            if S_k_0 == 0:
                S[()] = 0.0
            S[()] += S_rf[S_k_0]
        """,
    )


def test_rfactor_of_the_inner_loop():
    s = mt.Schedule(total(64))
    s.split("k", [4, 16])
    s.rfactor("k_1")
    golden(
        s,
        """
        S_rf = empty(float32[16])
        for k_0 in range(4):
            for k_1 in range(16):
                if k_0 == 0:
                    S_rf[k_1] = 0.0
                S_rf[k_1] += A[k_0*16 + k_1]
        for S_k_1 in range(16):
            if S_k_1 == 0:
                S[()] = 0.0
            S[()] += S_rf[S_k_1]
        """,
    )


def test_rfactor_starts_rows_that_the_guard_leaves_out():
    s = mt.Schedule(total(20))
    s.split("k", [4, 4, 4])
    s.rfactor("k_0")
    golden(
        s,
        """
        S_rf = empty(float32[4])
        for k_0 in range(4):
            for k_1 in range(4):
                for k_2 in range(4):
                    if k_1 == 0 and k_2 == 0:
                        S_rf[k_0] = 0.0
                    if k_0*16 + k_1*4 + k_2 < 20:
                        S_rf[k_0] += A[k_0*16 + k_1*4 + k_2]
        for S_k_0 in range(4):
            if S_k_0 == 0:
                S[()] = 0.0
            S[()] += S_rf[S_k_0]
        """,
    )


@pytest.mark.parametrize("reducer", [mt.sum, mt.max, mt.min, mt.prod], ids=lambda r: r.__name__)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_rfactor_of_every_loop_of_the_trap(position, reducer):
    A = mt.placeholder((20,), name="A")
    k = mt.reduce_axis(20, name="k")
    S = mt.compute((), lambda: reducer(A[k], axis=k), name="S")
    s = mt.Schedule(mt.lower([A, S]))
    loops = s.split("k", [4, 4, 4])
    s.rfactor(loops[position])
    a = np.arange(20) % 3 - 1
    check(s, [a.astype("float32")])


def test_rfactor_of_a_whole_axis():
    s = mt.Schedule(total(5))
    s.rfactor("k")
    golden(
        s,
        """
        S_rf = empty(float32[5])
        for k in range(5):
            S_rf[k] = A[k]
        for S_k in range(5):
            if S_k == 0:
                S[()] = 0.0
            S[()] += S_rf[S_k]
        """,
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_rfactor_puts_the_axis_anywhere(axis):
    s = mt.Schedule(matmul(2, 3, 8))
    s.split("k", [4, 2])
    s.rfactor("k_0", axis=axis)
    shape = [2, 3]
    shape.insert(axis if axis >= 0 else axis + 3, 4)
    assert s.program.buffers["C_rf"].shape == tuple(shape)
    check(s)


@pytest.mark.parametrize("reducer", [mt.sum, mt.argmax, mt.argmin], ids=lambda r: r.__name__)
def test_rfactor_of_two_axes(reducer):
    for loop in ("k", "r"):
        s = mt.Schedule(axes(reducer=reducer))
        s.rfactor(loop)
        check(s)
        twin = s.copy()
        twin.rfactor("r" if loop == "k" else "k")
        check(twin)


def test_rfactor_of_two_buffers():
    s = mt.Schedule(argmax(3, 7))
    s.split("k", [None, 4])
    assert s.rfactor("k_1") == "C_rf"
    assert set(s.program.buffers) == {"A", "D", "C", "C_value", "C_rf", "C_value_rf"}
    s.reorder("k_1", "i")
    s.vectorize("k_1")
    check(s)


def test_rfactor_of_rfactor():
    s = mt.Schedule(total(24))
    s.split("k", [2, 3, 4])
    s.rfactor("k_2")
    s.rfactor("k_1")
    (final,) = s.get_loops("S")
    s.split(final, [2, 2])
    s.rfactor(final + "_0")
    check(s)


def test_rfactor_with_guards_twice():
    for first, second in itertools.permutations(("k_0", "k_1", "k_2"), 2):
        s = mt.Schedule(total(20))
        s.split("k", [4, 4, 4])
        s.rfactor(first)
        s.rfactor(second)
        check(s)


@pytest.mark.parametrize("factors", [[None, 3], [5, 2], [4, 4], [1, 20], [20, 1]])
def test_rfactor_with_tails_and_too_many_iterations(factors):
    for position in range(2):
        s = mt.Schedule(rowsum(3, 10))
        s.split("i", [None, 2])
        loop = s.split("k", factors)[position]
        s.rfactor(loop, axis=-1)
        check(s)


def test_rfactor_of_a_fused_loop():
    s = mt.Schedule(axes())
    fused = s.fuse("k", "r")
    outer, inner = s.split(fused, [None, 5])
    for loop in (outer, inner):
        twin = s.copy()
        twin.rfactor(loop)
        check(twin)


def test_rfactor_next_to_a_fused_spatial_and_reduction_loop():
    s = mt.Schedule(axes())
    s.reorder("r", "i", "k")
    fused = s.fuse("i", "k")
    refused(s, "R3", f"{fused} is", lambda: s.rfactor(fused))
    s.rfactor("r")
    check(s)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_rfactor_of_tiles_in_every_order(order):
    s = mt.Schedule(rowsum(5, 7))
    loops = [*s.split("i", [None, 2]), *s.split("k", [None, 3])]
    s.reorder(*[loops[n] for n in order])
    s.rfactor(loops[3])
    check(s)


def test_rfactor_of_a_decomposed_reduction_leaves_the_init_with_the_final_one():
    s = mt.Schedule(rowsum(4, 6))
    s.split("k", [2, 3])
    s.decompose_reduction("C", "i")
    s.rfactor("k_0")
    golden(
        s,
        """
        C_rf = empty(float32[2, 4])
        for C_init_i in range(4):
            C[C_init_i] = 0.0  # block C_init
        for i in range(4):
            for k_0 in range(2):
                for k_1 in range(3):
                    if k_1 == 0:
                        C_rf[k_0, i] = 0.0
                    C_rf[k_0, i] += A[i, k_0*3 + k_1]
        for C_i in range(4):
            for C_k_0 in range(2):
                C[C_i] += C_rf[C_k_0, C_i]
        """,
    )
    s.rfactor("C_k_0")
    check(s)


@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("factor", [2, 3])
def test_rfactor_of_a_decomposed_reduction_before_every_loop(before, factor):
    """The loops of the reduction and of its row in tiles that do not divide."""
    s = mt.Schedule(rowsum(5, 7))
    loops = [*s.split("i", [None, 2]), *s.split("k", [None, 4])]
    s.decompose_reduction("C", loops[min(before, 2)])
    s.rfactor(loops[factor])
    check(s)


def test_rfactor_of_a_decomposed_reduction_with_an_axis_fused_with_its_elements():
    """Each element was combined with its partial results once for each k: found by drawing."""
    s = mt.Schedule(axes())
    s.decompose_reduction("C", "i")
    fused = s.fuse("i", "k")
    refused(s, "R3", "i_k is part of both", lambda: s.rfactor("r"), marks=["of an element and"])
    s.split(fused, [2, 3])
    s.rfactor("r")
    check(s)


def test_rfactor_in_a_loop_with_other_blocks():
    s = mt.Schedule(matmul_relu(4, 5, 6))
    s.split("k", [2, 3])
    s.reverse_compute_at("D", "i")
    s.rfactor("k_0")
    s.parallel("i")
    check(s)
    s = mt.Schedule(fed_rowsum(4, 6))
    s.compute_at("P", "k")
    s.rfactor("k")
    check(s)


def test_rfactor_under_concurrent_loops():
    s = mt.Schedule(matmul(4, 8, 6))
    s.split("k", [2, 3])
    s.parallel("i")
    s.reorder("k_0", "k_1", "j")
    s.vectorize("j")
    s.rfactor("k_0")
    check(s)
    s = mt.Schedule(rowsum(4, 12))
    s.bind("i", "blockIdx.x")
    s.split("k", [3, 4])
    s.rfactor("k_1")
    s.reorder("k_1", "k_0")
    s.set_scope("C_rf", "shared")
    s.bind("k_1", "threadIdx.x")
    check(s)


def test_rfactor_then_moves_of_both_halves():
    s = mt.Schedule(matmul_relu(4, 5, 6))
    s.split("k", [2, 3])
    s.rfactor("k_0")
    s.compute_at("C", "y")
    s.compute_at("C_rf", "y")
    check(s)


def test_rfactor_then_decompose_both():
    s = mt.Schedule(rowsum(3, 8))
    s.split("k", [2, 4])
    s.rfactor("k_0")
    s.decompose_reduction("C_rf", "k_1")
    s.decompose_reduction("C", s.get_loops("C")[-1])
    s.parallel("i")
    s.vectorize("k_0")
    check(s)


def test_rfactor_of_a_unit_axis():
    s = mt.Schedule(rowsum(3, 1))
    s.rfactor("k")
    check(s)
    s = mt.Schedule(rowsum(3, 1))
    s.split("k", [2, 3])
    s.rfactor("k_0")
    check(s)


def test_rfactor_of_integers_and_booleans():
    A = mt.placeholder((7,), "int32", name="A")
    k = mt.reduce_axis(7, name="k")
    for reducer in (mt.sum, mt.any, mt.all, mt.min):
        s = mt.Schedule(mt.lower([A, mt.compute((), lambda r=reducer: r(A[k], axis=k), name="S")]))
        s.split("k", [3, 3])
        s.rfactor("k_1")
        check(s)


REFUSALS = [
    Refusal(
        "rfactor",
        "R1",
        start(matmul),
        lambda s: s.rfactor("i"),
        r"R1: .*by a commutative reducer \(it is part of 0\)",
        choices=("k",),
        marks=("for i in range(4):  # <- the loop",),
    ),
    Refusal(
        "rfactor",
        "R2",
        after(rowsum, lambda s: s.split("k", [None, 4], tail="cut")),
        lambda s: s.rfactor("k_1"),
        r"R2: the reduction alone writes its buffers, .* \(C_tail writes it too\)",
        marks=("# block C_tail; <- here", "if k_0 == 0 and k_1 == 0:  # <- here"),
    ),
    Refusal(
        "rfactor",
        "R3",
        after(rowsum, lambda s: s.split(s.fuse("i", "k"), [None, 5])),
        lambda s: s.rfactor("i_k_1"),
        r"R3: neither the loop nor those it shares an axis with are part of another axis",
        marks=("# <- shared",),
    ),
    Refusal(
        "rfactor",
        "R4",
        start(rowsum),
        lambda s: s.rfactor("k", axis=2),
        r"R4: 0 <= axis <= .* \(axis=2, the rank is 1\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


@pytest.mark.parametrize(("builder", "loop"), [(scan, "i"), (horner, "k"), (row_scans, "y")])
def test_rfactor_of_an_update_that_is_not_commutative(builder, loop):
    s = mt.Schedule(builder())
    refused(s, "R1", r"commutative reducer \(W is an ordered update\)", lambda: s.rfactor(loop))


def test_rfactor_of_loops_that_reduce_nothing():
    s = mt.Schedule(fed_rowsum())
    for loop in ("i", "j", "x"):
        refused(s, "R1", "part of 0", lambda loop=loop: s.rfactor(loop), choices=("k",))
    s = mt.Schedule(chain())
    refused(s, "R1", "part of 0", lambda: s.rfactor("i"), choices=())


def test_rfactor_axis_out_of_range():
    s = mt.Schedule(total())
    refused(s, "R4", "axis=1, the rank is 0", lambda: s.rfactor("k", axis=1))
    refused(s, "R4", "axis=-2, the rank is 0", lambda: s.rfactor("k", axis=-2))
    s.rfactor("k", axis=-1)
    check(s)
