"""split, fuse, reorder, add_unit_loop."""

import itertools

import numpy as np
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

# ---- split: the examples of its docstring


def test_split_guards_the_tail():
    s = mt.Schedule(scale(20))
    assert s.split("i", [None, 8]) == ("i_0", "i_1")
    golden(
        s,
        """
        for i_0 in range(3):
            for i_1 in range(8):
                if i_0*8 + i_1 < 20:
                    C[i_0*8 + i_1] = A[i_0*8 + i_1] * 2.0
        """,
    )


def test_split_without_a_tail_needs_no_guard():
    s = mt.Schedule(scale(20))
    s.split("i", [None, 4], tail="exact")
    golden(
        s,
        """
        for i_0 in range(5):
            for i_1 in range(4):
                C[i_0*4 + i_1] = A[i_0*4 + i_1] * 2.0
        """,
    )


def test_split_cuts_the_tail_off():
    s = mt.Schedule(scale(20))
    assert s.split("i", [None, 8], tail="cut") == ("i_0", "i_1")
    golden(
        s,
        """
        for i_0 in range(2):
            for i_1 in range(8):
                C[i_0*8 + i_1] = A[i_0*8 + i_1] * 2.0
        for i_tail in range(4):
            C[i_tail + 16] = A[i_tail + 16] * 2.0  # block C_tail
        """,
    )


# ---- split: shapes


@pytest.mark.parametrize("tail", ["guard", "exact", "cut"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 7, 12, 13])
@pytest.mark.parametrize(
    "factors",
    [[None], [None, 1], [None, 2], [3, None], [None, 4, 2], [2, None, 3], [1, 1, None], [None, 13]],
    ids=str,
)
def test_split_of_any_extent_by_any_factors(n, factors, tail):
    s = mt.Schedule(scale(n))
    try:
        names = s.split("i", factors, tail=tail)
    except mt.ScheduleError as error:
        assert (tail, error.rule) in {("exact", "R3"), ("cut", "R4")}
        assert len(s.trace) == 0
    else:
        assert names == tuple(f"i_{k}" for k in range(len(factors)))
    check(s)


@pytest.mark.parametrize("factors", [[20], [4, 5], [5, 4], [2, 2, 5], [1, 20, 1], [3, 7], [32]])
def test_split_by_given_factors(factors):
    s = mt.Schedule(scale(20))
    s.split("i", factors)
    check(s)


def test_split_where_the_factors_fit_exactly_prints_no_guard():
    s = mt.Schedule(grid(6, 8))
    s.split("j", [2, None, 2])
    assert "if " not in str(s.program)
    check(s)


def test_split_of_a_unit_loop_by_more_than_it_has():
    s = mt.Schedule(scale(1))
    s.split("i", [4, 3])
    golden(
        s,
        """
        for i_0 in range(4):
            for i_1 in range(3):
                if i_0*3 + i_1 < 1:
                    C[i_0*3 + i_1] = A[i_0*3 + i_1] * 2.0
        """,
    )


def test_split_of_an_empty_loop():
    for factors in ([2, 3], [None, 4], [4, None], [1]):
        s = mt.Schedule(scale(0))
        s.split("i", factors)
        check(s)


def test_the_largest_oversize_factor():
    s = mt.Schedule(scale(3))
    s.split("i", [1, 65536])
    assert s.program.body.body.extent == 65536
    refused(s, "R6", "i_0 has extent 1", lambda: s.split("i_0", [65537]))


