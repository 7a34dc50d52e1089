"""Tiles that a loop updates, and the nests that fill them beforehand.

Not a pass: a part of `promote_accumulators`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from minitensor import arith, ir

WRITTEN_OUT: Final = (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE)


@dataclass(frozen=True, slots=True)
class Tile:
    """Elements of a buffer that a loop updates, all or a part: the indices in terms of the loops of
    the tile.

    loops    the unrolled and vectorized loops that run over the tile, outermost first
    indices  of each access
    is_read  whether the loop reads what it finds
    guarded  whether a condition stands between the loop and an access
    """

    buffer: ir.Buffer
    loops: tuple[ir.For, ...]
    indices: tuple[ir.Expr, ...]
    is_read: bool
    guarded: bool = False

    def nest(self, stmt: ir.Stmt) -> ir.Stmt:
        """A statement in the loops over the tile."""
        for loop in reversed(self.loops):
            stmt = ir.For(loop.var, loop.extent, stmt, loop.kind)
        return stmt


def parts_of_fill(stmt: ir.Stmt, tiles: list[Tile]) -> list[ir.Stmt]:
    """A nest that fills several parts of a tile, with what it does not change, as a nest for each;
    any other statement as it is.
    """
    parts = _apart(stmt)
    filled = [[tile for tile in tiles if filled_value(part, tile) is not None] for part in parts]
    ones = [id(tile) for found in filled for tile in found]
    whole = len(parts) > 1 and all(filled) and len(set(ones)) == len(parts)
    kept = whole and ir.stored_buffers(stmt).isdisjoint(load.buffer for load in ir.loads(stmt))
    return parts if kept else [stmt]


def _apart(stmt: ir.Stmt) -> list[ir.Stmt]:
    match stmt:
        case ir.For(kind=kind) if kind in WRITTEN_OUT:
            return [replace(stmt, body=part) for part in _apart(stmt.body)]
        case ir.Seq(stmts):
            return [part for child in stmts for part in _apart(child)]
    return [stmt]


def fills_before(stmts: list[ir.Stmt], tiles: list[Tile]) -> list[ir.Stmt]:
    """The last of some statements that fill tiles, and may as well do it after the others."""
    found: list[ir.Stmt] = []
    read, written = set[str](), set[str]()
    for stmt in reversed(stmts):
        filled = [tile for tile in tiles if filled_value(stmt, tile) is not None]
        stores = {n.buffer for n in ir.walk(stmt) if isinstance(n, ir.Store)}
        loads = {load.buffer for load in ir.loads(stmt)}
        if filled and stores.isdisjoint(read | written) and loads.isdisjoint(written):
            found.append(stmt)
        else:
            written |= stores
        read |= loads
        if not filled and not isinstance(stmt, ir.Store):
            break
    return found


def filled_value(stmt: ir.Stmt, tile: Tile) -> ir.Expr | None:
    """The value that a nest stores in every element of the tile, in the tile's loops; None if it
    does something else.
    """
    loops: list[ir.For] = []
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, ir.Store) or stmt.buffer != tile.buffer.name:
        return None
    if any(load.buffer == stmt.buffer for load in ir.loads(stmt)):
        return None
    if sorted(n.extent for n in loops) != sorted(n.extent for n in tile.loops):
        return None
    renamed: dict[str, ir.Expr] = {}
    for mine, theirs in zip(loops, tile.loops):
        if mine.extent != theirs.extent:
            return None
        renamed[mine.var] = ir.Var(theirs.var)
    ranges = {n.var: arith.extent_range(n.extent) for n in tile.loops}
    simplifier = arith.Simplifier(ranges)
    same = [
        simplifier.expr(ir.substitute(i, renamed)) == simplifier.expr(j)
        for i, j in zip(stmt.indices, tile.indices)
    ]
    return ir.substitute(stmt.value, renamed) if all(same) else None
