"""A policy network: what is known of a sketch in, its share out; learnt by REINFORCE."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Final

import numpy as np

from minitensor.search.policies.history import WORST, Arm, History
from minitensor.search.strategy import Doubles

INPUTS: Final = 8
"""Numbers that describe a sketch (see `described`)."""


@dataclass(frozen=True)
class PolicyGradient:
    """A network of one hidden layer, the same for all sketches, gives each a number; a softmax of
    these numbers are the shares.

    It is learnt anew in each round, from the whole history: candidates are actions, in groups as
    they were measured; the reward is the gain of the incumbent for the time spent, less the mean
    reward until then (the baseline). It begins with random weights that give all sketches almost
    equal shares.

    hidden  units of the hidden layer
    rate    of learning
    group   candidates after which a sketch's description is computed anew
    start   the network at the beginning; None for a random one

    Source: Williams, Simple statistical gradient-following algorithms for connectionist
    reinforcement learning, Machine Learning 8 (1992).
    """

    hidden: int = 8
    rate: float = 0.3
    group: int = 8
    start: Network | None = None

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        arms, opinions = history.arms, _standing(history.opinions(rng))
        network = self.start.copy() if self.start else Network.random(self.hidden, rng)
        self._teach(network, arms, opinions)
        return list(network.shares(described(arms, opinions, len(history))))

    def pretrained(self, histories: Sequence[History]) -> PolicyGradient:
        """The policy that begins with what searches for other programs taught it."""
        network = Network.random(self.hidden, random.Random(0))
        for history in histories:
            self._teach(network, history.arms, np.zeros((len(history.arms), 2)))
        return replace(self, start=network)

    def _teach(self, network: Network, arms: Sequence[Arm], opinions: Doubles) -> None:
        """Learn from all candidates of a search, in the order in which they were measured."""
        gains = [(arm.number, p, g / c) for arm in arms for p, g, c in _entries(arm)]
        actions = sorted(gains, key=lambda action: action[1])
        largest = max((gain for _, _, gain in actions), default=0.0) or 1.0
        baseline = 0.0
        for start in range(0, len(actions), self.group):
            part = actions[start : start + self.group]
            inputs = described(arms, opinions, part[0][1])
            for taken, _, gain in part:
                reward = gain / largest
                network.learn(inputs, taken, self.rate * (reward - baseline))
                baseline += (reward - baseline) / (len(part) + start)


@dataclass
class Network:
    """A hidden layer with tanh, and one output."""

    first: Doubles
    second: Doubles

    @staticmethod
    def random(hidden: int, rng: random.Random) -> Network:
        """Small weights (inputs + 1, hidden) and (hidden,)."""
        draw = np.array([rng.gauss(0, 1) for _ in range((INPUTS + 2) * hidden)])
        first = draw[: (INPUTS + 1) * hidden].reshape(INPUTS + 1, hidden) / math.sqrt(INPUTS)
        return Network(first, draw[(INPUTS + 1) * hidden :] * 0.1)

    def copy(self) -> Network:
        """Another one of the same weights, which are never changed in place."""
        return Network(self.first, self.second)

    def shares(self, inputs: Doubles) -> Doubles:
        """The share (sketches,) of each sketch, from its description (sketches, inputs + 1)."""
        values = np.tanh(inputs @ self.first) @ self.second
        odds = np.exp(values - values.max())
        return np.asarray(odds / odds.sum())

    def learn(self, inputs: Doubles, taken: int, step: float) -> None:
        """Make what was taken likelier, or less likely, by a step along the gradient of its
        logarithm.
        """
        layer = np.tanh(inputs @ self.first)
        error = -self.shares(inputs)
        error[taken] += 1.0
        back = (error[:, None] * self.second) * (1 - layer**2)
        self.second = self.second + step * (error @ layer)
        self.first = self.first + step * (inputs.T @ back)


def described(arms: Sequence[Arm], opinions: Doubles, place: int) -> Doubles:
    """The description of each sketch (sketches, INPUTS + 1) before a place in the history: best,
    mean and spread, its part of the trials, its reward, the model's opinion, its weight; and 1.
    """
    rows = []
    for arm, opinion in zip(arms, opinions):
        before = [s for s, p in zip(arm.speeds, arm.places) if p < place]
        gains = sum(g for g, p in zip(arm.gains, arm.places) if p < place)
        costs = sum(c for c, p in zip(arm.costs, arm.places) if p < place)
        speeds = before or [WORST / 2]
        own = (max(speeds), fmean(speeds), pstdev(speeds), len(before) / max(1, place))
        rows.append((*own, gains / costs if costs else 0.0, *opinion, arm.weight, 1.0))
    return np.array(rows)


def _entries(arm: Arm) -> list[tuple[int, float, float]]:
    return list(zip(arm.places, arm.gains, arm.costs))


def _standing(scores: Sequence[Doubles]) -> Doubles:
    """The best and the mean score (sketches, 2) of each sketch, as deviations from all of them."""
    finite = np.concatenate(scores)
    finite = finite[np.isfinite(finite)]
    middle, spread = (finite.mean(), finite.std() or 1.0) if len(finite) else (0.0, 1.0)
    rows = []
    for one in scores:
        legal = one[np.isfinite(one)]
        legal = (legal - middle) / spread if len(legal) else np.full(1, -3.0)
        rows.append((legal.max(), legal.mean()))
    return np.array(rows)
