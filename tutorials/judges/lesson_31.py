"""Judges of lesson 31, the reproduction of a figure."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

from minitensor.errors import shown

from ..course.requirements import near, numbers_of
from ..course.tasks import Case, LackingError, Task, as_python

Curves = list[list[float]]


def drawn(draw: random.Random, count: int, longest: int) -> Curves:
    """Curves that rise, of lengths that differ."""
    found = []
    for number in range(count):
        length = longest if number == count // 2 else draw.randint(1, longest)
        found.append(sorted(round(draw.uniform(0, 1), 3) for _ in range(length)))
    return found


def bands(curves: Curves) -> list[list[float]]:
    """The lowest, the median and the highest at each trial."""
    longest = max(map(len, curves))
    rows = [[curve[min(at, len(curve) - 1)] for curve in curves] for at in range(longest)]
    return [[f(row) for row in rows] for f in (min, statistics.median, max)]


class Band(Task):
    """The lowest, the middle and the highest of curves."""

    name, text = "band", "the lowest, the median and the highest of curves"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = ((1, 4), (2, 5), (3, 6), (4, 7), (5, 3), (6, 9))
        return [(drawn(draw, *size),) for size in sizes]

    def judge(self, case: Case, got: Any) -> None:
        (curves,) = case
        want = bands(curves)
        rows = got if isinstance(got, (list, tuple)) and len(got) == 3 else ()
        numbers = [numbers_of(row, len(want[0])) for row in rows]
        for name, found, right in zip(("lowest", "median", "highest"), numbers, want):
            if found is None or not all(map(near, found, right)):
                text = f"of curves of {', '.join(str(len(c)) for c in curves)} trials"
                lines = (f"want = {as_python(want)}", "np.testing.assert_allclose(got, want)")
                raise LackingError(f"{text}: the {name} is not {shown(right)}", lines)
        if not numbers:
            lines = (f"want = {as_python(want)}", "np.testing.assert_allclose(got, want)")
            raise LackingError(f"it gives {shown(got)}, and not three lists of numbers", lines)


def reached(curves: Curves, target: float) -> float:
    """The median number of trials to a target."""
    first = [next((n for n, v in enumerate(c, 1) if v >= target), math.inf) for c in curves]
    return float(statistics.median(first))


class Number(Task):
    """A function whose value is one number, math.inf among them."""

    def expected(self, *case: Any) -> float:
        """The right number."""
        raise NotImplementedError

    def judge(self, case: Case, got: Any) -> None:
        want = self.expected(*case)
        same = isinstance(got, (int, float)) and not isinstance(got, bool) and got == want
        if same or (math.isfinite(want) and near(got, want)):
            return
        call = f"{self.name}({', '.join(map(as_python, case))})"
        lines = (
            f"want = {as_python(want)}",
            "assert got == want or abs(got - want) < 1e-6, got",
        )
        raise LackingError(f"{call[:300]} gives {shown(got)}; right is {shown(want)}", lines)


class TrialsTo(Number):
    """Trials to a target."""

    name, text = "trials_to", "the median number of trials to a target"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for count in (1, 3, 4, 5, 6):
            curves = drawn(draw, count, 9)
            found.append((curves, draw.choice(curves[count // 2])))
        found.append(([[0.2, 0.4], [0.5, 0.7], [0.1]], 0.6))
        return [*found, ([[0.2, 0.4], [0.5], [0.1]], 0.6), ([[0.2, 0.7], [0.5], [0.1, 0.8]], 0.7)]

    def expected(self, *case: Any) -> float:
        return reached(*case)


def coins(a: Sequence[float], b: Sequence[float]) -> float:
    """The probability of the sign test."""
    wins, losses = sum(x > y for x, y in zip(a, b)), sum(x < y for x, y in zip(a, b))
    n, most = wins + losses, max(wins, losses)
    return min(1.0, math.ldexp(2 * sum(math.comb(n, k) for k in range(most, n + 1)), -n))


class SignTest(Number):
    """The sign test."""

    name, text, points = "sign_test", "the sign test for pairs", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for count, odds in ((4, 1.0), (6, 1.0), (9, 0.8), (12, 0.5), (15, 0.2), (8, 0.5)):
            a = [round(draw.uniform(0, 1), 3) for _ in range(count)]
            b = [x - 0.1 if draw.random() < odds else x + 0.1 for x in a]
            found.append((a, b))
        a, b = found[2]
        found.append(([*a, 0.5, 0.5], [*b, 0.5, 0.5]))
        return [*found, ([0.3, 0.4], [0.3, 0.4]), ([1.0, 2.0], [2.0, 1.0])]

    def expected(self, *case: Any) -> float:
        return coins(*case)


TASKS: Sequence[Task] = (Band(), TrialsTo(), SignTest())
