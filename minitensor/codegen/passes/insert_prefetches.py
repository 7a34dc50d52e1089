"""Pass: loops that prefetch get the statements that do it.

    before  for k in range(256):  # prefetch_B = 8
                for j in vectorize(32): C[j] = C[j] + A[k] * B[k, j]
    after   for k in range(256):
                for j_line in unroll(2): prefetch(B[min(k + 8, 255), j_line*16])
                for j in vectorize(32): C[j] = C[j] + A[k] * B[k, j]

The last iterations of the loop, which has none so far ahead, ask for what its last one reads; an
element beyond the end of a buffer, which a guard keeps from being read, is replaced by the last.
"""

from __future__ import annotations

from collections.abc import Mapping

from minitensor import arith, ir
from minitensor.codegen.remarks import became
from minitensor.codegen.target import Target


def insert_prefetches(program: ir.Program, target: Target) -> ir.Program:
    """The program with what its loops prefetch as statements."""
    inserter = _Inserter(ir.names_in(program))
    return program.replace(body=inserter.statement(program.body, {}, program.buffers))


class _Inserter:
    """names: all that are taken"""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def statement(
        self, stmt: ir.Stmt, ranges: arith.Ranges, buffers: Mapping[str, ir.Buffer]
    ) -> ir.Stmt:
        """The statement inside of loops with these ranges, where there are these buffers."""
        if isinstance(stmt, ir.Alloc):
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, lambda child: self.statement(child, ranges, buffers))
        inner = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
        body = self.statement(stmt.body, inner, buffers)
        wanted = arith.prefetches(stmt)
        if not wanted:
            return ir.with_body(stmt, body)
        ahead = [
            self.prefetch(stmt, buffers[name], distance, ranges)
            for name, distance in wanted.items()
            if name in buffers and isinstance(distance, int)
        ]
        notes = arith.other_notes(stmt)
        return ir.For(stmt.var, stmt.extent, ir.sequence(*ahead, body), stmt.kind, notes)

    def prefetch(
        self, loop: ir.For, buffer: ir.Buffer, distance: int, ranges: arith.Ranges
    ) -> ir.Stmt:
        """The statements at the start of an iteration that prefetch a buffer."""
        box = arith.box_read(loop, buffer, ranges)
        if box is None:
            return ir.NOTHING
        last = ir.Const(loop.extent - 1)
        then = {loop.var: ir.Binary("min", ir.Var(loop.var) + distance, last)}
        inner = {**ranges, loop.var: arith.extent_range(loop.extent)}
        lines: list[ir.For] = []
        indices: list[ir.Expr] = []
        for span, (count, step), extent in zip(box, arith.steps_of(box, buffer), buffer.shape):
            index = ir.substitute(span.low.expr(), then)
            if count > 1:
                name = ir.fresh_name(f"{loop.var}_line", self.names)
                lines.append(ir.For(name, count, ir.NOTHING, ir.LoopKind.UNROLL))
                inner[name] = arith.extent_range(count)
                index = index + ir.Var(name) * step
            inside = ir.Binary("max", ir.Binary("min", index, ir.Const(extent - 1)), ir.Const(0))
            indices.append(inside)
        simplifier = arith.Simplifier(inner)
        where = tuple(simplifier.expr(index) for index in indices)
        total = arith.product_of(line.extent for line in lines)
        text = (
            f"prefetches {total} lines of {ir.print_name(buffer.name)}, {distance} iterations ahead"
        )
        became(loop.var, text)
        return ir.nest(lines, ir.Prefetch(buffer.name, where))
