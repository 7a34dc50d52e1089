"""What a search tried, and what it found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from minitensor.api import build
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.runtime import Kernel
from minitensor.schedule import Schedule, Trace


class FailureKind(str, Enum):
    """Why a candidate was not timed."""

    REFUSED = "refused"
    """A primitive refused a step: the decisions make no legal schedule."""
    TEMPLATE = "template error"
    """The template raised something else: usually a mistake in it."""
    BUILD = "not built"
    """Code generation or the compiler failed."""
    RUN = "failed while running"
    """The kernel stopped with an error."""
    WRONG = "wrong result"
    """The kernel computed something else than the unscheduled program."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate.

    number   its place in the search, counted from 1
    trace    the steps that were applied, decisions taken; up to the refused one if one was refused
    seconds  per call, in the fastest of several repeats; None for a failure
    failure  what kind of failure it was; None for a success
    reason   the first line of what went wrong; "" for a success
    """

    number: int
    trace: Trace
    seconds: float | None = None
    failure: FailureKind | None = None
    reason: str = ""

    @property
    def choices(self) -> tuple[object, ...]:
        """What the decisions chose, in the order of the template."""
        return tuple(step.result for step in self.trace.steps if step.is_decision)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best schedule of a search, and everything that was tried.

    schedule     the fastest candidate
    seconds      its time per call
    trials       every candidate, in order
    target       what they were built for, with nothing left open
    interrupted  whether Ctrl-C ended the search early
    """

    schedule: Schedule
    seconds: float
    trials: tuple[Trial, ...]
    target: Target
    interrupted: bool = False

    @property
    def trace(self) -> Trace:
        """The steps of the best schedule."""
        return self.schedule.trace

    @property
    def failures(self) -> dict[str, int]:
        """How many candidates failed, by kind; kinds that did not occur are left out."""
        return dict(Counter(t.failure.value for t in self.trials if t.failure is not None))

    def best(self, count: int = 1) -> list[Trial]:
        """The `count` fastest candidates, fastest first (fewer if fewer worked)."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise unexpected("an integer >= 1", "count", count)
        timed = [(t.seconds, t.number, t) for t in self.trials if t.seconds is not None]
        return [trial for _, _, trial in sorted(timed)[:count]]

    def kernel(self) -> Kernel:
        """The best schedule, built (the compile cache has it)."""
        return build(self.schedule, self.target)

    def __str__(self) -> str:
        failed = sum(self.failures.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.failures.items())
        end = " (interrupted)" if self.interrupted else ""
        return (
            f"{len(self.trials)} candidates{end}, {failed} failed"
            f"{f' ({kinds})' if kinds else ''}; best {self.seconds * 1e3:.4g} ms"
        )
