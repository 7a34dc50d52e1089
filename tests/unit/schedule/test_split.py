"""split."""

import numpy as np
import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    grid,
    horner,
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
        for i_tail, i_tail_k in grid(1, 3):
            if i_tail_k == 0:  # block C_tail
                C[i_tail + 4] = 0.0
            C[i_tail + 4] += A[i_tail + 4, i_tail_k]
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


def test_splitting_and_fusing_over_and_over_does_not_make_names_without_end():
    s = mt.Schedule(scale(20))
    loop = "i"
    for _ in range(60):
        loop = s.fuse(*s.split(loop, [4, 5]))
    assert len(loop) < 300
    check(s)


# ---- rules

REFUSALS = [
    Refusal(
        "split",
        "A2",
        start(scale),
        lambda s: s.split("i", 8),
        r"A2: expected a list of factors, such as \[None, 8\], but got factors=8",
    ),
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
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


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
