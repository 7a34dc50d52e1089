"""A policy network: what is known of a sketch in, its share out; learnt by REINFORCE."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Final, NamedTuple

import numpy as np

from minitensor.arith import Integers
from minitensor.search.policies.history import Arm, History, arms_of
from minitensor.search.strategy import Doubles

INPUTS: Final = 5
"""Numbers that describe a sketch (see `described`)."""
MOST: Final = 2.0
"""The largest reward, and the largest importance weight: one candidate teaches no more."""


@dataclass(frozen=True)
class PolicyGradient:
    """A network of one hidden layer, the same for all sketches, gives each a number; a softmax of
    these numbers are the shares.

    It is learnt anew in each round, from the whole history: candidates are actions, in groups as
    they were measured; a state is what was known of the sketches before a group. The reward is the
    speed of a candidate as a part of that of the fastest before it, less the mean of its group (the
    baseline). The network has chosen only some of the candidates, and with other weights than now:
    so an action counts as many times as it is likelier now than it was frequent in its group (its
    importance weight). It begins with random weights that give all sketches almost equal shares.

    hidden  units of the hidden layer
    rate    of learning, for a reward of one standard deviation
    group   candidates after which a sketch's description is computed anew
    passes  over the history
    start   the network at the beginning; None for a random one

    Source: Williams, Simple statistical gradient-following algorithms for connectionist
    reinforcement learning, Machine Learning 8 (1992); importance weights: Precup, Sutton and Singh,
    Eligibility traces for off-policy policy evaluation, ICML 2000.
    """

    hidden: int = 8
    rate: float = 1.0
    group: int = 6
    passes: int = 8
    start: Network | None = None

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        network = self.start or Network.random(self.hidden, rng)
        return list(self._taught(network, history).shares(described(history.arms, len(history))))

    def pretrained(self, histories: Sequence[History]) -> PolicyGradient:
        """The policy that begins with what searches for other programs taught it."""
        network = Network.random(self.hidden, random.Random(0))
        for history in histories:
            network = self._taught(network, history)
        return replace(self, start=network)

    def _taught(self, network: Network, history: History) -> Network:
        """The network after learning from all candidates of a search, as they were measured."""
        groups = list(lessons(history, self.group))
        spread = float(np.std(np.concatenate([rewards for *_, rewards in groups or [NONE]]))) or 1.0
        for _ in range(self.passes):
            for inputs, actions, rewards in groups:
                frequency = np.bincount(actions, minlength=len(inputs))[actions] / len(actions)
                weights = np.minimum(network.shares(inputs)[actions] / frequency, MOST)
                advantages = (rewards - np.average(rewards, weights=weights)) / spread
                steps = np.zeros(len(inputs))
                np.add.at(steps, actions, self.rate * weights * advantages / len(actions))
                network = network.moved(inputs, steps)
        return network


class Lesson(NamedTuple):
    """A group of candidates, by the sketch that each has.

    inputs   the description of each sketch before the group (sketches, INPUTS + 1)
    actions  the sketches of its candidates (candidates,)
    rewards  of each (candidates,)
    """

    inputs: Doubles
    actions: Integers
    rewards: Doubles


NONE: Final = Lesson(np.zeros((0, INPUTS + 1)), np.zeros(0, np.int64), np.zeros(1))


def lessons(history: History, group: int) -> Iterator[Lesson]:
    """The groups of a history. Nothing in one depends on what was measured after it."""
    for start in range(0, len(history), group):
        before, part = history[:start], history[start : start + group]
        fastest = min(t.steady for t in before or part)
        if fastest == math.inf:  # nothing has worked
            fastest = min(t.steady for t in part)
        found = [
            (t.candidate.sketch, min(MOST, fastest / t.steady) if t.steady < math.inf else 0.0)
            for t in part
            if t.candidate is not None
        ]
        if found:
            actions, rewards = zip(*found)
            inputs = described(arms_of(before, history.space), start)
            yield Lesson(inputs, np.array(actions), np.array(rewards))


@dataclass(frozen=True)
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

    def shares(self, inputs: Doubles) -> Doubles:
        """The share (sketches,) of each sketch, from its description (sketches, inputs + 1)."""
        values = np.tanh(inputs @ self.first) @ self.second
        odds = np.exp(values - values.max())
        return np.asarray(odds / odds.sum())

    def moved(self, inputs: Doubles, steps: Doubles) -> Network:
        """The network after a step for each sketch (sketches,) along the gradient of the logarithm
        of its share: above 0 makes it likelier.
        """
        layer = np.tanh(inputs @ self.first)
        error = steps - steps.sum() * self.shares(inputs)
        back = (error[:, None] * self.second) * (1 - layer**2)
        return Network(self.first + inputs.T @ back, self.second + error @ layer)


def described(arms: Sequence[Arm], tried: int) -> Doubles:
    """The description of each sketch (sketches, INPUTS + 1) after so many trials: the best, the
    mean and the spread of its speeds, 1 being the fastest of all, and taken for a sketch that was
    not tried; its part of the trials, its weight; and 1.
    """
    rows = []
    for arm in arms:
        speeds = [math.exp(speed) for speed in arm.speeds] or [1.0]
        own = (max(speeds), fmean(speeds), pstdev(speeds), arm.count / max(1, tried))
        rows.append((*own, arm.weight, 1.0))
    return np.array(rows)
