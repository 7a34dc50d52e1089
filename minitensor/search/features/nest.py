"""Loops around a statement, for many candidates: their lengths, and the indices they drive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import arith
from minitensor.arith import Integers, Linear, Num
from minitensor.search.features.names import MARKS, POSITIONS
from minitensor.search.features.statement import Statement

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
    """The loops around a statement, outermost first, and the ways of its indices in them.

    count    the number of candidates
    depth    the number of loops
    length   float64 (loops, candidates)
    around   float64 (loops + 1, candidates): a row of 1, and those of `length`
    inside   float64 (loops + 1, candidates): how often the statement runs in one iteration of what
             is outside of a loop; the last row is 1, the first one all executions
    several  whether a loop has several iterations, bool (loops, candidates)
    idle     whether one of the loops is empty for one of the candidates
    swings   of all forms that the statement indexes with (`number` finds one), and of its iters
    """

    def __init__(
        self,
        statement: Statement,
        extents: Mapping[str, Num],
        forms: Mapping[str, Linear],
        count: int,
    ) -> None:
        self.statement = statement
        self.count, self.depth = count, len(statement.loops)
        extent = np.empty((self.depth, count), np.int64)
        for row, name in zip(extent, statement.loops):
            row[:] = extents[name]
        self.around: Floats = np.ones((self.depth + 1, count))
        self.length: Floats = self.around[1:]
        self.length[:] = extent
        self.inside = np.ones((self.depth + 1, count))
        np.multiply.accumulate(self.length[::-1], axis=0, out=self.inside[-2::-1])
        self.several: Mask = extent > 1
        self.idle = bool((extent < 1).any())
        self._numbers: dict[object, int] = {}
        self.forms: list[Linear] = []
        for form in statement.forms():
            if self._numbers.setdefault(_key(form), len(self.forms)) == len(self.forms):
                self.forms.append(arith.replaced(form, forms))
        self.swings = Swings(self.forms, statement.loops, np.maximum(extent - 1, 0))

    def number(self, form: Linear) -> int:
        """The number of a form of the statement in `forms` and in `swings`."""
        return self._numbers[_key(form)]

    @cached_property
    def lanes(self) -> Integers:
        """The numbers of all candidates, (candidates,): picks one number of each in a table."""
        return np.arange(self.count)

    def innermost(self, marked: Mask) -> Integers:
        """The number of the innermost marked loop, (…, candidates); the last one if none is.

        marked  (…, loops, candidates), of one loop at least
        """
        found: Integers = marked.shape[-2] - 1 - marked[..., ::-1, :].argmax(-2)
        return found

    @cached_property
    def positions(self) -> npt.NDArray[np.int8]:
        """For each loop the number of its position, (loops, candidates): see POSITIONS.

        A loop is spatial if it moves along spatial axes only, reduce if along others only, mixed if
        along both, and none if it has one iteration or repeats what is done.
        """
        driven: dict[bool, list[int]] = {False: [], True: []}
        for name, reduces in self.statement.iters:
            driven[reduces].append(self.number(arith.variable(name)))
        spatial, reduce = (self.swings.moving(driven[kind]) for kind in (False, True))
        found = np.zeros(spatial.shape, np.int8)
        found[spatial & reduce] = _MIXED
        for first, own in ((_SPATIAL, spatial & ~reduce), (_REDUCE, reduce & ~spatial)):
            found[own] = first + 1
            some = own.any(0).nonzero()[0]
            found[own.argmax(0)[some], some] = first + 2
            found[self.innermost(own)[some], some] = first
        return found


class Swings:
    """The ways of forms while one loop runs from 0 to its end, all others standing at 0.

    step   how far its second value is from its first (0 for a loop of one iteration)
    moves  whether it moves at all, bool
    above  for each number of loops that stand still, the outermost ones: how far above where it
           started it comes while the others run, and
    below  how far below

    The first two are (forms, loops, candidates), the others (forms, loops + 1, candidates); all but
    `moves` are int64. A form that is linear in the loop is followed to its end. Any other is looked
    at where the variable is 1, 2, 4, 8, …, and at its end.
    """

    def __init__(self, forms: Sequence[Linear], loops: Sequence[str], last: Integers) -> None:
        """last  the last value of each loop's variable, (loops, candidates), at least 0"""
        place = {name: number for number, name in enumerate(loops)}
        self.step = np.zeros((len(forms), *last.shape), np.int64)
        curved: dict[tuple[int, int], tuple[Linear, str]] = {}
        for number, form in enumerate(forms):
            for atom, coefficient in form.terms.items():
                if isinstance(atom, arith.Operation):
                    inner = {name for arg in atom.args for name in arith.variables(arg)}
                    curved |= {(number, place[n]): (form, n) for n in inner if n in place}
                elif atom.name in place:
                    self.step[number, place[atom.name]] = coefficient
        self.step *= last > 0
        ends = self.step * last
        up, down = np.maximum(ends, 0), np.maximum(-ends, 0)
        for at, (form, name) in curved.items():
            up[at], down[at], self.step[at] = _sampled(form, name, last[at[1]])
        self.moves: Mask = (up > 0) | (down > 0)
        self.above, self.below = _from_inside(up), _from_inside(down)

    def moving(self, forms: Sequence[int]) -> Mask:
        """The loops that move one of some forms, bool (loops, candidates)."""
        found: Mask = np.logical_or.reduce(self.moves[forms], axis=0)
        return found


def _sampled(form: Linear, name: str, last: Integers) -> tuple[Integers, Integers, Integers]:
    """The most that a form goes up and down, and its first step."""
    most = int(last.max()) if last.size else 0
    powers = 1 << np.arange(max(1, (most - 1).bit_length() + 1), dtype=np.int64)
    points = np.minimum(powers[:, None], last)
    found = arith.at(form, name, points) - arith.at(form, name, 0)
    moved = np.broadcast_to(found, np.broadcast_shapes(np.shape(found), points.shape))
    return np.maximum(moved.max(0), 0), np.maximum(-moved.min(0), 0), moved[0]


def _from_inside(ways: Integers) -> Integers:
    """The sums over the loops inside of each, (forms, loops + 1, candidates); the last are 0."""
    forms, loops, count = ways.shape
    sums = np.zeros((forms, loops + 1, count), np.int64)
    np.cumsum(ways[:, ::-1], axis=1, out=sums[:, -2::-1])
    return sums


def _key(form: Linear) -> object:
    """Equal for forms that are written alike but for a constant."""
    return frozenset(form.terms.items())


def marked(statement: Statement, given: Mapping[str, Marks] | None, count: int) -> Mask:
    """The loops that are executed in each of the ways MARKS, bool (ways, loops, candidates).

    given  marks by the name of the block; loops that are executed so already count for all
    """
    found = np.zeros((len(MARKS), len(statement.loops), count), np.bool_)
    more = None if given is None else given.get(statement.block)
    for kind, own in zip(MARKS, found):
        if more is not None:
            own[:] = np.asarray(getattr(more, kind), np.bool_).T
        own[[one.value == kind for one in statement.kinds]] = True
    return found
