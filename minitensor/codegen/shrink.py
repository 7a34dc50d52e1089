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
from typing import Any, Final

from minitensor.arith import (
    Box,
    Interval,
    Linear,
    Simplifier,
    box_of,
    extent_range,
    union_box,
)
from minitensor.codegen.intrinsics import relied_on
from minitensor.ir import (
    Alloc,
    Buffer,
    For,
    If,
    Load,
    Node,
    Program,
    Seq,
    Stmt,
    Store,
    Tensorized,
    children,
    loads,
    map_stmts,
    rewrite,
)

STATEMENTS: Final = (For, Seq, If, Store, Alloc, Tensorized)
"""What may stand in a program without blocks."""


def shrink_storage(program: Program) -> Program:
    """The program with every allocation as small as it can be."""
    return program.replace(body=_statement(program.body, {}, _Users()))


def _statement(stmt: Stmt, ranges: Mapping[str, Interval], users: _Users) -> Stmt:
    if isinstance(stmt, For):
        ranges = {**ranges, stmt.var: extent_range(stmt.extent)}
    new = map_stmts(stmt, lambda child: _statement(child, ranges, users))
    return _shrunk(new.buffer, new.body, ranges, users) if isinstance(new, Alloc) else new


class _Users:
    """Which buffers statements access: a program may have many buffers, and each few users."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Stmt, frozenset[str]]] = {}

    def accesses(self, stmt: Stmt, buffer: str) -> bool:
        """Whether a statement, or one below it, accesses a buffer."""
        return buffer in self.accessed(stmt)

    def accessed(self, stmt: Stmt) -> frozenset[str]:
        """The buffers that a statement and those below it access."""
        if id(stmt) not in self.known:
            found: set[str] = {stmt.buffer} if isinstance(stmt, Store) else set()
            for child in children(stmt):
                if isinstance(child, STATEMENTS):
                    found |= self.accessed(child)
                else:
                    found.update(load.buffer for load in loads(child))
            self.known[id(stmt)] = stmt, frozenset(found)
        return self.known[id(stmt)][1]

    def calls(self, stmt: Stmt, buffer: str) -> Iterator[Tensorized]:
        """The intrinsics called at or below a statement where a buffer is accessed."""
        if not self.accesses(stmt, buffer):
            return
        if isinstance(stmt, Tensorized):
            yield stmt
        for child in children(stmt):
            if isinstance(child, STATEMENTS):
                yield from self.calls(child, buffer)


def _shrunk(buffer: Buffer, body: Stmt, outer: Mapping[str, Interval], users: _Users) -> Stmt:
    box = _Touched(buffer, outer, users).box_of(body)
    if box is None:
        return Alloc(buffer, body)
    calls = tuple(users.calls(body, buffer.name))
    fixed = _first_fixed(buffer, calls)
    kept = [
        axis >= fixed or span.extent >= extent
        for axis, (span, extent) in enumerate(zip(box, buffer.shape))
    ]
    extents = [n if keep else span.extent for span, n, keep in zip(box, buffer.shape, kept)]
    dropped = [extent == 1 and _may_lose_axes(buffer, calls) for extent in extents]
    if all(kept) and not any(dropped):
        return Alloc(buffer, body)
    lows = [
        None if drop else Linear({}) if keep else span.low
        for span, drop, keep in zip(box, dropped, kept)
    ]
    shape = tuple(extent for extent, drop in zip(extents, dropped) if not drop)
    small = Buffer(buffer.name, shape, buffer.dtype, buffer.scope, buffer.alignment)
    return Alloc(small, _Shift(buffer.name, lows, users).statement(body, outer))


def _may_lose_axes(buffer: Buffer, calls: Sequence[Tensorized]) -> bool:
    """Whether nothing counts the axes of the buffer: no alignment of its strides, no intrinsic."""
    operands = (operand.buffer for call in calls for operand in call.operands)
    return not buffer.alignment and buffer.name not in operands


def _first_fixed(buffer: Buffer, calls: Sequence[Tensorized]) -> int:
    """The first axis that must stay whole, since an intrinsic relies on a stride it is part of."""
    found = [relied_on(call, buffer.name) for call in calls]
    return min((axis + 1 for axis in found if axis is not None), default=len(buffer.shape))


class _Touched:
    """Collects the box of one buffer that a statement touches."""

    def __init__(self, buffer: Buffer, outer: Mapping[str, Interval], users: _Users) -> None:
        self.buffer = buffer
        self.users = users
        self.outer = frozenset(outer)
        self.box: Box | None = None
        self.start = outer

    def box_of(self, stmt: Stmt) -> Box | None:
        """The box, in the variables outside the allocation; None if nothing is touched."""
        self.visit(stmt, self.start)
        return self.box

    def visit(self, node: Node, ranges: Mapping[str, Interval]) -> None:
        if isinstance(node, STATEMENTS) and not self.users.accesses(node, self.buffer.name):
            return
        if isinstance(node, For):
            if node.extent:
                self.visit(node.body, {**ranges, node.var: extent_range(node.extent)})
            return
        if isinstance(node, (Load, Store)) and node.buffer == self.buffer.name:
            simplifier = Simplifier(ranges)
            forms = [simplifier.linear(index) for index in node.indices]
            inner = frozenset(ranges) - self.outer
            box = box_of(forms, self.buffer.shape, inner, ranges)
            known = self.box
            self.box = box if known is None else union_box(known, box, self.buffer.shape)
        for child in children(node):
            self.visit(child, ranges)


class _Shift:
    """Subtracts `lows` from the indices of one buffer; an axis without one is dropped."""

    def __init__(self, buffer: str, lows: Sequence[Linear | None], users: _Users) -> None:
        self.buffer = buffer
        self.lows = lows
        self.users = users

    def statement(self, stmt: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        """The statement with shifted accesses; `ranges` are those of the loops around it."""
        if not self.users.accesses(stmt, self.buffer):
            return stmt
        if isinstance(stmt, For):
            ranges = {**ranges, stmt.var: extent_range(stmt.extent)}
        if not isinstance(stmt, (Store, If, Tensorized)):
            return map_stmts(stmt, lambda child: self.statement(child, ranges))
        simplifier = Simplifier(ranges)

        def one(node: Any) -> Any:
            if not isinstance(node, (Load, Store)) or node.buffer != self.buffer:
                return node
            indices = tuple(
                simplifier.linear(index).minus(low).expr()
                for index, low in zip(node.indices, self.lows)
                if low is not None
            )
            if isinstance(node, Load):
                return Load(node.buffer, indices, node.dtype)
            return Store(node.buffer, indices, node.value)

        if isinstance(stmt, Store):
            return rewrite(stmt, one)
        inner = map_stmts(stmt, lambda child: self.statement(child, ranges))
        if isinstance(inner, Tensorized):
            operands = tuple(rewrite(operand, one) for operand in inner.operands)
            return Tensorized(inner.intrinsic, operands, inner.axes, inner.body)
        assert isinstance(inner, If)
        return If(rewrite(inner.condition, one), inner.then, inner.otherwise)
