"""A candidate as a row of choices, its genes.

In this order: the values of its knobs, the places of its blocks, the iterations of its threads, the
copies of its blocks. Two sketches have a choice in common if it means the same in both.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from minitensor.search.space import GRANULARITY, Candidate, Space, Value

Choice: TypeAlias = "Value | str"


def choices(candidate: Candidate) -> tuple[Choice, ...]:
    """The choices of a candidate."""
    return (*candidate.values, *candidate.locations, *candidate.parallel, *candidate.unroll)


def meanings(space: Space, sketch: int) -> list[Hashable]:
    """For each choice of a sketch, what is chosen; equal for two sketches' same choice."""
    threads, copies = space.stages(sketch)
    found: list[Hashable] = [knob.meaning for knob in space.knobs[sketch]]
    for kind, blocks in (("at", space.movable[sketch]), ("threads", threads), ("copies", copies)):
        found += [(kind, block) for block in blocks]
    return found


def options(space: Space, candidate: Candidate, number: int) -> Sequence[Choice]:
    """The options of one choice of a candidate, in order."""
    knobs, places = space.knobs[candidate.sketch], len(candidate.locations)
    if number < len(knobs):
        return knobs[number].options
    place = number - len(knobs)
    if place < places:
        return space.possible_locations(candidate.sketch, candidate.locations[:place])
    return GRANULARITY if place < places + len(candidate.parallel) else space.copies


def chosen(space: Space, candidate: Candidate, row: Sequence[Choice]) -> Candidate:
    """The candidate with other choices. A place that does not exist becomes the outermost one."""
    ends = [len(candidate.values), len(candidate.locations), len(candidate.parallel)]
    rest: Iterator[Any] = iter(row)
    values, places, parallel = (tuple(next(rest) for _ in range(end)) for end in ends)
    locations: tuple[str, ...] = ()
    for place in places:
        possible = space.possible_locations(candidate.sketch, locations)
        locations += (place if place in possible else possible[0],)
    return replace(
        candidate,
        values=values,
        locations=locations,
        parallel=parallel,
        unroll=tuple(rest),
    )


def changed(space: Space, candidate: Candidate, number: int, choice: Choice) -> Candidate:
    """The candidate with another option of one choice."""
    row = choices(candidate)
    return chosen(space, candidate, (*row[:number], choice, *row[number + 1 :]))


def redrawn(space: Space, candidate: Candidate, number: int, rng: random.Random) -> Candidate:
    """The candidate with one choice drawn anew, whatever it was."""
    knobs = space.knobs[candidate.sketch]
    if number < len(knobs):
        return candidate.with_value(number, knobs[number].draw(rng))
    return changed(space, candidate, number, rng.choice(options(space, candidate, number)))


def crossed(space: Space, a: Candidate, b: Candidate, point: int) -> Candidate:
    """One-point crossover: the choices of `a` before a point, those of `b` from there on.

    The child has the sketch of `a`. Of a `b` with another sketch it takes, from the point on, what
    is a choice in both.
    """
    own, theirs = choices(a), choices(b)
    if a.sketch != b.sketch:
        known = dict(zip(meanings(space, b.sketch), theirs))
        names = meanings(space, a.sketch)
        theirs = tuple(known.get(name, choice) for name, choice in zip(names, own))
    child = chosen(space, a, (*own[:point], *theirs[point:]))
    origin = tuple(dict.fromkeys((*a.origin[:1], *b.origin[:1])))
    return replace(child, origin=origin)
