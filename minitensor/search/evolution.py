"""Evolutionary search: the candidates that a model scores best.

It begins with the decisions of a schedule by hand for each sketch, and what is near the fastest of
them; the model says which of that, as soon as there is one. Once enough is measured, a population
starts from random candidates and the best that were measured. Parents are drawn, in proportion to
their scores, from the best that any generation has had; children are mutations or crossovers of
them. The best of all, no two alike, are measured next; each sketch has a share of the batch, and
some of it is random, so that the model sees what it would not have chosen.

Source: Zheng et al., Ansor, OSDI 2020, section 5.1. Ansor's published code has no crossover; the
paper has.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np

from minitensor.errors import real, unexpected, whole
from minitensor.search.policies import (
    History,
    Made,
    MutationPolicy,
    SketchPolicy,
    apportioned,
    checked_shares,
    checked_weights,
)
from minitensor.search.space import Candidate, Mutations, Space, weighted
from minitensor.search.strategy import Doubles, Round, Score, Shares

FASTEST: Final = 4
"""Candidates that are mutated before there is a population."""
ATTEMPTS: Final = 8
"""Moves of a candidate that are tried, while they change nothing."""
OF_EACH: Final = 32
"""Candidates of a sketch of which the best is taken, where it is to have its share."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """Evolution as a strategy; the defaults are Ansor's where it has the parameter.

    population   candidates in a generation, at most
    each         candidates in a generation for each that is to be measured
    generations  that follow the first
    crossover    the part of children that have two parents; the others are mutations
    measured     the most of the first generation that are among the best measured, as a part
    epsilon      the part of what is measured that is chosen at random
    floor        the part of what is measured that all sketches share alike
    guided       the part of what is measured that a sketch policy divides, instead of `floor`
    learnt       the number of candidates from which the model learns before it scores populations;
                 one that learnt from other workloads does at once, while it is trusted (see Round)
    forms        new places of blocks that mutations may bring into a round, no more than it has
                 candidates: each takes a while
    mutations    the kinds of mutations, and their weights
    sketch_policy  chooses how much of a round each sketch gets (see SketchPolicy); None: random
                 candidates have any, and the model decides about the rest but for `floor`
    mutation_policy  chooses the moves of mutations (see MutationPolicy); None: as `mutations` says
    """

    population: int = 2048
    each: int = 64
    generations: int = 4
    crossover: float = 0.15
    measured: float = 0.2
    epsilon: float = 0.05
    floor: float = 0.2
    guided: float = 0.5
    learnt: int = 32
    forms: int = 16
    mutations: Mutations = field(default_factory=Mutations)
    sketch_policy: SketchPolicy | None = None
    mutation_policy: MutationPolicy | None = None

    uses_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.mutations, Mutations):
            raise unexpected("Mutations(...)", "mutations", self.mutations)
        for name in ("generations", "learnt", "forms"):
            whole(name, getattr(self, name), 0)
        for name in ("population", "each"):
            whole(name, getattr(self, name), 1)
        for name in ("crossover", "measured", "epsilon", "floor", "guided"):
            real(name, getattr(self, name), 0, 1)

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        size = min(self.population, self.each * round.count)
        settings = replace(self, population=size, forms=min(self.forms, round.count))
        begun = [tried.candidate for tried in round.history if tried.candidate is not None]
        population = Population(round.space, settings, round.rng, begun)
        self.consult(population, round)
        if not round.best or (len(round.history) < self.learnt and not round.trusted):
            return population.beginning(round)
        ranked = evolve(population, round.score, round.best, 4 * round.count + len(round.best))
        return population.batch(ranked, round)

    def consult(self, population: Population, round: Round) -> None:
        """Give a population what the policies say of this round."""
        population.shares = self._shares(round)
        population.advised = None if self.mutation_policy is None else round

    def _shares(self, round: Round) -> list[float] | None:
        """The shares that the sketch policy wants; None for none, or none that can be used."""
        if self.sketch_policy is None or not round.best:
            return None
        history = History(round.history, round.space, round.score, round.count)
        rng = random.Random(f"{round.seed}/sketches")
        try:
            given = self.sketch_policy.shares(history, rng)
            if given is None:
                return None
            shares = checked_shares(given, len(round.space.sketches))
            round.advice.shares.append(Shares(len(round.history), tuple(shares)))
            return shares
        except Exception as failure:
            round.advice.unchosen.add("sketch_policy.shares", failure)
            return None


@dataclass(frozen=True, slots=True)
class NoModel(Evolution):
    """Evolution by random scores: the difference from `Evolution` is what the model is worth."""

    uses_model: ClassVar[bool] = False

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""

        def score(batch: Sequence[Candidate]) -> Doubles:
            legal = [round.space.plan(c.sketch, c.locations) is not None for c in batch]
            return np.where(legal, [round.rng.random() for _ in batch], -np.inf)

        return Evolution.propose(self, replace(round, score=score, trusted=False))


class Population:
    """Draws and varies candidates of a space, looking into a bounded number of new forms.

    A form is a sketch with blocks at some places: what candidates share that differ in numbers.
    Nothing is left of earlier rounds, which depend on the seed and on what was measured only: so a
    search that is resumed goes on as it would have.

    begun  candidates that were tried: their forms are known
    """

    def __init__(
        self,
        space: Space,
        settings: Evolution,
        rng: random.Random,
        begun: Iterable[Candidate] = (),
    ) -> None:
        self.space, self.settings, self.rng = space, settings, rng
        self.known: dict[int, dict[tuple[str, ...], None]] = {}
        """The places of blocks by sketch."""
        self.shares: Sequence[float] | None = None
        """The part of a round for each sketch, if a policy says so."""
        self.odds: dict[Candidate, Sequence[float]] = {}
        """The weights of the moves of parents, if a policy says so."""
        self.mutants: list[tuple[Candidate, Candidate]] = []
        """Parents, and mutations of them, while there is such a policy."""
        self.advised: Round | None = None
        """The round that such a policy is asked about."""
        self.left = settings.forms
        """The number of new forms that may be looked into yet."""
        for candidate in begun:
            self.add(candidate)
        for number in range(len(space.sketches)):
            if number not in self.known:
                self._learn(space.draw(rng, number), anyway=True)
        for _ in range(settings.forms // 2):
            self._learn(space.draw(rng))
        if not self.known:  # all were refused; the error comes where schedules are made of them
            for number in range(len(space.sketches)):
                self.add(space.draw(rng, number))

    def draw(self) -> Candidate:
        """A random candidate of a known form."""
        if self.shares is None:
            sketch = self.space.any_sketch(self.rng, list(self.known))
        else:
            sketch = weighted(self.rng, list(self.known), [self.shares[n] for n in self.known])
        return self.space.draw(self.rng, sketch, self.rng.choice(list(self.known[sketch])))

    def drawn(self, count: int, found: Iterable[Candidate] = ()) -> list[Candidate]:
        """Different random candidates behind those that were found, `count` in all."""
        chosen = dict.fromkeys(found)
        for _ in range(50 * count):
            if len(chosen) >= count:
                break
            chosen.setdefault(self.draw())
        return list(chosen)

    def beginning(self, round: Round) -> list[Candidate]:
        """Candidates while little is measured: of each sketch one with the decisions of a schedule
        by hand, the likeliest sketches first; mutations of the fastest; random ones.

        In the first round as many as there are by hand; then half of the batch. The model orders
        the mutations as soon as there is one: it is asked about what is near, and not yet about
        what is best.
        """
        weights, known = self.space.weights, {t.candidate for t in round.history}
        begun = {candidate.sketch for candidate in known if candidate is not None}
        order = sorted(self.known.keys() - begun, key=lambda sketch: -weights[sketch])
        hand = [
            self.space.by_hand(self.rng, sketch, self.rng.choice(list(self.known[sketch])))
            for sketch in order
        ]
        parents = [*round.best[:FASTEST]] or hand[:FASTEST] or [self.draw()]
        count = round.count
        if self.shares is not None and round.best:
            guided = int(8 * count * self.settings.guided)
            usual = [parents[n % len(parents)] for n in range(8 * count - guided)]
            parents = [*usual, *self._fastest_of_each(round.best, guided)]
            self.rng.shuffle(parents)
        near = [self.mutant(parents[n % len(parents)]) for n in range(8 * count)]
        near = [candidate for candidate in dict.fromkeys(near) if candidate not in known]
        if round.best or round.trusted:
            near = by_score(near, round.score)
        lucky = _part_of(self.settings.epsilon, round)
        kept = len(hand) if not round.best else (count - lucky + 1) // 2
        chosen = hand[:kept] + near[: max(0, count - lucky - len(hand[:kept]))]
        first = self.drawn(count, chosen[: count - lucky])
        return list(dict.fromkeys([*first, *hand, *near, *self._spare(count)]))

    def batch(self, ranked: Sequence[Candidate], round: Round) -> list[Candidate]:
        """The best by score that are new; of sketches that had less than their share, the best of
        some; a few that are random; and more behind them if some are refused.

        What was measured scores high and takes part in a search, but not in what it proposes.
        """
        known, count = {*round.best, *(t.candidate for t in round.history)}, round.count
        news = [candidate for candidate in ranked if candidate not in known]
        lucky = _part_of(self.settings.epsilon, round)
        if self.shares is None:
            owed = [c for sketch in self._owed(round) for c in self._best_of(sketch, round.score)]
        else:
            guided = min(_part_of(self.settings.guided, round), count - lucky)
            owed = self._allotted(news, guided, round.score)
        chosen = dict.fromkeys(owed)
        for candidate in news[: max(0, count - lucky - len(chosen))]:
            chosen.setdefault(candidate)
        first = self.drawn(count, chosen)
        return list(dict.fromkeys([*first, *news, *self._spare(count)]))

    def _spare(self, count: int) -> list[Candidate]:
        """Random candidates, for the place of others that are refused or known by another name."""
        return [self.draw() for _ in range(4 * count)]

    def _owed(self, round: Round) -> list[int]:
        """The sketches that had less than their share of `floor`, those with least in front."""
        tried = Counter(t.candidate.sketch for t in round.history if t.candidate is not None)
        part = self.settings.floor * (len(round.history) + round.count) / len(self.known)
        behind = sorted((s for s in self.known if tried[s] + 1 <= part), key=lambda s: tried[s])
        most = max(1, int(self.settings.floor * round.count))  # a small round is for one of them
        return behind[: min(most, round.count - _part_of(self.settings.epsilon, round))]

    def _fastest_of_each(self, best: Sequence[Candidate], count: int) -> list[Candidate]:
        """Of each sketch the fastest, as often as its share says; only those that have one."""
        assert self.shares is not None
        fastest = {candidate.sketch: candidate for candidate in reversed(best)}
        odds = [self.shares[sketch] for sketch in fastest]
        return [weighted(self.rng, list(fastest.values()), odds) for _ in range(count)]

    def _allotted(self, news: Sequence[Candidate], count: int, score: Score) -> list[Candidate]:
        """So many candidates, of each sketch its share, the best by score of those that are new."""
        assert self.shares is not None
        shares = [share * (n in self.known) for n, share in enumerate(self.shares)]
        found = []
        for sketch, part in enumerate(apportioned(shares, count, self.rng)):
            own = [c for c in news if c.sketch == sketch][:part]
            if len(own) < part:
                own += self._best_of(sketch, score, part - len(own))
            found += own
        return found

    def _best_of(self, sketch: int, score: Score, count: int = 1) -> list[Candidate]:
        """The best by score of some candidates of a sketch; fewer where they are refused."""
        places = list(self.known[sketch])
        drawn = [self.space.draw(self.rng, sketch, self.rng.choice(places)) for _ in range(OF_EACH)]
        return by_score(drawn, score)[:count]

    def child(self, parents: Callable[[], Candidate]) -> Candidate:
        """A mutation of a parent, or a crossover of two."""
        one = parents()
        if self.rng.random() >= self.settings.crossover:
            return self.mutant(one)
        made = self.space.crossed(one, parents(), self.rng)
        return made if self._learn(made) else one

    def mutant(self, one: Candidate) -> Candidate:
        """A mutation; the same candidate where it would be of one new form too many."""
        weights, made = self.odds.get(one), one
        if weights is None:
            made = self.space.mutated(one, self.rng, self.settings.mutations)
        else:
            moves = self.space.moves(one.sketch)
            for _ in range(ATTEMPTS):
                if made != one:
                    break
                made = self.space.moved(one, weighted(self.rng, moves, weights), self.rng)
        if self.advised is not None and made != one:
            self.mutants.append((one, made))
        return made if self._learn(made) else one

    def advise(self, parents: Sequence[Candidate], scores: Mapping[Candidate, float]) -> None:
        """Ask the mutation policy about the next parents.

        scores  of all that was made in this round
        """
        round, policy = self.advised, self.settings.mutation_policy
        assert round is not None and policy is not None
        made = [
            Made(one, other, scores[other] - scores[one] if scores[other] > -np.inf else -np.inf)
            for one, other in self.mutants
            if one in scores and other in scores and scores[one] > -np.inf
        ]
        history = History(round.history, round.space, round.score, round.count, made)
        self.odds = {}
        try:
            given = policy.weights(parents, history, random.Random(f"{round.seed}/mutations"))
            if given is not None:
                self.odds = dict(zip(parents, checked_weights(given, parents, round.space)))
                round.advice.odds.update(self._usual_odds())
        except Exception as failure:
            round.advice.unchosen.add("mutation_policy.weights", failure)

    def _usual_odds(self) -> Iterator[tuple[int, list[float]]]:
        """For each sketch with parents, the odds of its moves as multiples of the fixed ones."""
        for sketch in dict.fromkeys(parent.sketch for parent in self.odds):
            fixed = np.array(self.space.odds(sketch))
            rows = np.array([row for one, row in self.odds.items() if one.sketch == sketch])
            parts = rows / rows.sum(axis=1, keepdims=True) / (fixed / fixed.sum())
            yield sketch, parts.mean(axis=0).tolist()

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


def _part_of(part: float, round: Round) -> int:
    """The candidates of a round with which a part of all is reached: 0 or 1 of a small one."""
    before = len(round.history)
    return int(part * (before + round.count)) - int(part * before)


def scored(batch: Iterable[Candidate], found: dict[Candidate, float], score: Score) -> None:
    """Add the scores of a batch to those that were found: nothing is scored twice."""
    news = [candidate for candidate in dict.fromkeys(batch) if candidate not in found]
    if news:
        scores = score(news)
        found.update(zip(news, np.where(np.isnan(scores), -np.inf, scores).tolist()))


def by_score(candidates: Sequence[Candidate], score: Score) -> list[Candidate]:
    """Candidates that are not refused, those that score best in front."""
    scores = score(candidates)
    ranked = np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")
    return [candidates[n] for n in ranked if scores[n] > -np.inf]


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
    for number in range(settings.generations + 1):
        scored(generation, known, score)
        best_of_all = sorted(known.items(), key=lambda item: -item[1])[: max(size, count)]
        ranked, values = zip(*best_of_all)
        if number < settings.generations:
            parents = _proportional(ranked, np.array(values), rng)
            if population.advised is not None:
                drawn = [parents() for _ in range(2 * size)]
                population.advise(list(dict.fromkeys(drawn)), known)
                parents = iter(drawn).__next__
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
