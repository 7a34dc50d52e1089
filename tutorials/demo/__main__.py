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
from minitensor.looks import readable_seconds
from minitensor.runtime import Pace, cpu_name, find_toolchain, native_target, usable_cores

from .. import schedules
from ..schedules.registry import product
from . import dense, network
from .network import Network
from .story import Story
from .tuned import RECORDED, Tuned, compared, search
from .yardstick import Yardstick

BAR: Final = 24
"""Columns of the longest bar in the summary."""
NOISY: Final = 1.2
"""The factor between numpy's fastest and slowest turn from which on figures are unreliable."""
TURNS: Final = 8
"""Of numpy alone, before anything else, that show whether the machine is quiet."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work.

    size     of the matrices of the story
    rounds   of a timing
    keys     the hand schedules whose workloads have recorded schedules
    live     the one of them that is searched
    trials   candidates of that search
    network  seconds of the search for a network
    """

    size: int
    rounds: int
    keys: tuple[str, ...]
    live: str
    trials: int
    network: float = 40.0


FULL: Final = Effort(1024, 3, ("dense-1024", "conv-64-56", "softmax"), "dense-1024", trials=16)
QUICK: Final = Effort(512, 2, ("dense-1024",), "dense-1024", trials=8, network=15.0)

_EPILOG: Final = """\
examples:
  python -m tutorials.demo                          about a minute
  python -m tutorials.demo --quick                  a smaller matrix, a shorter search
  OMP_NUM_THREADS=1 python -m tutorials.demo        one thread, for numpy too

A workload is defined, scheduled by hand step by step, built, checked against numpy and timed in
turns with it. Then schedules that long searches found, and one that a short search finds now
(mt.tune), take turns with those by hand, numpy, and torch if it is installed. At the end a small
network is read from an ONNX file, fused, tuned for some seconds, and timed in turns with
onnxruntime if that is installed. A time is that of the fastest call; "1.20 x numpy" means 1.2 times
as fast as numpy's fastest.
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
    yardstick = _yardstick(effort, target, shown)
    story = _dense(effort, yardstick, target, shown)
    found = _tuned(effort, target, shown, show=not arguments.json)
    whole = network.show(effort.network, target, Pace(rounds=effort.rounds), shown)
    if arguments.json:
        console.json(_report(target, story, found, whole))
    else:
        _sum_up(story, found, whole, console)
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
        '"2 x numpy" is twice as fast as numpy at its fastest.'
    )
    if target.num_cores != usable_cores() and "OMP_NUM_THREADS" not in os.environ:
        console.paragraph(
            "numpy uses as many threads as it likes; for a fair comparison start with "
            f"OMP_NUM_THREADS={target.num_cores} make demo, which both obey."
        )


def _yardstick(effort: Effort, target: Target, console: Console) -> Yardstick:
    """numpy on the dense layer; its first turns tell whether the machine is quiet."""
    work = Work.of_hand("dense", product(effort.size, effort.size, effort.size, bias_relu=True))
    (numpy,) = BASELINES["numpy"].enter("numpy", work, target.num_cores or 1, {})
    yardstick = Yardstick(work, numpy)
    yardstick.beside([], Pace(TURNS))
    console.print()
    show_quiet(yardstick, console)
    return yardstick


def show_quiet(yardstick: Yardstick, console: Console) -> None:
    """Say how much numpy's turns differ: figures below depend on what else runs."""
    if yardstick.spread() <= NOISY:
        turns, spread = len(yardstick.turns), 100 * (yardstick.spread() - 1)
        console.paragraph(f"The machine is quiet: {turns} turns of numpy differ by {spread:.0f} %.")
    else:
        console.paragraph(
            f"The machine is busy: numpy's slowest turn took {yardstick.spread():.2f} times as "
            "long as its fastest. Figures may be off by as much; close what else runs, and start "
            "again."
        )


def _dense(effort: Effort, yardstick: Yardstick, target: Target, console: Console) -> Story:
    """The dense layer, by hand."""
    size = effort.size
    story = Story(yardstick, Pace(rounds=effort.rounds), target, console)
    console.heading(f"1  A dense layer: relu(A B + bias), {size} x {size} x {size}, float32")
    _show_source(dense.define, f"program = define({size}, {size}, {size})", console)
    s = mt.Schedule(dense.define(size, size, size))
    story.show(s, schedules.matmul.packed(s, schedules.matmul.Tiles.of(target, size)))
    return story


