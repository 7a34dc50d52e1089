"""Where a search stands, in words: what every kind of display shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minitensor.errors import printable
from minitensor.search.tune.roofline import Roofline
from minitensor.search.tune.tuner import Progress

BAR: Final = 24
"""Columns of a full bar."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Texts; "" for what is not known yet.

    name    of the program
    doing   what happens before the first candidate is measured
    done    the part of the candidates that was tried
    tried   how many of how many, in which round
    failed  how many, by kind
    best    milliseconds, rate, and the part of the machine's peak
    model   how well it foresaw the last round
    time    elapsed and left
    """

    name: str
    doing: str = ""
    done: float = 0.0
    tried: str = ""
    failed: str = ""
    best: str = ""
    model: str = ""
    time: str = ""

    def line(self) -> str:
        """All of it in one line."""
        parts = [self.doing, self.tried, self.failed]
        if self.best:
            parts.append(f"best {self.best}")
        if self.model:
            parts.append(f"model {self.model}")
        parts.append(self.time)
        return f"{self.name}: {'; '.join(filter(None, parts))}"

    def rows(self) -> list[tuple[str, str]]:
        """A heading and its text, for what is known."""
        full = round(BAR * self.done)
        bar = "#" * full + "-" * (BAR - full) + "  " if self.tried else ""
        found = [
            ("tried", f"{bar}{self.tried or self.doing}"),
            ("failed", self.failed),
            ("best", self.best),
            ("model", self.model),
            ("time", self.time),
        ]
        return [(heading, text) for heading, text in found if text]


@dataclass
class Teller:
    """Turns the progress of one search into words.

    name      of the program
    roofline  its roof
    """

    name: str
    roofline: Roofline
    _known: int = 0
    _doubted: bool = False

    def standing(self, progress: Progress) -> Standing:
        """Where the search stands; to be asked once for each progress, in order."""
        self._known += sum(tried.known for tried in progress.latest)
        text = f"{progress.trials:,} of {progress.wanted:,}, "
        text += f"round {progress.round}" if progress.round else "all from the log"
        best = "none yet"
        if math.isfinite(progress.best):
            self._doubt(progress.best)
            best = self.roofline.figures(progress.best)
        correlation = progress.correlation
        return Standing(
            self.name,
            done=min(1.0, progress.trials / progress.wanted),
            tried=text,
            failed=failures_text(progress.failures),
            best=best,
            model="" if correlation is None else f"rank correlation {correlation:.2f}",
            time=self._time(progress),
        )

    def _doubt(self, seconds: float) -> None:
        """Have the machine measured anew, once in a search, if a candidate beats it."""
        if not self._doubted:
            before, self.roofline = self.roofline, self.roofline.believed(seconds)
            self._doubted = self.roofline is not before

    def _time(self, progress: Progress) -> str:
        """Elapsed and left; what was known before took no time."""
        measured = progress.trials - self._known
        left = max(0, progress.wanted - progress.trials)
        text = clock(progress.elapsed)
        if measured and left:
            text += f", {clock(progress.elapsed * left / measured)} left"
        return text


def failures_text(failures: Mapping[str, int]) -> str:
    """How many failed, by kind, the most frequent first; "" for none."""
    total = sum(failures.values())
    if not total:
        return ""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{count} {printable(kind)}" for kind, count in ordered if count)
    return f"{total} failed ({kinds})"


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours too: 0:07, 12:34, 1:02:03."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
