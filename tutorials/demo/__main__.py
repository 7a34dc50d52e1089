"""The demonstration from beginning to end."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import minitensor as mt
from benchmarks.compare.baselines import numpy_baseline
from minitensor.cli.console import Console, indented
from minitensor.cli.main import perform
from minitensor.codegen import Target
from minitensor.runtime import Pace, cpu_name, find_toolchain, native_target, usable_cores
from tutorials import schedules
from tutorials.demo import dense
from tutorials.demo.race import Race
from tutorials.demo.story import Story
from tutorials.demo.tuned import Tuned, summary, tell

BAR: Final = 24
"""Columns of the longest bar in the summary."""
NOISY: Final = 1.5
"""How much numpy's own time may vary before the figures are called unreliable."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done.

    size    of the matrices of the story
    rounds  of a timing
    keys    the hand schedules whose workloads are tuned
    trials  candidates of each search
    """

    size: int
    rounds: int
    keys: tuple[str, ...]
    trials: int


FULL: Final = Effort(1024, 5, ("dense-1024", "conv-64-56", "softmax"), trials=32)
QUICK: Final = Effort(512, 2, ("dense-1024",), trials=16)

_EPILOG: Final = """\
examples:
  python -m tutorials.demo                          about a minute
  python -m tutorials.demo --quick                  a smaller matrix, one search and a short one
  OMP_NUM_THREADS=1 python -m tutorials.demo        one thread, for numpy too

A workload is defined, scheduled by hand step by step, built, checked against numpy and timed in
turns with it. Then a search finds the schedules of three workloads (mt.tune), which take turns
with those by hand, numpy, and torch if it is installed. "1.20 x numpy" means 1.2 times as fast as
numpy in the same run. A time is that of the fastest call.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(
        prog="tutorials.demo",
        description="show the whole path: define, schedule step by step, build, run; then search",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument("--quick", action="store_true", help="a smaller matrix, a shorter search")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the kernels")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, no story")
    return perform(parser, argv)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Tell the story and the searches, then sum up."""
    target = native_target(Target("c", num_cores=arguments.threads))
    effort = QUICK if arguments.quick else FULL
    teller = replace(console, stream=io.StringIO()) if arguments.json else console
    _introduce(target, teller)
    story = _dense(effort, target, teller)
    found = _tuned(effort, target, teller, show=not arguments.json)
    if arguments.json:
        console.print(json.dumps(_report(target, story, found), indent=1))
    else:
        _sum_up(story, found, console)
    return 0


def _introduce(target: Target, console: Console) -> None:
    compiler = find_toolchain().version
    console.print(console.styled("From a definition to a fast kernel", "bold"))
    console.print(
        f"{cpu_name()}, {usable_cores()} cores; kernels use {_threads(target)} and vectors of "
        f"{target.vector_bits} bits"
    )
    console.print(f"{compiler}; numpy {np.__version__}")
    console.paragraph(
        "Each kernel's result is compared with numpy's, and it is timed in turns with numpy; "
        '"2 x numpy" is twice as fast.'
    )
    if target.num_cores != usable_cores() and "OMP_NUM_THREADS" not in os.environ:
        console.paragraph(
            "numpy uses as many threads as it likes; for a fair comparison start with "
            f"OMP_NUM_THREADS={target.num_cores} make demo, which both obey."
        )


def _threads(target: Target) -> str:
    return "1 thread" if target.num_cores == 1 else f"{target.num_cores} threads"


def _dense(effort: Effort, target: Target, console: Console) -> Story:
    """The dense layer, by hand."""
    size = effort.size
    program = dense.define(size, size, size)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    bias = rng.standard_normal(size, dtype=np.float32)
    race = Race((a, b, bias), numpy_baseline.dense(a, b, bias), effort.rounds)
    story = Story(program, race, target, console)
    console.heading(f"1  A dense layer: relu(A B + bias), {size} x {size} x {size}, float32")
    _show_source(dense.define, f"program = define({size}, {size}, {size})", console)
    s = mt.Schedule(program)
    story.tell(s, schedules.matmul.packed(s, schedules.matmul.Tiles.of(target, size)))
    return story


def _tuned(effort: Effort, target: Target, console: Console, show: bool) -> list[Tuned]:
    """The searches, one after the other."""
    console.heading("2  Schedules that a search finds")
    console.paragraph(
        "mt.tune gets a definition and nothing else. Rules derive schedules whose numbers are "
        "open; candidates evolve towards what a model learns from those that were built, checked "
        f"and timed: {effort.trials} of each workload. (256 and more is usual; with a log a search "
        "goes on where it was.)"
    )
    console.print()
    call = f"result = mt.tune(program, trials={effort.trials})"
    console.print(indented(console.code(f"{call}\nkernel = result.kernel()")))
    pace = Pace(rounds=effort.rounds)
    return [tell(key, effort.trials, pace, target, console, show) for key in effort.keys]


def _show_source(function: Callable[..., Any], call: str, console: Console) -> None:
    """The text of a function of this demonstration, and a call of it."""
    console.print()
    console.print(indented(console.code(f"{inspect.getsource(function)}\n{call}")))
    console.print()


def _sum_up(story: Story, found: Sequence[Tuned], console: Console) -> None:
    """A table of all stages, one of the searches, and a word if the machine was not quiet."""
    console.heading("Summary")
    best = max(stage.gflops for stage in story.stages)
    rows = [(stage.title, *stage.figures()) for stage in story.stages]
    console.print(console.styled("Dense layer, by hand", "bold"))
    for stage, line in zip(story.stages, console.table(rows, right=(1, 2, 3))):
        bar = console.styled("#" * round(BAR * stage.gflops / best), "green")
        console.print(f"  {line}  {bar}".rstrip())
    baselines = [stage.timed.baseline for stage in story.stages]
    fastest, slowest = (f"{seconds * 1e3:.3g}" for seconds in (min(baselines), max(baselines)))
    console.print(f"  numpy itself took {fastest} to {slowest} ms")
    if max(baselines) > NOISY * min(baselines):
        busy = "  That differs too much: something else runs here; do not rely on the figures."
        console.print(console.styled(busy, "yellow"))
    console.print()
    heading, *lines = console.table(summary(found), right=range(1, 9))
    console.print(console.styled(heading, "bold"))
    for line in lines:
        console.print(line)
    console.print()
    console.paragraph(
        "2.00 is twice as fast. minitensor tune SUBJECT does the same for any operator or program, "
        "with progress, a log to go on from, an explanation and plots."
    )


def _report(target: Target, story: Story, found: Sequence[Tuned]) -> dict[str, Any]:
    return {
        "machine": {
            "cpu": cpu_name(),
            "cores": usable_cores(),
            "threads": target.num_cores,
            "vector_bits": target.vector_bits,
            "compiler": find_toolchain().version,
            "numpy": np.__version__,
        },
        "story": {
            "name": story.program.name,
            "flop": story.flop,
            "stages": [stage.described() for stage in story.stages],
        },
        "tuned": [tuned.described() for tuned in found],
    }


if __name__ == "__main__":
    sys.exit(main())
