"""Boosted trees by the book: one row, one column, one cut at a time, and no histograms.

For tables in which every column has fewer values than bins, so that the cuts are all the places
between neighbouring values.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from minitensor.search.gbt.grow import Growth, packed


@dataclass
class Split:
    column: int
    threshold: float
    missing_left: bool
    gain: float


def cuts(values):
    """Where a column can be cut: between each two values that are neighbours."""
    distinct = sorted({float(v) for v in values if v == v})
    return [float(np.float32((a + b) / 2)) for a, b in pairwise(distinct)]


def candidates(table, column):
    """Every question about a column, in the order in which ties are decided."""
    values = table[:, column]
    places = cuts(values)
    if any(v != v for v in values):
        everything = float(np.finfo(np.float32).max)
        yield from ((threshold, False) for threshold in [*places, everything])
        yield from ((threshold, True) for threshold in places)
    else:
        yield from ((threshold, False) for threshold in places)


def goes_left(value, threshold, missing_left):
    return missing_left if value != value else value <= threshold


def best_split(table, rows, gradient, hessian, lambda_, cover):
    """The best split of some rows, for integers, as (score, exact gain, Split); None if none is."""
    best = None
    total_g, total_h = sum(gradient[r] for r in rows), sum(hessian[r] for r in rows)
    s, g_all = total_h + 2 * lambda_, float(total_g)
    for column in range(table.shape[1]):
        for threshold, missing_left in candidates(table, column):
            left = [r for r in rows if goes_left(table[r, column], threshold, missing_left)]
            g, h = sum(gradient[r] for r in left), sum(hessian[r] for r in left)
            if h < cover or total_h - h < cover:
                continue
            a = h + lambda_
            score = (g * s - a * g_all) ** 2 / ((s - a) * a)
            if best is None or score > best[0]:
                exact = gain_by_the_book(g, h, total_g, total_h, lambda_)
                best = (score, exact, Split(column, threshold, missing_left, 0.0))
    return best


def gain_by_the_book(g, h, total_g, total_h, lambda_):
    """Equation 7 of Chen and Guestrin, XGBoost, KDD 2016, in exact arithmetic."""
    extra = Fraction(lambda_)

    def part(gradient, hessian):
        return Fraction(gradient) ** 2 / (Fraction(hessian) + extra)

    return (part(g, h) + part(total_g - g, total_h - h) - part(total_g, total_h)) / 2


def grow(table, gradient, hessian, limits):
    """{node: Split} and the node where each row ends."""
    numbers = packed(np.asarray(gradient, float), np.asarray(hessian, float))
    g = [int(v) for v in np.rint(np.asarray(gradient) / numbers.gradient_unit)]
    h = [int(v) for v in np.rint(np.asarray(hessian) / numbers.hessian_unit)]
    lambda_ = limits.lambda_ / numbers.hessian_unit
    cover = max(1, math.ceil(limits.cover / numbers.hessian_unit))
    unit = numbers.gradient_unit**2 / numbers.hessian_unit
    splits, ends = {}, [0] * len(table)

    def visit(node, rows, depth):
        for row in rows:
            ends[row] = node
        found = best_split(table, rows, g, h, lambda_, cover) if depth < limits.depth else None
        if found is None:
            return
        split = found[2]
        split.gain = float(found[1]) * unit
        if not split.gain > limits.gain:
            return
        splits[node] = split
        sides = ([], [])
        for row in rows:
            value = table[row, split.column]
            sides[not goes_left(value, split.threshold, split.missing_left)].append(row)
        visit(2 * node + 1, sides[0], depth + 1)
        visit(2 * node + 2, sides[1], depth + 1)

    visit(0, list(range(len(table))), 0)
    return splits, ends


def ansor(labels):
    """Labels as parts of the best, 0 for failures, and Ansor's weights for them."""
    values = np.asarray(labels, np.float64)
    measured = np.where(np.isfinite(values) & (values > 0), values, 0.0)
    y = measured / (measured.max(initial=0.0) or 1.0)
    return y, np.maximum(y, 0.1)


def fit(table, programs, labels, boosted):
    """Ansor's loss: a list of trees as ({node: Split}, {leaf: value}), and the start."""
    y, w = (part.tolist() for part in ansor(labels))
    n = [sum(1 for p in programs if p == number) for number in range(len(y))]
    start = float((np.array(w) * y).sum()) / float(np.sum(w)) if y else 0.0
    scores, trees = [0.0] * len(programs), []
    limits = Growth(boosted.max_depth, boosted.lambda_, boosted.gain, boosted.cover)
    for _ in range(boosted.n_trees):
        total = [0.0] * len(y)
        for row, program in enumerate(programs):
            total[program] += scores[row]
        total = [start + t for t in total]
        gradient = [2 * w[p] * (total[p] - y[p]) for p in programs]
        hessian = [2 * w[p] * n[p] for p in programs]
        splits, ends = grow(table, gradient, hessian, limits)
        if not splits:
            break
        values = {}
        for leaf in sorted(set(ends)):
            g = h = 0.0
            for row, end in enumerate(ends):
                if end == leaf:
                    g += gradient[row]
                    h += hessian[row]
            values[leaf] = -boosted.learning_rate * g / (h + boosted.lambda_)
        scores = [s + values[end] for s, end in zip(scores, ends)]
        trees.append((splits, values))
    return start, trees


def walk(tree, row):
    """The value that a tree gives to a row of features, following one question at a time."""
    node = 0
    while tree.feature[node] >= 0:
        value = row[tree.feature[node]]
        left = goes_left(value, tree.threshold[node], tree.missing_left[node])
        node = 2 * node + (1 if left else 2)
    return tree.value[node]
