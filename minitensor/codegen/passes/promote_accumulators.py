"""Pass: what a loop updates over and over is kept in registers.

    before  for k in range(64):
                for i in unroll(4):
                    for j in vectorize(16):
                        C[i, j] = C[i, j] + A[i, k] * B[k, j]
    after   C_acc = empty(float32[4, 16])
            … C_acc[i, j] = C[i, j] for all i, j …
            for k in range(64): … C_acc[i, j] = C_acc[i, j] + A[i, k] * B[k, j] …
            … C[i, j] = C_acc[i, j] for all i, j …

C_acc has constant indices once loops are written out, so it becomes as many register variables.
The outermost loop that does not index the buffer, serial or unrolled, is the one that is treated,
if the elements it updates are a tile of unrolled and vectorized loops that fits in the registers.
Where the tile is initialised right before the loop, that is done in registers too. At the end of an
axis, a tile may have parts of its own: eight columns and then four. Each is kept apart. A temporary
that is such a tile itself needs no other; short loops that read it afterwards are unrolled, so that
they read registers. An update may stand under a condition that holds for all of a tile or for none,
if the tile is initialised under no such condition.
Scalar replacement of array elements: Callahan, Carr and Kennedy, PLDI 1990.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from minitensor import arith, ir
from minitensor.codegen.passes.register_tiles import (
    WRITTEN_OUT,
    Tile,
    filled_value,
    fills_before,
    parts_of_fill,
)
from minitensor.codegen.remarks import became, is_recording, missed, stands_for
from minitensor.codegen.target import Target

REGISTERS: Final = 32
"""The most vectors of a tile: as many as any machine has registers for."""
SUFFIX: Final = "_acc"
MOST_UNROLLED: Final = 64
"""The most statements that loops over a tile in registers become where they are unrolled for it."""
SMALLER: Final = "split the loops of the tile by less"
DECOMPOSE: Final = "decompose_reduction moves an init out; split by a divisor leaves no guard"


_Place: TypeAlias = "tuple[tuple[ir.For | ir.If, ...], Sequence[ir.Load | ir.Store]]"
"""The loops and conditions around some accesses of a buffer, outermost first, and the accesses."""


def promote_accumulators(program: ir.Program, target: Target) -> ir.Program:
    """The program with the tiles that its loops update in local arrays."""
    scope = _Scope({}, {b.name: b for b in program.params})
    promoter = _Promoter(ir.names_in(program), max(128, target.vector_bits or 0) * REGISTERS // 8)
    return program.replace(body=promoter.statement(program.body, scope))


@dataclass(frozen=True, slots=True)
class _Scope:
    """The ranges of the loops around a statement, and the buffers that it may access."""

    ranges: Mapping[str, arith.Interval]
    buffers: Mapping[str, ir.Buffer]

    def inside(self, loop: ir.For) -> _Scope:
        """The scope of the loop's body."""
        return _Scope({**self.ranges, loop.var: arith.extent_range(loop.extent)}, self.buffers)

    def with_buffers(self, *buffers: ir.Buffer) -> _Scope:
        """The scope inside of allocations."""
        return _Scope(self.ranges, {**self.buffers, **{b.name: b for b in buffers}})


