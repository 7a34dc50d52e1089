"""Judges of lesson 2, measuring and the roofline."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any

from minitensor import codegen

from ..course.tasks import Case, LackingError, Task
from .programs import product
from .values import brief, near, number


class Intensity(Task):
    """Operations a byte, compared with what code generation counts of the program."""

    name, text = "intensity", "count operations and bytes"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes: list[tuple[int, ...]] = [(1, 1, 1), (1, draw.randint(2, 99), draw.randint(2, 99))]
        sizes += [tuple(draw.sample(range(2, 300), 3)) for _ in range(4)]
        types = ["float32", "float64", "float16"]
        return [(*size, types[n % 3]) for n, size in enumerate(sizes)]

    def judge(self, case: Case, got: Any) -> None:
        report = codegen.report_of(product(*case), codegen.Target("c", 1, 0))
        want = report.operations / report.argument_bytes
        if not near(got, want):
            call = f"{self.name}({', '.join(map(repr, case))})"
            text = f"{call} gives {brief(got)}; right is {want:.6g}: {report.operations:,} "
            text += f"operations, {report.argument_bytes:,} bytes"
            raise LackingError(text, [f"assert math.isclose(got, {want!r}, rel_tol=1e-6), got"])

    def script(self, case: Case) -> list[str]:
        return ["import math", *super().script(case)]


class Attainable(Task):
    """The smaller one of two limits."""

    name, text = "attainable", "apply the roofline"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for intensity in (0.01, 0.3, 0.9, 1.1, 4, 90):  # of the ridge
            peak, bandwidth = draw.uniform(1e9, 2e12), draw.uniform(1e9, 3e11)
            moved = draw.randint(1000, 10**9)
            operations = max(1, round(intensity * peak / bandwidth * moved))
            found.append((operations, moved, peak, bandwidth))
        found.append((draw.randint(1, 10**6), 0, draw.uniform(1e9, 2e12), 1e10))
        found.append((0, draw.randint(1, 10**6), 1e12, draw.uniform(1e9, 2e11)))
        return draw.sample(found, len(found))

    def judge(self, case: Case, got: Any) -> None:
        operations, moved, peak, bandwidth = case
        # a time for each of the two; both start at once, and the longer one counts
        computing, moving = operations / peak, moved / bandwidth
        bound = "compute" if computing > moving else "memory"
        rate = operations / max(computing, moving)
        fits = isinstance(got, (tuple, list)) and len(got) == 2
        if not fits:
            lines = ["assert len(got) == 2, got"]
            raise LackingError(f"(rate, bound) is wanted, not {brief(got)}", lines)
        call = f"{self.name}({operations}, {moved}, {peak:.4g}, {bandwidth:.4g})"
        if not (near(got[0], rate) or rate == 0 == number(got[0])):
            text = f"{call} gives a rate of {brief(got[0])}; right is {rate:.6g}"
            raise LackingError(text, [f"assert abs(got[0] - {rate!r}) <= 1e-6 * {rate!r}, got"])
        if not (isinstance(got[1], str) and got[1] == bound):
            text = f"{call} is said to be bound by {brief(got[1])}; right is {bound!r}"
            raise LackingError(text, [f"assert got[1] == {bound!r}, got"])


class Summary(Task):
    """A statistic that disturbed results do not move. A case ends with what is undisturbed."""

    name, text = "summary", "take a time from results that are disturbed"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for count in (1, 2, 3, *draw.sample(range(5, 40), 5)):
            base = 10 ** draw.uniform(-6, -2)
            times = [base * draw.uniform(0.99, 1.01) for _ in range(count)]
            bad = int(0.4 * count)
            low, high = min(times[bad:]), max(times[bad:])
            for n in range(bad):
                short = n < bad // 4
                times[n] = base * (draw.uniform(0.2, 0.7) if short else draw.uniform(1.5, 20))
            last = times.pop(0)
            draw.shuffle(times)
            times.insert(count // 2, last)  # a disturbed one, if there are any
            found.append((times, low, high))
        return found

    def ask(self, answer: Any, case: Case) -> Any:
        return answer(list(case[0]))

    def judge(self, case: Case, got: Any) -> None:
        results, low, high = case
        found = number(got)
        if found is None:
            raise LackingError(f"a number is wanted, not {brief(got)}", ["assert got > 0"])
        if not low * (1 - 1e-9) <= found <= high * (1 + 1e-9):
            text = f"of {len(results)} results, the undisturbed ones are {low:.4g} to {high:.4g} "
            text += f"seconds, and the answer is {found:.4g}"
            raise LackingError(text, [f"assert {low!r} <= got <= {high!r}, got"])

    def script(self, case: Case) -> list[str]:
        return super().script(case[:1])


class Compare(Task):
    """A decision between two kernels. A case ends with the truth."""

    name, text = "compare", "decide which of two kernels is faster"
    truths = ("faster", "slower", "undecided")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for truth in self.truths * 3:
            found.append((*rounds(draw, draw.randint(10, 31), truth), truth))
        few = [
            (*rounds(draw, count, truth), "undecided")
            for count, truth in ((4, "faster"), (1, "slower"))
        ]
        found += [*few, (*rounds(draw, 5, "faster"), "faster")]
        return draw.sample(found, len(found))

    def ask(self, answer: Any, case: Case) -> Any:
        return answer(list(case[0]), list(case[1]))

    def judge(self, case: Case, got: Any) -> None:
        a, b, truth = case
        if not (isinstance(got, str) and got == truth):
            ratio = statistics.median(y / x for x, y in zip(a, b))
            why = f"in the middle one of them, b takes {ratio:.2f} times as long as a"
            why = why if len(a) >= 5 else "fewer than 5 are too few"
            word = "round" if len(a) == 1 else "rounds"
            text = f"of {len(a)} {word} the answer is {brief(got)}; right is {truth!r}: {why}"
            raise LackingError(text, [f"assert got == {truth!r}, got"])

    def script(self, case: Case) -> list[str]:
        return super().script(case[:2])


def rounds(draw: random.Random, count: int, truth: str) -> tuple[list[float], list[float]]:
    """Times of two kernels in rounds: the machine slows down after half of them, and in a fifth of
    them, in the fast half, the better one of the two was interrupted.
    """
    factor = {"faster": 1 / draw.uniform(1.15, 1.4), "slower": draw.uniform(1.15, 1.4)}.get(
        truth, 1
    )
    base, slowdown = 10 ** draw.uniform(-5, -2), draw.uniform(1.8, 2.5)
    a, b = [], []
    for n in range(count):
        pace = base * (slowdown if n >= count // 2 else 1)
        noise = 0.004 * (-1) ** n  # as often for one as for the other
        a.append(pace * (1 + noise) * draw.uniform(0.999, 1.001))
        b.append(pace * (1 - noise) * draw.uniform(0.999, 1.001) * factor)
    hurt = {"faster": b, "slower": a}.get(truth) or draw.choice([a, b])
    for n in draw.sample(range(max(1, count // 2)), count // 5):
        hurt[n] *= draw.uniform(4, 30)
    order = draw.sample(range(count), count)
    return [a[n] for n in order], [b[n] for n in order]


TASKS: Sequence[Task] = (Intensity(), Attainable(), Summary(), Compare())
