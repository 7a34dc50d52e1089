"""Timing in rounds: calls that compute the same take turns, and their ratios are those of a round.

The rule is RULE: other programs only add time, so the fastest call of a burst counts; and a machine
is not equally fast from one minute to the next, so ratios are taken within the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol

RULE: Final = (
    "each round: every implementation in rotating order, a pause until the threads of the one "
    "before sleep, uncounted calls, then a burst of calls timed one by one, of which the fastest "
    "counts; quoted: the median over the rounds; ratios: the median of the ratios within the rounds"
)
SLOW_SECONDS: Final = 0.5
"""A first call of a turn that takes longer is the only one of it."""
SPIN_SECONDS: Final = 0.02
"""Seconds for which the threads of OpenMP wait in a busy loop after a call; measured: 10 ms."""
BLAS_SPIN_SECONDS: Final = 0.15
"""The same for OpenBLAS; measured: 105 ms. A call that shares its cores with such threads can take
a hundred times as long."""


class Timed(Protocol):
    """A call with a name; `spin`: seconds for which its threads keep the cores busy after it."""

    @property
    def name(self) -> str:
        """The key of its turns."""

    @property
    def call(self) -> Callable[[], object]:
        """The call itself."""

    @property
    def spin(self) -> float:
        """Seconds."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The amount of calling.

    rounds       turns of each call
    burst        seconds that the counted calls of a turn last at least
    warm         seconds of calls before them
    least_calls  counted calls of a turn, however long they take
    """

    rounds: int = 7
    burst: float = 0.04
    warm: float = 0.01
    least_calls: int = 3


QUICK: Final = Pace(rounds=3, burst=0.01, warm=0.002, least_calls=1)


@dataclass(slots=True)
class Turns:
    """Seconds of a call in its turns: an entry for each round.

    fastest  the fastest call
    typical  the median call
    """

    fastest: list[float] = field(default_factory=list)
    typical: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The time to quote: the median over the rounds of the fastest call in a round."""
        return median(self.fastest)


def ratio(own: Sequence[float], other: Sequence[float]) -> float:
    """The factor by which `own` is faster: the median of the ratios within the rounds."""
    return median(b / a for a, b in zip(own, other, strict=True))


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, and a way to let it pass."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


def interleave(
    timed: Sequence[Timed],
    pace: Pace,
    *,
    pause: bool = True,
    clock: Clock = Clock(),
    started: Callable[[int], None] = lambda number: None,
) -> Mapping[str, Turns]:
    """Run all rounds; the turns by name.

    pause    whether to wait for threads that spin: not where a process has only one
    started  called with the number of each round as it begins, from 0
    """
    turns = {one.name: Turns() for one in timed}
    spin = max((one.spin for one in timed), default=0.0)  # of any call before the first turn
    for number in range(pace.rounds):
        started(number)
        for one in order(timed, number):
            if pause:
                clock.sleep(spin)
            calls = take_turn(one.call, pace, clock)
            spin = one.spin
            turns[one.name].fastest.append(min(calls))
            turns[one.name].typical.append(median(calls))
    return turns


def order(timed: Sequence[Timed], number: int) -> Sequence[Timed]:
    """The order of a round: each starts one further on, every other one is reversed.

    So no call always follows the same neighbour, or is always first.
    """
    first = number % len(timed) if timed else 0
    rotated = [*timed[first:], *timed[:first]]
    return rotated[::-1] if number % 2 else rotated


def take_turn(call: Callable[[], object], pace: Pace, clock: Clock) -> list[float]:
    """Seconds of each counted call of a turn."""
    start = stop = clock.now()
    while stop - start < pace.warm or stop == start:
        before = stop
        call()
        stop = clock.now()
        if stop - before > SLOW_SECONDS:
            return [stop - before]
    calls: list[float] = []
    end = stop + pace.burst
    while stop < end or len(calls) < pace.least_calls:
        before = clock.now()
        call()
        stop = clock.now()
        calls.append(stop - before)
    return calls