class _Promoter:
    """names: all that are taken; largest: bytes of a tile"""

    def __init__(self, names: set[str], largest: int) -> None:
        self.names = names
        self.largest = largest
        self.settled: set[str] = set()
        """Temporaries that will be in registers as they are."""

    def statement(self, stmt: ir.Stmt, scope: _Scope) -> ir.Stmt:
        match stmt:
            case ir.Alloc(buffer, body):
                body = _with_consumers_unrolled(buffer, body) if self.fits(buffer) else body
                if self.fits(buffer) and _is_written_out(buffer.name, body):
                    self.settled.add(buffer.name)
                return ir.Alloc(buffer, self.statement(body, scope.with_buffers(buffer)))
            case ir.Seq(stmts):
                return ir.sequence(*self.sequence(stmts, scope))
            case ir.For():
                tiles = [tile for tile in self.tiles(stmt, scope) if not tile.guarded]
                if tiles:
                    return self.promoted(stmt, tiles, [], scope)
                inner = scope.inside(stmt)
                return ir.map_stmts(stmt, lambda child: self.statement(child, inner))
        return ir.map_stmts(stmt, lambda child: self.statement(child, scope))

    def sequence(self, stmts: tuple[ir.Stmt, ...], scope: _Scope) -> list[ir.Stmt]:
        """The statements of a Seq; an init goes into the tile of the loop behind it."""
        done: list[ir.Stmt] = []
        for stmt in stmts:
            tiles = self.tiles(stmt, scope) if isinstance(stmt, ir.For) else []
            apart = [part for other in done for part in parts_of_fill(other, tiles)]
            fills = fills_before(apart, tiles)
            tiles = [t for t in tiles if not t.guarded or any(filled_value(f, t) for f in fills)]
            if not tiles:
                done.append(self.statement(stmt, scope))
                continue
            assert isinstance(stmt, ir.For)
            done = apart
            fills = [fill for fill in fills if any(filled_value(fill, tile) for tile in tiles)]
            done = [other for other in done if all(other is not fill for fill in fills)]
            done.append(self.promoted(stmt, tiles, fills, scope))
        return done

    def promoted(
        self, loop: ir.For, tiles: list[Tile], fills: list[ir.Stmt], scope: _Scope
    ) -> ir.Stmt:
        """The loop on local tiles, loaded or filled before it and stored after.

        fills  nests that fill tiles, taken from where they stood
        """
        body: ir.Stmt = loop
        local: list[ir.Buffer] = []
        head: list[ir.Stmt] = []
        tail: list[ir.Stmt] = []
        for tile in tiles:
            old = tile.buffer
            self.names.add(name := ir.fresh_name(old.name + SUFFIX, self.names))
            self.settled.add(name)
            stands_for(name, old.name)
            size = " x ".join(str(n.extent) for n in tile.loops)
            what = f"a tile of {size}" if size else "an element"
            became(loop.var, f"keeps {what} of {ir.print_name(old.name)}")
            new = ir.Buffer(name, tuple(n.extent for n in tile.loops), old.dtype, ir.Scope.LOCAL)
            local.append(new)
            where = tuple(ir.Var(n.var) for n in tile.loops)
            value = next((v for v in (filled_value(fill, tile) for fill in fills) if v), None)
            if value is None and tile.is_read:
                value = ir.Load(old.name, tile.indices, old.dtype)
            if value is not None:
                head.append(tile.nest(ir.Store(name, where, value)))
            result = ir.Load(name, where, old.dtype)
            tail.append(tile.nest(ir.Store(old.name, tile.indices, result)))
            body = _moved(body, tile, name, where)
        inner = scope.with_buffers(*local).inside(loop)
        body = ir.map_stmts(body, lambda child: self.statement(child, inner))
        return ir.allocated(local, ir.sequence(*head, body, *tail))

    def tiles(self, loop: ir.For, scope: _Scope) -> list[Tile]:
        """The buffers that the loop updates at places that do not depend on it."""
        if loop.kind not in (ir.LoopKind.SERIAL, ir.LoopKind.UNROLL):
            return []
        inside = {s.buffer.name for s in ir.stmts_of(loop) if isinstance(s, ir.Alloc)}
        written = {s.buffer for s in ir.stmts_of(loop) if isinstance(s, ir.Store)} - inside
        found: list[Tile] = []
        room = self.largest
        for name in sorted(written):
            buffer = scope.buffers[name]
            if name in self.settled:
                continue
            tiles = _tiles(loop, buffer, scope.ranges)
            size = sum(map(self.size, tiles))
            if size <= room:
                room -= size
                found += tiles
            else:
                text = f"its tile takes {size:,} bytes of registers, and {room:,} are left"
                _not_kept(buffer, text, SMALLER)
        return found

    def size(self, tile: Tile) -> int:
        """The bytes of the registers that a tile takes; one without lanes has one per element."""
        size = math.prod(n.extent for n in tile.loops) * tile.buffer.dtype.bits // 8
        if not any(n.kind is ir.LoopKind.VECTORIZE for n in tile.loops):
            size *= self.largest // REGISTERS * 8 // tile.buffer.dtype.bits
        return size

    def fits(self, buffer: ir.Buffer) -> bool:
        """Tell whether the registers hold all of the buffer."""
        return buffer.nbytes <= self.largest


