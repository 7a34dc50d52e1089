"""Runners, which may be a user's own, and their results: checked, and one for each schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from minitensor.errors import ArgumentError, kind_of, shown
from minitensor.schedule import Schedule
from minitensor.search.records import checked_seconds
from minitensor.search.runner import Result, Status


class RunnerProtocol(Protocol):
    """A source of measurements; `mt.search.Runner` is one, and so is a table of recorded costs."""

    def measure(
        self, schedules: Sequence[Schedule], best: float | None = None, /
    ) -> Iterable[Result]:
        """The result of each schedule, in order. Each is recorded before the next is asked for.

        best  seconds of the fastest so far, None at first: one that is clearly slower may be
              stopped early
        """
        ...


def checked_results(results: object, schedules: int) -> Iterator[Result]:
    """The results of so many schedules, each as it comes. Raises ArgumentError."""
    if not isinstance(results, Iterable):
        raise _wrong("results (mt.search.Result)", results)
    count, wanted = 0, f"a result for each of {schedules} schedules"
    for count, result in enumerate(results, 1):
        if count > schedules:
            raise ArgumentError(f"expected {wanted} from runner.measure(), but got more")
        yield checked_result(result)
    if count != schedules:
        raise ArgumentError(f"expected {wanted} from runner.measure(), but got {count}")


def checked_result(result: object) -> Result:
    """A result of a runner, with its times as floats. Raises ArgumentError for what is none."""
    if not isinstance(result, Result):
        raise _wrong("results (mt.search.Result)", result)
    if not isinstance(result.status, Status):
        raise _wrong("a status (mt.search.Status)", result.status)
    if not isinstance(result.message, str):
        raise _wrong("a message (text)", result.message)
    try:
        times = checked_seconds(result.times)
    except ArgumentError:
        raise _wrong("times (a tuple of finite numbers above 0)", result.times) from None
    if result.ok != bool(times):
        raise _wrong("times with Status.OK, and none with a failure", result)
    return replace(result, times=times)


def _wrong(expected: str, got: object) -> ArgumentError:
    kind = kind_of(got)
    return ArgumentError(
        f"expected {expected} from runner.measure(), but got {shown(got)} ({kind})"
    )
