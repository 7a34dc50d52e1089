"""Beam search: decisions made one after the other, the best prefixes kept by the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from minitensor.search.evolution import Evolution, Population, by_score
from minitensor.search.space import Candidate, Knob, Space, Value
from minitensor.search.strategy import Round


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
        return population.batch(by_score(list(found), round.score), round)

    def _grown(self, beam: list[Candidate], round: Round) -> list[Candidate]:
        for decide in _decisions(round.space, beam[0].sketch, round.rng):
            grown = dict.fromkeys(decide(c) for c in beam for _ in range(self.branches))
            beam = by_score(list(grown), round.score)[: self.width]
        return beam


def _default(knob: Knob) -> Value:
    return (knob.extent, *[1] * (knob.parts - 1)) if knob.is_tile else 0


def _decisions(
    space: Space, sketch: int, rng: random.Random
) -> Iterator[Callable[[Candidate], Candidate]]:
    """Functions that make one decision of a candidate after the other, at random."""
    for number, knob in enumerate(space.knobs[sketch]):
        yield lambda c, n=number, k=knob: c.with_value(n, k.draw(rng))  # type: ignore[misc]
    if space.annotate:
        yield lambda c: replace(c, parallel=space.draw(rng, sketch).parallel)
        yield lambda c: replace(c, unroll=space.draw(rng, sketch).unroll)
