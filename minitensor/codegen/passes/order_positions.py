"""The place of an extremum is kept without asking where positions only rise: before blocks are
erased.

    before  init I[i], V[i] = 9223372036854775807, -inf
            (I[i], V[i]) = argmax((I[i], V[i]), (int64(k*16 + i), X[k*16 + i]))
                keeps (i, x) if y < x or (x == y and i < j), and a NaN
    after   init I[i], V[i] = int64(i), -inf
                keeps (i, x) if y <= x, and a NaN

Of two that are level the smaller position stays; where a loop meets positions in their order, that
is the one that is there. An accumulator begins with the position that it meets first: what is level
with the identity is the identity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.gpu.combine import guarded

IN_ORDER: Final = (ir.LoopKind.SERIAL, ir.LoopKind.UNROLL)


def order_positions(program: ir.Program) -> ir.Program:
    """The program with reducers that do not compare positions."""
    changed = {name: _ordered(program, block) for name, block in program.blocks.items()}
    kept = {name: block for name, block in changed.items() if block is not None}

    def statement(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Block):
            return kept.get(stmt.name, stmt)
        return ir.map_stmts(stmt, statement)

    return program.replace(body=statement(program.body)) if kept else program


def _ordered(program: ir.Program, block: ir.Block) -> ir.Block | None:
    """The block if it need not compare positions; None if it must, or has none."""
    guard: ir.Expr = ir.TRUE
    reduce = block.body
    if isinstance(reduce, ir.If) and reduce.otherwise is None:
        guard, reduce = reduce.condition, reduce.then
    if not isinstance(reduce, ir.Reduce) or block.init is None:
        return None
    reducer, position = ir.in_order(reduce.reducer), reduce.values[0]
    if reducer is None or not _rises(program, block, position):
        return None
    start: dict[str, ir.Expr] = {
        i.var: ir.Const(0) for i in block.iters if i.kind is not ir.IterKind.SPATIAL
    }
    ranges = {i.var: arith.extent_range(i.extent) for i in block.iters}
    if arith.prove(ir.substitute(guard, start), ranges) is not True:
        return None  # an element whose first position is left out
    first = ir.substitute(position, start)
    inits = [
        ir.Store(s.buffer, s.indices, first if s.buffer == reduce.buffers[0] else s.value)
        for s in ir.stmts_of(block.init)
        if isinstance(s, ir.Store)
    ]
    body = ir.Reduce(reducer, reduce.buffers, reduce.indices, reduce.values)
    return replace(block, init=ir.sequence(*inits), body=guarded(guard, body))


def _rises(program: ir.Program, block: ir.Block, position: ir.Expr) -> bool:
    """Return whether each instance of the reduction has a greater position than those before it,
    and the first is there for every element.
    """
    loops = ir.paths(program)[block.name]
    inner = [loop for loop in loops if arith.carries(block, loop.var)]
    if not inner or not isinstance(position, ir.Cast) or not arith.starts(block, inner, 0):
        return False
    if any(arith.mixes(block, loop.var) or loop.kind not in IN_ORDER for loop in inner):
        return False
    ranges = {loop.var: arith.extent_range(loop.extent) for loop in loops}
    bindings = {i.var: i.binding for i in block.iters}
    form = arith.Simplifier(ranges).linear(ir.substitute(position.a, bindings))
    rise = 0  # the most that the loops further inside add
    for loop in reversed(inner):
        step = form.coefficient(loop.var)
        if step <= rise:
            return False
        rise += step * (loop.extent - 1)
        form = form.minus(arith.linear_of(ir.Var(loop.var)).times(step))
    start: dict[str, ir.Expr] = {loop.var: ir.Const(0) for loop in inner}
    return (
        not form.mentions_any(start)
        and arith.prove(ir.substitute(block.predicate, start), ranges) is True
    )
