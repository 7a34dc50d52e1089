"""reverse_compute_at."""

import contextlib

import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    chain,
    chain2d,
    diagonal,
    fed_rowsum,
    fork,
    gather,
    matmul_relu,
    normalised,
    padded,
    row_scans,
    start,
    started_update,
    stencil,
    strided,
    three,
)


def test_reverse_compute_at():
    A = mt.placeholder((32,), name="A")
    C = mt.compute((32,), lambda i: A[i] * 2, name="C")
    D = mt.compute((32,), lambda i: C[i] + 1.0, name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [4, 8])
    assert s.reverse_compute_at("D", "i_0") == ("D_i2",)
    golden(
        s,
        """
        C = empty(float32[32])
        for i_0 in range(4):
            for i_1 in range(8):
                C[i_0*8 + i_1] = A[i_0*8 + i_1] * 2.0
            for D_i2 in range(8):
                D[i_0*8 + D_i2] = C[i_0*8 + D_i2] + 1.0
        """,
    )


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("n", [0, 5, 8, 11])
def test_reverse_compute_at_every_level(n, level):
    s = mt.Schedule(chain(n))
    loops = s.split("i", [None, 2, 2])
    s.reverse_compute_at("C", loops[level])
    check(s)


def test_reverse_compute_at_after_a_tile_of_a_matrix_product():
    s = mt.Schedule(matmul_relu(5, 7, 3))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 4])
    s.reorder(i0, j0, "k", i1, j1)
    s.reverse_compute_at("D", j0)
    s.parallel(i0)
    s.vectorize(j1)
    check(s)


def test_reverse_compute_at_of_a_reduction_with_all_its_axes():
    s = mt.Schedule(fed_rowsum(5, 4))
    s.split("i", [None, 2])
    s.reverse_compute_at("C", "i_0")
    golden(
        s,
        """
        P = empty(float32[5, 4])
        for i_0 in range(3):
            for i_1 in range(2):
                for j in range(4):
                    if i_0*2 + i_1 < 5:
                        P[i_0*2 + i_1, j] = A[i_0*2 + i_1, j] * 2.0
            for C_x in range(2):
                for C_k in range(4):
                    if i_0*2 + C_x < 5:
                        if C_k == 0:
                            C[i_0*2 + C_x] = 0.0
                        C[i_0*2 + C_x] += P[i_0*2 + C_x, C_k]
        """,
    )


def test_reverse_compute_at_of_an_ordered_update():
    s = mt.Schedule(row_scans())
    s.reverse_compute_at("W", "i")
    s.reverse_compute_at("D", "i")
    check(s)


def test_reverse_compute_at_with_a_shift():
    A = mt.placeholder((10,), name="A")
    B = mt.compute((10,), lambda i: A[i] * 2, name="B")
    C = mt.compute((7,), lambda j: B[j + 3], name="C")
    for factors in ([None, 4], [None, 3], [5, 2]):
        s = mt.Schedule(mt.lower([A, C]))
        outer, _ = s.split("i", factors)
        s.reverse_compute_at("C", outer)
        check(s)


