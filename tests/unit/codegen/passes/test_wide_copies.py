"""Vectorized loops of a GPU's threads: what is moved as vectors, and that it means the same."""

import numpy as np
import pytest
from hypothesis import given

import minitensor as mt
from minitensor import ir
from minitensor.codegen import PASSES, Target
from minitensor.codegen.passes.wide_copies import wide_copies
from minitensor.testing import programs, schedules, small_arrays

TARGET = Target("cuda")
UNTIL = [name for name, _ in PASSES].index("simplify") + 1


def plain(program):
    """The program in plain statements, its loops as they were scheduled."""
    for _, run in PASSES[:UNTIL]:
        program = run(program, Target("c", 1, 0))
    return program


def widened(schedule):
    after = wide_copies(plain(schedule.program), TARGET)
    ir.verify(after)
    return after


def copies(program):
    """The vectors that are moved: the buffer, and how many elements."""
    found = []
    for node in ir.walk(program.body):
        if isinstance(node, (ir.Load, ir.Store)) and isinstance(
            node.indices[-1] if node.indices else None, ir.Ramp
        ):
            found.append((node.buffer, node.indices[-1].lanes))
    return sorted(set(found))


def scheduled(shape, value, dtype="float32", result="float32", vector=4):
    a = mt.placeholder(shape, dtype, name="A")
    b = mt.compute(shape, lambda *i: value(a, *i).astype(result), name="B")
    s = mt.Schedule(mt.lower([a, b]))
    _, last = s.split(s.get_loops("B")[-1], [None, vector])
    s.vectorize(last)
    return s


def agrees(schedule):
    inputs = small_arrays(schedule.program, 0)
    expected = mt.interpret(schedule.history[0], *inputs)
    (result,), _ = ir.interpret(widened(schedule), inputs)
    np.testing.assert_array_equal(result, expected)


def test_a_copy_needs_no_array_between():
    s = scheduled((8, 16), lambda a, i, j: a[i, j])
    after = widened(s)
    assert copies(after) == [("A", 4), ("B", 4)]
    assert not [n for n in ir.walk(after.body) if isinstance(n, ir.Alloc)]
    agrees(s)


def test_what_is_computed_goes_through_registers():
    s = scheduled((8, 16), lambda a, i, j: mt.maximum(a[i, j], 0.0))
    assert copies(widened(s)) == [("A", 4), ("A_wide", 4), ("B", 4), ("B_wide", 4)]
    agrees(s)


def test_an_odd_row_is_moved_element_by_element():
    s = scheduled((8, 12), lambda a, i, j: a[i, j])
    assert copies(widened(s)) == [("A", 4), ("B", 4)]
    s = mt.Schedule(s.history[0])
    a = mt.placeholder((8, 13), name="A")
    b = mt.compute((8, 12), lambda i, j: a[i, j + 1], name="B")
    s = mt.Schedule(mt.lower([a, b]))
    _, last = s.split("j", [None, 4])
    s.vectorize(last)
    assert copies(widened(s)) == [("B", 4), ("B_wide", 4)]
    agrees(s)


def test_a_long_loop_is_several_vectors():
    s = scheduled((4, 32), lambda a, i, j: a[i, j] * 2.0, vector=16)
    after = widened(s)
    assert ("A", 4) in copies(after)
    unrolled = [n.extent for n in ir.loops_of(after.body) if n.kind is ir.LoopKind.UNROLL]
    assert sorted(unrolled) == [4, 4]
    agrees(s)


@pytest.mark.parametrize(("dtype", "lanes"), [("float16", 8), ("float64", 2), ("int8", 16)])
def test_a_vector_has_sixteen_bytes(dtype, lanes):
    s = scheduled((4, 32), lambda a, i, j: a[i, j], dtype, dtype, vector=16)
    assert copies(widened(s)) == [("A", lanes), ("B", lanes)]


def test_a_conversion_moves_as_many_elements_on_both_sides():
    s = scheduled((4, 32), lambda a, i, j: a[i, j], "float32", "float16", vector=8)
    assert {width for _, width in copies(widened(s))} == {4}
    agrees(s)


def test_what_is_read_under_a_condition_stays_there():
    s = scheduled((4, 16), lambda a, i, j: mt.if_then_else(j < 13, a[i, j], 0.0))
    assert copies(widened(s)) == [("B", 4), ("B_wide", 4)]
    agrees(s)


def test_a_column_is_loaded_element_by_element():
    a = mt.placeholder((16, 16), name="A")
    b = mt.compute((16, 16), lambda i, j: a[j, i], name="B")
    s = mt.Schedule(mt.lower([a, b]))
    _, last = s.split("j", [None, 4])
    s.vectorize(last)
    assert copies(widened(s)) == [("B", 4), ("B_wide", 4)]
    agrees(s)


@pytest.mark.slow
@given(programs().flatmap(schedules))
def test_any_program_means_the_same(schedule):
    before = plain(schedule.program)
    after = wide_copies(before, TARGET)
    ir.verify(after)
    assert not [n for n in ir.loops_of(after.body) if n.kind is ir.LoopKind.VECTORIZE]
    inputs = small_arrays(schedule.program, 1)
    outputs = [b.name for b in schedule.program.outputs]
    expected, _ = ir.interpret(before, inputs, outputs)
    found, _ = ir.interpret(after, inputs, outputs)
    for want, got in zip(expected, found):
        np.testing.assert_array_equal(got, want)
