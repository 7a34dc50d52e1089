"""The time of a call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor.errors import is_integer, is_real, unexpected
from minitensor.looks import Shown, readable_seconds

LONGEST_REPEAT: Final = 3_600_000
"""The most milliseconds of `min_repeat_ms`: an hour."""


@dataclass(frozen=True, slots=True, repr=False)
class Timing(Shown):
    """Seconds per call: one result for each repeat, the mean over the `number` calls in it."""

    results: list[float]
    number: int

    @property
    def median(self) -> float:
        """The middle of the results, in seconds: what to quote."""
        return float(np.median(self.results))

    @property
    def mean(self) -> float:
        """Their mean, in seconds."""
        return float(np.mean(self.results))

    @property
    def min(self) -> float:
        """The fastest repeat, in seconds."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repeat, in seconds."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Their standard deviation, in seconds."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        least, most = readable_seconds(self.min), readable_seconds(self.max)
        return (
            f"{readable_seconds(self.median)} (median of {len(self.results)} repeats of "
            f"{self.number} calls; min {least}, max {most})"
        )


def check_repeats(number: object, repeat: object, min_repeat_ms: object) -> None:
    """Raise ArgumentError unless the arguments of `measure` are ones that can be meant."""
    if number is not None and not is_integer(number, 1):
        raise unexpected("a number of at least 1", "number", number)
    if not is_integer(repeat, 1):
        raise unexpected("a number of at least 1", "repeat", repeat)
    if not is_real(min_repeat_ms, 0, LONGEST_REPEAT):
        expected = f"milliseconds, at least 0 and at most {LONGEST_REPEAT:,}"
        raise unexpected(expected, "min_repeat_ms", min_repeat_ms)


Lap = Callable[[int], float]
"""A function of a number: the seconds that as many calls take."""


def lap_of(call: Callable[[], object]) -> Lap:
    """The laps of a function. What a loop of Python costs, some 50 ns, is included."""

    def lap(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start

    return lap


def measure(
    call: Callable[[], object], number: int | None, repeat: int, min_repeat_ms: float
) -> Timing:
    """Time `repeat` times `number` calls; see `measure_laps`."""
    return measure_laps(lap_of(call), number, repeat, min_repeat_ms)


def measure_laps(lap: Lap, number: int | None, repeat: int, min_repeat_ms: float) -> Timing:
    """Time `repeat` laps of `number` calls.

    Without a `number` it is chosen: as soon as a repeat is shorter than `min_repeat_ms`, the number
    is raised and the results start anew.
    """
    at_least = min_repeat_ms / 1000 if number is None else 0.0
    calls = 1 if number is None else number
    results: list[float] = []
    while len(results) < repeat:
        seconds = lap(calls)
        if seconds < at_least:
            # 10 % more than needed, so that the next repeats are not short by a hair
            wanted = math.ceil(1.1 * calls * at_least / max(seconds, 1e-9))
            calls = max(calls + 1, min(wanted, 100 * calls))
            results.clear()
        else:
            results.append(seconds / calls)
    return Timing(results, calls)
