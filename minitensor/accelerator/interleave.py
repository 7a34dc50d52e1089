"""Virtual threads, interleaved: their loops go inwards, to where several operations stand.

    for v in bind(2, "vthread"):                  for k in range(n):
        for k in range(n):                            for v in bind(2, "vthread"):
            load S, multiply S               =>           load S[v], multiply S[v]

What is an operation of its own for each thread may stand in any order, and buffers get an axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitensor import ir
from minitensor.codegen import indexed, with_axes


def interleaved(stmt: ir.Stmt) -> ir.Stmt:
    """The statement with its vthread loops as far inside as they go."""
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.VTHREAD:
        return _inwards(stmt, interleaved(stmt.body))
    return ir.map_stmts(stmt, interleaved)


def _inwards(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A vthread loop around a statement; operations that stand together stay together."""
    if not is_operation(body):
        match body:
            case ir.Alloc(buffer, inner):
                own = indexed(inner, buffer.name, (ir.Var(loop.var),))
                return ir.Alloc(with_axes(buffer, (loop.extent,)), _inwards(loop, own))
            case ir.For() if body.kind is not ir.LoopKind.VTHREAD:
                return ir.with_body(body, _inwards(loop, body.body))
            case ir.Seq(stmts) if not all(map(is_operation, stmts)):
                return ir.sequence(*[_inwards(loop, group) for group in _groups(stmts)])
    return ir.with_body(loop, body)


def _groups(stmts: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Statements in order, neighbours that are operations together."""
    together: list[ir.Stmt] = []
    for stmt in stmts:
        if is_operation(stmt):
            together.append(stmt)
            continue
        if together:
            yield ir.sequence(*together)
        together = []
        yield stmt
    if together:
        yield ir.sequence(*together)


def is_operation(stmt: ir.Stmt) -> bool:
    """Tell whether a statement is one store, in loops and under conditions."""
    while isinstance(stmt, (ir.For, ir.If)):
        if isinstance(stmt, ir.If):
            if stmt.otherwise is not None:
                return False
            stmt = stmt.then
        elif stmt.kind is ir.LoopKind.VTHREAD:
            return False
        else:
            stmt = stmt.body
    return isinstance(stmt, (ir.Store, ir.Tensorized))
