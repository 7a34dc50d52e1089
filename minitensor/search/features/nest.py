"""Loops around a statement, for many candidates: their lengths, and the indices they drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import arith
from minitensor.arith import Linear, Num, Truth
from minitensor.search.features.names import POSITIONS
from minitensor.search.features.statement import Statement


@dataclass(frozen=True, slots=True)
class Swing:
    """The way of a form while one loop runs from 0 to its end, all others standing at 0.

    up, down  how far above and below where it started it comes: both at least 0
    step      how far its second value is from its first (0 for a loop of one iteration)
    moves     whether it moves at all; True if it does wherever the loop has several iterations
    """

    up: Num
    down: Num
    step: Num
    moves: Truth


def swing(form: Linear, name: str, last: Num) -> Swing | None:
    """The swing of a form with one loop; None if it does not depend on it.

    last  the last value of the loop's variable: its extent less 1, and at least 0

    A form that is linear in the loop is followed to its end. Any other is looked at where the
    variable is 1, 2, 4, 8, …, and at its end.
    """
    if any(name in arith.variables(arg) for a in arith.operations(form) for arg in a.args):
        return _sampled(form, name, last)
    coefficient = form.coefficient(name)
    if arith.is_zero(coefficient):
        return None
    reached = arith.product(coefficient, last)
    some = last > 0
    if isinstance(coefficient, int):
        up, down = (reached, 0) if coefficient > 0 else (0, -reached)
        return Swing(up, down, coefficient * some, True)
    step = coefficient * some
    if coefficient.size and coefficient.min() > 0:
        return Swing(reached, 0, step, True)
    up, down = np.maximum(reached, 0), np.maximum(-reached, 0)
    return Swing(up, down, step, reached != 0)


def _sampled(form: Linear, name: str, last: Num) -> Swing:
    ends = np.atleast_1d(np.asarray(last, np.int64))
    most = int(ends.max()) if ends.size else 0
    powers = 1 << np.arange(max(1, (most - 1).bit_length() + 1), dtype=np.int64)
    points = np.minimum(powers[:, None], ends)
    found = arith.at(form, name, points) - arith.at(form, name, 0)
    moved = np.broadcast_to(found, np.broadcast_shapes(np.shape(found), points.shape))
    up, down = np.maximum(moved.max(0), 0), np.maximum(-moved.min(0), 0)
    return Swing(up, down, moved[0], (up > 0) | (down > 0))


Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
_MIXED = POSITIONS.index("mixed")
_SPATIAL, _REDUCE = POSITIONS.index("inner spatial"), POSITIONS.index("inner reduce")


@dataclass(frozen=True)
class Marks:
    """The execution of the loops around one block: bool (candidates, loops), outermost first.

    parallel   on the threads of the CPU
    vectorize  in the lanes of vectors
    unroll     written out
    """

    parallel: Mask
    vectorize: Mask
    unroll: Mask


class Nest:
    """The loops around a statement, outermost first.

    count   the number of candidates
    last    for each loop the last value of its variable (0 if there is none)
    length  float64 (loops, candidates)
    inside  float64 (loops + 1, candidates): how often the statement runs in one iteration of what
            is outside of a loop; the last row is 1, the first one all executions
    forms   for each iter of the block, its value as a form of the loops
    """

    def __init__(
        self,
        statement: Statement,
        extents: Mapping[str, Num],
        forms: Mapping[str, Linear],
        count: int,
    ) -> None:
        self.statement = statement
        self.count = count
        self.forms = forms
        loops = [extents[name] for name in statement.loops]
        self.last: list[Num] = [_less_one(extent) for extent in loops]
        self.length = np.empty((len(loops), count))
        self.inside = np.ones((len(loops) + 1, count))
        for row, extent in zip(self.length, loops):
            row[:] = extent
        for n in reversed(range(len(loops))):
            np.multiply(self.length[n], self.inside[n + 1], out=self.inside[n])
        self.several: Mask = self.length > 1

    @property
    def depth(self) -> int:
        """The number of loops."""
        return len(self.length)

    @cached_property
    def idle(self) -> bool:
        """Return whether one of the loops is empty for one of the candidates."""
        return bool((self.length < 1).any())

    def swings(self, form: Linear) -> dict[int, Swing]:
        """The swing of a form of the block's iters with each loop that it depends on."""
        whole = arith.replaced(form, self.forms)
        names = arith.variables(whole)
        found: dict[int, Swing] = {}
        for n, name in enumerate(self.statement.loops):
            if name in names:
                one = swing(whole, name, self.last[n])
                if one is not None:
                    found[n] = one
        return found

    @cached_property
    def positions(self) -> npt.NDArray[np.int8]:
        """For each loop the number of its position, (loops, candidates): see POSITIONS.

        A loop is spatial if it moves along spatial axes only, reduce if along others only, mixed if
        along both, and none if it has one iteration or repeats what is done.
        """
        spatial, reduce = np.zeros_like(self.several), np.zeros_like(self.several)
        for name, reduces in self.statement.iters:
            driven = reduce if reduces else spatial
            for n, one in self.swings(arith.variable(name)).items():
                driven[n] |= self.moving(n, one.moves)
        found = np.zeros(spatial.shape, np.int8)
        found[spatial & reduce] = _MIXED
        for first, own in ((_SPATIAL, spatial & ~reduce), (_REDUCE, reduce & ~spatial)):
            found[own] = first + 1
            found[_first(own)] = first + 2
            found[::-1][_first(own[::-1])] = first
        return found

    def moving(self, loop: int, moves: Truth) -> Mask:
        """The candidates in which a loop of several iterations moves an index."""
        several: Mask = self.several[loop]
        return several if moves is True else several & moves

    def innermost(self, marked: Mask) -> npt.NDArray[np.intp]:
        """The number of the innermost marked loop, (candidates,); the last one if none is.

        marked  (loops, candidates)
        """
        found = np.full(self.count, self.depth - 1)
        for n, where in enumerate(marked):
            np.copyto(found, n, where=where)
        return found


def _first(rows: Mask) -> Mask:
    """For each column only the first row that is set."""
    found, seen = np.empty_like(rows), np.zeros(rows.shape[1], np.bool_)
    for row, own in zip(rows, found):
        np.greater(row, seen, out=own)
        seen |= row
    return found


def _less_one(extent: Num) -> Num:
    return max(0, extent - 1) if isinstance(extent, int) else np.maximum(extent - 1, 0)


def marked(
    statement: Statement, kind: str, given: Mapping[str, Marks] | None, count: int
) -> Mask | None:
    """The loops that are executed in a way, bool (loops, candidates); None for none.

    kind   the LoopKind; loops that are of it already count for all candidates
    given  marks by the name of the block
    """
    fixed = [one.value == kind for one in statement.kinds]
    more = None if given is None else given.get(statement.block)
    if more is None and not any(fixed):
        return None
    found = np.zeros((len(fixed), count), np.bool_)
    found[fixed] = True
    if more is not None:
        found |= np.asarray(getattr(more, kind), np.bool_).T
    return found
