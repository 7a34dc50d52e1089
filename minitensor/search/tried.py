"""Candidates that a search has tried: their order, the curve of the best, the model's foresight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from minitensor.looks import Shown, readable_seconds
from minitensor.schedule import Trace
from minitensor.search.records import OK, STEADY, Record, trace_key
from minitensor.search.space import Candidate


@dataclass(frozen=True, slots=True, repr=False)
class Tried(Shown):
    """One candidate that was tried.

    number     counted from 1
    trace      its steps
    candidate  None for a record that this space does not hold
    status     "ok", or how it failed
    seconds    per call, the median; infinity for a failure
    error      what went wrong, in one line
    known      whether it was recorded before, and not measured again
    guess      the model's score before it was measured; None if there was no model
    busy       whether others ran on the machine while it was measured (see `Result`)
    disturbed  whether the time may be too long for that reason: then nothing is learnt of it
    drift      how many times as long as at first a call took when it was measured
    round      of this search, counted from 1; 0 for a record, which was not measured in it
    parents    the keys of those that it was made from, two at most; () if it was drawn
    change     what differs from the first of them, or its source; "" if it was drawn
    spent      seconds that building and running it took; 0 if that is not known
    """

    number: int
    trace: Trace
    candidate: Candidate | None
    status: str
    seconds: float
    error: str = ""
    known: bool = False
    guess: float | None = None
    busy: bool = False
    disturbed: bool = False
    drift: float = STEADY
    round: int = 0
    parents: tuple[str, ...] = ()
    change: str = ""
    spent: float = 0.0

    def __str__(self) -> str:
        outcome = readable_seconds(self.seconds) if self.status == OK else self.error or self.status
        return f"number {self.number}: {outcome}" + f", {self.change}" * bool(self.change)

    @staticmethod
    def of(
        record: Record,
        number: int,
        trace: Trace,
        candidate: Candidate | None = None,
        known: bool = True,
    ) -> Tried:
        """A record as a candidate that was tried; its trace is given, as far as it is looked at."""
        outcome = record.status, record.median, record.error
        return Tried(
            number,
            trace,
            candidate,
            *outcome,
            known,
            disturbed=record.disturbed,
            drift=record.drift,
            parents=record.parents,
            change=record.change,
            spent=record.spent,
        )

    @property
    def key(self) -> str:
        """The key of its trace, by which `parents` name it."""
        return trace_key(self.trace)

    @property
    def steady(self) -> float:
        """Seconds per call, without the drift of the machine."""
        return self.seconds / self.drift


def fastest(tried: Iterable[Tried], written: Tried | None = None) -> list[Tried]:
    """Those that worked, and the program as it is written if that was measured, fastest first."""
    every = tried if written is None else (*tried, written)
    return sorted((t for t in every if t.status == OK), key=lambda t: t.seconds)


def foreseen(tried: Iterable[Tried]) -> float | None:
    """Spearman's rank correlation of the model's scores with the measured speeds."""
    known = [(t.guess, -t.seconds) for t in tried if t.guess is not None]
    return spearman([guess for guess, _ in known], [speed for _, speed in known])


def curve(tried: Sequence[Tried]) -> list[float]:
    """After each trial, the seconds of the fastest until then; infinity while there is none."""
    return list(accumulate((t.seconds for t in tried), min))


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's rank correlation of two lists of numbers (count,), from -1 to 1; infinities are
    the last. None if there are fewer than three, or one of the two is constant.
    """
    x, y = (_ranks(np.asarray(v, np.float64)) for v in (a, b))
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rank of each value; equal ones share the mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: npt.NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks
