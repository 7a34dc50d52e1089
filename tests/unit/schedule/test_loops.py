"""fuse, reorder, add_unit_loop."""

import itertools

import pytest

import minitensor as mt
from minitensor.ir import nodes_in
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    cube,
    fed_rowsum,
    grid,
    horner,
    matmul,
    matmul_relu,
    row_scans,
    rowsum,
    scale,
    scan,
    start,
    stencil,
    total,
)


def test_split_and_fuse_keep_the_annotations_of_the_loops():
    s = mt.Schedule(grid(5, 4))
    s.annotate("i", "a", 1)
    s.annotate("j", "b", 2)
    twin = s.copy()
    s.fuse("i", "j")
    golden(
        s,
        """
        for i_j in range(20):  # a = 1; b = 2
            C[i_j//4, i_j%4] = A[i_j//4, i_j%4] * 2.0
        """,
    )
    twin.split("i", [2, 2], tail="cut")
    assert "for i_0 in range(2):  # a = 1" in str(twin.program)
    check(twin)


# ---- fuse


def test_fuse_two_loops():
    s = mt.Schedule(grid(4, 8))
    assert s.fuse("i", "j") == "i_j"
    golden(
        s,
        """
        for i_j in range(32):
            C[i_j//8, i_j%8] = A[i_j//8, i_j%8] * 2.0
        """,
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (1, 4, 1), (3, 1, 2), (7, 1, 1)])
def test_fuse_three_loops(shape):
    s = mt.Schedule(cube(*shape))
    assert s.fuse("i", "j", "k") == "i_j_k"
    check(s)


def test_fuse_undoes_split():
    s = mt.Schedule(scale(20))
    s.fuse(*s.split("i", [4, 5]))
    golden(
        s,
        """
        for i_0_i_1 in range(20):
            C[i_0_i_1] = A[i_0_i_1] * 2.0
        """,
    )


def test_fuse_of_a_guarded_split_keeps_the_guard():
    s = mt.Schedule(scale(20))
    s.fuse(*s.split("i", [None, 8]))
    golden(
        s,
        """
        for i_0_i_1 in range(24):
            if i_0_i_1 < 20:
                C[i_0_i_1] = A[i_0_i_1] * 2.0
        """,
    )


def test_fuse_and_split_across_the_seam():
    s = mt.Schedule(grid(3, 5))
    s.split(s.fuse("i", "j"), [None, 4])
    check(s)


def test_fuse_a_spatial_loop_with_a_reduction():
    s = mt.Schedule(rowsum(3, 4))
    s.fuse("i", "k")
    golden(
        s,
        """
        for i_k in range(12):
            if i_k%4 == 0:
                C[i_k//4] = 0.0
            C[i_k//4] += A[i_k//4, i_k%4]
        """,
    )


@pytest.mark.parametrize(
    ("builder", "block"), [(argmax, "C"), (horner, "W"), (row_scans, "W"), (matmul, "C")]
)
def test_fuse_all_loops_of_reductions_and_updates(builder, block):
    s = mt.Schedule(builder())
    s.fuse(*s.get_loops(block))
    check(s)


def test_fuse_loops_around_several_blocks():
    s = mt.Schedule(matmul_relu())
    s.reverse_compute_at("D", "j")
    s.fuse("i", "j")
    check(s)


def test_fuse_reorders_nothing():
    s = mt.Schedule(cube(2, 3, 4))
    s.reorder("k", "i", "j")
    s.fuse("i", "j")
    s.fuse("k", "i_j")
    check(s)


# ---- reorder


