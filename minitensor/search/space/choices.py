"""Drawing and changing candidates: numbers and names only, without a schedule.

A candidate is drawn at random, or as its rules' author would choose; a mutation differs from it in
one choice; a crossover has its choices from two.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from minitensor.search.space.candidate import (
    GPU_UNROLL,
    GRANULARITY,
    UNROLL,
    USUAL,
    Candidate,
    Knob,
    Move,
    Mutations,
    weighted,
)

T = TypeVar("T")
MOST_DRAWS: Final = 8
"""Of a mutation, if it changes nothing."""
KINDS: Final = ("tile", "parallel", "unroll", "location")
"""Of mutations."""
ANSOR: Final = Mutations()
"""The odds of each in Ansor."""


class Choices(ABC):
    """The open decisions of the sketches of a space.

    weights   how likely each sketch is
    knobs     the decisions of each sketch
    movable   the blocks of each that may be computed elsewhere
    copies    of a statement, that unrolling may make
    """

    weights: tuple[float, ...]
    knobs: tuple[tuple[Knob, ...], ...]
    movable: tuple[tuple[str, ...], ...]
    copies: tuple[int, ...] = UNROLL

    @abstractmethod
    def possible_locations(self, sketch: int, locations: tuple[str, ...]) -> tuple[str, ...]:
        """The places for the next block, once those before it are at `locations`."""

    @abstractmethod
    def stages(self, sketch: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The blocks of a sketch whose nests may have threads, and those that may be unrolled."""

    def any_sketch(self, rng: random.Random, numbers: Sequence[int]) -> int:
        """One of some sketches at random: at each branch of the derivation tree, either way is as
        likely, however many sketches lie behind it.
        """
        return weighted(rng, numbers, [self.weights[number] for number in numbers])

    def draw(
        self,
        rng: random.Random,
        sketch: int | None = None,
        locations: tuple[str, ...] | None = None,
    ) -> Candidate:
        """A candidate at random, of a sketch and with blocks at some places if they are given."""
        number = self.any_sketch(rng, range(len(self.weights))) if sketch is None else sketch
        values = tuple(knob.draw(rng) for knob in self.knobs[number])
        if locations is None:
            locations = ()
            for _ in self.movable[number]:
                locations += (rng.choice(self.possible_locations(number, locations)),)
        threads, copies = self.stages(number)
        parallel = tuple(rng.choice(GRANULARITY[1:]) for _ in threads)
        unroll = tuple(rng.choice(self.copies) for _ in copies)
        return Candidate(number, values, locations, parallel, unroll)

    def by_hand(self, rng: random.Random, sketch: int, locations: tuple[str, ...]) -> Candidate:
        """The candidate of a sketch whose decisions are the likeliest that its rules declare: those
        of the author of a rule, by hand. What they do not say is drawn.
        """
        values = tuple(knob.likeliest(rng) for knob in self.knobs[sketch])
        parallel, copies = USUAL if self.copies is UNROLL else (USUAL[0], GPU_UNROLL[-2])
        return self.annotated(Candidate(sketch, values, locations), parallel, copies)

    def annotated(self, candidate: Candidate, parallel: int, unroll: int) -> Candidate:
        """The candidate with the same numbers for all nests, and for all blocks."""
        threads, copies = self.stages(candidate.sketch)
        of_nests, of_blocks = (parallel,) * len(threads), (unroll,) * len(copies)
        return candidate.with_annotation(of_nests, of_blocks)

    def mutated(
        self, candidate: Candidate, rng: random.Random, weights: Mutations | None = None
    ) -> Candidate:
        """A candidate that differs in one choice; the same one if nothing else was found.

        weights  how often a mutation changes what; Ansor's if None
        """
        chances = weights or ANSOR
        odds = (
            chances.tile if candidate.values else 0.0,
            chances.parallel if candidate.parallel else 0.0,
            chances.unroll if candidate.unroll else 0.0,
            chances.location if candidate.locations else 0.0,
        )
        if any(odds):
            for _ in range(MOST_DRAWS):
                kind = weighted(rng, KINDS, odds)
                changed = self._changed(candidate, kind, rng)
                if changed != candidate:
                    return changed
        return candidate

    def moves(self, sketch: int) -> tuple[Move, ...]:
        """The ways in which a mutation may change a candidate of a sketch."""
        threads, copies = self.stages(sketch)
        levels = enumerate(knob.levels for knob in self.knobs[sketch])
        return (
            *(Move("tile", n, *pair) for n, pairs in levels for pair in pairs),
            *(Move("parallel", n) for n in range(len(threads))),
            *(Move("unroll", n) for n in range(len(copies))),
            *(Move("location", n) for n in range(len(self.movable[sketch]))),
        )

    def odds(self, sketch: int) -> list[float]:
        """The odds, in Ansor, of each of the moves of a sketch, in any unit."""
        moves = self.moves(sketch)
        alike = Counter((move.kind, move.number) for move in moves)
        kinds = Counter(kind for kind, _ in alike)
        return [getattr(ANSOR, m.kind) / kinds[m.kind] / alike[m.kind, m.number] for m in moves]

    def moved(self, candidate: Candidate, move: Move, rng: random.Random) -> Candidate:
        """A candidate that is changed in this way; the same one where that cannot be."""
        number = move.number
        if move.kind == "tile":
            knob = self.knobs[candidate.sketch][number]
            value = knob.moved(candidate.values[number], move.source, move.target, rng)
            return candidate.with_value(number, value)
        return self._redrawn(candidate, move.kind, number, rng)

    def _changed(self, candidate: Candidate, kind: str, rng: random.Random) -> Candidate:
        """A candidate with one choice of a kind drawn anew."""
        if kind == "tile":
            knobs = self.knobs[candidate.sketch]
            number = rng.randrange(len(knobs))
            value = knobs[number].changed(candidate.values[number], rng)
            return candidate.with_value(number, value)
        given = candidate.locations if kind == "location" else getattr(candidate, kind)
        return self._redrawn(candidate, kind, rng.randrange(len(given)), rng)

    def _redrawn(
        self, candidate: Candidate, kind: str, number: int, rng: random.Random
    ) -> Candidate:
        if kind == "location":
            kept = candidate.locations[:number]
            moved = rng.choice(self.possible_locations(candidate.sketch, kept))
            places = _with(candidate.locations, number, moved)
            return self._repaired(replace(candidate, locations=places), rng)
        among = GRANULARITY if kind == "parallel" else self.copies
        numbers = _with(getattr(candidate, kind), number, rng.choice(among))
        if kind == "parallel":
            return candidate.with_annotation(numbers, candidate.unroll)
        return candidate.with_annotation(candidate.parallel, numbers)

    def crossed(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        """Node-based crossover (Ansor, section 5.1): a block has all its decisions from one parent,
        or, as often, each of them from either.

        The child has the sketch of `a`. From `b`, whose sketch may be another, a block takes what
        is a choice for it in both. Locations that do not exist in the child are drawn anew.
        """
        knobs, movable = self.knobs[a.sketch], self.movable[a.sketch]
        stages = self.stages(a.sketch)
        blocks = dict.fromkeys([*(k.block for k in knobs), *movable, *stages[0], *stages[1]])
        odds = {block: rng.choice((0.0, 0.5, 1.0)) for block in blocks}

        def taken(block: str, own: Any, theirs: Any) -> Any:
            return theirs if rng.random() < odds[block] else own

        choices = dict(zip((k.meaning for k in self.knobs[b.sketch]), b.values))
        values = tuple(
            taken(knob.block, own, choices.get(knob.meaning, own))
            for knob, own in zip(knobs, a.values)
        )
        theirs = self.movable[b.sketch], *self.stages(b.sketch)
        named = (
            (movable, a.locations, dict(zip(theirs[0], b.locations))),
            (stages[0], a.parallel, dict(zip(theirs[1], b.parallel))),
            (stages[1], a.unroll, dict(zip(theirs[2], b.unroll))),
        )
        locations, parallel, unroll = (
            tuple(taken(block, own, other.get(block, own)) for block, own in zip(of, given))
            for of, given, other in named
        )
        origin = tuple(dict.fromkeys((*a.origin[:1], *b.origin[:1])))
        child = Candidate(a.sketch, values, locations, parallel, unroll, origin)
        return child if locations == a.locations else self._repaired(child, rng)

    def _repaired(self, candidate: Candidate, rng: random.Random) -> Candidate:
        """The candidate, with locations drawn anew where they do not exist."""
        locations: tuple[str, ...] = ()
        for place in candidate.locations:
            possible = self.possible_locations(candidate.sketch, locations)
            locations += (place if place in possible else rng.choice(possible),)
        return replace(candidate, locations=locations) if locations else candidate


def _with(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[:number], value, *values[number + 1 :])
