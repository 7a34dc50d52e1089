"""What a search found."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from minitensor.api import build
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.ir import Program
from minitensor.runtime import Kernel
from minitensor.schedule import Schedule, Trace
from minitensor.search.gbt import Model
from minitensor.search.records import OK
from minitensor.search.space import Choices, Space
from minitensor.search.tune.explain import explanation
from minitensor.search.tune.plots import draw
from minitensor.search.tune.roofline import Roofline
from minitensor.search.tune.tuner import Tried
from minitensor.search.workload import multiply_adds


@dataclass(frozen=True)
class TuneResult:
    """The best schedule of a search, and everything that was tried.

    program      the definition
    schedule     the fastest candidate
    seconds      its time per call: the median of its repeats
    tried        every candidate in order, those of earlier searches in the log first
    target       what was built for, with nothing left open
    space        what was searched
    model        what was learnt; None if nothing was
    elapsed      seconds that the search took
    measuring    of these, building and running candidates
    interrupted  whether Ctrl-C ended it early
    """

    program: Program
    schedule: Schedule
    seconds: float
    tried: tuple[Tried, ...]
    target: Target
    space: Space
    model: Model | None
    elapsed: float
    measuring: float
    interrupted: bool = False

    @property
    def trace(self) -> Trace:
        """The steps of the best schedule."""
        return self.schedule.trace

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second of the best; None if the definition counts none."""
        flop = multiply_adds(self.program)
        return flop / self.seconds / 1e9 if flop else None

    @property
    def failures(self) -> Counter[str]:
        """How many candidates failed, by kind."""
        return Counter(t.status for t in self.tried if t.status != OK)

    def kernel(self) -> Kernel:
        """The best schedule as a kernel. Raises CompileError as `mt.build`."""
        return build(self.schedule, self.target)

    def explain(self) -> str:
        """In words: how fast it is and could be, the sketch and its decisions, what the model
        thinks matters, what was tried, where the time went.

        Measures the machine if nobody has done so before: a second or two.
        """
        return explanation(self, self.roofline())

    def roofline(self) -> Roofline:
        """What this machine could do at most. It is measured if nobody has done so before."""
        found = Roofline.of(self.program, self.target)
        return found if self.interrupted else found.believed(self.seconds)

    def plot(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Draw the learning curve, predicted against measured, what the model asks for, and the
        roofline into PNG files of a folder (extra `[ui]`), and return their paths.

        What cannot be drawn, as there is no model, is left out.
        Raises MinitensorError without matplotlib, ArgumentError if the files cannot be written.
        """
        return draw(self, folder)

    def best(self, count: int = 1) -> list[Tried]:
        """The fastest candidates, fastest first."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise unexpected("an integer >= 1", "count", count)
        found = [t for t in self.tried if t.status == OK]
        return sorted(found, key=lambda t: t.seconds)[:count]

    def curve(self) -> list[float]:
        """After each trial, the seconds of the fastest until then; infinity while there is none."""
        found, best = [], float("inf")
        for tried in self.tried:
            best = min(best, tried.seconds)
            found.append(best)
        return found

    @property
    def choices(self) -> Choices | None:
        """What the best candidate chose; None for a record that the space does not hold."""
        return self.best()[0].choices
