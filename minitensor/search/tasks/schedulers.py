"""Task schedulers: which task of some networks the next round of trials goes to.

A scheduler sees curves alone, what each task took and what it gained, so that it can be replayed on
recorded ones (`benchmarks/tasks.py`) and tested on made ones.

Source: Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI
2020, §6.2 and appendix A; the constants are those of its evaluation and of its code.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from minitensor.errors import real, unexpected, whole
from minitensor.search.tasks.objectives import Objective, slopes


class Leg(NamedTuple):
    """A round of one task.

    trials   candidates that were tried
    spent    seconds that it took
    seconds  of a call of the fastest schedule of the task, at its end
    """

    trials: int
    spent: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """One task as far as it has come.

    name    of its program: tasks of the same name are alike, and differ in extents alone
    counts  how many times a call of each network runs it
    work    operations of a call of the kernel; 0 if none are counted
    first   seconds of a call before the search
    legs    its rounds
    closed  why it takes no more; "" while it does
    """

    name: str
    counts: tuple[float, ...]
    work: float
    first: float
    legs: tuple[Leg, ...] = ()
    closed: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of a call now."""
        return min(self.first, self.legs[-1].seconds) if self.legs else self.first

    @property
    def trials(self) -> int:
        """Candidates that were tried."""
        return sum(leg.trials for leg in self.legs)

    @property
    def spent(self) -> float:
        """Seconds that were spent on it."""
        return sum(leg.spent for leg in self.legs)


def latencies_of(curves: Sequence[Curve]) -> list[float]:
    """Seconds of a call of each network: the sums over their kernels."""
    return [
        sum(count * curve.seconds for count, curve in zip(column, curves))
        for column in zip(*(curve.counts for curve in curves))
    ]


def weights_of(curves: Sequence[Curve], objective: Objective) -> list[float]:
    """The fall of the objective for each second that a kernel gets faster."""
    worth = slopes(objective, latencies_of(curves))
    return [sum(c * w for c, w in zip(curve.counts, worth)) for curve in curves]


class TaskScheduler(Protocol):
    """A rule that chooses a task."""

    def choose(self, curves: Sequence[Curve], objective: Objective, rng: random.Random) -> int:
        """The place of the task that gets the next round; one of those that are open."""
        ...


class RoundRobin:
    """Each open task in turn: the one with the fewest rounds."""

    def choose(self, curves: Sequence[Curve], objective: Objective, rng: random.Random) -> int:
        """The place of the task that gets the next round."""
        return min(_open(curves), key=lambda place: len(curves[place].legs))


class Uniform:
    """An open task, drawn at random."""

    def choose(self, curves: Sequence[Curve], objective: Objective, rng: random.Random) -> int:
        """The place of the task that gets the next round."""
        return rng.choice(_open(curves))


