"""ε-greedy: mostly the sketch that has gained most for its time, else any."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from minitensor.search.policies.history import Arm, History, argmax, picked


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
