"""Random index expressions, and random ranges for their variables with points to try them at.

    rng = random.Random(0)
    space = random_space(rng)            what is known of the variables, and points within it
    expr = random_expression(rng)

A part of the expressions is of no particular shape; the others are what split, fuse, shifted
accesses and guards make, for the rules are about those.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor.arith import Interval
from minitensor.ir import BOOL, INDEX, USER_DTYPES, Binary, Cast, Const, Expr, Select, Unary, Var

NAMES: Final = ("i", "j", "k", "n")
TRUTHS: Final = ("p", "q")
DATA: Final = Cast(INDEX, Var("d", USER_DTYPES["int8"]))
"""A number that depends on data."""
MOST: Final = 160
"""About how many points a space has."""

NUMBERS: Final = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, -1, -2, -3, -8, 100, -1000, 1 << 20, -(1 << 31))
DIVISORS: Final = (1, 2, 3, 4, 4, 5, 8, 8, 16, 24, 64, 0, -1, -2, -3, -4, -16, 1000, -1000, 1 << 40)
FACTORS: Final = (0, 1, 2, 3, 4, 8, 16, 32, -1, -2, -4, -5)


@dataclass(frozen=True)
class Space:
    """What is known of the variables, and values that they may have.

    ranges  of some of NAMES; the others may be anything
    points  by name, one value a point: every combination if there are few, else the corners and
            some more; none at all if a range is empty
    """

    ranges: dict[str, Interval]
    points: dict[str, np.ndarray]


def random_space(rng: random.Random) -> Space:
    """Ranges of any place and length for most of the variables."""
    ranges = {}
    for name in NAMES:
        if rng.random() < 0.75:
            low = rng.choice((0, 0, 0, 0, 1, -1, -5, rng.randint(-40, 40), 1000, -(10**6)))
            length = rng.choice((1, 2, 2, 3, 4, 7, 8, 8, 16, 17, 32, 100, 1 << 20))
            if rng.random() < 0.01:
                length = 0
            ranges[name] = Interval(low, low + length - 1)
    return Space(ranges, _points(rng, ranges))


def _points(rng: random.Random, ranges: dict[str, Interval]) -> dict[str, np.ndarray]:
    """Values for all variables."""
    choices: list[list[int]] = []
    for name in NAMES:
        low, high = map(int, ranges.get(name, (-(10**9), 10**9)))
        if high - low < 9:
            choices.append(list(range(low, high + 1)))
        else:
            near = (-1, 0, 1) if name not in ranges else ()
            choices.append([low, high, *near])
    if min(map(len, choices)) == 0:
        rows = []
    else:
        count = np.prod([len(c) for c in choices])
        every = itertools.product(*choices)
        rows = (
            [tuple(rng.choice(c) for c in choices) for _ in range(MOST)]
            if count > MOST
            else (list(every))
        )
        corners = itertools.product(*[(c[0], c[-1]) for c in choices])
        rows += list(corners)
        for _ in range(MOST // 3):
            rows.append(tuple(_somewhere(rng, ranges.get(name)) for name in NAMES))
    points = {name: np.array([r[n] for r in rows], np.int64) for n, name in enumerate(NAMES)}
    for name in TRUTHS:
        points[name] = np.array([rng.random() < 0.5 for _ in rows], bool)
    points["d"] = np.array([rng.randint(-128, 127) for _ in rows], np.int64)
    return points


def _somewhere(rng: random.Random, known: Interval | None) -> int:
    if known is None:
        return rng.randint(-100, 100) if rng.random() < 0.8 else rng.randint(-(10**9), 10**9)
    return rng.randint(int(known.lo), int(known.hi))


def random_expression(rng: random.Random, depth: int = 4) -> Expr:
    """An index expression or a condition of at most about `depth` levels."""
    return random_index(rng, depth) if rng.random() < 0.7 else random_condition(rng, depth)


def random_index(rng: random.Random, depth: int) -> Expr:
    """An index expression."""
    if depth <= 0 or rng.random() < 0.1:
        return _leaf(rng)
    kind = rng.random()
    if kind < 0.3:
        return _of_a_schedule(rng, depth)
    a = random_index(rng, depth - 1)
    if kind < 0.5:
        return Binary(rng.choice(("//", "%")), a, Const(rng.choice(DIVISORS)))
    if kind < 0.6:
        return Binary("*", a, Const(rng.choice(FACTORS)))
    if kind < 0.65:
        return Unary("-", a)
    if kind < 0.72:
        condition = random_condition(rng, depth - 2)
        return Select(condition, a, random_index(rng, depth - 1), rng.random() < 0.3)
    op = rng.choice(("+", "+", "+", "-", "-", "-", "min", "max", "min", "max", "*", "//", "%"))
    return Binary(op, a, random_index(rng, depth - 1))


def random_condition(rng: random.Random, depth: int) -> Expr:
    """A condition."""
    kind = rng.random()
    if depth <= 0 or kind < 0.05:
        return rng.choice((Var(rng.choice(TRUTHS), BOOL), Const(rng.random() < 0.5, BOOL)))
    op = rng.choice(("<", "<=", "==", "!="))
    if kind < 0.55:
        return Binary(op, random_index(rng, depth - 1), random_index(rng, depth - 1))
    if kind < 0.65:  # a guard
        sides = [_mixed(rng) // rng.choice((2, 4, 8)) + rng.choice((0, 0, 1, -1)), _leaf(rng)]
        rng.shuffle(sides)
        return Binary(op, *sides)
    a = random_condition(rng, depth - 1)
    if kind < 0.75:
        return Unary("not", a)
    if kind < 0.8:
        return Select(random_condition(rng, depth - 2), a, random_condition(rng, depth - 1))
    b = a if rng.random() < 0.1 else random_condition(rng, depth - 1)
    return Binary(rng.choice(("and", "or", "and", "or", "==", "!=")), a, b)


def _leaf(rng: random.Random) -> Expr:
    kind = rng.random()
    if kind < 0.7:
        return Var(rng.choice(NAMES))
    if kind < 0.95:
        return Const(rng.choice(NUMBERS) if rng.random() < 0.8 else rng.randint(-40, 40))
    return DATA


def _of_a_schedule(rng: random.Random, depth: int) -> Expr:
    """What primitives leave behind: numbers in mixed radix, and their digits."""
    shape = rng.randrange(6)
    number = _mixed(rng) if rng.random() < 0.7 else random_index(rng, depth - 2)
    c, d = rng.choice((2, 3, 4, 8)), rng.choice((2, 3, 4, 8))
    if shape == 0:  # a split: the digits of the number together
        return number // c * c + number % c
    if shape == 1:  # two splits
        return number // (c * d) * (c * d) + number // d % c * d + number % d
    if shape == 2:  # the two lower digits, in steps
        m = rng.choice((1, 1, 2, 5, -1))
        return (number // d % c * d + number % d) * m + random_index(rng, depth - 2)
    if shape == 3:  # a digit of a fused loop
        return number // c % d if rng.random() < 0.5 else number % (c * d) // c
    if shape == 4:  # divided again
        op = rng.choice(("//", "%"))
        return Binary(op, Binary(op, number, Const(c * d)), Const(rng.choice((c, d, c * d, 5))))
    bound = Const(rng.choice(NUMBERS))  # clipped, as padding is
    op, other = rng.choice((("min", "max"), ("max", "min"), ("min", "min"), ("max", "max")))
    return Binary(op, Binary(other, number, bound), Const(rng.choice(NUMBERS)))


def _mixed(rng: random.Random) -> Expr:
    """i*32 + j*8 + k, or nearly so."""
    number: Expr = Const(rng.choice((0, 0, 0, 1, 3, -1, 8)))
    scale = rng.choice((1, 1, 1, 2, 3))
    for name in rng.sample(NAMES, rng.randint(1, 3)):
        number = Var(name) * scale + number
        scale *= rng.choice((1, 2, 3, 4, 8, 8, 16))
    return number