def test_a_factor_may_be_as_large_as_a_large_loop():
    A = mt.placeholder((1,), name="A")
    C = mt.compute((100_000,), lambda i: A[0] + i, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    assert s.split("i", [1, None]) == ("i_0", "i_1")
    s.split("i_1", [None, 99_999])
    with pytest.raises(mt.ScheduleError, match="R6"):
        s.split("i_1_1", [1, 100_001])


def test_split_of_what_was_split():
    s = mt.Schedule(scale(20))
    _, inner = s.split("i", [None, 6])
    middle, innermost = s.split(inner, [None, 4])
    s.split(innermost, [2, None])
    golden(
        s,
        """
        for i_0 in range(4):
            for i_1_0 in range(2):
                for i_1_1_0 in range(2):
                    for i_1_1_1 in range(2):
                        if i_0*6 + i_1_0*4 + i_1_1_0*2 + i_1_1_1 < 20 and GUARD < 6:
                            C[i_0*6 + GUARD] = A[i_0*6 + GUARD] * 2.0
        """.replace("GUARD", "i_1_0*4 + i_1_1_0*2 + i_1_1_1"),
    )
    s.split(middle, [2, None])
    check(s)


def test_split_of_a_reduction_initialises_once():
    s = mt.Schedule(rowsum(3, 7))
    s.split("k", [None, 3])
    golden(
        s,
        """
        for i in range(3):
            for k_0 in range(3):
                for k_1 in range(3):
                    if k_0*3 + k_1 < 7:
                        if k_0 == 0 and k_1 == 0:
                            C[i] = 0.0
                        C[i] += A[i, k_0*3 + k_1]
        """,
    )


@pytest.mark.parametrize("tail", ["guard", "cut"])
@pytest.mark.parametrize(
    ("builder", "block"), [(argmax, "C"), (horner, "W"), (row_scans, "W"), (scan, "W")]
)
def test_split_of_every_loop_of_reductions_and_updates(builder, block, tail):
    for position in range(len(mt.Schedule(builder()).get_loops(block))):
        s = mt.Schedule(builder())
        s.split(s.get_loops(block)[position], [None, 3], tail=tail)
        check(s)


def test_split_of_a_loop_with_several_blocks_below():
    s = mt.Schedule(stencil(9))
    outer, _ = s.split("y", [None, 4])
    s.compute_at("P", outer)
    s.split(outer, [2, None])
    check(s)


def test_split_cut_of_a_reduction_continues_it():
    s = mt.Schedule(total(20))
    s.split("k", [None, 8], tail="cut")
    golden(
        s,
        """
        for k_0 in range(2):
            for k_1 in range(8):
                if k_0 == 0 and k_1 == 0:
                    S[()] = 0.0
                S[()] += A[k_0*8 + k_1]
        for k_tail in range(4):
            S[()] += A[k_tail + 16]  # block S_tail
        """,
    )


def test_split_cut_of_a_spatial_loop_starts_the_reduction_again():
    s = mt.Schedule(rowsum(5, 3))
    s.split("i", [None, 2], tail="cut")
    golden(
        s,
        """
        for i_0 in range(2):
            for i_1 in range(2):
                for k in range(3):
                    if k == 0:
                        C[i_0*2 + i_1] = 0.0
                    C[i_0*2 + i_1] += A[i_0*2 + i_1, k]
        for i_tail in range(1):
            for k2 in range(3):
                if k2 == 0:  # block C_tail
                    C[i_tail + 4] = 0.0
                C[i_tail + 4] += A[i_tail + 4, k2]
        """,
    )


@pytest.mark.parametrize("factor", range(1, 20))
def test_split_cut_of_a_fused_spatial_and_reduction_loop(factor):
    s = mt.Schedule(rowsum(4, 5))
    s.split(s.fuse("i", "k"), [None, factor], tail="cut")
    check(s)


def test_split_cut_copies_every_block_under_the_loop():
    s = mt.Schedule(stencil(10))
    outer, _ = s.split("y", [5, 2])
    s.compute_at("P", outer)
    s.split(outer, [None, 2], tail="cut")
    assert s.get_blocks() == ("P", "C", "P_tail", "C_tail")
    check(s)


def test_split_cut_keeps_kinds_and_annotations_inside():
    s = mt.Schedule(grid(5, 4))
    s.vectorize("j")
    s.annotate("j", "note", 1)
    s.split("i", [None, 2], tail="cut")
    assert str(s.program).count("in vectorize(4):  # note = 1") == 2
    check(s)


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


def test_split_guards_nothing_that_the_loop_does_not_hold():
    s = mt.Schedule(chain(10))
    s.split("i", [None, 3])
    assert str(s.program).count("if ") == 1
    check(s)


def test_split_takes_numpy_integers_and_tuples():
    s = mt.Schedule(scale(20))
    s.split("i", (None, np.int32(8)))
    assert s.trace.steps[0].arguments["factors"] == (None, 8)
    check(s)


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
        for u in range(1):
            for u2 in range(1):
                for i in range(4):
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


def test_splitting_and_fusing_over_and_over_does_not_make_names_without_end():
    s = mt.Schedule(scale(20))
    loop = "i"
    for _ in range(60):
        loop = s.fuse(*s.split(loop, [4, 5]))
    assert len(loop) < 300
    check(s)


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
        "split",
        "K2",
        after(scale, lambda s: s.split("i", [1] * 120 + [None])),
        lambda s: s.split("i_0", [1] * 10),
        r"K2: loops nest at most 128 deep.* \(there would be 130\)",
    ),
    Refusal(
        "split",
        "R1",
        after(scale, lambda s: s.parallel("i")),
        lambda s: s.split("i", [2, 10]),
        r'^split\("i", \[2, 10\]\) breaks R1: the loop is serial \(i is parallel\)$',
        marks=("for i in parallel(20):  # <- is parallel",),
    ),
    Refusal(
        "split",
        "R2",
        start(scale),
        lambda s: s.split("i", [2, 3]),
        r"R2: the factors cover the loop \(i has extent 20, but 2 \* 3 = 6\)",
    ),
    Refusal(
        "split",
        "R3",
        start(scale),
        lambda s: s.split("i", [None, 8], tail="exact"),
        r"R3: .*multiply to the extent \(i has extent 20, but 3 \* 8 = 24\)",
        choices=("1", "2", "4", "5", "10", "20"),
    ),
    Refusal(
        "split",
        "R4",
        start(scale),
        lambda s: s.split("i", [None, 32], tail="cut"),
        r"R4: .*at least one whole tile fits \(i has extent 20, but 0 \* 32 = 0\)",
    ),
    Refusal(
        "split",
        "R5",
        after(rowsum, lambda s: s.decompose_reduction("C", "k")),
        lambda s: s.split("k", [None, 4], tail="cut"),
        r"R5: .*\(C and C_init write one buffer\)",
        marks=("C[i] += A[i, k]  # <- under the loop",),
    ),
    Refusal(
        "split",
        "R6",
        start(scale),
        lambda s: s.split("i", [65537]),
        r"R6: .*at most 65536 \(i has extent 20, the factors are \[65537\]\)",
    ),
    Refusal(
        "split",
        "K1",
        after(scale, lambda s: s.split("i", [None, 8]), lambda s: s.parallel("i_0")),
        lambda s: s.split("i_1", [3, 3]),
        r"K1: .*\(one iteration of i_0 may write an element of C that another may write\)",
        marks=("# <- parallel loop",),
    ),
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
        r"R2: .*\(i is not all there is in j\)",
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


def test_splits_that_cannot_be_cut():
    s = mt.Schedule(scale(20))
    refused(s, "R4", r"3 \* 8 = 24", lambda: s.split("i", [3, 8], tail="cut"))
    s.split("i", [None, 8], tail="cut")
    refused(s, "R5", "C and C_tail write one buffer", lambda: s.split("i_1", [3, 2], tail="cut"))
    s.split("i_1", [2, 4], tail="cut")
    check(s)


def test_a_large_even_number_of_divisors_is_cut_short():
    s = mt.Schedule(scale(720))
    error = refused(s, "R3", "extent 720", lambda: s.split("i", [7, None], tail="exact"))
    assert len(error.choices) == 16