def _with_consumers_unrolled(buffer: ir.Buffer, body: ir.Stmt) -> ir.Stmt:
    """The statement with short loops over a buffer unrolled, if that leaves it in registers.

    So it does if every access takes the same axes whole, in vectorized loops.
    """
    loops: dict[str, ir.For] = {}
    for loop in ir.loops_of(body):
        known = loops.setdefault(loop.var, loop)
        if (known.extent, known.kind) != (loop.extent, loop.kind):
            return body
    whole, short = set(), set()
    for access in ir.accesses(body, buffer.name):
        over = [[loops.get(v) for v in sorted(ir.free_vars(i))] for i in access.indices]
        wide = [
            isinstance(index, ir.Var)
            and [(n.kind, n.extent) for n in used if n] == [(ir.LoopKind.VECTORIZE, extent)]
            for index, used, extent in zip(access.indices, over, buffer.shape)
        ]
        whole.add(tuple(wide))
        for used, is_wide in zip(over, wide):
            if any(n is None or (n.kind is ir.LoopKind.VECTORIZE) != is_wide for n in used):
                return body
            short |= {n.var for n in used if n is not None and n.kind is ir.LoopKind.SERIAL}
    size = sum(loops[v].extent * sum(1 for _ in ir.stmts_of(loops[v].body)) for v in short)
    if len(whole) != 1 or not any(*whole) or size > MOST_UNROLLED:
        return body

    def unrolled(node: Any) -> Any:
        if not isinstance(node, ir.For) or node.var not in short:
            return node
        became(node.var, f"written out: {ir.print_name(buffer.name)} is in registers")
        return ir.For(node.var, node.extent, node.body, ir.LoopKind.UNROLL, node.annotations)

    return ir.rewrite(body, unrolled) if short else body


def _is_written_out(buffer: str, body: ir.Stmt) -> bool:
    """Tell whether each index of the buffer is a number once loops are written out."""
    written = {loop.var for loop in ir.loops_of(body) if loop.kind in WRITTEN_OUT}
    return all(
        written.issuperset(ir.free_vars(index))
        for access in ir.accesses(body, buffer)
        for index in access.indices
    )


def _tiles(loop: ir.For, buffer: ir.Buffer, ranges: Mapping[str, arith.Interval]) -> list[Tile]:
    """The parts of the tile of the buffer that the loop updates, mostly one; none if one is no tile
    itself, or if two may have an element in common.
    """
    first = ir.accesses(loop.body, buffer.name)[0].indices
    if any(ir.mentions(index, loop.var) for index in first):
        if is_recording() and not _is_driven_by(loop, first, ranges):
            _not_kept(buffer, f"the place that is updated depends on {ir.print_name(loop.var)}")
        return []
    places = _places(loop.body, buffer.name)
    if places is None:
        return []
    found = [_tile(loop, buffer, ranges, place) for place in places]
    tiles = [tile for tile in found if tile is not None]
    if len(tiles) < len(found):
        return []
    every = {**ranges, loop.var: arith.extent_range(loop.extent)}
    if not all(_are_apart(a, b, every) for a, b in itertools.combinations(tiles, 2)):
        _not_kept(buffer, "several statements of the loop access it", DECOMPOSE)
        return []
    return tiles


def _tile(
    loop: ir.For, buffer: ir.Buffer, ranges: Mapping[str, arith.Interval], place: _Place
) -> Tile | None:
    """The tile of the buffer that the loop updates in a place, if all accesses there are to the
    same elements, which tell the iterations of the loops over the tile apart.
    """
    around, accesses = place
    path = [n for n in around if isinstance(n, ir.For)]
    conditions = [n.condition for n in around if isinstance(n, ir.If)]
    indices = accesses[0].indices
    used = {name for index in indices for name in ir.free_vars(index)}
    if any(a.indices != indices for a in accesses):
        if not any(ir.mentions(index, loop.var) for a in accesses for index in a.indices):
            _not_kept(buffer, f"{ir.print_name(loop.var)} accesses it at more than one place")
        return None
    if any(ir.loads(index) for index in indices):
        _not_kept(buffer, "the place that is updated depends on data")
        return None
    if loop.var in used:
        return None
    inner = {n.var: arith.extent_range(n.extent) for n in path}
    over = tuple(n for n in path if n.var in used)
    loose = [n.var for n in over if n.kind not in WRITTEN_OUT]
    if loose:
        which = f"{', '.join(map(ir.print_name, loose))}, inside {ir.print_name(loop.var)},"
        text = f"{which} {'is' if len(loose) == 1 else 'are'} neither unrolled nor vectorized"
        _not_kept(
            buffer, text, f"unroll or vectorize it, or reorder {ir.print_name(loop.var)} into it"
        )
        return None
    every = {**ranges, loop.var: arith.extent_range(loop.extent), **inner}
    forms = [arith.Simplifier(every).linear(index) for index in indices]
    free = frozenset(n.var for n in over)
    if not all(arith.separates(n.var, forms, forms, free, every) for n in over):
        _not_kept(buffer, "iterations of the loops over it may update the same element")
        return None
    if any(ir.mentions(condition, n.var) for condition in conditions for n in over):
        _not_kept(buffer, "its update stands under a condition", DECOMPOSE)
        return None
    is_read = any(isinstance(a, ir.Load) for a in accesses)
    return Tile(buffer, over, indices, is_read, guarded=bool(conditions))


