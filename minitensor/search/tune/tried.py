"""Candidates that a search has tried: their order, the curve of the best, the model's foresight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from minitensor.schedule import Trace
from minitensor.search.records import OK, STEADY
from minitensor.search.space import Candidate
from minitensor.search.tune.learner import spearman


@dataclass(frozen=True, slots=True)
class Tried:
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
