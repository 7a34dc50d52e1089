"""A schedule step by step: each step as Python, the difference that it makes, and its speed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import minitensor as mt
from benchmarks.compare.implementation import Implementation
from minitensor.cli.console import Console, indented
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.looks import readable_seconds
from minitensor.runtime import SLOW_SECONDS, Pace

from .folding import fold
from .yardstick import Yardstick


@dataclass(frozen=True, slots=True)
class Stage:
    """A schedule after some of its steps.

    python   the calls that were new in it
    seconds  of a call
    """

    title: str
    python: tuple[str, ...]
    seconds: float
    gflops: float

    def figures(self, numpy: float) -> tuple[str, str, str]:
        """The time, GFLOP/s and the ratio to numpy's seconds, as texts."""
        return readable_seconds(self.seconds), f"{self.gflops:.3g} GFLOP/s", times(numpy, self)

    def described(self, numpy: float) -> dict[str, Any]:
        """As JSON."""
        return {
            "title": self.title,
            "python": list(self.python),
            "ms": self.seconds * 1e3,
            "gflops": self.gflops,
            "times_numpy": numpy / self.seconds,
        }


def times(numpy: float, stage: Stage) -> str:
    """The factor by which a stage is faster than numpy, as text."""
    ratio = numpy / stage.seconds
    digits = 1 if ratio >= 10 else 2 if ratio >= 0.1 else 3
    return f"{ratio:.{digits}f} x numpy"


class Story:
    """A schedule made stage by stage: shown, built, checked and timed in turns with numpy."""

    def __init__(self, yardstick: Yardstick, pace: Pace, target: Target, console: Console) -> None:
        self.work, self.yardstick, self.pace = yardstick.work, yardstick, pace
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
        seconds = first
        if first < SLOW_SECONDS:
            own = Implementation(title, call, lambda _: output)
            (seconds,) = self.yardstick.beside([own], self.pace)
        stage = Stage(title, tuple(python or ()), seconds, self.work.flop / seconds / 1e9)
        self.stages.append(stage)
        self.console.print()
        taken, rate, ratio = stage.figures(self.yardstick.seconds)
        self.console.print(
            self.console.styled(f"=> {taken:>10}  {rate:>14}  {ratio:>14}", "bold", "yellow")
        )
