"""New nests for blocks that move: loops over a box, guards, spots, and what a nest executes."""

import pytest

import minitensor as mt
from minitensor.arith import Span, clipped_box, constant_form, extent_range, linear_of, whole_axis
from minitensor.ir import Block, For, Seq, Var, blocks_of, less, paths, print_expr
from minitensor.schedule.edit import Fresh, loops_around
from minitensor.schedule.insertion import (
    common_loops,
    exact_domain,
    outer_guard,
    place,
    point_after,
    point_before,
    shared_guards,
    write_box,
)
from tests.unit.schedule import programs
from tests.unit.schedule.common import check


def test_place_builds_a_loop_for_each_iter():
    program = programs.grid(6, 8)
    block = program.blocks["C"]
    placed = place(block, {"i": Span(constant_form(2), 1)}, (), Fresh(program))
    assert [(loop.var, loop.extent) for loop in placed.loops] == [("C_i", 2), ("C_j", 8)]
    assert placed.names == ("C_i", "C_j")
    assert str(placed.block.iters[0].binding) == str(Var("C_i") + 2)
    assert blocks_of(placed.stmt) == [placed.block]


def test_place_guards_what_may_leave_the_domain():
    program = programs.scale(6)
    outer = (For("o", 4, Seq(())),)
    low = linear_of(Var("o") * 2 - 1)
    placed = place(program.blocks["C"], {"i": Span(low, 3)}, outer, Fresh(program))
    assert placed.loops[0].extent == 4
    assert print_expr(placed.block.predicate) == "1 <= o*2 + C_i and o*2 + C_i < 7"
    whole = place(program.blocks["C"], {"i": Span(low, 9)}, outer, Fresh(program), widen=True)
    assert whole.loops[0].extent == 6
    assert whole.block.predicate == program.blocks["C"].predicate


def test_spots_before_and_after():
    program = programs.fork()
    before = point_before(program, (), {"Q", "R"})
    assert before.before(program) == {"P"}
    after = point_after(program, (), {"Q", "R"})
    assert after.before(program) == {"P", "Q", "R"}
    end = point_after(program, (), {"S"})
    assert end.before(program) == {"P", "Q", "R", "S"}
    start = point_before(program, (), {"P"})
    assert start.before(program) == set()


def test_spots_inside_a_loop():
    s = mt.Schedule(programs.matmul_relu())
    s.reverse_compute_at("D", "i")
    loops = loops_around(s.program, "C")[:1]
    assert point_before(s.program, loops, {"D"}).before(s.program) == {"C"}
    assert point_before(s.program, loops, {"C"}).before(s.program) == set()


def test_inserting_at_a_spot():
    program = programs.fork()
    new = Block("N", (), program.blocks["P"].body)
    inserted = point_before(program, (), {"R"}).insert(program, For("n", 1, new))
    assert list(inserted.blocks) == ["P", "Q", "N", "R", "S"]
    moved = point_after(program, (), {"S"}).insert(
        program, For("n", 1, new), {id(program.blocks["Q"]): None}
    )
    assert list(moved.blocks) == ["P", "R", "S", "N"]


def test_loops_that_two_paths_share():
    s = mt.Schedule(programs.matmul_relu())
    assert common_loops(loops_around(s.program, "C"), loops_around(s.program, "D")) == ()
    s.reverse_compute_at("D", "i")
    shared = common_loops(loops_around(s.program, "C"), loops_around(s.program, "D"))
    assert [loop.var for loop in shared] == ["i"]


def test_guards_on_the_loops_around():
    s = mt.Schedule(programs.chain(5))
    s.split("j", [4, 3])
    s.compute_at("B", "j_0")
    outer = loops_around(s.program, "C")[:1]
    blocks = [s.program.blocks["C"], s.program.blocks["B"]]
    (guard,) = shared_guards(s.program, blocks, outer, every=True)
    assert print_expr(guard) in ("j_0 < 2", "j_0 <= 1")
    whole = loops_around(s.program, "C")
    assert len(shared_guards(s.program, blocks[:1], whole, every=False)) == 1
    check(s)


def test_what_a_condition_asks_of_some_of_its_variables():
    ranges = {"i": extent_range(4), "j": extent_range(3)}
    part = less(Var("i") * 3 + Var("j"), 5)
    assert print_expr(outer_guard(part, {"i"}, ranges)) in ("i < 2", "i <= 1")
    assert outer_guard(part, {"j"}, ranges) is None
    assert outer_guard(part, {"i", "j"}, ranges) == part
    assert outer_guard(less(Var("i") * Var("j"), 2), {"i"}, ranges) is None


@pytest.mark.parametrize(
    ("steps", "outside", "wanted"),
    [
        ([], (), [6, 8]),
        ([lambda s: s.split("j", [2, 4])], (), [6, 8]),
        ([lambda s: s.split("j", [2, 4])], ("j_0",), [6, 4]),
        ([lambda s: s.split("j", [None, 3])], (), [6, 9]),
        ([lambda s: s.split("j", [None, 3])], ("i", "j_0"), [1, 3]),
        ([lambda s: s.fuse("i", "j")], (), [6, 8]),
        ([lambda s: s.reorder("j", "i")], ("j",), [6, 1]),
    ],
)
def test_the_box_that_a_nest_executes(steps, outside, wanted):
    s = mt.Schedule(programs.grid(6, 8))
    for step in steps:
        step(s)
    block, loops = s.program.blocks["C"], paths(s.program)["C"]
    box = exact_domain(block, loops, set(outside))
    assert box is not None
    assert [span.extent for span in box] == wanted
    assert write_box(block, box) == clipped_box(box, [6, 8])


def test_nests_that_execute_no_box():
    s = mt.Schedule(programs.stencil(8))
    s.split("y", [2, 4])
    s.compute_at("P", "y_0")
    block, loops = s.program.blocks["P"], paths(s.program)["P"]
    assert exact_domain(block, loops, {"y_0"}) is not None
    assert exact_domain(block, loops, ()) is None
    s.split("P_i", [2, 4])
    block, loops = s.program.blocks["P"], paths(s.program)["P"]
    assert exact_domain(block, loops, {"y_0"}) is None


def test_write_boxes_follow_the_store():
    A = mt.placeholder((3, 5), name="A")
    k = mt.reduce_axis(5, name="k")
    program = mt.lower([A, mt.compute((3,), lambda i: mt.sum(A[i, k], axis=k), name="C")])
    block, loops = program.blocks["C"], paths(program)["C"]
    box = exact_domain(block, loops, ())
    assert [span.extent for span in write_box(block, box)] == [3]
    s = mt.Schedule(programs.chain())
    s.transform_layout("B", lambda i: (i // 2, i % 2))
    block = s.program.blocks["B"]
    assert write_box(block, (whole_axis(8),)) == (whole_axis(8),)
    s = mt.Schedule(programs.chain())
    s.transform_layout("B", lambda i: (i // 2, i % 4))
    assert write_box(s.program.blocks["B"], (whole_axis(8),)) is None
