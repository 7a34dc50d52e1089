"""The history of a search, as policies see it: what was tried, and of which sketch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, overload

from minitensor.search.space import Candidate, Space
from minitensor.search.strategy import Score
from minitensor.search.tried import Tried

WORST: Final = math.log(1e-3)
"""The logarithm of the speed of a failure, and of what is slower."""


@dataclass(frozen=True)
class Arm:
    """A sketch as an arm of a bandit: one entry for each of its candidates that were tried.

    number  of the sketch in its space
    weight  how likely a random candidate has it (see `Space.weights`)
    places  the places of its candidates in the whole history, from 0
    speeds  logarithms of their speeds; the fastest of all sketches has 0
    gains   logarithms of how many times as fast as the fastest before it each was; 0 for most
    costs   seconds that each took; 1 is the mean of all
    """

    number: int
    weight: float
    places: tuple[int, ...] = ()
    speeds: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()
    costs: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        """The number of its candidates."""
        return len(self.speeds)

    @property
    def best(self) -> float:
        """The logarithm of the speed of its fastest; that of a failure if there is none."""
        return max(self.speeds, default=WORST)

    def since(self, place: int) -> Arm:
        """The same without what was tried before a place in the history."""
        first = next((n for n, p in enumerate(self.places) if p >= place), self.count)
        speeds, gains, costs = (v[first:] for v in (self.speeds, self.gains, self.costs))
        return Arm(self.number, self.weight, self.places[first:], speeds, gains, costs)

    @property
    def reward(self) -> float:
        """Its gain for its part of the time: the sum of gains over that of costs."""
        return sum(self.gains) / sum(self.costs) if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Made:
    """A child that was made of a parent, and by how much it is better: by the model's score, or the
    logarithm of the ratio of the measured speeds; -inf if it is refused or failed.
    """

    parent: Candidate
    child: Candidate
    gain: float


@dataclass(frozen=True)
class History(Sequence[Tried]):
    """All that was tried, in order; and what it says of each sketch.

    tried  failures, and what the log knew, included
    space  that is searched
    score  the model's scores of candidates; all alike while nothing is learnt
    wanted the number of candidates that are measured next
    made   the mutations of this round so far, with what they gained by the model's score
    """

    tried: Sequence[Tried]
    space: Space
    score: Score
    wanted: int
    made: Sequence[Made] = ()

    @overload
    def __getitem__(self, place: int) -> Tried: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Tried]: ...
    def __getitem__(self, place: int | slice) -> Tried | Sequence[Tried]:
        return self.tried[place]

    def __len__(self) -> int:
        return len(self.tried)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Each sketch, with its candidates."""
        return arms_of(self.tried, self.space)

    @cached_property
    def measured(self) -> list[Made]:
        """The mutations that were measured, and their parents too."""
        known = {t.key: t for t in self.tried if t.candidate is not None}
        found = []
        for one in self.tried:
            parent = known.get(one.parents[0]) if len(one.parents) == 1 else None
            if parent is None or parent.candidate is None or one.candidate is None:
                continue
            if parent.steady < math.inf:
                gain = math.log(parent.steady / one.steady) if one.steady < math.inf else -math.inf
                found.append(Made(parent.candidate, one.candidate, gain))
        return found


def arms_of(tried: Sequence[Tried], space: Space) -> tuple[Arm, ...]:
    """Each sketch of a space, with its candidates among those that were tried."""
    spent = [t.spent for t in tried if t.spent > 0]
    mean = sum(spent) / len(spent) if spent else 1.0
    ends = min((t.steady for t in tried), default=math.inf)
    found: list[list[tuple[int, float, float, float]]] = [[] for _ in space.sketches]
    fastest = math.inf
    for place, one in enumerate(tried):
        gain = 0.0
        if one.steady < fastest:
            gain = math.log(fastest / one.steady) if fastest < math.inf else 0.0
            fastest = one.steady
        if one.candidate is not None:
            speed = math.log(ends / one.steady) if one.steady < math.inf else WORST
            cost = one.spent / mean if one.spent > 0 else 1.0
            found[one.candidate.sketch].append((place, max(WORST, speed), gain, cost))
    weights = space.weights
    arms = []
    for number, entries in enumerate(found):
        places = tuple(entry[0] for entry in entries)
        speeds, gains, costs = (tuple(float(e[n]) for e in entries) for n in (1, 2, 3))
        arms.append(Arm(number, weights[number], places, speeds, gains, costs))
    return tuple(arms)
