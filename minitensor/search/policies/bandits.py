"""Sketch policies: the protocol, what a search makes of their answers, and bandits whose arms are
sketches.

The part of a round that a sketch gets is by ε-greedy that of the one which has gained most for its
time; by upper confidence bounds of the one that may be the best, as far as is known; by Thompson
sampling as often as it would give the fastest of the next candidates; by successive halving none
once it is in the worse half. Not here: the network (`gradient`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any, Final, Protocol

from minitensor.errors import ArgumentError, is_real, shown, unexpected
from minitensor.search.policies.history import Arm, History

FLOOR: Final = 0.1
"""The part of all shares that all sketches have alike: none is given up."""
ATTEMPTS: Final = 8
"""Draws of Thompson sampling, while none is a gain; then the fastest of the last is picked."""


class SketchPolicy(Protocol):
    """Chooses how much of a round each sketch gets."""

    def shares(self, history: History, rng: random.Random) -> Sequence[float] | None:
        """A number >= 0 for each sketch of `history.space`, of any sum above 0; None for the
        search's own choice. It depends on the history and on what is drawn from `rng` only, so that
        a search that is resumed goes on as it would have.
        """
        ...


def checked_shares(given: Any, sketches: int) -> list[float]:
    """Shares of sum 1, each with its floor. Raises ArgumentError for what are none."""
    try:
        values = list(given)
    except TypeError:
        raise unexpected("a number for each sketch", "shares", given) from None
    if len(values) != sketches:
        raise ArgumentError(f"expected {sketches} shares, one for each sketch, got {len(values)}")
    for value in values:
        if not is_real(value, 0):
            raise ArgumentError(f"expected shares that are numbers >= 0, but one is {shown(value)}")
    numbers = [float(value) for value in values]
    total = sum(numbers)
    if not 0 < total < math.inf:
        raise ArgumentError(f"expected shares of a finite sum above 0, but theirs is {total:g}")
    return [(1 - FLOOR) * value / total + FLOOR / sketches for value in numbers]


def apportioned(shares: Sequence[float], count: int, rng: random.Random) -> list[int]:
    """So many candidates for each share, `count` in all: on average exactly its part.

    Systematic sampling: one number is drawn, and every place at a distance of 1 / count from it
    falls into some share.
    """
    bound, place, total = 0.0, 0, sum(shares)
    start, counts = rng.random(), []
    for share in shares:
        bound += share / total * count
        counts.append(0)
        while place + start < bound and place < count:
            counts[-1] += 1
            place += 1
    counts[-1] += count - place
    return counts


# ---- bandits


def picked(arms: Sequence[Arm], count: int, pick: Callable[[list[int]], int]) -> list[float]:
    """The shares of arms that are picked one after the other.

    pick  the place of the next, by how often each was picked in this round
    """
    times = [0] * len(arms)
    for _ in range(count):
        times[pick(times)] += 1
    return [n / count for n in times]


def argmax(values: Sequence[float], rng: random.Random) -> int:
    """The place of the largest value; one of them at random where several are."""
    most = max(values)
    return rng.choice([place for place, value in enumerate(values) if value == most])


@dataclass(frozen=True)
class EpsilonGreedy:
    """The sketch with the highest reward gets all but a part; that part is spread over all.

    epsilon  that part
    recent   only so many candidates back are looked at: a gain of long ago promises nothing

    Source: Sutton and Barto, Reinforcement Learning (2nd edition), section 2.2.
    """

    epsilon: float = 0.3
    recent: int = 64

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        arms = [arm.since(len(history) - self.recent) for arm in history.arms]
        rewards = [_value(arm) for arm in arms]

        def pick(times: Sequence[int]) -> int:
            if rng.random() < self.epsilon:
                return rng.randrange(len(arms))
            return argmax(rewards, rng)

        return picked(arms, history.wanted, pick)


def _value(arm: Arm) -> float:
    """The reward; of two that gained nothing, the one with the fastest candidate is better."""
    return arm.reward + 1e-6 * arm.best


@dataclass(frozen=True)
class UCB:
    """UCB1 on rewards: the mean, and a bonus for what was tried seldom.

    A reward is the gain of the incumbent for the time spent, as a part of the largest gain so far:
    a sketch that is fast and no longer gets faster has none.

    bonus   of a sketch tried once in e trials, in units of the largest gain
    recent  only so many candidates back count; None for all (UCB1)

    Sources: Auer et al., Finite-time analysis of the multiarmed bandit problem, Machine Learning 47
    (2002); with a window: Garivier and Moulines, On upper-confidence bound policies for switching
    bandit problems, ALT 2011.
    """

    bonus: float = 0.3
    recent: int | None = None

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        first = 0 if self.recent is None else len(history) - self.recent
        arms = [arm.since(first) for arm in history.arms]
        largest = max((gain for arm in arms for gain in arm.gains), default=0.0) or 1.0
        total = sum(arm.count for arm in arms)

        def bound(place: int, times: Sequence[int]) -> float:
            arm, count = arms[place], arms[place].count + times[place]
            if not count:
                return math.inf
            mean = sum(arm.gains) / (sum(arm.costs) + times[place]) / largest
            return mean + self.bonus * math.sqrt(2 * math.log(1 + total + sum(times)) / count)

        return picked(
            arms,
            history.wanted,
            lambda times: argmax([bound(place, times) for place in range(len(arms))], rng),
        )


@dataclass(frozen=True)
class Thompson:
    """The next candidate of each sketch is drawn from what is believed of it; the one that gains
    most for its time is picked.

    The belief is a normal distribution of the logarithm of the speed of its latest candidates, of
    unknown mean and variance. What is drawn is a candidate's speed, not the sketch's mean, and
    only what would be faster than all before counts: a wide spread wins where a high mean without
    upside loses.

    recent  candidates of a sketch that are looked at, the latest
    prior   how many candidates the belief before the first is worth

    Sources: Thompson, Biometrika 25 (1933); for the largest value instead of the mean: Cicirello
    and Smith, The max k-armed bandit, AAAI 2005.
    """

    recent: int = 16
    prior: float = 2.0

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        arms = history.arms
        speeds = [speed for arm in arms for speed in arm.speeds] or [0.0]
        usual = fmean(speeds), max(pvariance(speeds), 1e-4)

        def pick(times: Sequence[int]) -> int:
            for _ in range(ATTEMPTS):
                drawn = [self._drawn(arm, usual, rng) for arm in arms]
                if max(drawn) > 0:
                    break
            return argmax(drawn, rng)

        return picked(arms, history.wanted, pick)

    def _drawn(self, arm: Arm, usual: tuple[float, float], rng: random.Random) -> float:
        """The gain of a candidate for its time, or less than 0 where it is none."""
        latest, costs = arm.speeds[-self.recent :], arm.costs[-self.recent :]
        n, weight = len(latest), len(latest) + self.prior
        mean = (sum(latest) + self.prior * usual[0]) / weight
        squares = sum((speed - mean) ** 2 for speed in latest) + self.prior * usual[1]
        variance = squares / (2 * rng.gammavariate(weight / 2, 1.0))
        speed = rng.gauss(mean, math.sqrt(variance * (1 + 1 / weight)))
        return speed / fmean(costs) if n and speed > 0 else speed


@dataclass(frozen=True)
class Halving:
    """Those that are left have equal shares; at the end of a rung the half with the fastest
    candidates is kept.

    rung  candidates for each sketch that is left, until the next halving

    Source: Karnin, Koren and Somekh, Almost optimal exploration in multi-armed bandits, ICML 2013;
    Jamieson and Talwalkar, AISTATS 2016.
    """

    rung: int = 8

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        left, end = list(history.arms), 0
        while len(left) > 1:
            end += self.rung * len(left)
            if end > len(history):
                break
            ranked = sorted(left, key=lambda arm: -_best_before(arm, end))
            left = ranked[: math.ceil(len(left) / 2)]
        return [float(arm in left) / len(left) for arm in history.arms]


def _best_before(arm: Arm, place: int) -> float:
    """The logarithm of the speed of the fastest of its candidates before a place."""
    return max((s for s, p in zip(arm.speeds, arm.places) if p < place), default=-math.inf)
