"""Pass: the value that a scan carries from one iteration to the next is kept in a register.

    before  for j in range(64):
                for i in unroll(4):
                    B[i, j] = if_then_else(1 <= j, B[i, j - 1], 0.0) + A[i, j]
    after   B_carry = empty(float32[4])
            for i in unroll(4): B_carry[i] = 0.0
            for j in range(64):
                for i in unroll(4):
                    B_carry[i] = if_then_else(1 <= j, B_carry[i], 0.0) + A[i, j]
                    B[i, j] = B_carry[i]

An addition waits for the one before it then, and not for memory. So it is done where a loop stores
each element once, and reads of it what the iteration before stored; and where the first iteration
would read in front of the buffer, which no program does: it has a guard for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.remarks import became, stands_for
from minitensor.codegen.target import Target

SUFFIX: Final = "_carry"
MOST: Final = 64
"""The most elements that a scan carries."""


def carry_scans(program: ir.Program, target: Target) -> ir.Program:
    """The program with the values that its scans carry in local arrays."""
    carrier = _Carrier(ir.names_in(program), {b.name: b for b in program.params})
    return program.replace(body=carrier.statement(program.body, {}))


class _Carrier:
    """names: all that are taken; buffers: those that a statement may access"""

    def __init__(self, names: set[str], buffers: dict[str, ir.Buffer]) -> None:
        self.names = names
        self.buffers = buffers

    def statement(self, stmt: ir.Stmt, ranges: Mapping[str, arith.Interval]) -> ir.Stmt:
        """The statement inside of loops with these ranges."""
        if isinstance(stmt, ir.Alloc):
            self.buffers[stmt.buffer.name] = stmt.buffer
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))
        inner = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
        if stmt.kind is ir.LoopKind.SERIAL and (found := _scan(stmt, inner)) is not None:
            return self.carried(stmt, *found)
        return ir.map_stmts(stmt, lambda child: self.statement(child, inner))

    def carried(self, loop: ir.For, rows: tuple[ir.For, ...], store: ir.Store) -> ir.Stmt:
        """The loop with a local array of as many elements as it has rows."""
        old = self.buffers[store.buffer]
        self.names.add(name := ir.fresh_name(old.name + SUFFIX, self.names))
        stands_for(name, old.name)
        became(loop.var, f"carries {ir.print_name(old.name)} from iteration to iteration")
        carry = ir.Buffer(name, tuple(n.extent for n in rows), old.dtype, ir.Scope.LOCAL)
        where = tuple(ir.Var(n.var) for n in rows)
        here = ir.Load(name, where, old.dtype)

        def read(node: ir.Node) -> ir.Node:
            return here if isinstance(node, ir.Load) and node.buffer == old.name else node

        step = ir.sequence(
            ir.Store(name, where, ir.rewrite(store.value, read)),
            ir.Store(old.name, store.indices, here),
        )
        first = ir.Store(name, where, ir.const(0, old.dtype))
        body = ir.with_body(loop, ir.nest(rows, step))
        return ir.allocated([carry], ir.sequence(ir.nest(rows, first), body))


def _scan(
    loop: ir.For, ranges: Mapping[str, arith.Interval]
) -> tuple[tuple[ir.For, ...], ir.Store] | None:
    """The unrolled loops inside of a loop that scans, and what they store; None for any other."""
    rows: list[ir.For] = []
    stmt = loop.body
    while isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.UNROLL:
        rows.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, ir.Store) or math.prod(n.extent for n in rows) > MOST:
        return None
    reads = [load for load in ir.loads(stmt.value) if load.buffer == stmt.buffer]
    if not reads or any(ir.loads(index) for index in stmt.indices):
        return None
    every = {**ranges, **{n.var: arith.extent_range(n.extent) for n in rows}}
    simplifier = arith.Simplifier(every)
    stored = [simplifier.linear(index) for index in stmt.indices]
    earlier = {loop.var: ir.Binary("-", ir.Var(loop.var), ir.Const(1))}
    before = [simplifier.linear(ir.substitute(index, earlier)) for index in stmt.indices]
    if any([simplifier.linear(i) for i in load.indices] != before for load in reads):
        return None
    free = frozenset({loop.var, *(n.var for n in rows)})
    if not all(arith.separates(name, stored, stored, free, every) for name in free):
        return None
    return (tuple(rows), stmt) if _in_front(loop, reads[0], every) else None


def _in_front(loop: ir.For, read: ir.Load, ranges: Mapping[str, arith.Interval]) -> bool:
    """Tell whether the first iteration of a loop reads an element in front of the buffer."""
    first = [ir.substitute(index, {loop.var: ir.Const(0)}) for index in read.indices]
    return any(arith.interval_of(arith.simplify(i, ranges), ranges).hi < 0 for i in first)
