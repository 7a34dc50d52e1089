"""Learning: trees one after the other, each towards what those before left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import unexpected
from minitensor.search.gbt import arguments
from minitensor.search.gbt.bins import LARGEST, MOST_BINS, Binned, binned, finite
from minitensor.search.gbt.grow import Grown, Limits, grow
from minitensor.search.gbt.labels import summed, throughputs
from minitensor.search.gbt.loss import Loss, Rank, Squared
from minitensor.search.gbt.model import Model
from minitensor.search.gbt.tree import DEEPEST, MOST_NODES, Tree

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LOSSES: Final = ("squared", "rank")
LEAST_WEIGHT: Final = 0.1
"""Of a program in the squared loss, whose weights are throughputs: with none at all, nothing would
be learnt from those that are slow or fail, and they could have any score."""


@dataclass(frozen=True)
class Booster:
    """How to learn a model; `fit` does. Raises ArgumentError for values out of range.

    trees          how many at the most; fewer if there is nothing left to learn
    depth          questions on a path, at the most
    learning_rate  the part of a tree's values that is used
    bins           of each column, NaN's not counted; with it, a power of two is fastest
    lambda_        is added to sums of curvatures: holds back leaves of few rows
    gain           that a split must exceed, in units of the loss
    cover          sum of curvatures that each child must have
    partners       of each program, for the rank loss
    seed           draws the partners; nothing else is drawn
    """

    trees: int = 50
    depth: int = 6
    learning_rate: float = 0.3
    bins: int = 127
    lambda_: float = 1.0
    gain: float = 1e-6
    cover: float = 0.0
    partners: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        arguments.integer("depth", self.depth, 1, DEEPEST)
        arguments.integer("trees", self.trees, 0, MOST_NODES >> (self.depth + 1))
        arguments.number("learning_rate", self.learning_rate, 1e-6, 1.0)
        arguments.integer("bins", self.bins, 2, MOST_BINS)
        arguments.number("lambda_", self.lambda_, 1e-6, 1e6)
        arguments.number("gain", self.gain, 0.0, 1e9)
        arguments.number("cover", self.cover, 0.0, 1e9)
        arguments.integer("partners", self.partners, 1, 1 << 10)
        arguments.integer("seed", self.seed, 0, 2**64 - 1)

    def fit(
        self,
        features: npt.ArrayLike,
        programs: npt.ArrayLike,
        labels: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        loss: str = "squared",
    ) -> Model:
        """A model that scores programs as their labels say. The same arguments, the same bits.

        features  (rows, columns) numbers, a row for each statement. NaN is a value of its own (in
                  a column that had none it goes right, to "no"); infinities are as good as the
                  largest float32
        programs  (rows,) the program that each row belongs to, counted from 0
        labels    (programs,) throughputs, in any unit: higher is better. One that is NaN, infinite,
                  zero or negative says that the candidate failed: it counts as 0
        groups    (programs,) integers or texts: the workload of each program. Labels are compared
                  within a group, and its best one counts as 1. One group if None
        weights   (programs,) from 0 to 1e6, by which the programs' part of the loss is multiplied
        loss      "squared": Ansor's, in which a program weighs as much as its throughput (but no
                  less than LEAST_WEIGHT), and a score estimates the throughput; "rank": for pairs,
                  which of the two is faster; a score means nothing but an order

        Labels never make it raise: where they are all alike, or there are none, the model has no
        trees and gives all programs the same score. Raises ArgumentError for other arguments.
        """
        table = arguments.training(arguments.features(features))
        found = arguments.labels(labels)
        owners = arguments.programs(programs, len(table), len(found))
        kinds = arguments.groups(groups, len(found))
        weight = arguments.weights(weights, len(found))
        if loss not in LOSSES:
            raise unexpected(f"one of {', '.join(LOSSES)}", "loss", loss)
        throughput = throughputs(found, kinds)
        if loss == "squared":
            weight = weight * np.maximum(throughput, LEAST_WEIGHT)
        return self.towards(table, owners, throughput, kinds, weight, loss)

    def towards(
        self,
        table: npt.NDArray[Any],
        owners: Integers,
        targets: Doubles,
        groups: Integers,
        weights: Doubles,
        loss: str,
    ) -> Model:
        """`fit` with targets that are not throughputs: finite numbers (programs,) of about 1.

        The arguments have been checked (see `arguments`), and groups are numbers from 0.
        """
        goal: Loss
        if loss == "squared":
            statements = np.bincount(owners, minlength=len(targets))
            goal = Squared(targets, weights, statements)
        else:
            goal = Rank(targets, weights, groups, self.partners, self.seed)
        data = binned(finite(table), self.bins)
        return self._boost(data, table.shape[1], owners, len(targets), goal)

    def _boost(self, data: Binned, columns: int, owners: Integers, count: int, goal: Loss) -> Model:
        start = goal.start()
        limits = Limits(self.depth, self.lambda_, self.gain, self.cover)
        scores = np.zeros(len(owners))
        trees: list[Tree] = []
        for _ in range(self.trees):
            total = start + summed(owners, scores, count)
            slope, curvature = (part[owners] for part in goal.derivatives(total))
            grown = grow(data, slope, curvature, limits)
            if grown.column[0] < 0:
                break
            tree = self._tree(data, grown, slope, curvature)
            scores += tree.value[grown.leaf]
            trees.append(tree)
        return Model(columns, start, tuple(trees))

    def _tree(self, data: Binned, grown: Grown, slope: Doubles, curvature: Doubles) -> Tree:
        """The tree over values instead of bins, and without levels where nothing is."""
        splits = np.flatnonzero(grown.column >= 0)
        nodes = 2 * (1 << int(splits[-1] + 1).bit_length()) - 1
        slopes = _over_nodes(summed(grown.leaf, slope, nodes))
        covers = _over_nodes(summed(grown.leaf, curvature, nodes))
        rows = _over_nodes(np.bincount(grown.leaf, minlength=nodes))
        feature = np.full(nodes, -1, np.int32)
        threshold = np.zeros(nodes, np.float32)
        for node in splits:
            column, code = grown.column[node], grown.code[node]
            cuts = data.cuts[column]
            feature[node] = data.origin[column]
            threshold[node] = cuts[code] if code < len(cuts) else LARGEST  # all but NaN
        value = -self.learning_rate * slopes / (covers + self.lambda_)
        return Tree(
            feature,
            threshold,
            grown.missing_left[:nodes].copy(),
            value,
            grown.gain[:nodes].copy(),
            covers,
            rows.astype(np.int32),
        )


def _over_nodes(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums over the leaves (nodes,), to which those of the nodes above are added."""
    for level in range(len(sums).bit_length() - 2, -1, -1):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        sums[first:last] += sums[2 * first + 1 : 2 * last + 1].reshape(-1, 2).sum(axis=1)
    return sums
