"""Pass: vectorized loops of a GPU's threads move vectors of up to 16 bytes, and are written out.

    for v in vectorize(4):                  A_wide[0:4] = A[i*4 : i*4 + 4]
        B[i*4 + v] = max(A[i*4 + v], 0)     for v in unroll(4): B_wide[v] = max(A_wide[v], 0)
                                            B[i*4 : i*4 + 4] = B_wide[0:4]

    before  loops of kind VECTORIZE inside the threads of kernels
    after   none: what neighbouring elements are loaded from, or stored to, at a place that is known
            to be aligned, is copied at once, by way of an array in registers; all else is unrolled

A thread computes one number at a time, so only memory sees vectors. What is read under a condition
stays where it is. Every buffer starts at a multiple of 16 bytes (`Emitted.aligned`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target

WIDTHS: Final = (16, 8, 4, 2)
"""Numbers of elements of a vector."""
BYTES: Final = (4, 8, 16)
"""Numbers of bytes that one instruction of a thread moves."""


def wide_copies(program: ir.Program, target: Target) -> ir.Program:
    """The program without vectorized loops."""
    return program.replace(body=_Widener(program).statement(program.body, {}))


class _Widener:
    def __init__(self, program: ir.Program) -> None:
        self.names = ir.names_in(program)
        self.buffers = dict(program.buffers)

    def statement(self, stmt: ir.Stmt, ranges: arith.Ranges) -> ir.Stmt:
        """A statement; `ranges` are those of the loops around it."""
        if isinstance(stmt, ir.Alloc):
            self.buffers[stmt.buffer.name] = stmt.buffer
        if isinstance(stmt, ir.For):
            inner = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
            if stmt.kind is not ir.LoopKind.VECTORIZE:
                return ir.with_body(stmt, self.statement(stmt.body, inner))
            stmts = stmt.body.stmts if isinstance(stmt.body, ir.Seq) else (stmt.body,)
            if all(isinstance(child, ir.Store) for child in stmts):
                return ir.sequence(*[self.vectors(stmt, child, ranges) for child in stmts])
            missed("vector", stmt.var, "a thread does one by one what stands under conditions")
            return _unrolled(stmt.var, stmt.extent, self.statement(stmt.body, inner))
        return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))

    def vectors(self, loop: ir.For, stmt: ir.Stmt, ranges: arith.Ranges) -> ir.Stmt:
        """One store of a vectorized loop: as many vectors as the loop has."""
        pieces = ir.fresh_name(f"{loop.var}_vector", self.names)
        lane = ir.fresh_name(f"{loop.var}_lane", self.names)
        best: tuple[list[_Access], int, ir.Stmt] = [], 1, stmt
        for width in WIDTHS:
            count, rest = divmod(loop.extent, width)
            if rest:
                continue
            inner = {**ranges, pieces: arith.extent_range(count), lane: arith.extent_range(width)}
            simplifier = arith.Simplifier(inner)
            at = simplifier.expr(ir.Var(pieces) * width + ir.Var(lane))
            split = _simplified(ir.substitute(stmt, {loop.var: at}), simplifier)
            found = [a for a in _certain(split) if self.is_wide(a, lane, width, simplifier)]
            if len(found) > len(best[0]):
                best = found, width, split
        accesses, width, split = best
        if not accesses:
            text = "no access is to elements next to each other at places known to be aligned"
            missed("vector", loop.var, text)
            return _unrolled(loop.var, loop.extent, stmt)
        became(loop.var, f"moves vectors of {width} elements")
        body = self.piece(split, accesses, lane, width)
        count = loop.extent // width
        return _unrolled(pieces, count, body) if count > 1 else body

    def is_wide(self, access: _Access, lane: str, width: int, simplifier: arith.Simplifier) -> bool:
        """Tell whether the lanes of an access are neighbours that one instruction moves."""
        buffer = self.buffers[access.buffer]
        if width * buffer.dtype.bits // 8 not in BYTES or buffer.dtype.lanes > 1:
            return False
        if not access.indices or any(ir.mentions(index, lane) for index in access.indices[:-1]):
            return False
        last = simplifier.linear(access.indices[-1])
        others = [atom for atom in last.terms if atom != ir.Var(lane)]
        if last.terms.get(ir.Var(lane)) != 1 or any(ir.mentions(a, lane) for a in others):
            return False
        place = arith.linear_of(ir.Const(0))
        for index, stride in zip(access.indices, ir.strides_of(buffer)):
            place = place.plus(simplifier.linear(index), stride)
        steps = [step for atom, step in place.terms.items() if atom != ir.Var(lane)]
        return all(step % width == 0 for step in (*steps, place.constant))

    def piece(self, stmt: ir.Stmt, accesses: list[_Access], lane: str, width: int) -> ir.Stmt:
        """The lanes of one vector: what is loaded before them, and stored behind them, at once."""
        assert isinstance(stmt, ir.Store)
        arrays: list[ir.Buffer] = []
        before: list[ir.Stmt] = []
        held: dict[ir.Expr, ir.Expr] = {}
        for load in accesses:
            if isinstance(load, ir.Load) and load not in held:
                arrays.append(self.array(load.buffer, width))
                before.append(_copy(arrays[-1], load, lane, width))
                held[load] = ir.Load(arrays[-1].name, (ir.Var(lane),), load.dtype)
        value = ir.rewrite(stmt.value, lambda node: held.get(node, node))  # type: ignore[arg-type]
        if stmt not in accesses:
            inner = ir.Store(stmt.buffer, stmt.indices, value)
            return ir.allocated(arrays, ir.sequence(*before, _unrolled(lane, width, inner)))
        if stmt.value in held:  # a copy, which needs no array between
            whole = _ramped(stmt.value, lane, width)
            return ir.Store(stmt.buffer, _lanes(stmt.indices, lane, width), whole)
        arrays.append(self.array(stmt.buffer, width))
        inner = ir.Store(arrays[-1].name, (ir.Var(lane),), value)
        kept = ir.Load(arrays[-1].name, (ir.Var(lane),), arrays[-1].dtype)
        after = ir.Store(stmt.buffer, _lanes(stmt.indices, lane, width), _ramped(kept, lane, width))
        return ir.allocated(arrays, ir.sequence(*before, _unrolled(lane, width, inner), after))

    def array(self, buffer: str, width: int) -> ir.Buffer:
        """An array in registers for a vector of a buffer's elements."""
        name = ir.fresh_name(f"{buffer}_wide", self.names)
        made = ir.Buffer(name, (width,), self.buffers[buffer].dtype, ir.Scope.REGISTER)
        self.buffers[name] = made
        return made


