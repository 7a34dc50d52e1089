"""The protocol of strategies: what a search asks for the candidates of its next round.

A strategy of a user's own is an object with `propose`, given to `mt.tune(…, strategy=object)`:

    class Neighbours:
        def propose(self, round):
            if not round.best:
                return [round.space.draw(round.rng) for _ in range(2 * round.count)]
            best = round.best[0]
            return [round.space.mutated(best, round.rng) for _ in range(4 * round.count)]

`round.history` has everything that was tried, failures too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor.errors import unexpected
from minitensor.search.space import Candidate, Space
from minitensor.search.tried import Tried
from minitensor.search.unmade import Unmade

Doubles = npt.NDArray[np.float64]
Score: TypeAlias = Callable[[Sequence[Candidate]], Doubles]
"""The model's scores of candidates (candidates,): the higher, the faster; -inf for what is refused.
Before the first measurement all legal candidates score alike, unless a history was given."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of a round that a sketch policy gave each sketch.

    after   the number of candidates that had been tried
    values  for each sketch of the space, of sum 1, its floor included
    """

    after: int
    values: tuple[float, ...]


@dataclass
class Advice:
    """The answers of the policies of a search, round by round.

    shares    of sketch policies
    odds      of mutation policies: for each sketch with parents, and each of its moves, how many
              times the fixed odds it had in the last generation, on average over parents
    unchosen  what could not be used
    """

    shares: list[Shares] = field(default_factory=list)
    odds: dict[int, list[float]] = field(default_factory=dict)
    unchosen: Unmade = field(default_factory=Unmade)


@dataclass(frozen=True)
class Round:
    """A round of a search, as a strategy sees it.

    space    draws candidates, mutates them, and makes schedules of them
    best     those that worked, fastest first; empty in the first round
    score    the model's scores of some candidates
    rng      draws whatever is drawn: then the same seed and the same costs give the same search
    count    the number of candidates that are to be measured
    history  everything that was tried, in order: what the log knew first, failures included
    seed     names the draws of this round, for what is drawn apart from `rng`
    trusted  whether scores mean something though little is measured, or nothing: they come from
             other workloads, and rank what was measured of this one
    advice   what policies said in earlier rounds: a strategy that asks one adds to it
    """

    space: Space
    best: Sequence[Candidate]
    score: Score
    rng: random.Random
    count: int
    history: Sequence[Tried] = ()
    seed: str = ""
    trusted: bool = False
    advice: Advice = field(default_factory=Advice)


class Strategy(Protocol):
    """Chooses candidates.

    `uses_model` may be False for a strategy that never asks for scores: then nothing is learnt.
    An object without it is taken to ask. `objective` may be the loss that suits it, "rank" or
    "squared": the usual model learns by that; by "squared" for an object without it.
    """

    def propose(self, round: Round) -> Iterable[Candidate]:
        """Candidates of the round's space, those to be measured first in front.

        The search measures the first `round.count` that are legal and new, so a strategy proposes
        more than that where there are as many. If none is left, the search ends.
        """
        ...


def named(argument: str, given: Any, known: Mapping[str, Any], call: str) -> Any:
    """The strategy or policy of a name, or an object that is one. Raises ArgumentError.

    call  the method that such an object has
    """
    if isinstance(given, str) and given in known:
        return known[given]
    method = call.split("(", maxsplit=1)[0]
    if isinstance(given, (str, type)) or not callable(getattr(given, method, None)):
        names = ", ".join(map(repr, known))
        raise unexpected(f"one of {names}, or an object with {call}", argument, given)
    return given
