"""Settings go into a measurement, a Result for each candidate comes out; and the protocol of
runners, which may be a user's own: their results are checked, one for each schedule.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Final, Protocol

from minitensor.errors import ArgumentError, kind_of, shown, unexpected, whole
from minitensor.schedule import Schedule
from minitensor.search.ledger import NO_SECONDS, Ledger
from minitensor.search.records import Host, checked_seconds, is_positive

MOST_REPEATS: Final = 1_000
"""Times that a record may hold."""
_NORMAL: Final = 1.4826
"""The standard deviation of normal numbers is this many times their median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and precision. Times are in seconds.

    time_limit     for one candidate: to run and be checked, and again to be timed
    compile_limit  for one run of the compiler
    longest        characters of a text: one with more is cut, a candidate with more is not built
    memory         bytes that a candidate may take beyond its arrays and temporaries
    batch          how many candidates are compiled together
    repeat         least time of a repeat, which makes as many calls as that takes
    repeats        least number of repeats
    most_repeats   greatest number of repeats
    noise          no further repeats once the standard error of the median is this fraction of it
    budget         no further repeats after this time, but for `repeats`
    patience       the same while repeats are spoilt: the process is switched out, others run
    slower         a candidate whose first calls take this many times the best is not repeated
    hopeless       one whose very first call takes this many times the best, and 0.1 s, is stopped
    flush          empty the caches before each call
    """

    time_limit: float = 10.0
    compile_limit: float = 20.0
    longest: int = 1_000_000
    memory: int = 1 << 30
    batch: int = 8
    repeat: float = 0.005
    repeats: int = 3
    most_repeats: int = 20
    noise: float = 0.02
    budget: float = 0.2
    patience: float = 0.5
    slower: float = 2.0
    hopeless: float = 10.0
    flush: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                whole(field.name, value, 1)
            elif field.type == "float" and not is_positive(value):
                raise unexpected("a positive number", field.name, value)
        if not isinstance(self.flush, bool):
            raise unexpected("True or False", "flush", self.flush)
        for name in ("slower", "hopeless"):
            if getattr(self, name) < 1:
                raise unexpected("at least 1", name, getattr(self, name))
        if not self.repeats <= self.most_repeats <= MOST_REPEATS:
            expected = f"at least repeats={self.repeats} and at most {MOST_REPEATS}"
            raise unexpected(expected, "most_repeats", self.most_repeats)


class Status(str, Enum):
    """The outcomes of a candidate."""

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
    """It called exit, or closed the channel for its reply."""
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
    INVALID = "invalid timing"
    """Its process wrote something else than a timing."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one candidate.

    status     how it ended
    times      seconds per call, one for each repeat; none for a failure
    calls      calls in a repeat
    message    what went wrong, in one line; "" for a success
    early      whether it was stopped after its first runs, being clearly slower than the best
    spoilt     the number of further repeats, which do not count, for other programs ran meanwhile
    disturbed  whether there were no others: the fastest of them is the time, which may be too long
    command    the command that compiled it, from a file kernel.c; () if none ran
    details    for a compile error what the compiler printed
    spent      seconds that it took to build and to run, its part of those that were built together
    host       the machine that measured it; None for this one
    ledger     the phases of `spent`; all 0 if they are not known
    """

    status: Status
    times: tuple[float, ...] = ()
    calls: int = 0
    message: str = ""
    early: bool = False
    spoilt: int = 0
    disturbed: bool = False
    command: tuple[str, ...] = ()
    details: str = ""
    spent: float = 0.0
    host: Host | None = None
    ledger: Ledger = NO_SECONDS

    @property
    def ok(self) -> bool:
        """True if it was timed."""
        return self.status is Status.OK

    @property
    def busy(self) -> bool:
        """True if as many repeats were spoilt as count, or more: the machine was busy."""
        return 0 < len(self.times) <= self.spoilt

    @property
    def median(self) -> float:
        """Seconds per call; infinity for a failure."""
        return statistics.median(self.times) if self.times else float("inf")

    @property
    def noise(self) -> float:
        """The deviation of a repeat, as a fraction of the median (see `noise_of`)."""
        return noise_of(self.times)


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one kind: their number, and the message of the first."""

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


# ---- runners of a user's own


class RunnerProtocol(Protocol):
    """A source of measurements; `mt.search.Runner` is one, and so is a table of recorded costs.

    Where it has a method `prepare`, that is called before candidates are chosen. With an attribute
    `exact` that is True, a result is the same each time, and nothing is measured twice.
    """

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
