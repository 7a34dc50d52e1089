"""Loops that index arrays in registers are written out; others stay as they are."""

from minitensor import ir
from minitensor.codegen import Target
from minitensor.codegen.passes.unroll_registers import MOST, unroll_registers

FLOAT = ir.DType.of("float32")
UNROLL, SERIAL = ir.LoopKind.UNROLL, ir.LoopKind.SERIAL


def kinds(loops, indices, scope=ir.Scope.LOCAL, shape=None):
    """The kinds of nested loops around a store to an array, and from it."""
    shape = tuple(n for _, n in loops) if shape is None else shape
    array = ir.Buffer("array", shape, FLOAT, scope)
    out = ir.Buffer("out", tuple(n for _, n in loops), FLOAT)
    at = tuple(ir.Var(name) for name, _ in loops)
    body = ir.sequence(
        ir.Store("array", indices, ir.const(1.0, FLOAT)),
        ir.Store("out", at, ir.Load("array", indices, FLOAT)),
    )
    for name, extent in reversed(loops):
        body = ir.For(name, extent, body)
    program = ir.Program("p", (out,), (), ir.Alloc(array, body))
    after = unroll_registers(program, Target("cuda"))
    ir.verify(after)
    return [loop.kind for loop in ir.loops_of(after.body)]


def test_a_loop_that_indexes_registers_is_written_out():
    at = (ir.Var("i"), ir.Var("j"))
    assert kinds([("i", 8), ("j", 8)], at) == [UNROLL, UNROLL]


def test_a_loop_that_does_not_is_left():
    assert kinds([("i", 8), ("j", 8)], (ir.Var("j"),), shape=(8,)) == [SERIAL, UNROLL]


def test_shared_memory_and_large_arrays_have_addresses():
    at = (ir.Var("i"),)
    assert kinds([("i", 8)], at, scope=ir.Scope.SHARED) == [SERIAL]
    assert kinds([("i", 8)], at, shape=(1000,)) == [SERIAL]


def test_no_statement_is_copied_too_often():
    at = tuple(map(ir.Var, "ijk"))
    one = (at[0] % 4, at[1] % 4, at[2] % 4)
    found = kinds([("i", 32), ("j", 32), ("k", 2)], one, shape=(4, 4, 4))
    assert MOST == 32 * 32 and found == [UNROLL, UNROLL, SERIAL]