@dataclass(frozen=True)
class Gradient:
    """The task whose next round is expected to bring the objective down the most.

    Of a task with best times g after t rounds, whose kernel has C operations and whose alike tasks
    reach V operations a second at most, a round is expected to gain

        alpha * (g(t - window) - g(t)) / window + (1 - alpha) * max(g / t, g - beta * C / V)

    seconds of a call, which is multiplied by what a second is worth to the objective, and divided
    by the trials of a round, or the seconds that one takes. First each task has one round, those
    that count most before the others.

    alpha     the trust in what was gained lately, against hope
    beta      the trust in alike tasks: how close to the best of these one may come
    epsilon   the part of rounds that go to a task drawn at random
    window    rounds that are looked back on
    alike     whether tasks of the same name are compared
    hopeful   whether there is hope: without it, only what was gained lately counts
    currency  "seconds" or "trials"

    Raises ArgumentError for what makes no sense.
    """

    alpha: float = 0.2
    beta: float = 2.0
    epsilon: float = 0.05
    window: int = 3
    alike: bool = True
    hopeful: bool = True
    currency: str = "trials"

    def __post_init__(self) -> None:
        for name, most in (("alpha", 1), ("beta", math.inf), ("epsilon", 1)):
            real(name, getattr(self, name), 0, most)
        whole("window", self.window, 1)
        if self.currency not in ("seconds", "trials"):
            raise unexpected("'seconds' or 'trials'", "currency", self.currency)

    def choose(self, curves: Sequence[Curve], objective: Objective, rng: random.Random) -> int:
        """The place of the task that gets the next round."""
        places, weights = _open(curves), weights_of(curves, objective)
        fresh = [place for place in places if not curves[place].legs]
        if fresh:
            return max(fresh, key=lambda place: weights[place] * curves[place].seconds)
        if rng.random() < self.epsilon:
            return rng.choice(places)
        gains = self.gains(curves, objective)
        if not any(gains[place] for place in places):  # nothing counts, or all is reached
            return RoundRobin().choose(curves, objective, rng)
        return max(places, key=lambda place: gains[place])

    def gains(self, curves: Sequence[Curve], objective: Objective) -> list[float]:
        """The fall of the objective that the next round of each task is expected to bring, for
        each second or trial of it; infinity for one without a round that counts.
        """
        weights = weights_of(curves, objective)
        return [
            weight * self._fall(place, curves) / self._price(curves[place]) if weight else 0.0
            for place, weight in enumerate(weights)
        ]

    def _price(self, curve: Curve) -> float:
        """The price of the next round, as far as the last one tells."""
        if not curve.legs:
            return 1.0
        last = curve.legs[-1]
        return max(1e-9, last.spent) if self.currency == "seconds" else max(1, last.trials)

    def _fall(self, place: int, curves: Sequence[Curve]) -> float:
        """Seconds of a call that the next round is expected to gain."""
        curve = curves[place]
        if not curve.legs:
            return math.inf
        now, last = curve.seconds, curve.legs[-1]
        times = [curve.first, *(leg.seconds for leg in curve.legs)]
        back = min(self.window, len(times) - 1)
        gained = max(0.0, min(times[: len(times) - back]) - now) / back
        if not self.hopeful:
            return gained
        hope = now * min(1.0, last.trials / max(1, curve.trials))
        fastest = max((_speed(c) for c in _like(place, curves)), default=0.0) if self.alike else 0.0
        if fastest and curve.work:
            hope = max(hope, now - self.beta * curve.work / fastest)
        return self.alpha * gained + (1 - self.alpha) * hope


SCHEDULERS: Final[dict[str, TaskScheduler]] = {
    "gradient": Gradient(),
    "round_robin": RoundRobin(),
    "random": Uniform(),
}


def scheduler_of(given: str | TaskScheduler) -> TaskScheduler:
    """A scheduler by its name, or an object that is one. Raises ArgumentError."""
    if isinstance(given, str) and given in SCHEDULERS:
        return SCHEDULERS[given]
    if isinstance(given, (str, type)) or not callable(getattr(given, "choose", None)):
        names = ", ".join(map(repr, SCHEDULERS))
        expected = f"one of {names}, or an object with choose(curves, objective, rng)"
        raise unexpected(expected, "scheduler", given)
    return given


def race(
    curves: list[Curve],
    step: Callable[[int], Leg | str],
    scheduler: TaskScheduler,
    objective: Objective,
    over: Callable[[], bool],
    seed: int = 0,
) -> Iterator[int]:
    """Give rounds to tasks until there is no time left, or no task goes on; yields the place of
    each task after its round.

    curves  of the tasks, which are changed
    step    makes a round of a task; why there is none ends the task
    over    tells whether no further round is to begin
    seed    of the scheduler's draws, each of which depends on the number of rounds before it alone
    """
    while any(not curve.closed for curve in curves) and not over():
        rng = random.Random(f"{seed}/{sum(len(curve.legs) for curve in curves)}")
        place = scheduler.choose(tuple(curves), objective, rng)
        if place not in _open(curves):
            expected = "the place of a task that is open"
            raise unexpected(expected, "scheduler.choose(...)", place)
        found = step(place)
        curve = curves[place]
        if isinstance(found, str):
            curves[place] = replace(curve, closed=found)
        else:
            curves[place] = replace(curve, legs=(*curve.legs, found))
        yield place


def _open(curves: Sequence[Curve]) -> list[int]:
    return [place for place, curve in enumerate(curves) if not curve.closed]


def _like(place: int, curves: Sequence[Curve]) -> list[Curve]:
    """The other tasks that are alike."""
    name = curves[place].name
    return [c for n, c in enumerate(curves) if n != place and c.name == name and c.legs]


def _speed(curve: Curve) -> float:
    """Operations a second."""
    return curve.work / curve.seconds if curve.seconds and math.isfinite(curve.seconds) else 0.0
