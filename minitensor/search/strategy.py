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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor.looks import Shown, readable_seconds
from minitensor.schedule import Trace
from minitensor.search.advice import Advice
from minitensor.search.records import OK, STEADY, trace_key
from minitensor.search.space import Candidate, Space

Doubles = npt.NDArray[np.float64]
Score: TypeAlias = Callable[[Sequence[Candidate]], Doubles]
"""The model's scores of candidates (candidates,): the higher, the faster; -inf for what is refused.
Before the first measurement all legal candidates score alike, unless a history was given."""


@dataclass(frozen=True, slots=True, repr=False)
class Tried(Shown):
    """One candidate that was tried.

    number     counted from 1
    trace      its steps
    candidate  None for a record that this space does not hold
    status     "ok", or how it failed
    seconds    per call, the median; infinity for a failure
    error      what went wrong, in one line
    known      whether it was recorded before, and not measured again
    guess      the model's score before it was measured; None if there was no model
    busy       whether others ran on the machine while it was measured (see `Result`)
    disturbed  whether the time may be too long for that reason: then nothing is learnt of it
    drift      how many times as long as at first a call took when it was measured
    round      of this search, counted from 1; 0 for a record, which was not measured in it
    parents    the keys of those that it was made from, two at most; () if it was drawn
    change     what differs from the first of them, for people; "" if it was drawn
    spent      seconds that building and running it took; 0 if that is not known
    """

    number: int
    trace: Trace
    candidate: Candidate | None
    status: str
    seconds: float
    error: str = ""
    known: bool = False
    guess: float | None = None
    busy: bool = False
    disturbed: bool = False
    drift: float = STEADY
    round: int = 0
    parents: tuple[str, ...] = ()
    change: str = ""
    spent: float = 0.0

    def __str__(self) -> str:
        outcome = readable_seconds(self.seconds) if self.status == OK else self.error or self.status
        return f"number {self.number}: {outcome}" + f", {self.change}" * bool(self.change)

    @property
    def key(self) -> str:
        """The key of its trace, by which `parents` name it."""
        return trace_key(self.trace)

    @property
    def steady(self) -> float:
        """Seconds per call, without the drift of the machine."""
        return self.seconds / self.drift


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
