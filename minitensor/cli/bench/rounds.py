"""Who is called when: everybody in every round, each in a burst of its own.

The rule, the same for everybody. In each round every contender has a turn, in an order that rotates
and turns around. A turn: wait until the threads of the one before have gone to sleep; call without
counting, to fill the caches and wake the own threads; then call, each call timed alone, for as long
as a burst lasts. What a round says is its fastest call: what else runs on the machine only adds
time. What is quoted is the median over the rounds, and a ratio is the median of the ratios within
the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from minitensor.cli.bench.contender import Contender

RULE: Final = (
    "each round: every contender in rotating order, a pause until the threads of the one before "
    "sleep, uncounted calls, then a burst of calls timed one by one, of which the fastest counts; "
    "quoted: the median over the rounds; ratios: the median of the ratios within the rounds"
)
SLOW_SECONDS: Final = 0.5
"""A contender whose first call in a turn takes longer is not called again in it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is called.

    rounds       turns of each contender
    burst        seconds that the counted calls of a turn last at least
    warm         seconds of calls before them
    least_calls  counted calls of a turn, however long they take
    """

    rounds: int = 7
    burst: float = 0.04
    warm: float = 0.01
    least_calls: int = 3


@dataclass(slots=True)
class Turns:
    """What the turns of one contender gave, in seconds a call: an entry for each round.

    fastest  the fastest call
    typical  the median call
    """

    fastest: list[float] = field(default_factory=list)
    typical: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Clock:
    """What tells the time and lets it pass."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


def interleave(
    contenders: Sequence[Contender],
    pace: Pace,
    *,
    pause: bool = True,
    clock: Clock = Clock(),
    started: Callable[[int], None] = lambda number: None,
) -> Mapping[str, Turns]:
    """Run all rounds; the turns by the contenders' names.

    pause    whether to wait for threads that spin: not where a process has only one
    started  is told the number of each round as it begins, from 0
    """
    turns = {c.name: Turns() for c in contenders}
    spin = max((c.spin for c in contenders), default=0.0)  # of whoever ran before the first turn
    for number in range(pace.rounds):
        started(number)
        for contender in order(contenders, number):
            if pause:
                clock.sleep(spin)
            calls = take_turn(contender.call, pace, clock)
            spin = contender.spin
            turns[contender.name].fastest.append(min(calls))
            turns[contender.name].typical.append(median(calls))
    return turns


def order(contenders: Sequence[Contender], number: int) -> Sequence[Contender]:
    """The order of a round: each starts one further on, every other goes backwards.

    So nobody always follows the same neighbour, or is always first.
    """
    first = number % len(contenders) if contenders else 0
    rotated = [*contenders[first:], *contenders[:first]]
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
