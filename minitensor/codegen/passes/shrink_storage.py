"""Pass: allocations shrink to the part that one iteration of their loop touches.

    before  Alloc statements of full shapes
    after   each axis as long as the region that is touched, indices counted from its start;
            axes of a single element are dropped

With T of shape [64, 64] computed and read inside a loop over y,

    T[y*4 + a, b] for a in range(6)     becomes     T of shape [6, 64] and T[a, b]
    T[y, b]                             becomes     T of shape [64] and T[b]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitensor import arith, ir
from minitensor.codegen.intrinsics import relied_on
from minitensor.codegen.target import Target

STATEMENTS: Final = (ir.For, ir.Seq, ir.If, ir.Store, ir.Alloc, ir.Tensorized)
"""The statements of a program without blocks."""


def shrink_storage(program: ir.Program, target: Target) -> ir.Program:
    """The program with every allocation as small as it can be."""
    return program.replace(body=_statement(program.body, {}, _Users()))


def _statement(stmt: ir.Stmt, ranges: Mapping[str, arith.Interval], users: _Users) -> ir.Stmt:
    if isinstance(stmt, ir.For):
        ranges = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
    new = ir.map_stmts(stmt, lambda child: _statement(child, ranges, users))
    return _shrunk(new.buffer, new.body, ranges, users) if isinstance(new, ir.Alloc) else new


class _Users:
    """The buffers that statements access: a program may have many, and each few users."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[ir.Stmt, frozenset[str]]] = {}

    def accesses(self, stmt: ir.Stmt, buffer: str) -> bool:
        """Tell whether a statement, or one below it, accesses a buffer."""
        return buffer in self.accessed(stmt)

    def accessed(self, stmt: ir.Stmt) -> frozenset[str]:
        """The buffers that a statement and those below it access."""
        if id(stmt) not in self.known:
            found: set[str] = {stmt.buffer} if isinstance(stmt, ir.Store) else set()
            for child in ir.children(stmt):
                if isinstance(child, STATEMENTS):
                    found |= self.accessed(child)
                else:
                    found.update(load.buffer for load in ir.loads(child))
            self.known[id(stmt)] = stmt, frozenset(found)
        return self.known[id(stmt)][1]

    def calls(self, stmt: ir.Stmt, buffer: str) -> Iterator[ir.Tensorized]:
        """The intrinsics called at or below a statement where a buffer is accessed."""
        if not self.accesses(stmt, buffer):
            return
        if isinstance(stmt, ir.Tensorized):
            yield stmt
        for child in ir.children(stmt):
            if isinstance(child, STATEMENTS):
                yield from self.calls(child, buffer)


def _shrunk(
    buffer: ir.Buffer, body: ir.Stmt, outer: Mapping[str, arith.Interval], users: _Users
) -> ir.Stmt:
    box = _Touched(buffer, outer, users).box_of(body)
    if box is None:
        return ir.Alloc(buffer, body)
    calls = tuple(users.calls(body, buffer.name))
    fixed = _first_fixed(buffer, calls)
    kept = [
        axis >= fixed or span.extent >= extent
        for axis, (span, extent) in enumerate(zip(box, buffer.shape))
    ]
    extents = [n if keep else span.extent for span, n, keep in zip(box, buffer.shape, kept)]
    dropped = [extent == 1 and _may_lose_axes(buffer, calls) for extent in extents]
    if all(kept) and not any(dropped):
        return ir.Alloc(buffer, body)
    lows = [
        None if drop else arith.Linear({}) if keep else span.low
        for span, drop, keep in zip(box, dropped, kept)
    ]
    shape = tuple(extent for extent, drop in zip(extents, dropped) if not drop)
    small = ir.Buffer(buffer.name, shape, buffer.dtype, buffer.scope, buffer.alignment)
    return ir.Alloc(small, _Shift(buffer.name, lows, users).statement(body, outer))


def _may_lose_axes(buffer: ir.Buffer, calls: Sequence[ir.Tensorized]) -> bool:
    """Tell whether no alignment of strides and no intrinsic counts the axes of the buffer."""
    operands = (operand.buffer for call in calls for operand in call.operands)
    return not buffer.alignment and buffer.name not in operands


def _first_fixed(buffer: ir.Buffer, calls: Sequence[ir.Tensorized]) -> int:
    """The first axis that must stay whole, since an intrinsic relies on a stride it is part of."""
    found = [relied_on(call, buffer.name) for call in calls]
    return min((axis + 1 for axis in found if axis is not None), default=len(buffer.shape))


class _Touched:
    """Collects the box of one buffer that a statement touches."""

    def __init__(
        self, buffer: ir.Buffer, outer: Mapping[str, arith.Interval], users: _Users
    ) -> None:
        self.buffer = buffer
        self.users = users
        self.outer = frozenset(outer)
        self.box: arith.Box | None = None
        self.start = outer

    def box_of(self, stmt: ir.Stmt) -> arith.Box | None:
        """The box, in the variables outside the allocation; None if nothing is touched."""
        self.visit(stmt, self.start)
        return self.box

    def visit(self, node: ir.Node, ranges: Mapping[str, arith.Interval]) -> None:
        if isinstance(node, STATEMENTS) and not self.users.accesses(node, self.buffer.name):
            return
        if isinstance(node, ir.For):
            if node.extent:
                self.visit(node.body, {**ranges, node.var: arith.extent_range(node.extent)})
            return
        if isinstance(node, (ir.Load, ir.Store)) and node.buffer == self.buffer.name:
            simplifier = arith.Simplifier(ranges)
            forms = [simplifier.linear(index) for index in node.indices]
            inner = frozenset(ranges) - self.outer
            box = arith.box_of(forms, self.buffer.shape, inner, ranges)
            known = self.box
            self.box = box if known is None else arith.union_box(known, box, self.buffer.shape)
        for child in ir.children(node):
            self.visit(child, ranges)


@dataclass(frozen=True, slots=True)
class _Shift:
    """Subtracts `lows` from the indices of one buffer; an axis without one is dropped."""

    buffer: str
    lows: Sequence[arith.Linear | None]
    users: _Users

    def statement(self, stmt: ir.Stmt, ranges: Mapping[str, arith.Interval]) -> ir.Stmt:
        """The statement with shifted accesses; `ranges` are those of the loops around it."""
        if not self.users.accesses(stmt, self.buffer):
            return stmt
        if isinstance(stmt, ir.For):
            ranges = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
        if not isinstance(stmt, (ir.Store, ir.If, ir.Tensorized)):
            return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))
        simplifier = arith.Simplifier(ranges)

        def one(node: Any) -> Any:
            if not isinstance(node, (ir.Load, ir.Store)) or node.buffer != self.buffer:
                return node
            indices = tuple(
                simplifier.linear(index).minus(low).expr()
                for index, low in zip(node.indices, self.lows)
                if low is not None
            )
            if isinstance(node, ir.Load):
                return ir.Load(node.buffer, indices, node.dtype)
            return ir.Store(node.buffer, indices, node.value)

        if isinstance(stmt, ir.Store):
            return ir.rewrite(stmt, one)
        inner = ir.map_stmts(stmt, lambda child: self.statement(child, ranges))
        if isinstance(inner, ir.Tensorized):
            operands = tuple(ir.rewrite(operand, one) for operand in inner.operands)
            return ir.Tensorized(inner.intrinsic, operands, inner.axes, inner.body)
        assert isinstance(inner, ir.If)
        return ir.If(ir.rewrite(inner.condition, one), inner.then, inner.otherwise)
