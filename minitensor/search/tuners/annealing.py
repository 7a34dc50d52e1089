"""Simulated annealing on the scores of a model, and a batch that is diverse.

Many chains walk at once: each changes one choice of its candidate, and takes a worse one with a
probability that falls with the temperature. Of the best that any chain has seen, the batch is
chosen so that its members score high and have many different choices between them. A few of a batch
are random.

Nothing is kept between rounds, where the published code lets chains go on from where they ended:
half of them begin at the fastest candidates that were measured, which are what chains led to, and
the others anywhere. So a search that is resumed goes on as it would have.

Source: Chen et al., Learning to optimize tensor programs, NeurIPS 2018, section 3; AutoTVM,
python/tvm/autotvm/tuner/sa_model_optimizer.py and model_based_tuner.py.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

import numpy as np

from minitensor.errors import real, whole
from minitensor.search.evolution import Evolution, Population, scored
from minitensor.search.space import Candidate, Mutations, Space
from minitensor.search.strategy import Doubles, Round
from minitensor.search.tuners import genes

STEPS: Final = Mutations(tile=0.7, parallel=0.1, unroll=0.1, location=0.1)
"""The kinds of steps. (There each choice is as likely as any other, and so are its options.)"""


@dataclass(frozen=True, slots=True)
class Annealing:
    """Simulated annealing; docs/tuners.md has the published parameters beside these.

    chains     candidates that walk at once
    steps      of each, at most. 80 let the model score as many candidates as `Evolution` does; the
               published 500 take six times as long
    heat       the temperature of the first step, in standard deviations of the scores of candidates
               where chains begin; it falls to 0 in equal parts
    patience   steps in which no candidate came among the best: then the chains end
    measured   the part of the chains that begin at the fastest measured, at most
    ahead      the best from which a batch is chosen, for each that is to be measured
    diversity  the worth of a choice that the batch has not had yet, in standard deviations of score
    epsilon    the part of what is measured that is chosen at random
    """

    chains: int = 128
    steps: int = 80
    heat: float = 1.0
    patience: int = 50
    measured: float = 0.5
    ahead: int = 2
    diversity: float = 0.1
    epsilon: float = 0.05

    objective: ClassVar[str] = "rank"

    def __post_init__(self) -> None:
        for name in ("chains", "steps", "patience", "ahead"):
            whole(name, getattr(self, name), 1)
        for name in ("measured", "epsilon"):
            real(name, getattr(self, name), 0, 1)
        real("heat", self.heat, 1e-9, 1e9)
        real("diversity", self.diversity, 0, 1e9)

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy. It begins as `Evolution` does, and asks the model from the second round."""
        settings = Evolution(epsilon=self.epsilon, floor=0.0, mutations=STEPS)
        population = Population(round.space, settings, round.rng)
        if not round.best:
            return population.beginning(round)
        found = self._seen(population, round)
        ranked = sorted(found, key=lambda candidate: -found[candidate])
        near = ranked[: self.ahead * round.count]
        worth = np.array([found[candidate] for candidate in near])
        spread = float(worth.std()) if len(near) else 0.0
        chosen = diverse(round.space, near, worth / (spread or 1.0), round.count, self.diversity)
        return population.batch(list(dict.fromkeys([*chosen, *ranked])), round)

    def _seen(self, population: Population, round: Round) -> dict[Candidate, float]:
        """The scores of the legal candidates that chains came by and that were not tried."""
        rng, tried = round.rng, {*round.best, *(t.candidate for t in round.history)}
        chains = list(round.best[: int(self.chains * self.measured)])
        for candidate in chains:
            population.add(candidate)
        chains = population.drawn(self.chains, chains)
        found: dict[Candidate, float] = {}
        best, changed, seen = [-math.inf] * (self.ahead * round.count), 0, 0
        scores = self._scored(chains, found, round)
        finite = scores[np.isfinite(scores)]
        spread = (float(finite.std()) if len(finite) else 0.0) or 1.0
        for step in range(self.steps):
            if step - changed > self.patience:
                break
            moved = [population.mutant(candidate) for candidate in chains]
            after = self._scored(moved, found, round)
            for candidate, score in islice(found.items(), seen, None):
                if score > best[0] and candidate not in tried:
                    heapq.heapreplace(best, score)
                    changed = step
            seen = len(found)
            heat = self.heat * spread * (1 - step / self.steps)
            for number, (old, new) in enumerate(zip(scores.tolist(), after.tolist())):
                if new >= old or rng.random() < math.exp((new - old) / heat):
                    chains[number], scores[number] = moved[number], new
        return {c: v for c, v in found.items() if v > -math.inf and c not in tried}

    def _scored(
        self, batch: Sequence[Candidate], found: dict[Candidate, float], round: Round
    ) -> Doubles:
        """The scores (candidates,) of a batch; new ones are added to those that were found."""
        scored(batch, found, round.score)
        return np.array([found[candidate] for candidate in batch])


def diverse(
    space: Space, near: Sequence[Candidate], worth: Doubles, count: int, weight: float
) -> list[Candidate]:
    """Up to `count` of some candidates, chosen one after the other so that each adds most to

        the sum of their worth + weight * the number of different choices that any of them has

    A choice is a sketch, or an option of one of its choices. The sum is submodular: what is found
    greedily is near the largest (Nemhauser et al., Mathematical Programming 14, 1978).

    near   candidates, the best first
    worth  of each (candidates,)

    Source: Chen et al., section 3, equation 3.
    """
    numbers: dict[Hashable, int] = {}
    rows = []
    for candidate in near:
        names = [("sketch",), *genes.meanings(space, candidate.sketch)]
        parts = zip(names, [candidate.sketch, *genes.choices(candidate)])
        rows.append([numbers.setdefault(part, len(numbers) + 1) for part in parts])
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    new = np.ones(len(numbers) + 1, bool)
    new[0] = False  # fills up the rows of sketches with fewer choices
    left = np.array(worth, np.float64)
    chosen = []
    for _ in range(min(count, len(near))):
        pick = int(np.argmax(left + weight * new[table].sum(axis=1)))
        chosen.append(near[pick])
        left[pick] = -np.inf
        new[table[pick]] = False
    return chosen
