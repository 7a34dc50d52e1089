"""Objectives of a search for networks: a number made of their latencies, which is to fall.

Source: Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI
2020, Table 2: f1 is `latency`, f2 `Requirements`, f3 `Speedup`; f4 ends tasks that no longer gain,
which is `patience` of `mt.tune`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from minitensor.errors import ArgumentError, is_real, reason_of, shown, unexpected

Objective: TypeAlias = Callable[[Sequence[float]], float]
"""Of the seconds of a call of each network, a number: the smaller, the better."""

STEP: Final = 1e-3
"""The part of a latency by which it is made smaller to see what that is worth."""


def latency(latencies: Sequence[float]) -> float:
    """The sum of the latencies."""
    return sum(latencies)


class Requirements:
    """Latencies that are fast enough: below its own, a network has nothing to gain.

    seconds  of a call of each network, in their order

    Raises ArgumentError for what is no positive number.
    """

    def __init__(self, *seconds: float) -> None:
        self.seconds = _positive("seconds", seconds)

    def __call__(self, latencies: Sequence[float]) -> float:
        """The sum of the latencies, each counted as no less than what is required."""
        pairs = zip(latencies, _for_each(self.seconds, latencies), strict=True)
        return sum(max(found, wanted) for found, wanted in pairs)

    def met(self, latencies: Sequence[float]) -> bool:
        """True if all networks are fast enough."""
        wanted = _for_each(self.seconds, latencies)
        return all(found <= most for found, most in zip(latencies, wanted, strict=True))


class Speedup:
    """The geometric mean of the speedups against reference latencies.

    seconds  of a call of each network, in their order, which are compared with

    Raises ArgumentError for what is no positive number.
    """

    def __init__(self, *seconds: float) -> None:
        self.seconds = _positive("seconds", seconds)

    def __call__(self, latencies: Sequence[float]) -> float:
        """Minus the mean: it is to grow."""
        pairs = zip(latencies, _for_each(self.seconds, latencies), strict=True)
        logs = [math.log(reference / found) for found, reference in pairs]
        return -math.exp(sum(logs) / len(logs))


OBJECTIVES: Final[dict[str, Objective]] = {"latency": latency}


def objective_of(given: str | Objective) -> Objective:
    """An objective by its name, or a function as it is. Raises ArgumentError."""
    if isinstance(given, str) and given in OBJECTIVES:
        return OBJECTIVES[given]
    if isinstance(given, (str, type)) or not callable(given):
        names = ", ".join(map(repr, OBJECTIVES))
        also = "mt.search.Requirements(...), mt.search.Speedup(...), or a function of latencies"
        raise unexpected(f"{names}, {also}", "objective", given)
    return given


def value_of(objective: Objective, latencies: Sequence[float]) -> float:
    """The number that an objective gives. Raises ArgumentError if it raises or gives none."""
    try:
        found = objective(list(latencies))
    except ArgumentError:
        raise
    except Exception as failure:
        text = f"the objective raised for {_words(latencies)}: {reason_of(failure)}"
        raise ArgumentError(text) from failure
    if not is_real(found, -math.inf, math.inf):
        text = f"expected a number from the objective, but for {_words(latencies)} it gives"
        raise ArgumentError(f"{text} {shown(found)}")
    return float(found)


def slopes(objective: Objective, latencies: Sequence[float]) -> list[float]:
    """The fall of the objective for each second that a network gets faster; 0 where it grows.

    Raises ArgumentError, see `value_of`.
    """
    now = value_of(objective, latencies)
    found = []
    for place, seconds in enumerate(latencies):
        step = STEP * seconds
        less = [*latencies[:place], seconds - step, *latencies[place + 1 :]]
        fall = (now - value_of(objective, less)) / step if step else 0.0
        found.append(max(0.0, fall) if math.isfinite(fall) else 0.0)
    return found


def _positive(name: str, seconds: Sequence[float]) -> tuple[float, ...]:
    if not seconds:
        raise ArgumentError("expected seconds for each network, but got none")
    for one in seconds:
        if not is_real(one, 0) or not one:
            raise unexpected("seconds, a number above 0", name, one)
    return tuple(map(float, seconds))


def _for_each(seconds: Sequence[float], latencies: Sequence[float]) -> Sequence[float]:
    if len(seconds) != len(latencies):
        raise ArgumentError(
            f"expected seconds for each of {len(latencies)} networks, but got {len(seconds)}"
        )
    return seconds


def _words(latencies: Sequence[float]) -> str:
    return f"latencies of {', '.join(f'{seconds:.3g}' for seconds in latencies)} s"
