"""How the next candidates are chosen. `evolution` is the search; the others are there to compare.

    evolution    the best of an evolved population, as a learnt model sees them
    no-model     the same evolution with scores at random: what the model is worth
    random       candidates drawn at random
    grid         candidates in the order of an enumeration, evenly spread over it
    annealing    simulated annealing on the model's scores (as AutoTVM's)
    beam         decisions made one after the other, the best prefixes kept by the model (Ansor's
                 ablation "beam search": incomplete programs, which a model judges badly)

Each is a class with `propose`. It sees the space, what was measured, and the learner.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from minitensor.search.evolution import Evolution, Population, batch_of, evolve
from minitensor.search.space import (
    GRANULARITY,
    MOST_LOCATIONS,
    UNROLL,
    Choices,
    Space,
)
from minitensor.search.tune.learner import Learner

Doubles = npt.NDArray[np.float64]


class Strategy(ABC):
    """Chooses candidates.

    uses_model  whether it asks the learner for scores
    """

    uses_model = True

    @abstractmethod
    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """More than `count` candidates if there are as many, those to be measured first in front.

        best  those that were measured, fastest first; none in the first round
        """

    def __init__(self, space: Space, learner: Learner, settings: Evolution) -> None:
        self.space, self.learner, self.settings = space, learner, settings

    def begin(self, rng: random.Random) -> None:
        """Begin a round. Nothing is left of earlier ones: a round depends on the seed and on what
        was measured, so that a search that is resumed goes on as it would have.
        """
        self.population = Population(self.space, self.settings, rng)

    def mixed(
        self, ranked: Sequence[Choices], best: Sequence[Choices], rng: random.Random, count: int
    ) -> list[Choices]:
        """The best by score that are new, ε-greedily, and more behind them if some are refused.

        What was measured scores high and takes part in a search, but not in what it proposes.
        """
        known = set(best)
        news = [choices for choices in ranked if choices not in known]
        first = batch_of(news, self.population.draw, count, self.settings.epsilon, rng)
        spare = [self.population.draw() for _ in range(4 * count)]
        return list(dict.fromkeys([*first, *news, *spare]))

    def drawn(self, rng: random.Random, count: int) -> list[Choices]:
        """Different candidates at random; every sketch gets its turn."""
        self.begin(rng)
        return self.more({}, count)

    def first(self, rng: random.Random, count: int) -> list[Choices]:
        """What a search begins with: one candidate of each sketch, in any order, and more."""
        self.begin(rng)
        forms: dict[int, tuple[str, ...]] = {}
        for sketch, places in self.population.known:
            forms.setdefault(sketch, places)
        order = rng.sample(list(forms), len(forms))
        found = dict.fromkeys(self.space.draw(rng, sketch, forms[sketch]) for sketch in order)
        return self.more(found, count)

    def more(self, found: dict[Choices, None], count: int) -> list[Choices]:
        """Candidates drawn at random behind others, until there are `count`."""
        for _ in range(50 * count):
            if len(found) >= count:
                break
            found.setdefault(self.population.draw())
        return list(found)


class EvolutionStrategy(Strategy):
    """Ansor's, with crossover."""

    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """See Strategy."""
        if not best:
            return self.first(rng, 2 * count)
        self.begin(rng)
        ranked = evolve(self.population, self.score, best, 4 * count + len(best))
        return self.mixed(ranked, best, rng, count)

    def score(self, batch: Sequence[Choices]) -> Doubles:
        """How fast candidates are thought to be."""
        return self.learner.score(batch)


class NoModelStrategy(EvolutionStrategy):
    """Evolution that nothing guides."""

    uses_model = False

    def score(self, batch: Sequence[Choices]) -> Doubles:
        """Random numbers; -inf for what is refused."""
        legal = [self.space.plan(c.sketch, c.locations) is not None for c in batch]
        drawn = [self.population.rng.random() for _ in batch]
        return np.where(legal, drawn, -np.inf)


class RandomStrategy(Strategy):
    """No learning at all."""

    uses_model = False

    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """See Strategy."""
        return self.drawn(rng, 4 * count)


