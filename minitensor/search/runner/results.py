"""What became of a candidate: a time, or how it failed; and of many, in a sentence."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

_NORMAL: Final = 1.4826
"""The standard deviation of normal numbers is this many times their median absolute deviation."""


class Status(str, Enum):
    """How a candidate ended."""

    OK = "ok"
    """It computes what it should, and was timed."""
    BUILD = "not built"
    """Code generation or the compiler failed."""
    CRASH = "crashed"
    """A signal ended it, such as SIGSEGV or SIGABRT."""
    TIMEOUT = "timed out"
    """It did not end within the time limit."""
    STOPPED = "stopped itself"
    """It raised SIGSTOP or its like."""
    EXIT = "ended the process"
    """It called exit, or closed what it was to answer on."""
    MEMORY = "out of memory"
    """It took more memory than the limit, or than there is."""
    CHECK = "failed while running"
    """One of its own checks failed (see `Emitted.checks`)."""
    BOUNDS = "out of bounds"
    """It touched memory before or after one of its arrays."""
    INCOMPLETE = "incomplete"
    """An element of an output was not written, or computed from what was not written."""
    WRONG = "wrong result"
    """It computed something else, or changed an input or how the processor rounds."""
    PROCESSES = "left processes"
    """It started processes that were still there when it had returned."""
    LIED = "made up"
    """What came back cannot be a measurement: nothing is so fast, or somebody else wrote it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one candidate.

    status   how it ended
    times    seconds per call, one for each repeat; none for a failure
    calls    how many calls a repeat has
    message  what went wrong, in one line; "" for a success
    early    whether it was stopped after its first runs, being clearly slower than the best
    command  the command that compiled it, from a file kernel.c; () if none ran
    details  for a compile error what the compiler printed
    """

    status: Status
    times: tuple[float, ...] = ()
    calls: int = 0
    message: str = ""
    early: bool = False
    command: tuple[str, ...] = ()
    details: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was timed."""
        return self.status is Status.OK

    @property
    def median(self) -> float:
        """Seconds per call; infinity for a failure."""
        return statistics.median(self.times) if self.times else float("inf")

    @property
    def noise(self) -> float:
        """How far a repeat is off, as a fraction of the median (see `noise_of`)."""
        return noise_of(self.times)


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one kind: how many, and what the first said."""

    status: Status
    count: int
    first: str


def noise_of(times: Iterable[float]) -> float:
    """A robust standard deviation of times as a fraction of their median; 0 if there is one only.

    From the median of the distances to the median, so that one interrupted repeat does not count.
    """
    numbers = list(times)
    if len(numbers) < 2:
        return 0.0
    middle = statistics.median(numbers)
    return _NORMAL * statistics.median(abs(t - middle) for t in numbers) / middle


def failures_of(results: Iterable[Result]) -> list[Failures]:
    """The failures by kind, each with its first message, the most frequent first."""
    found: dict[Status, Failures] = {}
    for result in results:
        if not result.ok:
            kind = result.status
            before = found.get(kind, Failures(kind, 0, result.message))
            found[kind] = Failures(kind, before.count + 1, before.first)
    return sorted(found.values(), key=lambda f: -f.count)
