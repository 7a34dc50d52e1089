"""Two strategies that learn nothing: candidates at random, and candidates in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from minitensor.search.evolution import Evolution, Population
from minitensor.search.space import GRANULARITY, MOST_LOCATIONS, Candidate, Space
from minitensor.search.strategy import Round

PROPOSED: Final = 16
"""Random candidates that are proposed at most, for each that is to be measured."""
MISSED: Final = 1024
"""Draws in a row that bring nothing new: then no more are made."""
AHEAD: Final = 64
"""Points of the grid behind the last that was tried that are proposed at most, for each that is to
be measured."""


@dataclass(frozen=True)
class Random:
    """Random candidates, none of them twice: no learning at all.

    Source: RandomTuner of AutoTVM (python/tvm/autotvm/tuner/index_based_tuner.py). There all
    configurations are alike; here sketches and values are as likely as `Space.draw` makes them.
    """

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> Iterator[Candidate]:
        """See Strategy. The search ends when draws bring nothing new any more."""
        population = Population(round.space, Evolution(), round.rng)
        known = {tried.candidate for tried in round.history}
        missed, left = 0, PROPOSED * round.count
        while missed < MISSED and left:
            candidate = population.draw()
            if candidate in known:
                missed += 1
                continue
            known.add(candidate)
            missed, left = 0, left - 1
            yield candidate


@dataclass(frozen=True)
class Grid:
    """Every candidate has a number; large strides visit them all, evenly spread over sketches,
    factors and places. The grid is the same for every seed.

    Source: GridSearchTuner of AutoTVM (python/tvm/autotvm/tuner/index_based_tuner.py), which visits
    neighbours one after the other, so that a short search sees one corner of the space.
    """

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> Iterator[Candidate]:
        """See Strategy. The search ends with the grid, or where nothing is new for long."""
        space = round.space
        known = {tried.candidate for tried in round.history}
        longest = max(math.prod(_axes(space, s)) for s in range(len(space.sketches)))
        left = AHEAD * round.count
        for number in range(longest * len(space.sketches)):
            point = _point(space, number)
            if point in known:
                left = AHEAD * round.count
            elif left == 0:
                break
            else:
                left -= 1
                yield point


def _axes(space: Space, sketch: int) -> list[int]:
    """The number of options of each choice of a sketch."""
    threads, copies = space.stages(sketch)
    axes = [len(knob.options) for knob in space.knobs[sketch]]
    axes += [MOST_LOCATIONS] * len(space.movable[sketch])
    return axes + [len(GRANULARITY) - 1] * len(threads) + [len(space.copies)] * len(copies)


def _point(space: Space, number: int) -> Candidate:
    """Point `number`: all sketches in turn, and in each a stride through its candidates. It begins
    elsewhere in each: the same decisions of a template are the same candidate, whatever the sketch.
    """
    turn, sketch = divmod(number, len(space.sketches))
    axes = _axes(space, sketch)
    total = math.prod(axes)
    point = (turn + sketch) * _coprime(total) % total
    digits = []
    for axis in axes:
        point, digit = divmod(point, axis)
        digits.append(digit)
    rest = iter(digits)
    values = tuple(knob.options[next(rest)] for knob in space.knobs[sketch])
    locations: tuple[str, ...] = ()
    for _ in space.movable[sketch]:
        possible = space.possible_locations(sketch, locations)
        locations += (possible[next(rest) % len(possible)],)
    parallel = tuple(GRANULARITY[1 + next(rest)] for _ in space.stages(sketch)[0])
    return Candidate(sketch, values, locations, parallel, tuple(space.copies[n] for n in rest))


def _coprime(total: int) -> int:
    """A stride near the golden section of the total that shares no divisor with it."""
    stride = max(1, int(total * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, total) != 1:
        stride += 1
    return stride
