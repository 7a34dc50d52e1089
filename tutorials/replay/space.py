"""The candidates of a table as a space: what is drawn, mutated and crossed in it is in it too.

A table has some values of each decision of some sketches, and all their combinations; annotation is
the same for all nests and blocks.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from minitensor.search.space import (
    GRANULARITY,
    UNROLL,
    Candidate,
    Knob,
    Move,
    Mutations,
    Space,
    Value,
)
from minitensor.search.space.candidate import USUAL, weighted
from minitensor.search.tune.learner import Floats, Learner, usual_model

from .table import Table

PLACES: Final = 2
"""Places for a block that may be computed elsewhere."""


@dataclass(frozen=True, slots=True)
class OpenKnob(Knob):
    """A knob some of whose values are in a table."""

    allowed: tuple[Value, ...] = ()

    @property
    def options(self) -> tuple[Value, ...]:
        """See Knob."""
        return self.allowed

    def draw(self, rng: random.Random) -> Value:
        """See Knob."""
        return weighted(rng, self.allowed, _odds(self.allowed, self.weights))

    def likeliest(self, rng: random.Random) -> Value:
        """See Knob."""
        return self.allowed[0] if self.weights else self.draw(rng)

    def changed(self, value: Value, rng: random.Random) -> Value:
        """See Knob."""
        if isinstance(value, tuple):
            return rng.choice(self.allowed)
        near = _neighbours(self.allowed, value)
        return rng.choice(near) if near and rng.random() < 0.7 else self.draw(rng)

    def moved(self, value: Value, source: int, target: int, rng: random.Random) -> Value:
        """See Knob."""
        if source < 0 or not isinstance(value, tuple):
            return self.changed(value, rng)
        tiles = [v for v in self.allowed if isinstance(v, tuple)]
        moved = [v for v in tiles if v[source] < value[source] and v[target] > value[target]]
        return rng.choice(moved) if moved else value


class TableSpace(Space):
    """The candidates of a table, and no others.

    table     whose they are
    names     the number of the program of each
    template  whether it is the space of a template: the first sketch only, annotated as is usual
    """

    def __init__(self, table: Table, template: bool = False) -> None:
        self.table, self.template = table, template
        kept = table.sketches[:1] if template else table.sketches
        super().__init__(table.program, table.target, kept)
        self.knobs = tuple(
            tuple(_opened(knob, values) for knob, values in zip(knobs, allowed))
            for knobs, allowed in zip(self.knobs, table.allowed)
        )
        self.names = dict(zip(self.every(), table.programs or itertools.repeat(-1)))

    def every(self) -> Iterator[Candidate]:
        """All candidates, in an order that does not change."""
        for sketch, knobs in enumerate(self.knobs):
            places: list[tuple[str, ...]] = [()]
            for _ in self.movable[sketch]:
                places = [(*p, one) for p in places for one in self.possible_locations(sketch, p)]
            for values in itertools.product(*(knob.options for knob in knobs)):
                for where in places:
                    one = Candidate(sketch, values, where)
                    for amounts in itertools.product(GRANULARITY[1:], UNROLL):
                        yield self.annotated(one, *amounts)

    def possible_locations(self, sketch: int, locations: tuple[str, ...]) -> tuple[str, ...]:
        """See Space; the first of them only."""
        return super().possible_locations(sketch, locations)[:PLACES]

    def draw(
        self,
        rng: random.Random,
        sketch: int | None = None,
        locations: tuple[str, ...] | None = None,
    ) -> Candidate:
        """See Space."""
        return self.alike(super().draw(rng, sketch, locations))

    def mutated(
        self, candidate: Candidate, rng: random.Random, weights: Mutations | None = None
    ) -> Candidate:
        """See Space."""
        made = self.alike(super().mutated(candidate, rng, weights), candidate)
        return made if made in self.names else candidate

    def moved(self, candidate: Candidate, move: Move, rng: random.Random) -> Candidate:
        """See Space."""
        made = self.alike(super().moved(candidate, move, rng), candidate)
        return made if made in self.names else candidate

    def crossed(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        """See Space."""
        made = self.alike(super().crossed(a, b, rng))
        return made if made in self.names else a

    def features(self, batch: Sequence[Candidate]) -> list[Floats | None]:
        """The features of the statements of each candidate; None for one that is refused."""
        return Learner(self, usual_model()).features(batch)

    def alike(self, made: Candidate, before: Candidate | None = None) -> Candidate:
        """The candidate with one annotation for all: what differs from that before, if anything."""
        if self.template:
            return self.annotated(made, *USUAL)
        if len({*made.parallel}) <= 1 and len({*made.unroll}) <= 1:
            return made
        parallel, unroll = made.parallel[:1], made.unroll[:1]
        if before is not None:
            parallel = next(((n,) for n in made.parallel if n not in before.parallel), parallel)
            unroll = next(((n,) for n in made.unroll if n not in before.unroll), unroll)
        return self.annotated(made, *(parallel or (1,)), *(unroll or (0,)))


@lru_cache(maxsize=1024)
def _odds(allowed: tuple[Value, ...], weights: tuple[float, ...]) -> tuple[float, ...]:
    """The odds of each allowed value."""
    if not weights:
        return (1.0,) * len(allowed)
    return tuple(weights[value] for value in allowed if isinstance(value, int))


@lru_cache(maxsize=1024)
def _neighbours(allowed: tuple[Value, ...], value: int) -> tuple[int, ...]:
    """The next smaller and the next larger of the allowed numbers."""
    ordered = sorted(v for v in allowed if isinstance(v, int))
    place = ordered.index(value)
    return tuple(v for v in ordered[max(0, place - 1) : place + 2] if v != value)


def _opened(knob: Knob, allowed: tuple[Value, ...]) -> OpenKnob:
    values = {name: getattr(knob, name) for name in Knob.__dataclass_fields__}
    return OpenKnob(**values, allowed=allowed)