def test_reverse_compute_at_of_a_reader_with_more_axes():
    A = mt.placeholder((4, 5), name="A")
    M = mt.compute((4,), lambda i: A[i, 0] * 2, name="M")
    D = mt.compute((5, 4), lambda x, y: A[y, x] - M[y], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    assert s.reverse_compute_at("D", "i") == ("D_x", "D_y")
    check(s)


def test_reverse_compute_at_of_a_reader_of_one_row():
    s = mt.Schedule(normalised(4, 6))
    s.reverse_compute_at("D", "i")
    check(s)
    A = mt.placeholder((4, 5), name="A")
    B = mt.compute((4, 5), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((5,), lambda y: B[2, y], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    refused(s, "R5", "index 0 of B does not", lambda: s.reverse_compute_at("C", "i"))
    s.reorder("j", "i")
    s.reverse_compute_at("C", "j")
    check(s)


def test_reverse_compute_at_after_compute_at():
    s = mt.Schedule(three(10))
    s.split("j", [None, 4])
    s.compute_at("B", "j_0")
    s.reverse_compute_at("D", "j_0")
    s.parallel("j_0")
    check(s)


def test_reverse_compute_at_a_fused_loop_of_tiles():
    s = mt.Schedule(matmul_relu(8, 16, 3))
    i0, i1 = s.split("i", [None, 4])
    j0, j1 = s.split("j", [None, 8])
    s.reorder(i0, j0, "k", i1, j1)
    fused = s.fuse(i0, j0)
    s.reverse_compute_at("D", fused)
    golden(
        s,
        """
        C = empty(float32[8, 16])
        for i_0_j_0 in range(4):
            for k in range(3):
                for i_1 in range(4):
                    for j_1 in range(8):
                        if k == 0:
                            C[i_0_j_0//2*4 + i_1, i_0_j_0%2*8 + j_1] = 0.0
                        C[i_0_j_0//2*4 + i_1, i_0_j_0%2*8 + j_1] += \
A[i_0_j_0//2*4 + i_1, k] * B[k, i_0_j_0%2*8 + j_1]
            for D_x in range(4):
                for D_y in range(8):
                    D[i_0_j_0//2*4 + D_x, i_0_j_0%2*8 + D_y] = \
max(C[i_0_j_0//2*4 + D_x, i_0_j_0%2*8 + D_y], 0.0)
        """,
    )
    s.parallel(fused)
    check(s)


@pytest.mark.parametrize("sizes", [(8, 12), (7, 16), (7, 13), (1, 9)])
@pytest.mark.parametrize("again", [None, 2])
def test_reverse_compute_at_a_fused_loop_of_uneven_tiles(sizes, again):
    """Also under a part of the fused loop, of whole tiles."""
    s = mt.Schedule(matmul_relu(*sizes, 2))
    i0, i1 = s.split("i", [None, 4])
    j0, j1 = s.split("j", [None, 8])
    s.reorder(i0, j0, "k", i1, j1)
    fused = s.fuse(i0, j0)
    where = fused if again is None else s.split(fused, [None, again])[1]
    s.reverse_compute_at("D", where)
    check(s)


def test_reverse_compute_at_a_fused_loop_of_three():
    s = mt.Schedule(chain2d(6, 8))
    i0, i1 = s.split("i", [None, 2])
    j0, j1, j2 = s.split("j", [2, 2, 2])
    s.reorder(i0, j0, j1, i1, j2)
    fused = s.fuse(i0, j0, j1)
    outer, inner = s.split(fused, [None, 4])
    twin = s.copy()
    s.reverse_compute_at("C", inner)
    check(s)
    twin.reverse_compute_at("C", outer)
    check(twin)


def test_reverse_compute_at_a_loop_that_cuts_tiles_in_pieces():
    s = mt.Schedule(chain2d(6, 8))
    outer, _ = s.split(s.fuse("i", "j"), [None, 3])
    refused(s, "R4", "the nest of B", lambda: s.reverse_compute_at("C", outer))


@pytest.mark.parametrize("factors", [[2, 5], [5, 2], [3, 3]])
def test_reverse_compute_at_never_repeats_an_update(factors):
    s = mt.Schedule(started_update(5))
    outer, _ = s.split("x", factors)
    (own,) = s.compute_at("P", outer)
    with contextlib.suppress(mt.ScheduleError):
        s.reverse_compute_at("W", own)
    check(s)


@pytest.mark.parametrize("factors", [[2, 5], [5, 2], [3, 3]])
def test_reverse_compute_at_never_repeats_a_decomposed_reduction(factors):
    A = mt.placeholder((5, 3), name="A")
    P = mt.compute((5,), lambda i: A[i, 0] + 1, name="P")
    k = mt.reduce_axis(3, name="k")
    W = mt.compute((5,), lambda x: mt.sum(P[x] * A[x, k], axis=k), name="W")
    s = mt.Schedule(mt.lower([A, W]))
    s.decompose_reduction("W", "x")
    outer, _ = s.split("x", factors)
    (own,) = s.compute_at("P", outer)
    with contextlib.suppress(mt.ScheduleError):
        s.reverse_compute_at("W", own)
    check(s)


@pytest.mark.parametrize("before", ["i_0", "i_1", "k"])
@pytest.mark.parametrize("target", ["i_0", "i_1"])
def test_reverse_compute_at_after_decomposing(before, target):
    s = mt.Schedule(matmul_relu(5, 7, 3))
    s.split("i", [None, 2])
    s.decompose_reduction("C", before)
    s.reverse_compute_at("D", target)
    check(s)


def weighted():
    """B[i] = A[i] * 2; W[x] = sum over k of B[x] * A[k]"""
    A = mt.placeholder((4,), name="A")
    B = mt.compute((4,), lambda i: A[i] * 2, name="B")
    k = mt.reduce_axis(4, name="k")
    W = mt.compute((4,), lambda x: mt.sum(B[x] * A[k], axis=k), name="W")
    return mt.lower([A, W])


def apart():
    """B = A * 2; C = B + 1; D = C * 2: loops i, j, x"""
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute((8,), lambda j: B[j] + 1.0, name="C")
    return mt.lower([A, mt.compute((8,), lambda x: C[x] * 2.0, name="D")])


def a_row_for_each_r():
    """E[r, i] = A[i, 0] + r; D[x] = A[x, 0], which no iteration of r may do again"""
    A = mt.placeholder((4, 6), name="A")
    D = mt.compute((4,), lambda x: mt.if_then_else(x < 9, A[x, 0], 0.0), name="D")
    E = mt.compute((3, 4), lambda r, i: A[i, 0] + r, name="E")
    return mt.lower([A, E, D])


REFUSALS = [
    Refusal(
        "reverse_compute_at",
        "R10",
        start(a_row_for_each_r),
        lambda s: s.reverse_compute_at("D", "r"),
        "R10: .*iterations of r repeat it",
    ),
    Refusal(
        "reverse_compute_at",
        "R1",
        after(chain, lambda s: s.reverse_compute_at("C", "i")),
        lambda s: s.reverse_compute_at("C", "i"),
        "R1: the loop does not enclose the block$",
        marks=("for i in range(8):  # <- target", "# <- inside it"),
    ),
    Refusal(
        "reverse_compute_at",
        "R2",
        start(apart),
        lambda s: s.reverse_compute_at("D", "i"),
        "R2: the block reads a buffer that is computed under the loop, or read there before$",
        choices=("j",),
        marks=("for i in range(8):  # <- target", "# <- reads nothing computed there"),
    ),
    Refusal(
        "reverse_compute_at",
        "R3",
        start(matmul_relu),
        lambda s: s.reverse_compute_at("D", "k"),
        r"R3: .*\(k is\)",
        marks=("for k in range(6):  # <- part of computing C",),
    ),
    Refusal(
        "reverse_compute_at",
        "R4",
        after(matmul_relu, lambda s: s.split("k", [None, 4], tail="cut")),
        lambda s: s.reverse_compute_at("D", "i"),
        r"R4: .*\(C has 2 writers\)",
        marks=("# block C_tail; <- writes C", "if k_0 == 0 and k_1 == 0:  # <- writes C"),
    ),
    Refusal(
        "reverse_compute_at",
        "R5",
        start(stencil),
        lambda s: s.reverse_compute_at("C", "i"),
        r"R5: .*\(P is read at 2 places, ",
        marks=("# <- reads P",),
    ),
    Refusal(
        "reverse_compute_at",
        "R6",
        start(fed_rowsum),
        lambda s: s.reverse_compute_at("C", "j"),
        r"R6: .*\(k is cut into pieces\)",
        marks=("# <- is computed along k",),
    ),
    Refusal(
        "reverse_compute_at",
        "R7",
        after(chain2d, lambda s: s.vectorize("i")),
        lambda s: s.reverse_compute_at("C", "j"),
        "R7: the loop is not vectorized, nor inside a vectorized loop$",
        marks=("for i in vectorize(4):  # <- is vectorized",),
    ),
    Refusal(
        "reverse_compute_at",
        "R8",
        start(fork),
        lambda s: s.reverse_compute_at("S", "j"),
        r"R8: everything else the block reads is computed before it \(R is not complete there\)",
        marks=("R[x] = P[x] - 1.0  # <- computes R",),
    ),
    Refusal(
        "reverse_compute_at",
        "R9",
        after(weighted, lambda s: s.decompose_reduction("W", "x")),
        lambda s: s.reverse_compute_at("W", "i"),
        r"R9: .*\(W_init is one\)",
        marks=("# block W_init; <- touches what W writes",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_reverse_compute_at_of_readers_in_other_orders():
    s = mt.Schedule(diagonal())
    refused(s, "R5", "index 1 of B does not", lambda: s.reverse_compute_at("C", "j"))
    s = mt.Schedule(strided())
    marks = ("^^^^^^ read here",)
    refused(s, "R5", "index 0 of B does not", lambda: s.reverse_compute_at("C", "i"), marks=marks)
    s = mt.Schedule(padded())
    refused(s, "R5", "index 0 of B does not", lambda: s.reverse_compute_at("C", "i"))
    s = mt.Schedule(gather())
    refused(s, "R5", "index 0 of B does not", lambda: s.reverse_compute_at("C", "j"))


def test_reverse_compute_at_of_a_reader_of_two_tiles():
    """Each iteration has a tile of rows and one of columns: not the tiles off the diagonal."""
    A = mt.placeholder((8,), name="A")
    P = mt.compute((8,), lambda i: A[i] * 2.0, name="P")
    Q = mt.compute((8,), lambda j: P[j] + 1.0, name="Q")
    D = mt.compute((8, 8), lambda x, y: P[x] + Q[y], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [None, 4])
    s.reverse_compute_at("Q", "i_0")
    marks = ("# <- has other instances too",)
    refused(s, "R5", "not for all of x", lambda: s.reverse_compute_at("D", "i_0"), marks=marks)


@pytest.mark.parametrize(
    ("builder", "call"),
    [
        (three, lambda s, loop: s.reverse_compute_at("D", loop)),
        (apart, lambda s, loop: s.reverse_compute_at("D", loop)),
        (fork, lambda s, loop: s.reverse_compute_at("S", loop)),
    ],
)
def test_the_loops_listed_as_legal_are_legal(builder, call):
    s = mt.Schedule(builder())
    with pytest.raises(mt.ScheduleError) as caught:
        call(s, "i")
    assert caught.value.choices
    for loop in caught.value.choices:
        twin = s.copy()
        call(twin, loop)
        check(twin)
