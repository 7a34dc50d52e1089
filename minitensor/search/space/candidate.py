"""Candidates of a search: a sketch, and a decision for each of its knobs.

They are numbers and names, cheap to draw, to change and to compare. `Space` makes schedules of
them.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias, TypeVar

from minitensor.errors import printable
from minitensor.ir import print_name
from minitensor.schedule import Ref, divisors, draw_factors, prime_powers

Option = TypeVar("Option")
Value: TypeAlias = "int | tuple[int, ...]"
"""Of a knob: factors of a tile, or the position of a candidate."""

GRANULARITY: Final = (0, 1, 4, 16)
"""Iterations for each core that parallel loops have at least; 0 for no parallel loops. Loops are
fused until there are as many. (Ansor: up to 16.)"""
UNROLL: Final = (0, 16, 64, 512)
"""Copies of a statement that unrolling may make (Ansor's auto_unroll_max_step)."""
GPU_UNROLL: Final = (0, 16, 64, 512, 1024)
"""The same for a GPU."""
USUAL: Final = (4, 64)
"""Of each of these two, what a schedule by hand would take; for a GPU, 512 copies."""
SHOWN_OPTIONS: Final = 48
"""Characters of the options of a knob that a space shows."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A decision that a sketch leaves open.

    step        its number in the trace
    block       whose loop is cut; "" if it is none's
    loop        that loop; "" for a choice among candidates
    extent      of the loop
    parts       into how many it is cut
    limit       the largest innermost factor
    candidates  among which is chosen; () for a tile without a list. Those of `sample_tile` and its
                like are tuples: the decisions of the trace
    weights     how likely each of them is; () if all are alike
    is_place    whether it is where a template computes a block: one candidate, left as it is
    kind        "tile", "order" or "annotation", as its primitive is called; "" for others
    loops       that are put in order, or annotated
    call        counted from 1, the call of sample_categorical that makes it; 0 for another
    """

    step: int
    block: str
    loop: str = ""
    extent: int = 1
    parts: int = 1
    limit: int = 1
    candidates: tuple[int | float | str | Ref | tuple[int | str, ...], ...] = ()
    weights: tuple[float, ...] = ()
    is_place: bool = False
    kind: str = ""
    loops: tuple[str, ...] = ()
    call: int = 0

    @property
    def is_tile(self) -> bool:
        """Return whether it chooses the factors of a tile."""
        return not self.candidates

    @property
    def is_number(self) -> bool:
        """Return whether candidates that differ in it differ in numbers only."""
        return self.kind in ("", "tile")

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for two knobs of different sketches that are the same choice."""
        tile = (self.extent, self.parts, self.limit)
        return (self.block, self.loop, *tile, self.kind, self.loops, self.candidates)

    @property
    def name(self) -> str:
        """The knob in words: "tile of i", "order of i, j, k"."""
        what = ", ".join(map(print_name, self.loops or (self.loop,)))
        if self.kind:
            return f"{self.kind} of {what}"
        if self.loop:
            return f"{'tile' if self.is_tile else 'choice'} of {what}"
        if self.is_place:
            return f"place of {print_name(self.block)}"
        return f"sample_categorical, call {self.call}"

    def shown(self, value: Value) -> str:
        """A value in words."""
        chosen = value if isinstance(value, tuple) else self.candidates[value]
        if not isinstance(chosen, tuple):
            return printable(str(chosen))
        if self.kind == "order":
            return ", ".join(print_name(self.loops[int(place)]) for place in chosen)
        return (", " if self.kind == "annotation" else " x ").join(map(str, chosen))

    @property
    def options(self) -> tuple[Value, ...]:
        """All values, in order."""
        if self.is_tile:
            return _factors(self.extent, self.parts, self.limit)
        return tuple(range(len(self.candidates)))

    def draw(self, rng: random.Random) -> Value:
        """Any value: of factors all are equally likely, of candidates as their weights say."""
        if self.is_tile:
            return draw_factors(self.extent, self.parts, self.limit, rng)
        if not self.weights:
            return rng.randrange(len(self.candidates))
        return weighted(rng, range(len(self.candidates)), self.weights)

    def likeliest(self, rng: random.Random) -> Value:
        """The first of the values with the largest weight; any value where all are alike."""
        if not self.weights:
            return self.draw(rng)
        return self.weights.index(max(self.weights))

    def changed(self, value: Value, rng: random.Random) -> Value:
        """A value near another: a divisor is moved from one level of a tile to another, or a
        neighbour in a list is taken. The same one if there is no other.
        """
        if isinstance(value, tuple):
            return self._moved(value, rng)
        if len(self.candidates) < 2:
            return value
        if self.kind:
            return rng.choice(_nearest(self.candidates, value, self.kind == "tile"))
        near = [v for v in (value - 1, value + 1) if 0 <= v < len(self.candidates)]
        return rng.choice(near) if rng.random() < 0.7 else self.draw(rng)

    @property
    def levels(self) -> tuple[tuple[int, int], ...]:
        """The pairs of levels of a tile between which a divisor may move; (-1, -1) alone for other
        choices, which change in one way only.
        """
        if not self.is_tile:
            return ((-1, -1),)
        return tuple((a, b) for a in range(self.parts) for b in range(self.parts) if a != b)

    def moved(self, value: Value, source: int, target: int, rng: random.Random) -> Value:
        """The value with a divisor moved from one level of the tile to another; as `changed` for
        other choices. The same one where that cannot be.
        """
        if source < 0 or not isinstance(value, tuple):
            return self.changed(value, rng)
        parts = list(divisors(value[source]))[1:] if value[source] > 1 else []
        if target == len(value) - 1:
            parts = [part for part in parts if value[target] * part <= self.limit]
        if not parts:
            return value
        part, moved = rng.choice(parts), list(value)
        moved[source] //= part
        moved[target] *= part
        return tuple(moved)

    def _moved(self, factors: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
        last = len(factors) - 1
        sources = [level for level, factor in enumerate(factors) if factor > 1]
        for _ in range(4):
            if not sources or last == 0:
                break
            source = rng.choice(sources)
            part = rng.choice(divisors(factors[source])[1:])
            target = rng.choice([level for level in range(len(factors)) if level != source])
            if target == last and factors[last] * part > self.limit:
                continue
            moved = list(factors)
            moved[source] //= part
            moved[target] *= part
            return tuple(moved)
        return factors

    def fits(self, value: Value) -> bool:
        """Return whether it is one of the values that `draw` may give."""
        if not isinstance(value, tuple):
            return type(value) is int and 0 <= value < len(self.candidates)
        if not self.is_tile or len(value) != self.parts or any(type(f) is not int for f in value):
            return False
        inner = self.parts == 1 or value[-1] <= self.limit
        return min(value) >= 0 and math.prod(value) == self.extent and inner


def knob_lines(knobs: Sequence[Knob]) -> Iterator[str]:
    """A line for each knob: its name, the number of its options, and the first of them."""
    width = max((len(knob.name) for knob in knobs), default=0)
    for knob in knobs:
        options, text = knob.options, ""
        for number, option in enumerate(options):
            more = " | " * (number > 0) + knob.shown(option)
            if number and len(text) + len(more) > SHOWN_OPTIONS:
                text += " | …"
                break
            text += more
        count = f"{len(options):5,} option{'s' * (len(options) != 1)}"
        yield f"      {knob.name:{width}}  {count}: {text}"


@lru_cache(maxsize=4096)
def _nearest(candidates: tuple[Any, ...], own: int, are_tiles: bool) -> tuple[int, ...]:
    """The positions of the candidates nearest to one of them.

    Of tiles of a policy they differ by one prime that moves from a level to another; of orders by
    two loops that change places, of annotations in one loop.
    """
    distance = _primes_moved if are_tiles else _entries_changed
    apart = {n: distance(candidates[own], c) for n, c in enumerate(candidates) if n != own}
    least = min(apart.values())
    return tuple(place for place, steps in apart.items() if steps == least)


def _entries_changed(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(a != b for a, b in zip(one, other))


def _primes_moved(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of primes that change their level, those of the outermost level left out, which
    has what the others leave.
    """
    come = math.prod(b // math.gcd(a, b) for a, b in zip(one[1:], other[1:]))
    gone = math.prod(a // math.gcd(a, b) for a, b in zip(one[1:], other[1:]))
    inside = math.gcd(come, gone)
    return sum(sum(prime_powers(n)) for n in (inside, come // inside, gone // inside))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate.

    sketch     the number of its sketch in the space
    values     one for each knob of the sketch
    locations  where each block is computed that may be moved: the name of a loop, or "root"
    parallel   one of GRANULARITY for each nest that may have threads (see `Space.stages`)
    unroll     one of `Choices.copies` for each block that may be unrolled
    origin     the keys of the traces of measured ones that it comes from: its own, if it was
               measured; it does not tell candidates apart
    """

    sketch: int
    values: tuple[Value, ...]
    locations: tuple[str, ...] = ()
    parallel: tuple[int, ...] = ()
    unroll: tuple[int, ...] = ()
    origin: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def with_value(self, number: int, value: Value) -> Candidate:
        """The same with another value of one knob."""
        values = (*self.values[:number], value, *self.values[number + 1 :])
        return Candidate(
            self.sketch, values, self.locations, self.parallel, self.unroll, self.origin
        )

    def with_annotation(self, parallel: tuple[int, ...], unroll: tuple[int, ...]) -> Candidate:
        """The same with other numbers for its nests and blocks."""
        return Candidate(self.sketch, self.values, self.locations, parallel, unroll, self.origin)


@dataclass(frozen=True, slots=True)
class Mutations:
    """The kinds of mutations, with weights of any sum.

    They are Ansor's, with the probabilities that its code has for a CPU; it moves a tile's divisors
    far more often than anything else.

    Source: Ansor's code, src/auto_scheduler/search_policy/sketch_policy.cc. (For a GPU it has 0.9
    for tiles and 0.1 for unrolling.)
    """

    tile: float = 0.90
    parallel: float = 0.01
    unroll: float = 0.04
    location: float = 0.05


@dataclass(frozen=True, slots=True)
class Move:
    """A way to change a candidate in one choice.

    kind    "tile" for any knob; "parallel", "unroll", "location"
    number  of the knob, the nest, or the block
    source  the level of a tile from which a divisor is taken, from outside; -1 for other choices
    target  the level that gets it
    """

    kind: str
    number: int
    source: int = -1
    target: int = -1


def weighted(rng: random.Random, options: Sequence[Option], weights: Iterable[float]) -> Option:
    """One of some options, as likely as their weights say: `rng.choices`, for one and faster."""
    bounds = list(accumulate(weights))
    return options[bisect(bounds, rng.random() * bounds[-1], 0, len(bounds) - 1)]


@lru_cache(maxsize=1024)
def _factors(extent: int, parts: int, limit: int) -> tuple[tuple[int, ...], ...]:
    """All factors that multiply to an extent, the last at most `limit`, ascending."""
    if extent == 0:
        return ((0, *[1] * (parts - 1)),)
    if parts == 1:
        return ((extent,),)
    found = [
        (first, *rest)
        for first in divisors(extent)
        for rest in _factors(extent // first, parts - 1, limit)
    ]
    return tuple(factors for factors in found if factors[-1] <= limit)
