"""Comparisons on a machine that is not steady: the fastest again in each round, and the finals.

The incumbent, the fastest until now, is measured again in each round: what it takes more than
before is due to the machine, and is taken out of what the model learns. Its own time is no measure,
for it is the least of many, and so too short more often than too long: what is compared is what it
takes when it is measured again, in one round and in the next.

In the finals the fastest candidates run in turns before one of them is called best. Each was
measured minutes apart from others, so the fastest of many is often one that was lucky. They are
compared with the first of them within each turn. The program as it is written takes part, and the
schedule that the search began with: a search must not end with less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias

from minitensor.schedule import Schedule, Trace
from minitensor.search.records import OK, STEADY
from minitensor.search.runner import Result, Status
from minitensor.search.tried import Tried

NOISE: Final = 0.05
"""A machine whose speed differs by less is as fast as it was: measuring is no more exact."""
FINALISTS: Final = 3
"""The most candidates in the finals, beside those that every search has,"""
FINALISTS_OF_MANY: Final = 8
"""and where the machine was not steady."""
TURNS: Final = 5
MOST_TURNS: Final = 9
CHANCE: Final = 1.5
"""A candidate that takes this many times the best in the first turn has no chance,"""
NEAR: Final = 1.2
"""and one that takes this many times the best in all turns until now."""
AHEAD: Final = 0.999
"""The winner takes at most this part of the time of the best before it."""
Measure: TypeAlias = Callable[[Sequence[Schedule], "float | None"], Iterable[Result]]
"""`RunnerProtocol.measure`."""


@dataclass
class Incumbent:
    """Measures the fastest candidate again.

    measure  what is called with its trace
    drift    how many times as long as at first a call takes now
    """

    measure: Callable[[Trace], Result]
    drift: float = STEADY
    _trace: Trace | None = None
    _steady: float = 0.0
    """Of the candidate that was the incumbent in the last round: seconds without drift."""

    def again(self, best: Tried) -> float | None:
        """Measure the fastest candidate in a new round; its seconds per call now. None if it fails,
        or if other programs did not leave the machine alone for one call.

        Where it is another than in the last round, that one comes first.
        """
        if self._trace is None:
            self._trace, self._steady = best.trace, best.steady
        seconds = self._now(self._trace)
        if seconds is not None:
            drift = seconds / self._steady
            self.drift = STEADY if 1 / (1 + NOISE) < drift < 1 + NOISE else drift
        if best.trace != self._trace:
            seconds = self._now(best.trace)
            if seconds is not None:
                self._trace, self._steady = best.trace, seconds / self.drift
        return seconds

    def _now(self, trace: Trace) -> float | None:
        result = self.measure(trace)
        return result.median if result.ok and not result.disturbed else None


# ---- the finals


def finalists(tried: Sequence[Tried], best: Tried, begun: Trace | None = None) -> list[Tried]:
    """The best, and behind it others that are near, whatever the machine did meanwhile.

    begun  the trace of the schedule that the search began with, which takes part if it works
    """
    steady = all(t.drift == STEADY for t in tried)
    near = [t for t in tried if t.status == OK and t.steady <= NEAR * best.steady]
    others = sorted((t for t in near if t is not best), key=lambda t: t.steady)
    found = [best, *others[: (FINALISTS if steady else FINALISTS_OF_MANY) - 1]]
    return found + [t for t in tried if t.trace == begun and t.status == OK and t not in found]


def run_in_turns(
    measure: Measure, finalists: Sequence[Schedule], turns: int = TURNS
) -> list[list[Result]]:
    """The results of each finalist, one for each turn. One that fails takes no further one, nor one
    that is not near the fastest, unless it is what others are compared with.

    turns  in which nothing disturbs them; with those that are disturbed there are more
    """
    results: list[list[Result]] = [list(measure(finalists[:1], None))]
    first = results[0][0]
    results += [[r] for r in measure(finalists[1:], first.median if first.ok else None)]
    kept = next((n for n, found in enumerate(results) if found[0].ok), None)
    for turn in range(1, MOST_TURNS):
        whole = [n for n, found in enumerate(results) if len(found) == turn and _work(found)]
        near = min((_middle(results[n]) for n in whole), default=0.0)
        near *= NEAR if turn > 1 else CHANCE
        left = [
            number
            for number in whole
            if number == kept or results[number][-1].disturbed or _middle(results[number]) <= near
        ]
        clear = [sum(not result.disturbed for result in results[number]) for number in left]
        if len(left) < 2 or min(clear) >= turns:
            break
        order = [*left[turn % len(left) :], *left[: turn % len(left)]]
        for number, result in zip(order, measure([finalists[n] for n in order], None)):
            results[number].append(result)
    return results


def ratios(results: Sequence[Sequence[Result]]) -> list[float | None]:
    """The time of each finalist as a multiple of that of the first which took all turns: the median
    over the turns in which neither was disturbed. None for one that did not take all, or failed, or
    where there are no such turns.
    """
    most = max(map(len, results))
    whole = [len(found) == most and _work(found) for found in results]
    first = results[whole.index(True)] if any(whole) else None
    return [
        _ratio(found, first) if took and first is not None else None
        for found, took in zip(results, whole)
    ]


def winner(
    results: Sequence[Sequence[Result]], seconds: Sequence[float]
) -> tuple[int, Result] | None:
    """The finalist that is the best from now on, and its times, as they would have been when the
    best before it was measured; None if that one has won again.

    seconds  that each candidate took before; the last finalist, the program as it is written, may
             have none
    """
    found = [(ratio, n) for n, ratio in enumerate(ratios(results)) if ratio is not None]
    if not found:
        return None
    (ratio, number), (_, first) = min(found), found[0]
    if number != first:
        base, least = seconds[first], min(t for r in results[number] for t in r.times)
        expected = max(ratio * base, min(least, AHEAD * base))  # no less than ever measured
    elif first == len(seconds):  # all others failed
        expected = results[first][0].median
    else:
        return None
    clear = [result for result in results[number] if not result.disturbed]
    now = [t for result in clear or results[number] for t in result.times]
    scale = expected / median(now)
    host = results[number][0].host
    return number, Result(Status.OK, tuple(t * scale for t in now), host=host)


def _ratio(own: Sequence[Result], first: Sequence[Result]) -> float | None:
    if own is first:
        return 1.0
    turns = [(a, b) for a, b in zip(own, first) if not (a.disturbed or b.disturbed)]
    return median(a.median / b.median for a, b in turns) if turns else None


def _middle(results: Sequence[Result]) -> float:
    return median(result.median for result in results)


def _work(results: Sequence[Result]) -> bool:
    return all(result.ok for result in results)
