"""Judges of lesson 19: features, a split, ranks, boosting. All is counted anew, exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minitensor.errors import shown

from ..course.requirements import near, numbers_of
from ..course.tasks import Case, FunctionTask, LackingError, Task, as_python

CLOSE = "np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)"


class Touched(FunctionTask):
    """The elements that the innermost loops touch."""

    name, text = "touched", "count what the innermost loops touch"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [([(4, 8), (3, 1)], 1), ([(5, 3)], 0)]
        window = draw.randint(2, 4)
        found.append(([(6, 1), (window, 1)], 2))  # a window: what is touched overlaps
        found.append(([(draw.randint(2, 5), 7), (draw.randint(2, 5), 0), (3, 1)], 2))
        for _ in range(6):
            many = draw.randint(2, 4)
            loops = [(draw.randint(1, 6), draw.choice((0, 1, 2, 3, 8, 10))) for _ in range(many)]
            found.append((loops, draw.randint(1, many)))
        return found

    def expected(self, loops: list[tuple[int, int]], depth: int) -> int:
        places = {0}
        for count, step in loops[len(loops) - depth :]:
            places = {place + n * step for place in places for n in range(count)}
        return len(places)


class BestSplit(Task):
    """The best threshold of a feature."""

    name, text = "best_split", "find the best split of a feature"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = []
        for n in (1, 5, *draw.sample(range(4, 15), 5)):
            x = [draw.randint(0, 5) / 2 for _ in range(n)]
            y = [draw.randint(-5, 5) for _ in range(n)]
            found.append((x, y, [draw.randint(1, 4) for _ in range(n)]))
        found.append(([2.0] * 4, [1, 2, 3, 4], [1, 1, 2, 1]))
        found.append(([1.0, 2.0, 3.0], [2, 2, 2], [1, 3, 1]))
        found.append(([1.0, 2.0, 1.0, 2.0], [0, 1, 1, 0], [1, 1, 1, 1]))
        return [tuple(np.array(part, "float64") for part in case) for case in found]

    def judge(self, case: Case, got: Any) -> None:
        x, y, w = ([Fraction(float(v)) for v in part] for part in case)
        values = sorted(set(x))[:-1]
        best = max((_gain(x, y, w, value) for value in values), default=Fraction(0))
        call = f"of x = {case[0].tolist()}, y = {case[1].tolist()}, w = {case[2].tolist()}"
        if best == 0:
            if got is not None:
                text = f"{call}: no split takes anything off the error, so None is right"
                raise LackingError(text, ("assert got is None, got",))
            return
        pair = numbers_of(got, 2)
        if pair is None:
            text = f"{call}: (threshold, gain) is wanted, not {shown(got)}"
            raise LackingError(text, ("threshold, gain = got",))
        threshold, gain = pair
        left = [value <= threshold for value in x]
        taken = _taken(y, w, left)
        lines = [
            "x, y, w = (np.array(part) for part in case)",
            "def error(s):",
            "    return np.sum(w[s] * (y[s] - np.average(y[s], weights=w[s])) ** 2)",
            "left = x <= got[0]",
            "gain = error(x == x) - error(left) - error(~left)",
            f"assert abs(gain - {float(best)!r}) < 1e-6, gain",
            "assert abs(gain - got[1]) < 1e-6, (gain, got)",
        ]
        if taken is None:
            text = f"{call}: at the threshold {threshold:g} one of the groups is empty"
            raise LackingError(text, ["x = case[0]", "assert 0 < np.sum(x <= got[0]) < len(x)"])
        if taken != best:
            text = (
                f"{call}: the split at {threshold:g} takes {float(taken):.6g} off the error, and "
                f"another takes {float(best):.6g}"
            )
            raise LackingError(text, lines)
        if not near(gain, float(best)):
            text = f"{call}: the gain is {float(best):.6g}, not {gain:.6g}"
            raise LackingError(text, lines)

    def script(self, case: Case) -> list[str]:
        return [f"case = {as_python(case)}", "got = answer(*case)"]


def _gain(x: list[Fraction], y: list[Fraction], w: list[Fraction], value: Fraction) -> Fraction:
    taken = _taken(y, w, [one <= value for one in x])
    return Fraction(0) if taken is None else taken


def _taken(y: list[Fraction], w: list[Fraction], left: list[bool]) -> Fraction | None:
    """The error that a split takes away; None if a group is empty."""
    if all(left) or not any(left):
        return None
    low, high = ([n for n, is_left in enumerate(left) if is_left is side] for side in (True, False))
    return _error(y, w, [*low, *high]) - _error(y, w, low) - _error(y, w, high)


def _error(y: list[Fraction], w: list[Fraction], part: list[int]) -> Fraction:
    mean = sum((w[n] * y[n] for n in part), Fraction(0)) / sum((w[n] for n in part), Fraction(0))
    return sum((w[n] * (y[n] - mean) ** 2 for n in part), Fraction(0))


class Spearman(Task):
    """Rank correlation with ties."""

    name, text = "spearman", "correlate ranks"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [([3.0], [1.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([], [])]
        found.append(([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]))
        for most in (3, 5, 100):
            for n in (draw.randint(4, 8), draw.randint(9, 20)):
                drawn = [[float(draw.randint(-most, most)) for _ in range(n)] for _ in "ab"]
                found.append((drawn[0], drawn[1]))
        return found

    def judge(self, case: Case, got: Any) -> None:
        a, b = (_ranks(values) for values in case)
        constant = len(set(a)) < 2 or len(set(b)) < 2
        want = 0.0 if constant else float(np.corrcoef(a, b)[0, 1])
        if not near(got, want):
            text = f"spearman({case[0]}, {case[1]}) gives {shown(got)}; right is {want:.6g}"
            raise LackingError(text, [f"want = {want!r}", CLOSE])


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < w for v in values) + sum(v == w for v in values) / 2 for w in values]


class Boost(Task):
    """Steps of boosting."""

    name, text = "boost", "add up trees of residuals"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        sizes = [(draw.randint(3, 12), draw.randint(1, 4)) for _ in range(4)]
        for n, rounds in [(1, 2), (5, 0), (8, 3), *sizes]:
            y = np.array([draw.randint(-20, 20) / 4 for _ in range(n)])
            names = draw.sample(range(40), 3)
            leaves = [np.array([draw.choice(names) for _ in range(n)]) for _ in range(rounds)]
            found.append((y, leaves, draw.choice((0.1, 0.3, 0.5, 1.0))))
        return found

    def judge(self, case: Case, got: Any) -> None:
        y, leaves, rate = case
        want = np.full(len(y), y.mean())
        for tree in leaves:
            residual = y - want
            for leaf in np.unique(tree):
                want[tree == leaf] += rate * residual[tree == leaf].mean()
        found = numbers_of(got, len(y))
        if found is None:
            text = f"an array of {len(y)} scores is wanted, not {shown(got)}"
            raise LackingError(text, [f"assert np.shape(got) == ({len(y)},), got"])
        if not all(map(near, found, want.tolist())):
            text = (
                f"for y = {y.tolist()}, {len(leaves)} trees and a rate of {rate} the scores are "
                f"{np.round(want, 4).tolist()}, not {np.round(found, 4).tolist()}"
            )
            raise LackingError(text, [f"want = {as_python(want)}", CLOSE])


TASKS: Sequence[Task] = (Touched(), BestSplit(), Spearman(), Boost())
