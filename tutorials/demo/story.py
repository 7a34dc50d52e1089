"""A schedule told step by step: each step as Python, what it changes, and how fast it is then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import minitensor as mt
from minitensor.cli.console import Console, indented
from minitensor.codegen import Target
from minitensor.search import multiply_adds
from tutorials.demo.folding import fold
from tutorials.demo.race import Race, Timed


@dataclass(frozen=True, slots=True)
class Stage:
    """A schedule after some of its steps, timed.

    python  the calls that were new in it
    """

    title: str
    python: tuple[str, ...]
    timed: Timed
    gflops: float

    def figures(self) -> tuple[str, str, str]:
        """Milliseconds, GFLOP/s and the ratio to numpy, as texts."""
        return (
            f"{self.timed.seconds * 1e3:.3g} ms",
            f"{self.gflops:.3g} GFLOP/s",
            f"{_readable(self.timed.ratio)} x numpy",
        )

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "title": self.title,
            "python": list(self.python),
            "ms": self.timed.seconds * 1e3,
            "gflops": self.gflops,
            "numpy_ms": self.timed.baseline * 1e3,
            "times_numpy": self.timed.ratio,
        }


class Story:
    """Runs a schedule stage by stage on one workload, printing as it goes."""

    def __init__(self, program: mt.Program, race: Race, target: Target, console: Console) -> None:
        self.program = program
        self.race = race
        self.target = target
        self.console = console
        self.flop = multiply_adds(program)
        self.stages: list[Stage] = []

    def tell(self, s: mt.Schedule, script: Iterator[tuple[str, str]]) -> None:
        """Show the definition's loop nest, then each step that the script makes on `s`."""
        self.console.print(indented(self.console.code(self.shown(s))))
        self.time("as written", s)
        before, told = self.shown(s), 0
        for number, (title, why) in enumerate(script, start=1):
            lines = s.trace.as_python().splitlines()
            new, told = lines[told:], len(lines)
            self.console.print()
            self.console.print(self.console.styled(f"Step {number}: {title}", "bold", "cyan"))
            self.console.paragraph(why)
            self.console.print()
            self.console.print(indented(self.console.code("\n".join(new))))
            self.console.print()
            self.console.print(self.console.difference(before, self.shown(s)))
            before = self.shown(s)
            self.time(title, s, new)

    def shown(self, s: mt.Schedule) -> str:
        """The loop nest, folded at the width of the console less an indentation."""
        return fold(str(s.program), self.console.width - 4)

    def time(self, title: str, s: mt.Schedule, python: list[str] | None = None) -> Stage:
        """Build, check and time a schedule; the stage is kept and printed."""
        timed = self.race.run(mt.build(s, self.target))
        stage = Stage(title, tuple(python or ()), timed, self.flop / timed.seconds / 1e9)
        self.stages.append(stage)
        self.console.print()
        ms, gflops, ratio = stage.figures()
        line = f"=> {ms:>10}  {gflops:>14}  {ratio:>14}"
        self.console.print(self.console.styled(line, "bold", "yellow"))
        return stage


def _readable(ratio: float) -> str:
    """A ratio to about two digits that matter."""
    digits = 1 if ratio >= 10 else 2 if ratio >= 0.1 else 3
    return f"{ratio:.{digits}f}"
