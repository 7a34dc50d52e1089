"""A genetic algorithm on measured candidates: no model is asked.

A generation is measured; its members are the parents of the next, each as often as it is fast. It
takes several rounds to measure one. Nothing is kept between them: generations are parts of the
history, and the children of a generation are drawn a round at a time. They depend on their parents
and not on each other, so this is the same as drawing all at once, and a search that is resumed goes
on as it would have.

Source: GATuner of AutoTVM (python/tvm/autotvm/tuner/ga_tuner.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from minitensor.errors import real, whole
from minitensor.search.records import OK
from minitensor.search.space import Candidate
from minitensor.search.space.candidate import weighted
from minitensor.search.strategy import Round
from minitensor.search.tried import Tried
from minitensor.search.tuners import genes
from minitensor.search.tuners.simple import MISSED, PROPOSED, Random


@dataclass(frozen=True, slots=True)
class Genetic:
    """The genetic algorithm; the defaults are GATuner's.

    population  candidates of a generation; the first is random
    elite       the fastest of all generations before the last that are parents too
    mutation    the probability of each choice of a child to be drawn anew
    """

    population: int = 100
    elite: int = 3
    mutation: float = 0.1

    uses_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole("population", self.population, 2)
        whole("elite", self.elite, 0, self.population)
        real("mutation", self.mutation, 0, 1)

    def propose(self, round: Round) -> Iterator[Candidate]:
        """See Strategy. Behind the children there are random candidates, where these are refused.

        A round that completes a generation begins the next with children of the same parents.
        """
        parents = self.parents(round.history)
        if parents:
            yield from self._children(parents, round)
        yield from Random().propose(round)

    def parents(self, history: Sequence[Tried]) -> dict[Candidate, float]:
        """The speed of the candidates of the last complete generation that worked, and of the elite
        of those before it.
        """
        begin = (len(history) // self.population - 1) * self.population
        if begin < 0:
            return {}
        before = sorted(_speeds(history[:begin]).items(), key=lambda item: -item[1])
        elite = dict(before[: self.elite])
        return {**elite, **_speeds(history[begin : begin + self.population])}

    def _children(self, parents: Mapping[Candidate, float], round: Round) -> Iterator[Candidate]:
        space, rng = round.space, round.rng
        known = {tried.candidate for tried in round.history}
        missed, left = 0, PROPOSED * round.count
        while missed < MISSED and left:
            one, other = _pair(parents, rng)
            size = len(genes.choices(one))
            child = genes.crossed(space, one, other, rng.randrange(size)) if size else one
            for number in range(size):
                if rng.random() < self.mutation:
                    child = genes.redrawn(space, child, number, rng)
            while child in known and missed < MISSED:  # as there: until it is a new one
                missed += 1
                if size:
                    child = genes.redrawn(space, child, rng.randrange(size), rng)
            if child not in known:
                known.add(child)
                missed, left = 0, left - 1
                yield child


def _speeds(history: Sequence[Tried]) -> dict[Candidate, float]:
    """Calls a second of those that worked."""
    worked = [(t.candidate, t) for t in history if t.status == OK]
    return {candidate: 1 / t.steady for candidate, t in worked if candidate is not None}


def _pair(parents: Mapping[Candidate, float], rng: random.Random) -> tuple[Candidate, Candidate]:
    """Two different parents, drawn in proportion to their speed; one twice if there is no other."""
    one = weighted(rng, list(parents), parents.values())
    rest = {parent: speed for parent, speed in parents.items() if parent != one}
    return one, weighted(rng, list(rest), rest.values()) if rest else one