class GridStrategy(Strategy):
    """Every candidate has a number; large strides visit them all, evenly spread over sketches,
    factors and places.
    """

    uses_model = False

    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """See Strategy. `rng` is not used: the grid is the same for every seed."""
        points = (self._point(n) for n in range(4 * len(best) + 16 * count))
        known = set(best)  # and some before them failed, or were other names of a program
        return [p for p in dict.fromkeys(points) if p not in known]

    def _point(self, number: int) -> Choices:
        """Point `number`: all sketches in turn, and in each a stride through its candidates."""
        sketches = len(self.space.sketches)
        sketch, turn = number % sketches, number // sketches
        sizes = [len(knob.options) for knob in self.space.knobs[sketch]]
        axes = [*sizes, *[MOST_LOCATIONS] * len(self.space.movable[sketch])]
        axes += [len(GRANULARITY) - 1, len(UNROLL)]
        total = math.prod(axes)
        place = turn * _coprime(total) % total
        digits = []
        for axis in axes:
            place, digit = divmod(place, axis)
            digits.append(digit)
        values = tuple(k.options[d] for k, d in zip(self.space.knobs[sketch], digits))
        if not self.space.annotate:
            return Choices(sketch, values)
        locations: tuple[str, ...] = ()
        for digit in digits[len(sizes) : -2]:
            possible = self.space.places(sketch, locations)
            locations += (possible[digit % len(possible)],)
        parallel, unroll = GRANULARITY[1 + digits[-2]], UNROLL[digits[-1]]
        return Choices(sketch, values, locations, parallel, unroll)


def _coprime(total: int) -> int:
    """A stride near the golden section of the total that shares no divisor with it."""
    stride = max(1, int(total * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, total) != 1:
        stride += 1
    return stride


class AnnealingStrategy(Strategy):
    """Many walkers that mutate, and go where the model scores worse with a falling probability.

    Source: Chen et al., Learning to optimize tensor programs, NeurIPS 2018, section 3.
    """

    WALKERS: Final = 128
    STEPS: Final = 32

    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """See Strategy."""
        if not best:
            return self.first(rng, 2 * count)
        walkers = [*best[: self.WALKERS // 4]]
        walkers += self.drawn(rng, self.WALKERS - len(walkers))
        scores = self.learner.score(walkers)
        found = dict(zip(walkers, scores.tolist()))
        spread = float(np.ptp(scores[np.isfinite(scores)])) or 1.0
        for step in range(self.STEPS):
            heat = spread * (1 - step / self.STEPS) / 4
            moved = [self.population.mutant(c) for c in walkers]
            after = self.learner.score(moved)
            found.update(zip(moved, after.tolist()))
            for place, (old, new) in enumerate(zip(scores, after)):
                worse = old - new
                if worse <= 0 or (heat > 0 and rng.random() < math.exp(-worse / heat)):
                    walkers[place], scores[place] = moved[place], new
        return self.mixed(sorted(found, key=lambda c: -found[c]), best, rng, count)


class BeamStrategy(Strategy):
    """Decisions one after the other; what is not decided yet is as it is by default.

    The model was trained on whole programs and is asked about unfinished ones, which is why Ansor
    does not work so (its section 7.1, "Beam search").
    """

    WIDTH: Final = 64
    BRANCHES: Final = 8

    def propose(self, best: Sequence[Choices], rng: random.Random, count: int) -> list[Choices]:
        """See Strategy."""
        if not best:
            return self.first(rng, 2 * count)
        self.begin(rng)
        found: dict[Choices, None] = {}
        for sketch in dict.fromkeys(key[0] for key in self.population.known):
            found.update(dict.fromkeys(self._beam(sketch, rng)))
        whole = list(found)
        scores = self.learner.score(whole)
        ranked = [whole[place] for place in np.argsort(-scores, kind="stable")]
        return self.mixed(ranked, best, rng, count)

    def _beam(self, sketch: int, rng: random.Random) -> list[Choices]:
        knobs = self.space.knobs[sketch]
        places = [key[1] for key in self.population.known if key[0] == sketch]
        undecided = tuple((k.extent, *[1] * (k.parts - 1)) if k.is_tile else 0 for k in knobs)
        beam = [Choices(sketch, undecided, places[0], 0, 0)]
        beam = list(dict.fromkeys(replace(c, locations=p) for c in beam for p in places))
        steps: list[Callable[[Choices], Choices]] = [
            *(lambda c, n=n: _decided(c, n, knobs[n].draw(rng)) for n in range(len(knobs))),
        ]
        if self.space.annotate:
            steps.append(lambda c: replace(c, parallel=self.space.draw(rng, sketch).parallel))
            steps.append(lambda c: replace(c, unroll=self.space.draw(rng, sketch).unroll))
        for step in steps:
            grown = list(dict.fromkeys(step(c) for c in beam for _ in range(self.BRANCHES)))
            scores = self.learner.score(grown)
            beam = [grown[p] for p in np.argsort(-scores, kind="stable")[: self.WIDTH]]
        return beam


def _decided(choices: Choices, place: int, value: object) -> Choices:
    values = list(choices.values)
    values[place] = value  # type: ignore[call-overload]
    return replace(choices, values=tuple(values))


STRATEGIES: Final[dict[str, type[Strategy]]] = {
    "evolution": EvolutionStrategy,
    "no-model": NoModelStrategy,
    "random": RandomStrategy,
    "grid": GridStrategy,
    "annealing": AnnealingStrategy,
    "beam": BeamStrategy,
}
