"""decompose_reduction."""

import itertools

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
    normalised,
    padded_sum,
    rowsum,
    scan,
    start,
    started_update,
    total,
)


def axes(n=2, k=3, r=4, reducer=mt.sum):
    """C[i] = a reduction over k and r of A[i, k, r]"""
    A = mt.placeholder((n, k, r), name="A")
    K, R = mt.reduce_axis(k, name="k"), mt.reduce_axis(r, name="r")
    C = mt.compute((n,), lambda i: reducer(A[i, K, R], axis=[K, R]), name="C")
    return mt.lower([A, C])


def test_decompose_reduction():
    s = mt.Schedule(rowsum(8, 64))
    assert s.decompose_reduction("C", "k") == "C_init"
    golden(
        s,
        """
        for i in range(8):
            C[i] = 0.0  # block C_init
            for k in range(64):
                C[i] += A[i, k]
        """,
    )


def test_decompose_reduction_before_an_outer_loop():
    s = mt.Schedule(rowsum(8, 5))
    s.decompose_reduction("C", "i")
    golden(
        s,
        """
        for C_init_i in range(8):
            C[C_init_i] = 0.0  # block C_init
        for i in range(8):
            for k in range(5):
                C[i] += A[i, k]
        """,
    )


def test_decompose_reduction_keeps_guards_of_the_spatial_axes():
    s = mt.Schedule(rowsum(7, 5))
    i0, _ = s.split("i", [None, 3])
    s.split("k", [None, 2])
    s.decompose_reduction("C", i0)
    golden(
        s,
        """
        for C_init_i_0 in range(3):
            for C_init_i_1 in range(3):
                if C_init_i_0*3 + C_init_i_1 < 7:  # block C_init
                    C[C_init_i_0*3 + C_init_i_1] = 0.0
        for i_0 in range(3):
            for i_1 in range(3):
                for k_0 in range(3):
                    for k_1 in range(2):
                        if i_0*3 + i_1 < 7 and k_0*2 + k_1 < 5:
                            C[i_0*3 + i_1] += A[i_0*3 + i_1, k_0*2 + k_1]
        """,
    )


@pytest.mark.parametrize(
    ("builder", "block"),
    [(matmul, "C"), (argmax, "C"), (horner, "W"), (axes, "C"), (total, "S"), (normalised, "M")],
)
def test_decompose_reduction_before_every_loop(builder, block):
    for loop in mt.Schedule(builder()).get_loops(block):
        s = mt.Schedule(builder())
        try:
            s.decompose_reduction(block, loop)
        except mt.ScheduleError as error:
            assert error.rule == "R3"
        check(s)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_decompose_reduction_of_tiles_in_every_order(order):
    s = mt.Schedule(rowsum(5, 7))
    loops = [*s.split("i", [None, 2]), *s.split("k", [None, 3])]
    s.reorder(*[loops[n] for n in order])
    first = s.get_loops("C")[0]
    s.decompose_reduction("C", first)
    check(s)


def test_decompose_reduction_copies_kinds_and_annotations():
    s = mt.Schedule(rowsum(4, 6))
    s.reorder("k", "i")
    s.vectorize("i")
    s.annotate("i", "note", "v")
    s.decompose_reduction("C", "k")
    golden(
        s,
        """
        for C_init_i in vectorize(4):  # note = 'v'
            C[C_init_i] = 0.0  # block C_init
        for k in range(6):
            for i in vectorize(4):  # note = 'v'
                C[i] += A[i, k]
        """,
    )


def test_decompose_reduction_in_a_loop_with_other_blocks():
    s = mt.Schedule(matmul_relu(4, 5, 3))
    s.reverse_compute_at("D", "i")
    twin = s.copy()
    s.decompose_reduction("C", "j")
    check(s)
    twin.decompose_reduction("C", "i")
    check(twin)


