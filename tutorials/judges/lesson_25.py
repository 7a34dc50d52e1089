"""Judges of lesson 25: the round robin, the gain of a round, and a rule that beats both."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from minitensor.errors import is_integer, is_real, shown

from ..course.tasks import Case, FunctionTask, LackingError, Task

Known: TypeAlias = "list[tuple[int, list[float]]]"
"""The count of each task, and its seconds after each of its rounds."""
Law: TypeAlias = "tuple[int, float, float, float]"
"""The count of a task, its first seconds, the part that it gains at last, the rounds for half."""

ROUNDS: Final = 120
AHEAD: Final = 0.985
"""Of the seconds that another rule reaches."""


def seconds(law: Law, rounds: int) -> float:
    """The seconds of a task after so many rounds."""
    _, first, part, half = law
    return float(first * (1 - part * (1 - 2.0 ** (-rounds / half))))


def play(laws: Sequence[Law], choose: Callable[[Known, int], Any]) -> list[Any]:
    """The places that a rule chooses; it ends with one that is none."""
    tasks: Known = [(law[0], [law[1]]) for law in laws]
    chosen: list[Any] = []
    for left in range(ROUNDS, 0, -1):
        place = choose([(count, list(times)) for count, times in tasks], left)
        chosen.append(place)
        if not is_integer(place, 0, len(laws) - 1):
            break
        times = tasks[place][1]
        times.append(seconds(laws[place], len(times)))
    return chosen


def total(laws: Sequence[Law], chosen: Sequence[int]) -> float:
    """Seconds of a call of the network after these rounds."""
    return sum(law[0] * seconds(law, chosen.count(place)) for place, law in enumerate(laws))


def in_turns(tasks: Known, left: int = 0) -> int:
    """The round robin."""
    return min(range(len(tasks)), key=lambda place: len(tasks[place][1]))


def expected_gain(count: int, times: Sequence[float], alpha: float, window: int) -> float:
    """Ansor's, without alike tasks."""
    rounds = len(times) - 1
    back = min(window, rounds)
    gained = (times[rounds - back] - times[rounds]) / back
    return count * (alpha * gained + (1 - alpha) * times[rounds] / rounds)


def by_gradient(tasks: Known, left: int = 0) -> int:
    """The gradient of the lesson."""
    fresh = [place for place, (_, times) in enumerate(tasks) if len(times) == 1]
    if fresh:
        return fresh[0]
    return max(range(len(tasks)), key=lambda place: expected_gain(*tasks[place], 0.2, 3))


class TurnsTask(FunctionTask):
    """The round robin."""

    name, text = "turns", "give each task a round in turn"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [([(1, [2.0])],), ([(1, [2.0, 1.0]), (9, [8.0])],)]
        for size in (2, 3, 4, 6, 8):
            lengths = [draw.choice((1, 2, 3)) for _ in range(size)]
            tasks = [(draw.randint(1, 9), [draw.randint(1, 64) / 8] * n) for n in lengths]
            found.append((tasks,))
            found.append(([(count, times[:1] * 2) for count, times in tasks],))
        return found

    def expected(self, *case: Any) -> int:
        return in_turns(case[0])


class GainTask(FunctionTask):
    """The expected gain of a round."""

    name, text = "gain", "say what the next round of a task is expected to gain"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [
            (1, [8.0, 4.0], 1.0, 3),
            (1, [8.0, 4.0], 0.0, 3),
            (2, [8.0, 4.0, 4.0, 4.0], 1.0, 3),
            (2, [8.0, 4.0, 4.0, 4.0, 4.0], 1.0, 3),
        ]
        for _ in range(10):
            times = [draw.uniform(4.0, 9.0)]
            for _ in range(draw.randint(1, 7)):
                times.append(times[-1] * draw.choice((1.0, 0.75, draw.uniform(0.5, 1.0))))
            found.append(
                (draw.randint(1, 9), times, draw.choice((0.2, 0.5, 0.8)), draw.randint(1, 4))
            )
        return found

    def expected(self, *case: Any) -> float:
        return expected_gain(*case)

    def judge(self, case: Case, got: Any) -> None:
        want = self.expected(*case)
        if is_real(got, -1e300, 1e300) and math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-12):
            return
        count, times, alpha, window = case
        raise LackingError(
            f"the expected gain is {want:.6g}, not {shown(got)} (count {count}, times "
            f"{shown(times)}, alpha {alpha}, window {window})",
            [f"assert abs(got - {want!r}) < 1e-9 * {want!r} + 1e-12, got"],
        )


class ChooseTask(Task):
    """A rule that beats the others."""

    name, text = "choose", "beat the round robin and the gradient on curves you do not see"
    points = 3
    seconds = 60.0

    def cases(self, draw: random.Random) -> Sequence[Case]:
        def law() -> Law:
            count, first = draw.choice((1, 1, 1, 2, 3, 6)), math.exp(draw.gauss(0, 1))
            return count, first, draw.uniform(0.2, 0.8), math.exp(draw.uniform(0, math.log(30)))

        return [([[law() for _ in range(12)] for _ in range(24)],)]

    def ask(self, answer: Any, case: Case) -> Any:
        """The places that it chooses in each network."""
        return [play(laws, answer) for laws in case[0]]

    def judge(self, case: Case, got: Any) -> None:
        (networks,) = case
        lines = self._lines()
        if not isinstance(got, (list, tuple)) or len(got) != len(networks):
            raise LackingError("a place is wanted for each round", lines)
        for laws, chosen in zip(networks, got):
            wrong = [place for place in chosen if not is_integer(place, 0, len(laws) - 1)]
            if wrong:
                text = f"a place from 0 to {len(laws) - 1} is wanted, not {shown(wrong[0])}"
                raise LackingError(text, lines)
        for name, rule in (("the round robin", in_turns), ("the gradient", by_gradient)):
            logs = [
                math.log(total(laws, chosen) / total(laws, play(laws, rule)))
                for laws, chosen in zip(networks, got)
            ]
            ratio = math.exp(sum(logs) / len(logs))
            if ratio > AHEAD:
                raise LackingError(
                    f"it ends at {ratio:.3f} of the seconds that {name} reaches, as a geometric "
                    f"mean over {len(networks)} networks; at most {AHEAD} is wanted",
                    lines,
                )

    def script(self, case: Case) -> list[str]:
        home = "minitensor_course.judges.lesson_25"
        return [
            f"from {home} import by_gradient, in_turns, play, total",
            f"networks = {case[0]!r}",
            "got = [play(laws, answer) for laws in networks]",
        ]

    @staticmethod
    def _lines() -> list[str]:
        return [
            "assert all(len(chosen) == 120 for chosen in got), got",
            "import math",
            "for rule in (in_turns, by_gradient):",
            "    pairs = [(total(n, g), total(n, play(n, rule))) for n, g in zip(networks, got)]",
            "    ratio = math.prod(one / other for one, other in pairs) ** (1 / len(pairs))",
            f"    assert ratio <= {AHEAD}, (rule, ratio)",
        ]


TASKS: Sequence[Task] = (TurnsTask(), GainTask(), ChooseTask())