def _tuned(effort: Effort, target: Target, console: Console, show: bool) -> list[Tuned]:
    """The recorded schedules, and the search."""
    console.heading("2  Schedules that a search finds")
    console.paragraph(
        "mt.tune gets a definition and nothing else. Rules derive schedules whose numbers are "
        "open; candidates evolve towards what a model learns from those that were built, checked "
        f"and timed. Here {effort.trials} of them are tried now; the recorded schedules are the "
        "best of 256, from a log that tutorials/demo/record.py wrote."
    )
    console.print()
    call = f"result = mt.tune(program, trials={effort.trials})"
    console.print(indented(console.code(f"{call}\nkernel = result.kernel()")))
    console.print()
    live = search(effort.live, effort.trials, target, console, show)
    pace = Pace(rounds=effort.rounds)
    return [
        compared(key, pace, target, console, live if key == effort.live else None)
        for key in effort.keys
    ]


def _show_source(function: Callable[..., Any], call: str, console: Console) -> None:
    """The text of a function of the demo, and a call of it."""
    console.print()
    console.print(indented(console.code(f"{inspect.getsource(function)}\n{call}")))
    console.print()


def _sum_up(story: Story, found: Sequence[Tuned], whole: Network | None, console: Console) -> None:
    """Tables of stages, searches and the network, a warning if it was noisy, and where to go on."""
    console.heading("Summary")
    yardstick = story.yardstick
    console.print(console.styled("Dense layer, by hand", "bold"))
    best = max(stage.gflops for stage in story.stages)
    rows = [(stage.title, *stage.figures(yardstick.seconds)) for stage in story.stages]
    for stage, line in zip(story.stages, aligned(rows, right=(1, 2, 3))):
        bar = console.styled("#" * round(BAR * stage.gflops / best), "green")
        console.print(f"  {line}  {bar}".rstrip())
    console.print(f"  numpy's fastest call of the whole run: {readable_seconds(yardstick.seconds)}")
    console.print()
    console.print(console.styled("By search, from a definition alone", "bold"))
    for line in aligned([_row(tuned) for tuned in found], right=range(1, 9)):
        console.print(f"  {line}".rstrip())
    if whole is not None:
        console.print()
        console.print(console.styled("The network", "bold"))
        for line in aligned(list(whole.rows()), right=(1, 2)):
            console.print(f"  {line}".rstrip())
    if yardstick.spread() > NOISY:
        console.print()
        show_quiet(yardstick, console)
    console.heading("Next")
    for line in aligned(NEXT):
        console.print(f"  {line}")


NEXT: Final = (
    ("tutorials/01_first_kernel.py", "the same from the beginning, line by line"),
    ("minitensor tune conv2d", "a longer search, with progress, a log and an explanation"),
    ("minitensor show --list", "operators to try; FILE.py:NAME is a program of your own"),
    ("minitensor network FILE.onnx run", "a network of yours; see docs/networks.md"),
    ("docs/architecture.md", "how it works: 3,000 lines to read, in order"),
)


def _row(tuned: Tuned) -> Sequence[str]:
    """The recorded schedule of a workload against all others."""
    seconds = dict(tuned.seconds)
    own = seconds.pop(RECORDED)
    ratios = [f"{other / own:.2f} x {name}" for name, other in seconds.items()]
    return (tuned.work.name, readable_seconds(own), ", ".join(ratios))


def _report(
    target: Target, story: Story, found: Sequence[Tuned], whole: Network | None
) -> dict[str, Any]:
    yardstick = story.yardstick
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
            "name": yardstick.work.name,
            "flop": yardstick.work.flop,
            "numpy_ms": yardstick.seconds * 1e3,
            "spread": yardstick.spread(),
            "stages": [stage.described(yardstick.seconds) for stage in story.stages],
        },
        "tuned": [tuned.described() for tuned in found],
        "network": None if whole is None else whole.described(),
    }


if __name__ == "__main__":
    sys.exit(main())
