"""A schedule step by step: each step as Python, the difference that it makes, and its speed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import minitensor as mt
from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work
from minitensor.cli.console import Console, indented
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.runtime import SLOW_SECONDS, Pace, interleave
from tutorials.demo.folding import fold


@dataclass(frozen=True, slots=True)
class Stage:
    """A schedule after some of its steps.

    python   the calls that were new in it
    seconds  of a call
    numpy    seconds of numpy in the same rounds
    """

    title: str
    python: tuple[str, ...]
    seconds: float
    numpy: float
    gflops: float

    @property
    def ratio(self) -> float:
        """The factor by which it is faster than numpy."""
        return self.numpy / self.seconds

    def figures(self) -> tuple[str, str, str]:
        """Milliseconds, GFLOP/s and the ratio to numpy, as texts."""
        digits = 1 if self.ratio >= 10 else 2 if self.ratio >= 0.1 else 3
        return (
            f"{self.seconds * 1e3:.3g} ms",
            f"{self.gflops:.3g} GFLOP/s",
            f"{self.ratio:.{digits}f} x numpy",
        )

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "title": self.title,
            "python": list(self.python),
            "ms": self.seconds * 1e3,
            "gflops": self.gflops,
            "numpy_ms": self.numpy * 1e3,
            "times_numpy": self.ratio,
        }


class Story:
    """A schedule made stage by stage: shown, built, checked and timed in turns with numpy."""

    def __init__(
        self, work: Work, numpy: Implementation, pace: Pace, target: Target, console: Console
    ) -> None:
        self.work, self.numpy, self.pace = work, numpy, pace
        self.target, self.console = target, console
        self.stages: list[Stage] = []

    def show(self, s: mt.Schedule, steps: Iterator[tuple[str, str]]) -> None:
        """The loop nest of the definition, then each group of steps on `s`."""
        console = self.console
        console.print(indented(console.code(self.loops(s))))
        self.time("as written", s)
        before, shown = self.loops(s), 0
        for number, (title, why) in enumerate(steps, start=1):
            lines = s.trace.as_python().splitlines()
            new, shown = lines[shown:], len(lines)
            console.print()
            console.print(console.styled(f"Step {number}: {title}", "bold", "cyan"))
            console.paragraph(why)
            console.print()
            console.print(indented(console.code("\n".join(new))))
            console.print()
            console.print(console.difference(before, self.loops(s)))
            before = self.loops(s)
            self.time(title, s, new)

    def loops(self, s: mt.Schedule) -> str:
        """The loop nest, folded at the width of the console less an indentation."""
        return fold(str(s.program), self.console.width - 4)

    def time(self, title: str, s: mt.Schedule, python: list[str] | None = None) -> None:
        """Keep and print the stage that a schedule has reached. Raises CommandError if it is wrong.

        A kernel whose first call is slow is not called again.
        """
        output = self.work.output()
        kernel = mt.build(s, self.target)
        start = time.perf_counter()
        call = kernel.prepare(*self.work.inputs, output)
        first = time.perf_counter() - start
        wrong = self.work.difference(output)
        if wrong:
            raise CommandError(f"the kernel is wrong: {wrong}; please report this")
        own = Implementation(title, call, lambda _: output)
        turns = interleave([own, self.numpy] if first < SLOW_SECONDS else [self.numpy], self.pace)
        seconds = turns[title].seconds if title in turns else first
        gflops = self.work.flop / seconds / 1e9
        stage = Stage(title, tuple(python or ()), seconds, turns[self.numpy.name].seconds, gflops)
        self.stages.append(stage)
        self.console.print()
        ms, rate, ratio = stage.figures()
        self.console.print(
            self.console.styled(f"=> {ms:>10}  {rate:>14}  {ratio:>14}", "bold", "yellow")
        )
