"""The elements that a program visits, in the order of their visits; no more than a bound.

An iteration is a row of numbers, one for each loop around a block, and all rows of a block are
computed at once. A visit has a time, which is a sum over the loops: each counts the visits of what
is inside of it. Lanes of a vectorized loop have the same time, and parallel loops are taken one
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import ir

Numbers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
LARGE: Final = 5000
"""Nodes of a block from which on it is not looked at."""


class Access(NamedTuple):
    """An access of a block, in terms of its iters.

    guards  (condition, whether it has to hold) of an operand that is not always asked for
    first   whether it is part of the block's init
    """

    buffer: str
    indices: tuple[ir.Expr, ...]
    writes: bool
    guards: tuple[tuple[ir.Expr, bool], ...] = ()
    first: bool = False


def accesses_of(block: ir.Block) -> list[Access]:
    """The accesses of a block in the order in which they are made; none of one that is too large.

    A reduction writes the element that it reads: one access.
    """
    if ir.nodes_in(block, LARGE) >= LARGE:
        return []
    found = []
    for part, first in ((block.init, True), (block.body, False)):
        for stmt in ir.stmts_of(part) if part is not None else ():
            if isinstance(stmt, ir.Store):
                found += [a._replace(first=first) for a in _loads(stmt.value, ())]
                found.append(Access(stmt.buffer, stmt.indices, True, first=first))
            elif isinstance(stmt, ir.Reduce):
                found += [a for value in stmt.values for a in _loads(value, ())]
                found += [Access(buffer, stmt.indices, True) for buffer in stmt.buffers]
    return found


def _loads(expr: ir.Expr, guards: tuple[tuple[ir.Expr, bool], ...]) -> Iterator[Access]:
    """The loads of an expression, those inside an index first."""
    if isinstance(expr, ir.Select) and expr.lazy:
        yield from _loads(expr.condition, guards)
        yield from _loads(expr.a, (*guards, (expr.condition, True)))
        yield from _loads(expr.b, (*guards, (expr.condition, False)))
        return
    for child in ir.children(expr):
        yield from _loads(child, guards)  # type: ignore[arg-type]
    if isinstance(expr, ir.Load):
        yield Access(expr.buffer, expr.indices, False, guards)


@dataclass(frozen=True)
class Visits:
    """The visits of one access: arrays (visits,).

    loops    around the block, outermost first, each with the number of the iteration
    indices  one array for each axis; None where an index depends on data
    time     of each visit
    """

    block: ir.Block
    access: Access
    loops: Mapping[str, Numbers]
    indices: tuple[Numbers, ...] | None
    time: Floats


def visits(
    block: ir.Block, loops: Mapping[str, Numbers], time: Floats, shapes: Mapping[str, Any]
) -> Iterator[Visits]:
    """The visits of a block in some iterations.

    loops   the number of the iteration of each loop around it, arrays (iterations,)
    time    of the iteration, (iterations,)
    shapes  of the buffers that are looked at
    """
    values: dict[str, Any] = {i.var: ir.value_by_numpy(i.binding, loops) for i in block.iters}
    runs = _holds(block.predicate, loops, time.shape)
    begins = np.ones(time.shape, np.bool_)
    for i in block.iters:
        if i.kind is not ir.IterKind.SPATIAL:
            begins &= values[i.var] == 0
    place = 0
    for access in accesses_of(block):
        if access.buffer not in shapes:
            continue
        made = runs & begins if access.first else runs.copy()
        for condition, wanted in access.guards:
            made &= _holds(condition, values, time.shape) == wanted
        found = [ir.value_by_numpy(index, values) for index in access.indices]
        indices: tuple[Numbers, ...] | None = None
        if not any(index is None for index in found):
            whole = [np.broadcast_to(np.asarray(i, np.int64), time.shape) for i in found]
            for index, extent in zip(whole, shapes[access.buffer]):
                made &= (index >= 0) & (index < extent)
            indices = tuple(index[made] for index in whole)
        there = {name: number[made] for name, number in loops.items()}
        yield Visits(block, access, there, indices, time[made] + place)
        place += 1


class Joined(NamedTuple):
    """Visits of a buffer by several accesses, one after the other: arrays (visits,).

    element  its place in the buffer, row by row
    source   the number of the access, and `place` the number of the visit among its own
    """

    element: Numbers
    time: Floats
    writes: Mask
    source: Numbers
    place: Numbers

    def at(self, chosen: Numbers | Mask) -> Joined:
        """Some of the visits."""
        e, t, w, s, p = self
        return Joined(e[chosen], t[chosen], w[chosen], s[chosen], p[chosen])


def joined(found: Sequence[Visits], shape: Sequence[int]) -> Joined:
    """The visits of a buffer of that shape; their indices do not depend on data."""
    parts = []
    for number, one in enumerate(found):
        element = np.zeros(len(one.time), np.int64)
        for index, extent in zip(one.indices or (), shape):
            element = element * extent + index
        writes = np.full(len(element), one.access.writes)
        source, place = np.full(len(element), number), np.arange(len(element))
        parts.append((element, one.time, writes, source, place))
    return Joined(*(np.concatenate(column) for column in zip(*parts)))


def indices_of(element: int, shape: Sequence[int]) -> list[int]:
    """The indices of an element from its place, row by row."""
    found: list[int] = []
    for extent in reversed(shape):
        element, index = divmod(element, max(1, extent))
        found.insert(0, index)
    return found


def _holds(condition: ir.Expr, values: Mapping[str, Any], shape: Any) -> Any:
    """The iterations in which a condition holds; all if it depends on data."""
    found = ir.value_by_numpy(condition, values)
    return np.broadcast_to(np.asarray(True if found is None else found, np.bool_), shape).copy()


# ---- in the order of the program


class Place(NamedTuple):
    """A block in the order of a program.

    loops    around it, outermost first
    weights  of each loop: the number of visits in one of its iterations; 0 for lanes
    start    the visits before the block in an iteration of all loops
    """

    block: ir.Block
    loops: tuple[ir.For, ...]
    weights: tuple[int, ...] = ()
    start: int = 0

    def still(self, buffer: str) -> dict[str, int]:
        """The loops that do not move along a buffer, each with one iteration: an element is first
        visited in their first.
        """
        parts: list[ir.Expr] = [self.block.predicate]
        for access in accesses_of(self.block):
            if access.buffer == buffer:
                parts += [*access.indices, *(condition for condition, _ in access.guards)]
        used = {name for part in parts for name in ir.free_vars(part)}
        moving = set(used)
        for i in self.block.iters:
            moving |= ir.free_vars(i.binding).keys() if i.var in used else set()
        return {loop.var: min(1, loop.extent) for loop in self.loops if loop.var not in moving}

    def visits(self, buffer: str) -> int:
        """The visits of a buffer, those that a guard skips counted in."""
        own = [a for a in accesses_of(self.block) if a.buffer == buffer and not a.first]
        return len(own) * math.prod(loop.extent for loop in self.loops)


def places(stmt: ir.Stmt, buffer: str) -> list[Place]:
    """The blocks below a statement that access a buffer, in order."""
    return _places(stmt, buffer)[1]


def _places(stmt: ir.Stmt, buffer: str) -> tuple[int, list[Place]]:
    if isinstance(stmt, ir.Block):
        own = sum(access.buffer == buffer for access in accesses_of(stmt))
        return own, [Place(stmt, ())] if own else []
    if isinstance(stmt, ir.For):
        inside, found = _places(stmt.body, buffer)
        lanes = stmt.kind is ir.LoopKind.VECTORIZE
        weight = 0 if lanes else inside
        found = [p._replace(loops=(stmt, *p.loops), weights=(weight, *p.weights)) for p in found]
        return min(_END, inside * (1 if lanes else stmt.extent)), found
    total, every = 0, list[Place]()
    for child in ir.children(stmt):
        if isinstance(child, (ir.For, ir.Block, ir.Seq, ir.If, ir.Alloc, ir.Tensorized)):
            count, found = _places(child, buffer)
            every += [p._replace(start=p.start + total) for p in found]
            total = min(_END, total + count)
    return total, every


_END: Final = 1 << 62
"""More visits than are ever counted."""


def in_order(
    program: ir.Program, buffer: ir.Buffer, most: int, moving: bool = False
) -> tuple[list[Visits], float]:
    """The first visits of a buffer, and the time until which they are known: infinity if these are
    all.

    most    iterations of each block that are looked at
    moving  whether loops that do not move along the buffer stay at their first iteration, so that
            an element has its first visits only
    """
    found: list[Visits] = []
    horizon = math.inf
    for place in places(program.body, buffer.name):
        few = place.still(buffer.name) if moving else {}
        numbers, complete = first_iterations(place.loops, most, few)
        count = len(next(iter(numbers.values()))) if numbers else 1
        time = np.full(count, float(place.start))
        for loop, weight in zip(place.loops, place.weights):
            time += numbers[loop.var] * float(weight)
        if not complete and count:
            horizon = min(horizon, float(time.max()))
        found += visits(place.block, numbers, time, {buffer.name: buffer.shape})
    return found, horizon


def first_iterations(
    loops: Sequence[ir.For], most: int, fewer: Mapping[str, int]
) -> tuple[dict[str, Numbers], bool]:
    """The first iterations of nested loops in order, lanes innermost; and whether these are all.

    fewer  iterations of some of the loops
    """
    extents = {loop.var: fewer.get(loop.var, loop.extent) for loop in loops}
    lanes = [loop.var for loop in loops if loop.kind is ir.LoopKind.VECTORIZE]
    order = [loop.var for loop in loops if loop.var not in lanes] + lanes
    total = math.prod(extents.values())
    rest = np.arange(min(total, most), dtype=np.int64)
    numbers: dict[str, Numbers] = {}
    for name in reversed(order):
        extent = max(1, min(extents[name], most))  # beyond, there is nothing left to divide
        rest, numbers[name] = np.divmod(rest, extent)
    return {loop.var: numbers[loop.var] for loop in loops}, total <= most
