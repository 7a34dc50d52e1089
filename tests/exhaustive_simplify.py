"""The simplifier on 100,000 random index expressions.

    python -m tests.exhaustive_simplify [seed [count]]

Each is simplified under what is known of its variables; the result must have the same value
wherever they may be, be within the interval that `interval_of` tells, not change when it is
simplified again, and have at most GROWTH times as many nodes. A minute on one core; a test runs the
seed 0.
"""

import random
import sys
import time
from collections import Counter

import numpy as np

from minitensor.arith import interval_of, simplify, size
from minitensor.ir import BOOL, Expr, print_expr
from tests.index_values import value_of
from tests.random_indices import Space, random_expression, random_space

COUNT = 100_000
BATCH = 100
"""Expressions that are tried in one space."""
DEPTHS = (1, 2, 2, 3, 3, 3, 4, 4)
GROWTH = 2


def batch(seed: int, number: int) -> tuple[Space, list[Expr]]:
    """The expressions of one batch, and what is known of their variables."""
    rng = random.Random(f"{seed}/{number}")
    space = random_space(rng)
    return space, [random_expression(rng, rng.choice(DEPTHS)) for _ in range(BATCH)]


def check(expr: Expr, space: Space) -> Expr:
    """The expression simplified; raises AssertionError if anything is wrong with it."""
    simple = simplify(expr, space.ranges)
    expected, got = value_of(expr, space.points), value_of(simple, space.points)
    text = f"{print_expr(expr)} -> {print_expr(simple)}, {space.ranges}"
    if not np.array_equal(expected, got):
        first = int(np.flatnonzero(expected != got)[0])
        place = {name: values[first] for name, values in space.points.items()}
        raise AssertionError(f"{text}: {expected[first]} became {got[first]} at {place}")
    again = simplify(simple, space.ranges)
    assert again == simple, f"{text}: simplified again it is {print_expr(again)}"
    assert size(simple) <= GROWTH * size(expr), f"{text}: {size(expr)} nodes, now {size(simple)}"
    if expr.dtype != BOOL and len(expected):
        low, high = interval_of(expr, space.ranges)
        assert low <= expected.min(), f"{text}: the interval {low}, {high} lacks {expected.min()}"
        assert expected.max() <= high, f"{text}: the interval {low}, {high} lacks {expected.max()}"
    return simple


def search(seed: int, count: int) -> Counter[str]:
    """Check `count` expressions; how many became smaller, larger, or another of the same size."""
    found: Counter[str] = Counter()
    for number in range(-(-count // BATCH)):
        space, exprs = batch(seed, number)
        for expr in exprs[: count - number * BATCH]:
            simple = check(expr, space)
            before, after = size(expr), size(simple)
            kind = "smaller" if after < before else "larger" if after > before else "as large"
            found["unchanged" if simple == expr else kind] += 1
    return found


def main(seed: int = 0, count: int = COUNT) -> int:
    """Print what was found."""
    start = time.process_time()
    found = search(seed, count)
    seconds = time.process_time() - start
    print(f"seed {seed}: {found.total()} expressions in {seconds:.0f} s:", end=" ")
    print(", ".join(f"{number} {kind}" for kind, number in found.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
