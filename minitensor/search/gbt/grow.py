"""Growing one tree, level by level: histograms, then the best split of every node.

A histogram holds, for a node and a column, the sums of the gradients and hessians of the rows up
to and in each bin. Three things make it cheap:

- Both sums are in one number. They are rounded to integers first (`Packed`), so that one addition
  adds both, all sums are exact, and no order of adding changes a bit of the result.
- Of two siblings only the smaller one is counted; the other is what is left of the parent.
- All columns of a group and all nodes of a level are scored by the same few numpy calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from minitensor.search.gbt.bins import Binned, Doubles, Group, Integers

GRADIENT_BITS: Final = 27
HESSIAN_BITS: Final = 24
"""Of the sums over all rows: together they fit in the 53 bits of a double."""
MOST_ROWS: Final = 1 << 22
SMALLEST_UNIT: Final = -400
"""The exponent of two; what is much less than that is nothing, and no product overflows."""
BATCH: Final = 1 << 15
"""Codes that are counted by one call."""
CHUNK: Final = 1 << 16
"""Histogram entries that are scored together: few enough to stay in a core's cache."""


@dataclass(frozen=True)
class Growth:
    """The conditions of a split.

    depth     of the tree: 0 is a single leaf
    lambda_   is added to every sum of hessians: the larger, the smaller the leaves' values; > 0
    gain      that a split must exceed
    cover     sum of hessians that each child must have
    """

    depth: int
    lambda_: float
    gain: float
    cover: float


@dataclass(frozen=True)
class Grown:
    """A tree over bins, as a complete binary tree: the children of node i are 2i + 1 and 2i + 2.

    column        int64 (nodes,): the column of the `Binned` that the node splits; -1 is a leaf, or
                  nothing at all under a leaf
    code          int64: rows of that code and below go left
    missing_left  bool: rows whose value is NaN go left
    gain          float64: what the split takes off the loss, to second order
    leaf          int64 (rows,): the node where each row of the training data ends
    """

    column: Integers
    code: Integers
    missing_left: npt.NDArray[np.bool_]
    gain: Doubles
    leaf: Integers


@dataclass(frozen=True)
class Packed:
    """A gradient and a hessian in one double: gradient * 2**HESSIAN_BITS + hessian, integers both.

    The units are powers of two such that the sums of all magnitudes stay within their bits, so
    every sum of any of the numbers is exact.
    """

    numbers: Doubles
    gradient_unit: float
    hessian_unit: float


def packed(gradient: Doubles, hessian: Doubles) -> Packed:
    """Each row's (rows,) gradient and hessian as one number; hessians are not negative."""
    g, gradient_unit = _integers(gradient, GRADIENT_BITS)
    h, hessian_unit = _integers(hessian, HESSIAN_BITS - 1)  # twice a sum must fit: see `_best`
    return Packed(g * 2.0**HESSIAN_BITS + h, gradient_unit, hessian_unit)


def _integers(values: Doubles, bits: int) -> tuple[Doubles, float]:
    """The values in units of a power of two, rounded; their magnitudes add up to < 2**bits."""
    room = 2.0**bits - len(values)  # for what rounding adds: up to a half each
    _, exponent = np.frexp(np.abs(values).sum() / room)
    unit = np.ldexp(1.0, max(int(exponent), SMALLEST_UNIT))
    return np.rint(values / unit), float(unit)


def grow(data: Binned, gradient: Doubles, hessian: Doubles, limits: Growth) -> Grown:
    """The tree that a greedy search finds for the rows' gradients and hessians (rows,).

    Between splits of equal gain, the lowest column of the table wins, then NaN to the right, then
    the lowest code.
    """
    return _Grower(data, packed(gradient, hessian), limits).run()


@dataclass
class _Best:
    """The best split so far of each slot. Gains and scores are in units of the packed numbers."""

    score: Doubles
    column: Integers
    code: Integers
    missing_left: npt.NDArray[np.bool_]


