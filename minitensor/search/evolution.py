"""Evolutionary search: the candidates that a model scores best.

A population starts from random candidates and the best that were measured. Parents are drawn, in
proportion to their scores, from the best that any generation has had; children are mutations or
crossovers of them. The best of all, no two alike, are measured next; some of the batch is random,
so that the model sees what it would not have chosen.

Source: Zheng et al., Ansor, OSDI 2020, section 5.1. Ansor's published code has no crossover; the
paper has.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import ClassVar

import numpy as np

from minitensor.errors import real, unexpected, whole
from minitensor.search.space import Candidate, Mutations, Space
from minitensor.search.strategy import Doubles, Round, Score


@dataclass(frozen=True, slots=True)
class Evolution:
    """Evolution as a strategy; the defaults are Ansor's where it has the parameter.

    population   candidates in a generation
    generations  that follow the first
    crossover    the part of children that have two parents; the others are mutations
    measured     the most of the first generation that are among the best measured, as a part
    epsilon      the part of a batch that is chosen at random
    forms        new places of blocks that are looked into in a round: each takes a while
    mutations    the kinds of mutations, and their weights
    """

    population: int = 2048
    generations: int = 4
    crossover: float = 0.15
    measured: float = 0.2
    epsilon: float = 0.05
    forms: int = 16
    mutations: Mutations = field(default_factory=Mutations)

    uses_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.mutations, Mutations):
            raise unexpected("Mutations(...)", "mutations", self.mutations)
        for name, least in (("population", 1), ("generations", 0), ("forms", 0)):
            whole(name, getattr(self, name), least)
        for name in ("crossover", "measured", "epsilon"):
            real(name, getattr(self, name), 0, 1)

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        population = Population(round.space, self, round.rng)
        if not round.best:
            return population.first(2 * round.count)
        ranked = evolve(population, round.score, round.best, 4 * round.count + len(round.best))
        return population.batch(ranked, round)


@dataclass(frozen=True, slots=True)
class NoModel(Evolution):
    """Evolution by random scores: the difference from `Evolution` is what the model is worth."""

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""

        def score(batch: Sequence[Candidate]) -> Doubles:
            legal = [round.space.plan(c.sketch, c.locations) is not None for c in batch]
            return np.where(legal, [round.rng.random() for _ in batch], -np.inf)

        return Evolution.propose(self, replace(round, score=score))


class Population:
    """Draws and varies candidates of a space, looking into a bounded number of new forms.

    A form is a sketch with blocks at some places: what candidates share that differ in numbers.
    Nothing is left of earlier rounds, which depend on the seed and on what was measured only: so a
    search that is resumed goes on as it would have.
    """

    def __init__(self, space: Space, settings: Evolution, rng: random.Random) -> None:
        self.space, self.settings, self.rng = space, settings, rng
        self.known: dict[int, dict[tuple[str, ...], None]] = {}
        """The places of blocks by sketch."""
        self.left = settings.forms
        """The number of new forms that may be looked into yet."""
        for number in range(len(space.sketches)):
            self._learn(space.draw(rng, number), anyway=True)
        for _ in range(settings.forms // 2):
            self._learn(space.draw(rng))
        if not self.known:  # all were refused; the error comes where schedules are made of them
            for number in range(len(space.sketches)):
                self.add(space.draw(rng, number))

    def draw(self) -> Candidate:
        """A random candidate of a known form."""
        sketch = self.space.any_sketch(self.rng, list(self.known))
        return self.space.draw(self.rng, sketch, self.rng.choice(list(self.known[sketch])))

    def drawn(self, count: int, found: Iterable[Candidate] = ()) -> list[Candidate]:
        """Different random candidates behind those that were found, `count` in all."""
        chosen = dict.fromkeys(found)
        for _ in range(50 * count):
            if len(chosen) >= count:
                break
            chosen.setdefault(self.draw())
        return list(chosen)

    def first(self, count: int) -> list[Candidate]:
        """The first candidates of a search: of each sketch as many as its probability says, the
        likeliest first, and random ones. The first of a sketch has the decisions of a schedule by
        hand.
        """
        weights, taken = self.space.weights, dict.fromkeys(self.known, 0)
        own: list[Candidate] = []
        for number in range(1, count + 1):
            sketch = max(taken, key=lambda s: weights[s] * number - taken[s])
            taken[sketch] += 1
            places = self.rng.choice(list(self.known[sketch]))
            make = self.space.by_hand if taken[sketch] == 1 else self.space.draw
            own.append(make(self.rng, sketch, places))
        return self.drawn(count, own)

    def batch(self, ranked: Sequence[Candidate], round: Round) -> list[Candidate]:
        """The best by score that are new, ε-greedily, and more behind them if some are refused.

        What was measured scores high and takes part in a search, but not in what it proposes.
        """
        known, count = set(round.best), round.count
        news = [candidate for candidate in ranked if candidate not in known]
        lucky = sum(self.rng.random() < self.settings.epsilon for _ in range(count))
        first = self.drawn(count, news[: count - lucky])
        spare = [self.draw() for _ in range(4 * count)]
        return list(dict.fromkeys([*first, *news, *spare]))

    def child(self, parents: Callable[[], Candidate]) -> Candidate:
        """A mutation of a parent, or a crossover of two."""
        one = parents()
        if self.rng.random() >= self.settings.crossover:
            return self.mutant(one)
        made = self.space.crossed(one, parents(), self.rng)
        return made if self._learn(made) else one

    def mutant(self, one: Candidate) -> Candidate:
        """A mutation; the same candidate where it would be of one new form too many."""
        made = self.space.mutated(one, self.rng, self.settings.mutations)
        return made if self._learn(made) else one

    def add(self, candidate: Candidate) -> None:
        """Make the form of a candidate known."""
        self.known.setdefault(candidate.sketch, {})[candidate.locations] = None

    def _learn(self, candidate: Candidate, anyway: bool = False) -> bool:
        """Return whether the form of a candidate is known, or is now, and gives legal schedules."""
        if candidate.locations in self.known.get(candidate.sketch, ()):
            return True
        if not anyway and self.left <= 0:
            return False
        self.left -= not anyway
        if self.space.plan(candidate.sketch, candidate.locations) is None:
            return False
        self.add(candidate)
        return True


def evolve(
    population: Population, score: Score, best: Iterable[Candidate], count: int
) -> list[Candidate]:
    """The candidates that score best over all generations, best first: up to `count`.

    score  for many candidates at once
    best   those that were measured, fastest first
    """
    settings, rng = population.settings, population.rng
    size = settings.population
    seeds = [c for c, _ in zip(best, range(int(size * settings.measured)))]
    for candidate in seeds:
        population.add(candidate)
    generation = seeds + [population.draw() for _ in range(size - len(seeds))]
    known: dict[Candidate, float] = {}
    """The scores of all generations: nothing is scored twice."""
    for number in range(settings.generations + 1):
        news = [candidate for candidate in dict.fromkeys(generation) if candidate not in known]
        scores = score(news)
        known.update(zip(news, np.where(np.isnan(scores), -np.inf, scores).tolist()))
        best_of_all = sorted(known.items(), key=lambda item: -item[1])[: max(size, count)]
        ranked, values = zip(*best_of_all)
        if number < settings.generations:
            parents = _proportional(ranked, np.array(values), rng)
            generation = [population.child(parents) for _ in range(size)]
    return [candidate for candidate, value in best_of_all if value > -np.inf][:count]


def _proportional(
    generation: Sequence[Candidate], scores: Doubles, rng: random.Random
) -> Callable[[], Candidate]:
    """A draw of candidates in proportion to their fitness: their score above the median.

    (Scores of a model have no zero: fitness above the worst would let a single hopeless candidate
    make all the others look alike.)
    """
    finite = np.isfinite(scores)
    if not finite.any():
        return lambda: rng.choice(generation)
    fitness = np.where(finite, np.maximum(scores - np.median(scores[finite]), 0.0), 0.0)
    fitness += np.where(finite, max(float(fitness.max()), 1e-9) * 1e-3, 0.0)
    bounds = list(accumulate(fitness.tolist()))
    total = bounds[-1]
    return lambda: generation[min(bisect(bounds, rng.random() * total), len(generation) - 1)]