def _are_apart(a: Tile, b: Tile, ranges: Mapping[str, arith.Interval]) -> bool:
    """Tell whether two parts have no element in common: along some axis all of one are in front."""
    names: set[str] = {*ranges, *(n.var for n in (*a.loops, *b.loops))}
    every, renamed = dict(ranges), [dict[str, ir.Expr]() for _ in range(2)]
    for tile, names_of in zip((a, b), renamed):
        for loop in tile.loops:
            names.add(name := ir.fresh_name(loop.var, names))
            every[name] = arith.extent_range(loop.extent)
            names_of[loop.var] = ir.Var(name)
    return any(
        arith.prove(ir.Binary("<", low, high), every) is True
        for i, j in zip(a.indices, b.indices)
        for low, high in itertools.permutations(
            (ir.substitute(i, renamed[0]), ir.substitute(j, renamed[1]))
        )
    )


def _not_kept(buffer: ir.Buffer | str, why: str, advice: str = "") -> None:
    name = buffer if isinstance(buffer, str) else buffer.name
    missed("promotion", name, f"is loaded and stored at each update: {why}", advice)


def _is_driven_by(
    loop: ir.For, indices: tuple[ir.Expr, ...], ranges: Mapping[str, arith.Interval]
) -> bool:
    """Tell whether iterations of the loop have elements of their own, as in a spatial loop."""
    inner = {n.var: arith.extent_range(n.extent) for n in ir.loops_of(loop)}
    every = {**ranges, **inner}
    forms = [arith.Simplifier(every).linear(index) for index in indices]
    return arith.separates(loop.var, forms, forms, frozenset(inner), every)


def _places(stmt: ir.Stmt, buffer: str) -> list[_Place] | None:
    """The places below a statement that access a buffer; None if a condition on data, or one with
    an else, or a concurrent loop other than a vectorized one, stands between them.
    """
    match stmt:
        case ir.For(kind=kind, body=body):
            if kind.is_concurrent and kind is not ir.LoopKind.VECTORIZE:
                _not_kept(buffer, f"the {kind.value} loop {stmt.var} is around its update")
                return None
            rest = _places(body, buffer)
            return rest and [((stmt, *path), accesses) for path, accesses in rest]
        case ir.Alloc(body=body):
            return _places(body, buffer)
        case ir.Seq(stmts):
            touching = [s for s in stmts if _touches(s, buffer)]
            if all(isinstance(s, ir.Store) for s in touching):
                return [((), ir.accesses(ir.sequence(*touching), buffer))]
            found = [_places(s, buffer) for s in touching]
            places = [place for each in found if each for place in each]
            return places if all(found) else None
        case ir.Store():
            return [((), ir.accesses(stmt, buffer))]
        case ir.If(condition, then, None) if not ir.loads(condition):
            rest = _places(then, buffer)
            return rest and [((stmt, *path), accesses) for path, accesses in rest]
    _not_kept(buffer, "its update stands under a condition", DECOMPOSE)
    return None


def _touches(stmt: ir.Stmt, buffer: str) -> bool:
    return isinstance(stmt, ir.Barrier) or bool(ir.accesses(stmt, buffer))


def _moved(stmt: ir.Stmt, tile: Tile, new: str, where: tuple[ir.Expr, ...]) -> ir.Stmt:
    """The statement with its accesses of a tile going to a local one."""

    def one(node: Any) -> Any:
        if isinstance(node, (ir.Load, ir.Store)) and node.buffer == tile.buffer.name:
            if node.indices != tile.indices:  # of another part
                return node
            if isinstance(node, ir.Load):
                return ir.Load(new, where, node.dtype)
            return ir.Store(new, where, node.value)
        return node

    return ir.rewrite(stmt, one)