def test_decompose_reduction_then_reorder_and_vectorize():
    s = mt.Schedule(matmul(4, 8, 6))
    s.reorder("k", "i", "j")
    s.decompose_reduction("C", "k")
    s.reorder("j", "k")
    s.vectorize("i")
    check(s)


def test_decompose_reduction_of_unit_and_empty_axes():
    for n, m in ((1, 1), (0, 3), (3, 1)):
        s = mt.Schedule(rowsum(n, m))
        s.decompose_reduction("C", "i")
        check(s)


def halo_reduction():
    A = mt.placeholder((10, 3), name="A")
    k = mt.reduce_axis(3, name="k")
    P = mt.compute((10,), lambda i: mt.sum(A[i, k], axis=k), name="P")
    C = mt.compute((8,), lambda y: P[y] + P[y + 2], name="C")
    return mt.lower([A, C])


REFUSALS = [
    Refusal(
        "decompose_reduction",
        "R1",
        start(scan),
        lambda s: s.decompose_reduction("W", "i"),
        r"R1: the block has an init, and alone writes its buffers \(it has no init\)",
        marks=("# <- here",),
    ),
    Refusal(
        "decompose_reduction",
        "R2",
        start(fed_rowsum),
        lambda s: s.decompose_reduction("C", "i"),
        "R2: the loop is around the block$",
        choices=("x", "k"),
        marks=("for i in range(4):  # <- not around it", "# <- the block"),
    ),
    Refusal(
        "decompose_reduction",
        "R3",
        after(rowsum, lambda s: s.reorder("k", "i")),
        lambda s: s.decompose_reduction("C", "i"),
        r"R3: no loop outside it is part of the reduction \(k is\)",
        choices=("k",),
        marks=("# <- part of the reduction", "# <- the loop"),
    ),
    Refusal(
        "decompose_reduction",
        "R4",
        after(rowsum, lambda s: s.fuse("i", "k")),
        lambda s: s.decompose_reduction("C", "i_k"),
        r"R4: .*\(i_k is\)",
        marks=("for i_k in range(24):  # <- both",),
    ),
    Refusal(
        "decompose_reduction",
        "R5",
        after(
            halo_reduction,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
        ),
        lambda s: s.decompose_reduction("P", "y_0"),
        r"R5: the loops from it inwards compute each element once \(y_0 repeats elements\)",
        marks=("for y_0 in range(2):  # <- repeats elements",),
    ),
    Refusal(
        "decompose_reduction",
        "R6",
        after(
            padded_sum,
            lambda s: s.skip_padding("C", "y"),
            lambda s: s.compute_at("C_padding_sum", "y"),
        ),
        lambda s: s.decompose_reduction("C", "y"),
        r"R6: what the init reads has been computed before the loop \(C_padding_sum has not\)",
        marks=("# <- computes it",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_decompose_reduction_of_updates():
    s = mt.Schedule(started_update())
    refused(s, "R1", "W_init writes it too|no init", lambda: s.decompose_reduction("W", "W_init_x"))
    s = mt.Schedule(rowsum())
    s.decompose_reduction("C", "k")
    refused(s, "R1", "C_init writes it too", lambda: s.decompose_reduction("C", "k"))
    s = mt.Schedule(chain())
    refused(s, "R1", "it has no init", lambda: s.decompose_reduction("B", "i"))
    s = mt.Schedule(rowsum(4, 10))
    s.split("k", [None, 4], tail="cut")
    refused(s, "R1", "C_tail writes it too", lambda: s.decompose_reduction("C", "k_0"))
    refused(s, "R2", "C_tail writes it too", lambda: s.rfactor("k_0"))


def test_the_loop_listed_for_decompose_is_legal():
    s = mt.Schedule(matmul())
    s.reorder("k", "i", "j")
    s.split("i", [2, 2])
    error = refused(s, "R3", "k is", lambda: s.decompose_reduction("C", "i_1"))
    for loop in error.choices:
        twin = s.copy()
        twin.decompose_reduction("C", loop)
        check(twin)
