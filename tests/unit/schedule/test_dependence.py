"""Which iterations may conflict, what they touch, and rule K1 on what a step rewrote."""

import itertools

import pytest

import minitensor as mt
from minitensor.ir import IterKind, paths, print_expr
from minitensor.schedule.dependence import (
    accesses,
    conflict,
    driven,
    iter_domain,
    region,
    result_depth,
)
from minitensor.schedule.edit import plain_store
from tests.unit.schedule.common import check, refused
from tests.unit.schedule.programs import (
    argmax,
    chain2d,
    diagonal,
    fed_rowsum,
    gather,
    grid,
    horner,
    matmul,
    matmul_relu,
    padded,
    row_scans,
    rowsum,
    scale,
    scan,
    stencil,
    strided,
    total,
)


def free_loops(program):
    """The loops between whose iterations there is no conflict."""
    return {
        loop.var
        for path in paths(program).values()
        for loop in path
        if conflict(program, loop.var) is None
    }


@pytest.mark.parametrize(
    ("builder", "wanted"),
    [
        (scale, {"i"}),
        (grid, {"i", "j"}),
        (matmul, {"i", "j"}),
        (total, set()),
        (scan, set()),
        (horner, {"i"}),
        (row_scans, {"i", "j", "x", "a", "b"}),
        (argmax, {"i", "x"}),
        (stencil, {"i", "y"}),
        (gather, {"i", "j", "x"}),
    ],
)
def test_loops_without_conflict(builder, wanted):
    assert free_loops(builder()) == wanted


def test_a_conflict_says_what_it_is():
    program = rowsum()
    found = conflict(program, "k")
    assert found.describe("k") == "iterations of k combine into the same elements of C"
    found = conflict(scan(), "i")
    assert found.describe("i") == (
        "one iteration of i may write an element of W that another may read"
    )


def test_reductions_may_be_left_out_of_account():
    assert conflict(rowsum(), "k") is not None
    assert conflict(rowsum(), "k", reductions=False) is None
    assert conflict(scan(), "i", reductions=False) is not None
    s = mt.Schedule(rowsum())
    s.fuse("i", "k")
    assert conflict(s.program, "i_k", reductions=False) is not None


def test_other_loops_may_be_free_too():
    s = mt.Schedule(scale(24))
    s.split("i", [None, 8])
    s.split("i_1", [3, 3])
    loops = s.get_loops("C")
    assert conflict(s.program, "i_1_0") is None
    assert conflict(s.program, "i_1_0", loops) is not None
    assert conflict(s.program, "i_1_1", loops) is not None


def test_a_buffer_that_lives_in_the_loop_is_private():
    s = mt.Schedule(stencil(8))
    s.split("y", [2, 4])
    s.compute_at("P", "y_0")
    assert conflict(s.program, "y_0") is None
    s.set_scope("P", "shared")
    assert conflict(s.program, "y_0") is None
    s.bind("y_0", "blockIdx.x")
    assert conflict(s.program, "y_0") is None


def test_the_elements_an_iteration_touches():
    s = mt.Schedule(stencil(12))
    s.split("y", [3, 4])
    found = [a for a in accesses(s.program, "C") if a.buffer == "P"]
    assert [a.writes for a in found] == [False, False]
    (box,) = region(s.program, found, "P", {"y_0"})
    assert (print_expr(box.low.expr()), box.extent) == ("y_0*4", 6)
    (box,) = region(s.program, found, "P", ())
    assert (box.low.constant, box.extent) == (0, 14)


@pytest.mark.parametrize(
    ("builder", "block", "buffer", "wanted"),
    [
        (strided, "C", "B", [(0, 9)]),
        (diagonal, "C", "B", [(0, 5), (0, 5)]),
        (padded, "C", "B", [(0, 8)]),
        (gather, "C", "B", [(0, 8)]),
        (fed_rowsum, "C", "P", [(0, 4), (0, 6)]),
    ],
)
def test_the_region_of_a_whole_block(builder, block, buffer, wanted):
    program = builder()
    found = [a for a in accesses(program, block) if a.buffer == buffer and not a.writes]
    box = region(program, found, buffer, ())
    assert [(span.low.constant, span.extent) for span in box] == wanted