_Access = ir.Load | ir.Store


def _certain(stmt: ir.Stmt) -> list[_Access]:
    """The accesses that are made whatever conditions hold, the store last."""
    assert isinstance(stmt, ir.Store)
    return [*_certain_loads(stmt.value), stmt]


def _certain_loads(node: ir.Expr) -> Iterator[ir.Load]:
    if isinstance(node, ir.Load):
        yield node
    chosen = (isinstance(node, ir.Select) and node.lazy) or (
        isinstance(node, ir.Binary) and node.op in ("and", "or")
    )
    for n, child in enumerate(ir.children(node)):
        if isinstance(child, ir.Expr) and not (chosen and n > 0):
            yield from _certain_loads(child)


def _simplified(stmt: ir.Stmt, simplifier: arith.Simplifier) -> ir.Stmt:
    """A store with simplified indices."""

    def one(node: ir.Node) -> ir.Node:
        if isinstance(node, (ir.Load, ir.Store)):
            indices = tuple(map(simplifier.expr, node.indices))
            if isinstance(node, ir.Load):
                return ir.Load(node.buffer, indices, node.dtype)
            return ir.Store(node.buffer, indices, node.value)
        return node

    return ir.rewrite(stmt, one)


def _unrolled(var: str, extent: int, body: ir.Stmt) -> ir.Stmt:
    return ir.For(var, extent, body, ir.LoopKind.UNROLL)


def _copy(array: ir.Buffer, load: ir.Load, lane: str, width: int) -> ir.Stmt:
    """Fill an array with the vector that a load is a lane of."""
    return ir.Store(array.name, _lanes((ir.Var(lane),), lane, width), _ramped(load, lane, width))


def _ramped(load: ir.Expr, lane: str, width: int) -> ir.Expr:
    """The vector that a load is a lane of."""
    assert isinstance(load, ir.Load)
    indices = _lanes(load.indices, lane, width)
    return ir.Load(load.buffer, indices, load.dtype.with_lanes(width))


def _lanes(indices: tuple[ir.Expr, ...], lane: str, width: int) -> tuple[ir.Expr, ...]:
    """The indices of all lanes at once; the last of them counts the lane."""
    first = arith.linear_of(ir.substitute(indices[-1], {lane: ir.Const(0)})).expr()
    return (*indices[:-1], ir.Ramp(first, 1, width))
