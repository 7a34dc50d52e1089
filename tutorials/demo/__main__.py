"""The demonstration from beginning to end."""

from __future__ import annotations

import argparse
import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import minitensor as mt
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.work import Work
from minitensor.cli.console import Console, aligned, counted, indented
from minitensor.cli.main import perform
from minitensor.codegen import Target
from minitensor.runtime import Pace, cpu_name, find_toolchain, native_target, usable_cores
from tutorials import schedules
from tutorials.demo import dense
from tutorials.demo.story import Story
from tutorials.demo.tuned import Tuned, search, summary
from tutorials.schedules.registry import product

BAR: Final = 24
"""Columns of the longest bar in the summary."""
NOISY: Final = 1.5
"""The factor that numpy's own time may vary by before the figures are called unreliable."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work.

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
    """The story, the searches, and a summary."""
    target = native_target(Target("c", num_cores=arguments.threads))
    effort = QUICK if arguments.quick else FULL
    shown = replace(console, stream=io.StringIO()) if arguments.json else console
    _introduce(target, shown)
    story = _dense(effort, target, shown)
    found = _tuned(effort, target, shown, show=not arguments.json)
    if arguments.json:
        console.json(_report(target, story, found))
    else:
        _sum_up(story, found, console)
    return 0


def _introduce(target: Target, console: Console) -> None:
    compiler = find_toolchain().version
    console.print(console.styled("From a definition to a fast kernel", "bold"))
    console.print(
        f"{cpu_name()}, {usable_cores()} cores; kernels use "
        f"{counted(target.num_cores or 1, 'thread')} and vectors of {target.vector_bits} bits"
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


def _dense(effort: Effort, target: Target, console: Console) -> Story:
    """The dense layer, by hand."""
    size, pace = effort.size, Pace(rounds=effort.rounds)
    work = Work.of_hand("dense", product(size, size, size, bias_relu=True))
    threads = target.num_cores or 1
    (numpy,) = BASELINES["numpy"].enter("numpy", work, threads, {})
    story = Story(work, numpy, pace, target, console)
    console.heading(f"1  A dense layer: relu(A B + bias), {size} x {size} x {size}, float32")
    _show_source(dense.define, f"program = define({size}, {size}, {size})", console)
    s = mt.Schedule(dense.define(size, size, size))
    story.show(s, schedules.matmul.packed(s, schedules.matmul.Tiles.of(target, size)))
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
    return [search(key, effort.trials, pace, target, console, show) for key in effort.keys]


def _show_source(function: Callable[..., Any], call: str, console: Console) -> None:
    """The text of a function of the demo, and a call of it."""
    console.print()
    console.print(indented(console.code(f"{inspect.getsource(function)}\n{call}")))
    console.print()


def _sum_up(story: Story, found: Sequence[Tuned], console: Console) -> None:
    """A table of all stages, one of the searches, and a warning if the machine was busy."""
    console.heading("Summary")
    best = max(stage.gflops for stage in story.stages)
    rows = [(stage.title, *stage.figures()) for stage in story.stages]
    console.print(console.styled("Dense layer, by hand", "bold"))
    for stage, line in zip(story.stages, aligned(rows, right=(1, 2, 3))):
        bar = console.styled("#" * round(BAR * stage.gflops / best), "green")
        console.print(f"  {line}  {bar}".rstrip())
    baselines = [stage.numpy for stage in story.stages]
    fastest, slowest = (f"{seconds * 1e3:.3g}" for seconds in (min(baselines), max(baselines)))
    console.print(f"  numpy itself took {fastest} to {slowest} ms")
    if max(baselines) > NOISY * min(baselines):
        busy = "  That differs too much: something else runs here; do not rely on the figures."
        console.print(console.styled(busy, "yellow"))
    console.print()
    heading, *lines = aligned(summary(found), right=range(1, 9))
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
            "name": story.work.name,
            "flop": story.work.flop,
            "stages": [stage.described() for stage in story.stages],
        },
        "tuned": [tuned.described() for tuned in found],
    }


if __name__ == "__main__":
    sys.exit(main())