def test_reorder_leaves_the_loops_in_between():
    A = mt.placeholder((4, 5, 8), name="A")
    k = mt.reduce_axis(8, name="k")
    C = mt.compute((4, 5), lambda i, j: mt.sum(A[i, j, k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    assert s.reorder("k", "i") is None
    golden(
        s,
        """
        for k in range(8):
            for j in range(5):
                for i in range(4):
                    if k == 0:
                        C[i, j] = 0.0
                    C[i, j] += A[i, j, k]
        """,
    )


@pytest.mark.parametrize("order", list(itertools.permutations("ijk")), ids="".join)
def test_reorder_a_matrix_product_in_every_way(order):
    s = mt.Schedule(matmul())
    s.reorder(*order)
    assert s.get_loops("C") == order
    check(s)


def test_reorder_into_the_order_there_is():
    s = mt.Schedule(matmul())
    s.reorder("i", "k")
    assert s.get_loops("C") == ("i", "j", "k")
    check(s)


def test_reorder_split_reductions():
    s = mt.Schedule(rowsum(3, 11))
    k0, k1 = s.split("k", [None, 4])
    s.reorder(k1, k0, "i")
    check(s)


def test_reorder_two_reduction_axes_over_a_spatial_one():
    A = mt.placeholder((3, 4, 5), name="A")
    k, r = mt.reduce_axis(4, name="k"), mt.reduce_axis(5, name="r")
    C = mt.compute((3,), lambda i: mt.max(A[i, k, r], axis=[k, r]), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.reorder("r", "k", "i")
    check(s)


def test_reorder_spatial_loops_of_ordered_updates():
    s = mt.Schedule(row_scans())
    s.reorder("y", "x")
    check(s)
    s = mt.Schedule(horner())
    s.reorder("k", "i")
    check(s)


def test_reorder_argmax():
    s = mt.Schedule(argmax())
    s.reorder("k", "i")
    check(s)


def test_reorder_tiles():
    s = mt.Schedule(matmul(5, 7, 6))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 4])
    k0, k1 = s.split("k", [None, 4])
    s.reorder(i0, j0, k0, k1, i1, j1)
    assert s.get_loops("C") == (i0, j0, k0, k1, i1, j1)
    check(s)


def test_reorder_moves_kinds_and_annotations_along():
    s = mt.Schedule(grid())
    s.parallel("j")
    s.annotate("i", "note", "hot")
    s.reorder("j", "i")
    golden(
        s,
        """
        for j in parallel(8):
            for i in range(4):  # note = 'hot'
                C[i, j] = A[i, j] * 2.0
        """,
    )


def test_reorder_a_fused_loop_past_an_independent_one():
    s = mt.Schedule(matmul(3, 4, 5))
    s.reorder("j", "i", "k")
    s.reorder(s.fuse("i", "k"), "j")
    check(s)


# ---- add_unit_loop


def test_add_unit_loop_around_a_block():
    s = mt.Schedule(scale(4))
    assert s.add_unit_loop("C") == "u"
    golden(
        s,
        """
        for i in range(4):
            for u in range(1):
                C[i] = A[i] * 2.0
        """,
    )


def test_add_unit_loop_around_a_loop():
    s = mt.Schedule(scale(4))
    s.add_unit_loop("i")
    assert s.add_unit_loop("i") == "u2"
    golden(
        s,
        """
        for u, u2, i in grid(1, 1, 4):
            C[i] = A[i] * 2.0
        """,
    )


def test_add_unit_loop_to_a_scalar():
    s = mt.Schedule(total())
    s.add_unit_loop("S")
    s.add_unit_loop("k")
    check(s)
    A = mt.placeholder((), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((), lambda: A[()] + 1, name="C")]))
    assert s.get_loops("C") == ()
    s.parallel(s.add_unit_loop("C"))
    check(s)


def test_a_unit_loop_can_be_split_fused_and_reordered():
    s = mt.Schedule(rowsum())
    u = s.add_unit_loop("C")
    s.reorder(u, "i")
    f = s.fuse("k", "i")
    s.split(u, [2, 2])
    s.split(f, [None, 5])
    check(s)


# ---- sizes


def test_loops_that_would_run_too_often_are_refused():
    """Beyond 2**62 runs an index could need more than 64 bits."""
    s = mt.Schedule(scale(20))
    outer = s.split("i", [1 << 16, 1 << 16, 1 << 8])[0]
    before = str(s)
    with pytest.raises(mt.ScheduleError, match=r"K2: .* \(there would be about 2\*\*64 runs\)"):
        s.split(outer, [1 << 16, 1 << 16, 1 << 8])
    assert str(s) == before
    s.split(outer, [1 << 16, 1 << 16, 1 << 6])
    s.split("i_1", [1 << 14, 1 << 2])
    assert len(s.get_loops("C")) == 6


def test_a_program_of_more_runs_can_be_scheduled():
    """What there was before the step is not its fault."""
    A = mt.placeholder((1 << 32,), name="A")
    k, m = mt.reduce_axis(1 << 32, name="k"), mt.reduce_axis(0, name="m")
    total = mt.compute((), lambda: mt.sum(A[k] + A[m], axis=[k, m]), name="C")
    C = mt.compute((1 << 20,), lambda i: mt.sum(A[k] + total[()], axis=k), name="D")
    D = mt.compute((1 << 32,), lambda i: mt.sum(A[k] * C[0], axis=k), name="E")
    s = mt.Schedule(mt.lower([A, D]))
    loop = s.get_loops("E")[0]
    outer, inner = s.split(loop, [None, 2])
    with pytest.raises(mt.ScheduleError, match="K2"):
        s.split(inner, [1 << 8, 1])
    s.fuse(outer, inner)


