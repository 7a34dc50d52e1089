"""Candidates that a search has tried: their order, the curve of the best, the model's foresight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from minitensor.search.correlation import spearman
from minitensor.search.records import OK
from minitensor.search.strategy import Tried


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