def test_the_domain_of_a_block_in_some_of_its_loops():
    s = mt.Schedule(grid(6, 8))
    s.split("j", [2, 4])
    block, loops = s.program.blocks["C"], paths(s.program)["C"]
    assert [span.extent for span in iter_domain(block, loops, ())] == [6, 8]
    assert [span.extent for span in iter_domain(block, loops, {"i", "j_0"})] == [1, 4]
    assert [span.extent for span in iter_domain(block, loops, {"j_1"})] == [6, 5]


def test_what_a_loop_drives():
    program = row_scans()
    block = program.blocks["W"]
    assert driven(block, "x", (IterKind.SPATIAL,))
    assert not driven(block, "x", (IterKind.ORDERED, IterKind.REDUCE))
    assert driven(block, "y", (IterKind.ORDERED,))
    assert not driven(block, "i", tuple(IterKind))


def test_stores_at_iters_of_their_own():
    s = mt.Schedule(chain2d(4, 8))
    assert plain_store(s.program.blocks["B"]) == ("i", "j")
    s.transform_layout("B", lambda i, j: (i, j // 2, j % 2))
    assert plain_store(s.program.blocks["B"]) is None
    assert plain_store(s.program.blocks["C"]) == ("x", "y")
    assert plain_store(total().blocks["S"]) == ()


def test_where_results_are_complete():
    s = mt.Schedule(matmul_relu())
    assert result_depth(s.program, s.program.blocks["C"]) == 0
    s.reverse_compute_at("D", "j")
    assert result_depth(s.program, s.program.blocks["C"]) == 2
    s = mt.Schedule(matmul())
    s.reorder("k", "i")
    assert result_depth(s.program, s.program.blocks["C"]) == 0


# ---- K1


def test_k1_holds_every_concurrent_loop_against_the_new_program():
    s = mt.Schedule(scale(24))
    outer, inner = s.split("i", [None, 8])
    s.vectorize(outer)
    message = "one iteration of i_0 may write an element of C that another may write"
    refused(s, "K1", message, lambda: s.split(inner, [3, 3]))
    s.split(inner, [2, 4])
    check(s)


def test_k1_when_a_buffer_leaves_the_loop_it_was_private_to():
    A = mt.placeholder((10,), name="A")
    X = mt.compute((10,), lambda i: A[i] * 2.0, name="X")
    P = mt.compute((8,), lambda j: X[j] + X[j + 2], name="P")
    C = mt.compute((8,), lambda y: P[y] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.compute_at("X", "j")
    s.parallel("j")
    s.parallel("y")
    message = "one iteration of j may write an element of X that another may write"
    refused(s, "K1", message, lambda: s.compute_inline("P"))
    refused(s, "K1", message, lambda: s.compute_at("P", "y"))
    check(s)


def test_k1_is_not_asked_of_loops_that_a_step_leaves_alone():
    s = mt.Schedule(matmul_relu(4, 5, 6))
    s.parallel("i")
    for step in (
        lambda: s.split("x", [None, 3]),
        lambda: s.annotate("y", "note", 1),
        lambda: s.cache_write("D", "local"),
        lambda: s.set_scope("C", "shared"),
        lambda: s.add_unit_loop("k"),
        lambda: s.unroll("y"),
    ):
        step()
    check(s)


def test_k1_on_threads_of_the_outside():
    for scope, kind in itertools.product(("shared", "local"), ("threadIdx.x", "vthread")):
        s = mt.Schedule(stencil(8))
        outer, _ = s.split("y", [2, 4])
        s.set_scope("P", scope)
        s.bind(outer, kind)
        if scope == "shared":
            refused(s, "K1", "an element of P", lambda s=s: s.compute_at("P", "y_0"))
        else:
            s.compute_at("P", outer)
        check(s)


def test_a_loop_that_a_guard_alone_keeps_apart():
    """Precision, not correctness: the loop could be parallel, and may one day be accepted."""
    s = mt.Schedule(scale(24))
    outer, inner = s.split("i", [None, 8])
    s.split(inner, [3, 3])
    try:
        s.parallel(outer)
    except mt.ScheduleError as error:
        assert error.rule == "R4"
    check(s)