@pytest.mark.slow
def test_turning_the_loops_of_a_reduction_does_not_make_indices_without_end():
    """Each turn needs the number of the iteration twice: as a quotient and as a remainder."""
    s = mt.Schedule(rowsum(2, 60))
    loop = s.get_loops("C")[1]

    def turn(factor):
        nonlocal loop
        outer, inner = s.split(loop, [None, factor])
        s.reorder(inner, outer)
        loop = s.fuse(inner, outer)

    with pytest.raises(mt.ScheduleError, match=r"K2: .* \(one of C would have more\)"):
        for n in range(20):
            turn((3, 5, 7)[n % 3])
            if n == 2:
                check(s)
    assert nodes_in(s.program.body, 1 << 20) < 10_000


# ---- rules

REFUSALS = [
    Refusal(
        "fuse",
        "R1",
        after(grid, lambda s: s.unroll("j")),
        lambda s: s.fuse("i", "j"),
        r'^fuse\("i", "j"\) breaks R1: the loops are serial \(j is unroll\)$',
        marks=("for j in unroll(8):  # <- is unroll",),
    ),
    Refusal(
        "fuse",
        "R2",
        start(grid),
        lambda s: s.fuse("j", "i"),
        r"R2: .*\(j is inside i: .*\)",
        marks=("<- outer", "<- inner"),
    ),
    Refusal("fuse", "R3", start(grid, 0, 3), lambda s: s.fuse("i", "j"), "R3: none of them is emp"),
    Refusal(
        "reorder",
        "R1",
        start(grid),
        lambda s: s.reorder("i", "i"),
        r"R1: at least two different loops are given \(2 given, 1 different\)",
    ),
    Refusal(
        "reorder",
        "R2",
        start(chain),
        lambda s: s.reorder("j", "i"),
        "R2: the loops stand around each other, with nothing else in between$",
        marks=("for i in range(8):  # <- to reorder", "for j in range(8):  # <- to reorder"),
    ),
    Refusal(
        "reorder",
        "R3",
        after(row_scans, lambda s: s.split("y", [None, 2])),
        lambda s: s.reorder("y_1", "y_0"),
        r"R3: .*\(y_0 and y_1: one iteration of y_1 may write an element of W that another may",
        marks=("<- cannot move out of y_0", "^ read here"),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_fuse_of_one_loop_or_none():
    s = mt.Schedule(grid())
    refused(s, "R2", "1 given", lambda: s.fuse("i"))
    refused(s, "R2", "0 given", lambda: s.fuse())


def test_fuse_of_loops_with_something_else_in_between():
    s = mt.Schedule(stencil())
    outer, inner = s.split("y", [None, 4])
    s.compute_at("P", outer)
    refused(s, "R2", "y_1 is not all there is in y_0", lambda: s.fuse(outer, inner))
    s = mt.Schedule(cube())
    refused(s, "R2", "k is not all there is in i", lambda: s.fuse("i", "k"))
    refused(s, "R2", "i is not all there is in i", lambda: s.fuse("i", "i"))


def test_reorder_needs_two_loops():
    s = mt.Schedule(grid())
    refused(s, "R1", "0 given", lambda: s.reorder())
    refused(s, "R1", "1 given", lambda: s.reorder("i"))


def test_reorder_around_another_block():
    s = mt.Schedule(fed_rowsum())
    s.compute_at("P", "x")
    refused(s, "R2", "nothing else in between", lambda: s.reorder("k", "x"))


def test_reorder_of_fused_reduction_loops_whose_init_would_come_late():
    s = mt.Schedule(matmul(3, 4, 5))
    s.reorder("i", "k", "j")
    fused = s.fuse("i", "k")
    outer, inner = s.split(fused, [None, 4])
    refused(s, "R3", "combine into the same elements of C", lambda: s.reorder(inner, outer))


def test_reorder_of_a_scan():
    s = mt.Schedule(scan(9))
    outer, inner = s.split("i", [3, 3])
    refused(s, "R3", "may write an element of W", lambda: s.reorder(inner, outer))
    s = mt.Schedule(horner())
    k0, k1 = s.split("k", [None, 2])
    refused(s, "R3", "may write an element of W", lambda: s.reorder(k1, k0))
    s.reorder(k0, "i")
    check(s)
