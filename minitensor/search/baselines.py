"""Strategies to compare evolution with.

no-model     evolution by random scores
random       candidates drawn at random
grid         candidates in the order of an enumeration, evenly spread over it
annealing    simulated annealing on the model's scores (as AutoTVM's)
beam         decisions made one after the other, the best prefixes kept by the model (Ansor's
             ablation "beam search": incomplete programs, which a model judges badly)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from minitensor.search.evolution import Evolution, NoModel, Population
from minitensor.search.space import (
    GRANULARITY,
    MOST_LOCATIONS,
    UNROLL,
    Candidate,
    Knob,
    Space,
    Value,
)
from minitensor.search.strategy import Round, Score, Strategy


@dataclass(frozen=True)
class Random:
    """Random candidates: no learning at all."""

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        return Population(round.space, Evolution(), round.rng).drawn(4 * round.count)


@dataclass(frozen=True)
class Grid:
    """Every candidate has a number; large strides visit them all, evenly spread over sketches,
    factors and places. The grid is the same for every seed.
    """

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        count = 4 * len(round.best) + 16 * round.count
        points = (_point(round.space, number) for number in range(count))
        known = set(round.best)  # and some before them failed, or were other names of a program
        return [p for p in dict.fromkeys(points) if p not in known]


def _point(space: Space, number: int) -> Candidate:
    """Point `number`: all sketches in turn, and in each a stride through its candidates. It begins
    elsewhere in each: the same decisions of a template are the same candidate, whatever the sketch.
    """
    turn, sketch = divmod(number, len(space.sketches))
    knobs = space.knobs[sketch]
    threads, copies = space.stages(sketch)
    axes = [len(knob.options) for knob in knobs] + [MOST_LOCATIONS] * len(space.movable[sketch])
    axes += [len(GRANULARITY) - 1] * len(threads) + [len(UNROLL)] * len(copies)
    total = math.prod(axes)
    point = (turn + sketch) * _coprime(total) % total
    digits = []
    for axis in axes:
        point, digit = divmod(point, axis)
        digits.append(digit)
    rest = iter(digits)
    values = tuple(knob.options[next(rest)] for knob in knobs)
    locations: tuple[str, ...] = ()
    for _ in space.movable[sketch]:
        possible = space.possible_locations(sketch, locations)
        locations += (possible[next(rest) % len(possible)],)
    parallel = tuple(GRANULARITY[1 + next(rest)] for _ in threads)
    return Candidate(sketch, values, locations, parallel, tuple(UNROLL[n] for n in rest))


def _coprime(total: int) -> int:
    """A stride near the golden section of the total that shares no divisor with it."""
    stride = max(1, int(total * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, total) != 1:
        stride += 1
    return stride


@dataclass(frozen=True)
class Annealing:
    """Walkers that mutate, and accept a worse score with a falling probability.

    Source: Chen et al., Learning to optimize tensor programs, NeurIPS 2018, section 3.
    """

    walkers: int = 128
    steps: int = 32

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        rng, population = round.rng, Population(round.space, Evolution(), round.rng)
        if not round.best:
            return population.beginning(round)
        walkers = [*round.best[: self.walkers // 4]]
        walkers += population.drawn(self.walkers - len(walkers))
        scores = round.score(walkers)
        found = dict(zip(walkers, scores.tolist()))
        legal = scores[np.isfinite(scores)]
        spread = (float(np.ptp(legal)) if len(legal) else 0.0) or 1.0
        for step in range(self.steps):
            heat = spread * (1 - step / self.steps) / 4
            moved = [population.mutant(c) for c in walkers]
            after = round.score(moved)
            found.update(zip(moved, after.tolist()))
            for number, (old, new) in enumerate(zip(scores, after)):
                worse = old - new
                if worse <= 0 or (heat > 0 and rng.random() < math.exp(-worse / heat)):
                    walkers[number], scores[number] = moved[number], new
        return population.batch(sorted(found, key=lambda c: -found[c]), round)


@dataclass(frozen=True)
class Beam:
    """Decisions one after the other; those that are not made yet have a default.

    The model was trained on whole programs and scores unfinished ones, which is why Ansor does not
    work so (its section 7.1, "Beam search").
    """

    width: int = 64
    branches: int = 8

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        population = Population(round.space, Evolution(), round.rng)
        if not round.best:
            return population.beginning(round)
        found: dict[Candidate, None] = {}
        for sketch, places in population.known.items():
            undecided = Candidate(sketch, tuple(map(_default, round.space.knobs[sketch])))
            undecided = round.space.annotated(undecided, 0, 0)
            beam = [replace(undecided, locations=p) for p in places]
            found.update(dict.fromkeys(self._grown(beam, round)))
        return population.batch(_ranked(list(found), round.score), round)

    def _grown(self, beam: list[Candidate], round: Round) -> list[Candidate]:
        for decide in _decisions(round.space, beam[0].sketch, round.rng):
            grown = dict.fromkeys(decide(c) for c in beam for _ in range(self.branches))
            beam = _ranked(list(grown), round.score)[: self.width]
        return beam


def _default(knob: Knob) -> Value:
    return (knob.extent, *[1] * (knob.parts - 1)) if knob.is_tile else 0


def _decisions(
    space: Space, sketch: int, rng: random.Random
) -> Iterator[Callable[[Candidate], Candidate]]:
    """Functions that make one decision of a candidate after the other, at random."""
    for number, knob in enumerate(space.knobs[sketch]):
        yield (
            lambda c, n=number, k=knob: replace(  # type: ignore[misc]
                c, values=(*c.values[:n], k.draw(rng), *c.values[n + 1 :])
            )
        )
    if space.annotate:
        yield lambda c: replace(c, parallel=space.draw(rng, sketch).parallel)
        yield lambda c: replace(c, unroll=space.draw(rng, sketch).unroll)


def _ranked(batch: list[Candidate], score: Score) -> list[Candidate]:
    """Candidates by score, the best first."""
    return [batch[n] for n in np.argsort(-score(batch), kind="stable")]


STRATEGIES: Final[dict[str, Strategy]] = {
    "evolution": Evolution(),
    "no-model": NoModel(),
    "random": Random(),
    "grid": Grid(),
    "annealing": Annealing(),
    "beam": Beam(),
}
"""The strategies that `mt.tune` takes by name."""
