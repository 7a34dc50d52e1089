"""Passes that copy statements stop before the text is too long, wherever that is."""

import sys

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, generate, lowered
from minitensor.codegen.passes import name_registers, partition_loops, unroll_loops
from minitensor.codegen.remarks import recording
from minitensor.ir import Alloc, Lanes, interpret, stmts_of, verify, walk

TARGET = Target("c", num_cores=1, vector_bits=512)


def before(program, name):
    """The program as the pass called `name` gets it."""
    for other, step in PASSES:
        if other == name:
            return program
        program = step(program, TARGET)
    raise AssertionError(f"no pass {name}")


def count(program):
    return sum(1 for _ in stmts_of(program.body))


def assert_same(before, after):
    verify(after)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in before.inputs]
    names = [b.name for b in before.outputs]
    for a, b in zip(interpret(before, arrays)[0], interpret(after, arrays, names)[0]):
        assert np.array_equal(a, b)


def elementwise(shape, value=lambda v: v * 2 + 1, stages=1):
    tensors = [mt.placeholder(shape, name="A")]
    for n in range(stages):
        old = tensors[-1]
        tensors.append(mt.compute(shape, lambda *i, t=old: value(t[i]), name=f"C{n}"))
    return mt.Schedule(mt.lower([tensors[0], tensors[-1]]))


def guarded(axes, extent=5):
    s = elementwise((extent,) * axes)
    return s, [s.split(loop, [None, 3]) for loop in s.get_loops("C0")]


# ---- partition_loops


@pytest.mark.parametrize("room", [0, 3, 10, 40, 200])
@pytest.mark.parametrize("parallel", [False, True])
def test_loops_are_cut_while_there_is_room(room, parallel):
    s, pairs = guarded(3, 4)
    if parallel:
        s.parallel(pairs[0][0])
    program = before(s.program, "partition_loops")
    cut = program.replace(body=partition_loops._Cutter(room).statement(program.body, {}))
    assert count(cut) <= count(program) + room
    assert (count(cut) > count(program)) == (room > 0)
    assert_same(program, cut)


def test_the_hot_part_is_cut_before_what_is_left():
    """With room for one cut of each loop the guards leave the part that runs most."""
    s, pairs = guarded(3, 8)
    s.reorder(*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
    program = before(s.program, "partition_loops")
    text = str(program.replace(body=partition_loops._Cutter(25).statement(program.body, {})))
    innermost = [line for line in text.splitlines() if "C0[" in line]
    assert not any("if " in line for line in text.splitlines()[1:8])
    assert len(innermost) > 1 and "if " in text


@pytest.mark.slow
def test_sixteen_guarded_loops_do_not_become_65536():
    program = before(guarded(16)[0].program, "partition_loops")
    with recording() as recorder:
        cut = partition_loops.partition_loops(program, TARGET)
    assert count(cut) <= count(program) + partition_loops.MOST
    assert any("statements, and of 512" in remark.text for remark in recorder.remarks)


# ---- unroll_loops


def test_all_unrolled_loops_share_one_room():
    s = elementwise((300,), stages=5)
    for block in s.get_blocks():
        s.unroll(s.get_loops(block)[0])
    program = before(s.program, "unroll_loops")
    with recording() as recorder:
        after = unroll_loops.unroll_loops(program, TARGET)
    assert count(after) <= count(program) + unroll_loops.MOST_STATEMENTS
    assert [n.where for n in recorder.remarks] == [s.get_loops(f"C{n}")[0] for n in (3, 4)]
    assert all("299 statements more, and of 1024 127 are left" in n.text for n in recorder.remarks)
    assert_same(program, after)


@pytest.mark.parametrize("statements", [0, 2, 5, 6, 11, 12, 100])
def test_inner_loops_are_written_out_first(statements):
    s = elementwise((3, 4))
    for loop in s.get_loops("C0"):
        s.unroll(loop)
    program = before(s.program, "unroll_loops")
    unroller = unroll_loops._Unroller(statements, 10**6)
    after = program.replace(body=unroller.statement(program.body))
    assert count(after) <= count(program) + statements
    assert unroller.statements >= 0
    assert_same(program, after)


def test_long_expressions_take_room_too():
    def value(v):
        for n in range(100):
            v = v * 2 + n
        return v

    s = elementwise((1000,), value)
    s.unroll("i0")
    with recording() as recorder:
        after = lowered(s.program, TARGET)
    assert count(after) < 10
    ((remark),) = recorder.remarks
    assert "operations more, and of 200000 200000 are left" in remark.text


def test_what_is_collected_lane_by_lane_counts_for_each_lane():
    A = mt.placeholder((64, 16), name="A")
    C = mt.compute((64, 16), lambda i, j: A[i, (j * j) % 16], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.vectorize("j")
    program = before(s.program, "unroll_loops")
    assert any(isinstance(n, Lanes) for n in walk(program.body))
    nodes = sum(1 for _ in walk(program.body))
    assert unroll_loops._operations(program.body) > 5 * nodes


def test_loops_of_no_iterations_give_no_room():
    unroller = unroll_loops._Unroller(5, 100)
    s = elementwise((3,))
    assert unroller.has_room("i", 0, s.program.body, 3)
    assert (unroller.statements, unroller.operations) == (5, 100)


# ---- name_registers


def test_variables_have_a_limit_at_each_place(monkeypatch):
    monkeypatch.setattr(name_registers, "IN_SCOPE", 20)
    s = elementwise((2, 8), stages=5)
    i = s.get_loops("C4")[0]
    for block in reversed(s.get_blocks()[:-1]):
        s.compute_at(block, i)
    for block in s.get_blocks():
        s.unroll(s.get_loops(block)[-1])
    program = before(s.program, "name_registers")
    after = name_registers.name_registers(program, TARGET)
    buffers = [n.buffer for n in walk(after.body) if isinstance(n, Alloc)]
    assert sum(not b.shape for b in buffers) == 16
    assert sum(bool(b.shape) for b in buffers) == 2
    assert_same(program, after)


# ---- whole programs


@pytest.mark.slow
def test_a_program_of_many_stages_is_generated_within_the_usual_recursion_limit():
    s = elementwise((4,), stages=400)
    usual = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(1000)
        text = generate(s.program, TARGET).source
    finally:
        sys.setrecursionlimit(max(usual, sys.getrecursionlimit()))
    assert text.count("for (") == 400


@pytest.mark.slow
def test_a_program_of_too_many_stages_is_refused():
    with pytest.raises(mt.ArgumentError, match=r"a program nested at most 2000 deep, .*in parts$"):
        generate(elementwise((4,), lambda v: v, stages=2000).program, TARGET)


@pytest.mark.slow
def test_a_program_of_too_many_operations_is_refused():
    def value(v):
        for _ in range(13):
            v = v + v * 2
        return v

    s = elementwise((4,), value, stages=4)
    with pytest.raises(mt.ArgumentError, match=r"at most 100000 operations, .* build it in parts"):
        generate(s.program, TARGET)


def test_a_long_header_is_cut():
    lines = [f's.split("i", [None, {n}])' for n in range(900)]
    source = generate(elementwise((4,)).program, TARGET, "\n".join(lines)).source
    assert source.count("s.split") == 500
    assert "// ... and 400 more lines\n" in source
