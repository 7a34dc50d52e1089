"""The two losses, and their derivatives: the direction in which scores should move.

A loss is a function of the scores of samples (programs); a sample's score is the sum of the scores
of its n rows (statements). So the slope by a row's score is that by its sample's.

The curvature is not: a tree moves all rows of a sample at once. Where a loss has curvature c in its
sample's score and the rows move by v_1 ... v_n, the second-order term is

    c/2 (v_1 + ... + v_n)²  <=  c/2 n (v_1² + ... + v_n²)        (Cauchy and Schwarz)

with equality where all move alike. So each row has the curvature c*n: a step to the minimum of the
right side never makes the loss greater. With c alone, as is customary, a step is up to n times too
long, and the trees are worse (docs/cost_model.md has figures).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from minitensor.search.gbt.bins import Doubles, Integers


def summed(owners: Integers, values: Doubles, count: int) -> Doubles:
    """The sum of its own values (rows,) for each of `count` owners."""
    sums = np.bincount(owners, values, count)
    return sums.astype(np.float64, copy=False)  # of no rows, bincount makes integers


class Loss(Protocol):
    """A loss, as a function of the scores of all samples (samples,)."""

    def start(self) -> float:
        """The score of every sample before the first tree."""
        ...

    def derivatives(self, scores: Doubles) -> tuple[Doubles, Doubles]:
        """The slope and the curvature of the rows of each sample, both (samples,)."""
        ...


class Squared:
    """w (score - y)², with the label y and a weight w.

    Source: Zheng et al., Ansor, OSDI 2020, section 5.2.
    """

    def __init__(self, label: Doubles, weight: Doubles, rows: Integers) -> None:
        """All (samples,); `rows` are their numbers of rows."""
        self.label, self.weight = label, weight
        self.curvature = 2 * weight * rows

    def start(self) -> float:
        """The weighted mean."""
        total = float(self.weight.sum())
        return float((self.weight * self.label).sum()) / total if total > 0 else 0.0

    def derivatives(self, scores: Doubles) -> tuple[Doubles, Doubles]:
        """As in `Loss`."""
        return 2 * self.weight * (scores - self.label), self.curvature


class Rank:
    """w_a w_b log(1 + exp(score_b - score_a)), over pairs in a group where a is better than b.

    In a group of more than `partners` + 1 samples each one is paired with so many others, drawn
    anew for every tree; in a smaller one, with all. The curvature has no factor n: a logistic loss
    is steepest where it bends most, and bends less on both sides, so that long steps do no harm.

    Source: Burges et al., Learning to rank using gradient descent, ICML 2005.
    """

    def __init__(
        self, label: Doubles, weight: Doubles, groups: Integers, partners: int, seed: int
    ) -> None:
        """All (samples,); `groups` are numbers from 0."""
        self.label, self.weight, self.partners = label, weight, partners
        self.random = np.random.default_rng(seed)
        order = np.argsort(groups, kind="stable")
        ends = np.flatnonzero(np.diff(groups[order])) + 1
        self.members = np.split(order, ends)

    def start(self) -> float:
        """0: only differences count."""
        return 0.0

    def derivatives(self, scores: Doubles) -> tuple[Doubles, Doubles]:
        """As in `Loss`; draws the pairs."""
        drawn = [self._pairs(members) for members in self.members]
        first, second = (np.concatenate(part) for part in zip(*drawn))
        difference = self.label[first] - self.label[second]
        better = np.where(difference > 0, first, second)[difference != 0]
        worse = np.where(difference > 0, second, first)[difference != 0]
        weight = self.weight[better] * self.weight[worse]
        wrong = 0.5 * (1 + np.tanh(0.5 * (scores[worse] - scores[better])))  # the logistic function
        pull = weight * wrong
        bend = 2 * pull * (1 - wrong)  # 2: both samples of a pair move
        count = len(scores)
        slope = summed(worse, pull, count) - summed(better, pull, count)
        return slope, summed(worse, bend, count) + summed(better, bend, count)

    def _pairs(self, members: Integers) -> tuple[Integers, Integers]:
        count = len(members)
        if count <= self.partners + 1:
            one, other = np.triu_indices(count, 1)
            return members[one], members[other]
        one = np.repeat(np.arange(count), self.partners)
        away = self.random.integers(1, count, len(one))
        return members[one], members[(one + away) % count]
