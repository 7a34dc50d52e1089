"""Thompson sampling: each sketch as often as it would give the fastest of the next candidates."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Final

from minitensor.search.policies.history import Arm, History, argmax, picked

ATTEMPTS: Final = 8
"""Draws, while none is a gain; then the fastest of the last is picked."""


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
