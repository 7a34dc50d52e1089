"""Upper confidence bounds: the sketch that may be the best, as far as is known of it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from minitensor.search.policies.history import History, argmax, picked


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
