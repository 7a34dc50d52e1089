"""How evolution makes new candidates of old ones: mutation and crossover."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minitensor.search.space.choices import GRANULARITY, UNROLL, Choices, Knob
from minitensor.search.space.space import Space


@dataclass(frozen=True, slots=True)
class Mutations:
    """How often a mutation changes what; weights of any sum.

    The first four are Ansor's, with its probabilities (its code, sketch_policy.cc); it moves a
    tile's divisors far more often than anything else.
    """

    tile: float = 0.90
    parallel: float = 0.01
    unroll: float = 0.03
    location: float = 0.05


def mutated(space: Space, choices: Choices, rng: random.Random, weights: Mutations) -> Choices:
    """A candidate that differs in one choice; the same one if nothing else is possible there."""
    knobs = space.knobs[choices.sketch]
    kinds = {
        "tile": weights.tile if knobs else 0.0,
        "parallel": weights.parallel if space.annotate else 0.0,
        "unroll": weights.unroll if space.annotate else 0.0,
        "location": weights.location if choices.locations else 0.0,
    }
    if not any(kinds.values()):
        return choices
    (kind,) = rng.choices(list(kinds), list(kinds.values()))
    if kind == "tile":
        place = rng.randrange(len(knobs))
        values = list(choices.values)
        values[place] = knobs[place].changed(values[place], rng)
        return replace(choices, values=tuple(values))
    if kind == "parallel":
        return replace(choices, parallel=rng.choice(GRANULARITY))
    if kind == "unroll":
        return replace(choices, unroll=rng.choice(UNROLL))
    place = rng.randrange(len(choices.locations))
    kept = choices.locations[:place]
    moved = (*kept, rng.choice(space.places(choices.sketch, kept)), *choices.locations[place + 1 :])
    return repaired(space, replace(choices, locations=moved), rng)


def crossed(space: Space, a: Choices, b: Choices, rng: random.Random) -> Choices:
    """Node-based crossover (Ansor, section 5.1): each block takes all its choices from one parent.

    The child has the sketch of `a`. From `b`, whose sketch may be another, a block takes what is a
    choice for it in both. Places that do not exist in the child are drawn anew.
    """
    knobs = space.knobs[a.sketch]
    theirs = dict(zip(map(_meaning, space.knobs[b.sketch]), b.values))
    blocks = dict.fromkeys([k.block for k in knobs] + list(space.movable[a.sketch]))
    from_b = {block for block in blocks if rng.random() < 0.5}
    values = tuple(
        theirs.get(_meaning(knob), value) if knob.block in from_b else value
        for knob, value in zip(knobs, a.values)
    )
    places = dict(zip(space.movable[b.sketch], b.locations))
    locations = tuple(
        places.get(block, place) if block in from_b else place
        for block, place in zip(space.movable[a.sketch], a.locations)
    )
    child = replace(
        a,
        values=values,
        locations=locations,
        parallel=rng.choice((a.parallel, b.parallel)),
        unroll=rng.choice((a.unroll, b.unroll)),
    )
    return child if locations == a.locations else repaired(space, child, rng)


def repaired(space: Space, choices: Choices, rng: random.Random) -> Choices:
    """The candidate with places that exist: those that do not are drawn anew."""
    locations: tuple[str, ...] = ()
    for place in choices.locations:
        possible = space.places(choices.sketch, locations)
        locations += (place if place in possible else rng.choice(possible),)
    return replace(choices, locations=locations)


def _meaning(knob: Knob) -> Sequence[object]:
    """What two knobs of different sketches must share to be the same choice."""
    return (knob.block, knob.loop, knob.extent, knob.parts, knob.limit, knob.candidates)
