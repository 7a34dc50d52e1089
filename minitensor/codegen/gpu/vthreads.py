"""Virtual threads, written out: their loops go inwards, around what one thread does.

    for v in bind(2, "vthread"):               for t in bind(8, "threadIdx.x"):
        for t in bind(8, "threadIdx.x"):           for v in unroll(2):
            S[v, t] = f(v, t)             =>           S[v, t] = f(v, t)
        for u in bind(8, "threadIdx.x"):       for u in bind(8, "threadIdx.x"):
            C[v, u] = g(S[v, 7 - u])               for v in unroll(2):
                                                       C[v, u] = g(S[v, 7 - u])

Their iterations are independent, so the statements of one may run between those of another. Buffers
that each of them has for itself get an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from minitensor import ir
from minitensor.codegen.gpu.accesses import THREADS, is_unit

Test = Callable[[ir.Stmt], bool]
Split = Callable[[Sequence[ir.Stmt]], Iterable[ir.Stmt]]


def without_vthreads(
    stmt: ir.Stmt,
    is_whole: Test = is_unit,
    parts: Split = iter,
    kind: ir.LoopKind = ir.LoopKind.UNROLL,
) -> ir.Stmt:
    """The statement with its vthread loops written out.

    is_whole  whether a loop goes around a statement, and not into it
    parts     of statements in order, those around which it goes together
    kind      of the loops that are left
    """

    def inwards(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
        if not is_whole(body):
            match body:
                case ir.Seq(stmts):
                    return ir.sequence(*[inwards(loop, part) for part in parts(stmts)])
                case ir.For() if body.kind in (*THREADS, ir.LoopKind.SERIAL):
                    return ir.with_body(body, inwards(loop, body.body))
                case ir.Alloc(buffer, inner) if not _meets_over(inner, buffer.name):
                    wide = with_axes(buffer, (loop.extent,))
                    own = indexed(inner, buffer.name, (ir.Var(loop.var),))
                    return ir.Alloc(wide, inwards(loop, own))
        return ir.For(loop.var, loop.extent, body, kind, loop.annotations)

    def rewritten(node: ir.Stmt) -> ir.Stmt:
        if isinstance(node, ir.For) and node.kind is ir.LoopKind.VTHREAD:
            return inwards(node, rewritten(node.body))
        return ir.map_stmts(node, rewritten)

    return rewritten(stmt)


def _meets_over(stmt: ir.Stmt, buffer: str) -> bool:
    """Tell whether threads combine what they hold in a buffer."""
    found = (node for node in ir.stmts_of(stmt) if isinstance(node, ir.ThreadReduce))
    return any(buffer in node.buffers for node in found)


def with_axes(buffer: ir.Buffer, extents: tuple[int, ...]) -> ir.Buffer:
    """A buffer with more axes in front."""
    alignment = tuple((axis + len(extents), *rest) for axis, *rest in buffer.alignment)
    return ir.Buffer(
        buffer.name,
        (*extents, *buffer.shape),
        buffer.dtype,
        buffer.scope,
        alignment,  # type: ignore[arg-type]
    )


def indexed(stmt: ir.Stmt, buffer: str, indices: tuple[ir.Expr, ...]) -> ir.Stmt:
    """A statement in which each access of a buffer has more indices in front."""

    def one(node: ir.Node) -> ir.Node:
        match node:
            case ir.Load(name, where, dtype) if name == buffer:
                return ir.Load(name, (*indices, *where), dtype)
            case ir.Store(name, where, value) if name == buffer:
                return ir.Store(name, (*indices, *where), value)
            case ir.Tensorized(intrinsic, operands, axes, body):
                moved = tuple(
                    tuple(None if axis is None else axis + len(indices) for axis in along)
                    if operand.buffer == buffer
                    else along
                    for operand, along in zip(operands, axes)
                )
                return ir.Tensorized(intrinsic, operands, moved, body)
        return node

    return ir.rewrite(stmt, one)
