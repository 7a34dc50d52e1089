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

from minitensor import ir
from minitensor.codegen.gpu.accesses import THREADS, is_unit


def without_vthreads(stmt: ir.Stmt) -> ir.Stmt:
    """The statement with its vthread loops written out."""
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.VTHREAD:
        return _inwards(stmt, without_vthreads(stmt.body))
    return ir.map_stmts(stmt, without_vthreads)


def _inwards(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A vthread loop around a statement, as far inside of it as it goes."""
    if not is_unit(body):
        match body:
            case ir.Seq(stmts):
                return ir.sequence(*[_inwards(loop, child) for child in stmts])
            case ir.For() if body.kind in THREADS or body.kind is ir.LoopKind.SERIAL:
                return ir.with_body(body, _inwards(loop, body.body))
            case ir.Alloc(buffer, inner) if not _meets_over(inner, buffer.name):
                wide = with_axes(buffer, (loop.extent,))
                own = indexed(inner, buffer.name, (ir.Var(loop.var),))
                return ir.Alloc(wide, _inwards(loop, own))
    return ir.For(loop.var, loop.extent, body, ir.LoopKind.UNROLL, loop.annotations)


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