class _Grower:
    """One tree in the making.

    The nodes of the level at hand are in slots 0..n-1, with the smaller of each two siblings in the
    first half and the larger in the second, at the same distance. `histograms` has an array
    (columns, slots, width) for each group.
    """

    def __init__(self, data: Binned, numbers: Packed, limits: Growth) -> None:
        self.data, self.packed, self.limits = data, numbers, limits
        nodes = 2 ** (limits.depth + 1) - 1
        self.tree = Grown(
            np.full(nodes, -1),
            np.zeros(nodes, np.intp),
            np.zeros(nodes, bool),
            np.zeros(nodes),
            np.zeros(data.codes.shape[1], np.intp),
        )
        self.bins = np.array([len(cuts) for cuts in data.cuts], np.intp)
        self.lambda_ = limits.lambda_ / numbers.hessian_unit
        self.cover = max(1.0, float(np.ceil(limits.cover / numbers.hessian_unit)))

    def run(self) -> Grown:
        slots = np.zeros(1, np.intp)  # the node in each slot
        histograms = []
        for group in self.data.groups:
            whole = np.empty((group.last - group.first, 1, group.width), np.int64)
            self._count(group, None, None, whole)
            histograms.append(whole)
        for depth in range(self.limits.depth):
            best, gain = self._best(histograms, len(slots))
            split = np.flatnonzero(gain > self.limits.gain)
            if not len(split):
                break
            nodes = slots[split]
            self.tree.column[nodes] = best.column[split]
            self.tree.code[nodes] = best.code[split]
            self.tree.missing_left[nodes] = best.missing_left[split]
            self.tree.gain[nodes] = gain[split]
            self._descend(nodes)
            if depth + 1 < self.limits.depth:
                slots, histograms = self._children(nodes, split, histograms)
        return self.tree

    def _descend(self, nodes: Integers) -> None:
        """Move the rows of nodes that were split to their children."""
        tree = self.tree
        splits = np.zeros(len(tree.column), np.bool_)
        splits[nodes] = True
        moving = np.flatnonzero(splits.take(tree.leaf))
        node = tree.leaf.take(moving)
        column = tree.column.take(node)
        code = self.data.codes.reshape(-1).take(column * len(tree.leaf) + moving)
        right = code > tree.code.take(node)
        if tree.missing_left[nodes].any():
            right &= ~(tree.missing_left.take(node) & (code > self.bins.take(column)))
        tree.leaf[moving] = 2 * node + 1 + right

    def _children(
        self, nodes: Integers, split: Integers, histograms: list[Integers]
    ) -> tuple[Integers, list[Integers]]:
        """The slots of the next level, and their histograms."""
        rows = np.bincount(self.tree.leaf, minlength=len(self.tree.column))
        left, right = 2 * nodes + 1, 2 * nodes + 2
        flip = rows[right] < rows[left]
        small, large = np.where(flip, right, left), np.where(flip, left, right)
        place = np.full(len(rows), -1)
        place[small] = np.arange(len(nodes))
        slot = place[self.tree.leaf]
        counted = np.flatnonzero(slot >= 0)
        slot = slot[counted]
        result = []
        for group, parents in zip(self.data.groups, histograms):
            both = np.empty((len(parents), 2 * len(nodes), group.width), np.int64)
            half = both[:, : len(nodes)]
            self._count(group, counted, slot, half)
            np.subtract(parents[:, split], half, out=both[:, len(nodes) :])
            result.append(both)
        return np.concatenate([small, large]), result

    def _count(
        self, group: Group, rows: Integers | None, slot: Integers | None, into: Integers
    ) -> None:
        """Fill histograms (columns, slots, width) with some rows, ascending, in the slot of each.

        All rows, in one slot, if None.
        """
        codes, numbers = self.data.codes[group.first : group.last], self.packed.numbers
        if rows is not None:
            codes, numbers = codes.take(rows, axis=1), numbers[rows]
        _, slots, width = into.shape
        step = min(len(codes), max(1, BATCH // max(1, len(numbers))))
        first = np.arange(step)[:, None] * (slots * width) + (0 if slot is None else slot * width)
        weights = np.tile(numbers, step)
        for begin in range(0, len(codes), step):
            part = codes[begin : begin + step]
            keys = (part + first[: len(part)]).reshape(-1)
            sums = np.bincount(keys, weights[: len(keys)], len(part) * slots * width)
            into[begin : begin + step] = sums.reshape(len(part), slots, width)
        np.cumsum(into, axis=2, out=into)

    def _best(self, histograms: list[Integers], slots: int) -> tuple[_Best, Doubles]:
        """The best split of every slot, over all columns, and its gain in units of the loss."""
        best = _Best(
            np.full(slots, -1.0),
            np.zeros(slots, np.intp),
            np.zeros(slots, np.intp),
            np.zeros(slots, bool),
        )
        if not histograms:
            return best, np.full(slots, -1.0)
        gradient, hessian = _unpacked(histograms[0][0, :, -1])
        for group, histogram in zip(self.data.groups, histograms):
            judge = _Judge(gradient, hessian, self.lambda_, self.cover, group.width)
            step = max(1, CHUNK // (slots * group.width))
            for first in range(0, len(histogram), step):
                sums = histogram[first : first + step]
                columns = np.arange(first, first + len(sums)) + group.first
                self._improve(best, judge.scores(sums), columns, False)
                if group.missing:  # the bin of NaN is behind all others: move it to the left
                    values = np.take_along_axis(sums, self.bins[columns, None, None], axis=2)
                    self._improve(
                        best, judge.scores(sums + (sums[:, :, -1:] - values)), columns, True
                    )
        parent = gradient**2 * (self.lambda_ / (hessian + self.lambda_))
        gain = 0.5 * (best.score - parent) / (hessian + 2 * self.lambda_)
        gain *= self.packed.gradient_unit**2 / self.packed.hessian_unit
        return best, np.where(best.score < 0, -1.0, gain)

    def _improve(self, best: _Best, scores: Doubles, columns: Integers, missing_left: bool) -> None:
        """Take over the splits of some columns that beat the best so far."""
        codes = scores.argmax(axis=2)
        highest = scores.max(axis=2)
        winner = highest.argmax(axis=0)
        slots = np.arange(len(winner))
        score, code, column = highest[winner, slots], codes[winner, slots], columns[winner]
        origin = self.data.origin
        better = score > best.score
        better |= (score == best.score) & (origin[column] < origin[best.column]) & (score >= 0)
        best.score[better] = score[better]
        best.code[better] = code[better]
        best.column[better] = column[better]
        best.missing_left[better] = missing_left


class _Judge:
    """Scores the splits of the slots of one level, in columns of the same width."""

    def __init__(
        self, gradient: Doubles, hessian: Doubles, lambda_: float, cover: float, width: int
    ) -> None:
        """The sums of each slot (slots,), in units of the packed numbers."""
        self.lambda_, self.cover = lambda_, cover
        self.gradient = np.repeat(gradient, width)
        self.most = np.repeat(hessian - cover, width)
        self.sum = np.repeat(hessian + 2 * lambda_, width)

    def scores(self, sums: Integers) -> Doubles:
        """A score (columns, slots, width) that is higher where the gain is, and -1 if not allowed.

        `sums` (columns, slots, width) are the packed sums over the rows that would go left. The
        gain has the sum of two squares, which is a constant and one square (docs/cost_model.md):

            GL²/a + GR²/b = (G² + (GL*(a + b) - G*a)² / (a*b)) / (a + b),  a = HL + λ, b = HR + λ

        of which the score is the fraction on the right.
        """
        left, a = _unpacked(sums.reshape(len(sums), -1))
        forbidden = a < self.cover
        forbidden |= a > self.most
        a += self.lambda_
        left *= self.sum
        left -= a * self.gradient
        left *= left
        with np.errstate(divide="ignore", invalid="ignore"):  # where it is forbidden
            left /= (self.sum - a) * a
        np.putmask(left, forbidden, -1.0)
        return left.reshape(sums.shape)


def _unpacked(numbers: Integers) -> tuple[Doubles, Doubles]:
    """Gradients and hessians, in their units."""
    gradient = numbers >> HESSIAN_BITS
    hessian = numbers & (2**HESSIAN_BITS - 1)
    return gradient.astype(np.float64), hessian.astype(np.float64)
