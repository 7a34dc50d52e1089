"""The demonstration from beginning to end."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import minitensor as mt
from minitensor import ladders
from minitensor.cli.bench.rivals import numpy_rival
from minitensor.cli.console import Console, indented
from minitensor.cli.demo import convolution, dense
from minitensor.cli.demo.race import Race
from minitensor.cli.demo.story import Stage, Story
from minitensor.cli.demo.template import template
from minitensor.codegen import Target
from minitensor.runtime import cpu_name, find_toolchain, native_target, usable_cores
from minitensor.search import SearchResult, Trial, random_search

BAR: Final = 24
"""Columns of the longest bar in the summary."""
NOISY: Final = 1.5
"""How much numpy's own time may vary before the figures are called unreliable."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: the size of the matrices, candidates of the search, rounds of a timing."""

    size: int
    trials: int
    rounds: int


FULL: Final = Effort(size=1024, trials=24, rounds=5)
QUICK: Final = Effort(size=512, trials=6, rounds=2)

_EPILOG: Final = """\
examples:
  minitensor demo                            about a minute
  minitensor demo --quick                    a smaller matrix and a shorter search
  OMP_NUM_THREADS=1 minitensor demo          one thread, for numpy too

Two workloads are defined, scheduled by hand step by step, built, checked against numpy and timed in
turns with it. Then a random search over a template does the same for the first. "1.20 x numpy"
means 1.2 times as fast as numpy in the same run. A time is that of the fastest call; a kernel that
takes more than a quarter of a second is called once.
"""


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The arguments of the command."""
    text = "show the whole path: define, schedule step by step, search, build, run"
    parser = commands.add_parser("demo", help=text, description=text, epilog=_EPILOG)
    parser.add_argument("--quick", action="store_true", help="a smaller matrix, a shorter search")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the kernels")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, no story")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Tell both stories and the search, then sum up."""
    target = native_target(Target("c", num_cores=arguments.threads))
    effort = QUICK if arguments.quick else FULL
    teller = replace(console, stream=io.StringIO()) if arguments.json else console
    _introduce(target, teller)
    first, found = _dense(effort, target, teller)
    second = _convolution(effort, target, teller)
    if arguments.json:
        console.print(json.dumps(_report(target, first, second, found), indent=1))
    else:
        _sum_up(first, second, console)
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
            f"OMP_NUM_THREADS={target.num_cores} minitensor demo, which both obey."
        )


def _threads(target: Target) -> str:
    return "1 thread" if target.num_cores == 1 else f"{target.num_cores} threads"


def _dense(effort: Effort, target: Target, console: Console) -> tuple[Story, SearchResult]:
    """The dense layer: by hand, then by search."""
    size = effort.size
    program = dense.define(size, size, size)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    bias = rng.standard_normal(size, dtype=np.float32)
    race = Race((a, b, bias), numpy_rival.dense(a, b, bias), effort.rounds)
    story = Story(program, race, target, console)
    console.heading(f"1  A dense layer: relu(A B + bias), {size} x {size} x {size}, float32")
    _show_source(dense.define, f"program = define({size}, {size}, {size})", console)
    s = mt.Schedule(program)
    story.tell(s, ladders.matmul.packed(s, ladders.matmul.Tiles.of(target, size)))
    return story, _search(story, effort.trials)


def _search(story: Story, trials: int) -> SearchResult:
    """The random search, each trial on a line."""
    console = story.console
    console.heading("2  The same layer, the schedule found by a search")
    console.paragraph(
        "A template is a schedule with decisions in it. The search draws them at random, builds, "
        "checks and times each candidate, and keeps the fastest. It learns nothing on the way."
    )
    _show_source(template, f"result = random_search(program, template, trials={trials})", console)
    console.print(console.styled("  trial  rows  columns  block", "dim"))
    best = float("inf")

    def report(trial: Trial) -> None:
        nonlocal best
        is_best = trial.seconds is not None and trial.seconds < best
        best = min(best, trial.seconds or best)
        console.print(_trial_line(trial, story.flop, is_best, console))

    found = random_search(
        story.program,
        template,
        trials=trials,
        target=story.target,
        inputs=story.race.inputs,
        callback=report,
    )
    if found.interrupted:  # whoever presses Ctrl-C here does not want the rest either
        raise KeyboardInterrupt
    console.print()
    console.paragraph(f"{found}. The best, as Python:")
    console.print()
    console.print(indented(console.code(found.trace.as_python())))
    story.time("found by the search", found.schedule, found.trace.as_python().splitlines())
    return found


def _trial_line(trial: Trial, flop: int, is_best: bool, console: Console) -> str:
    rows, columns, block = trial.choices
    choices = f"{rows!s:>4}  {columns!s:>7}  {block!s:>5}"
    if trial.failure is not None:
        reason = f"{trial.failure.value}: {trial.reason}"
        return console.styled(f"  {trial.number:5d}  {choices}  {reason}", "dim")
    assert trial.seconds is not None
    figures = f"{trial.seconds * 1e3:7.3g} ms  {flop / trial.seconds / 1e9:5.3g} GFLOP/s"
    line = f"  {trial.number:5d}  {choices}  {figures}"
    return console.styled(f"{line}  best so far", "green") if is_best else line


def _convolution(effort: Effort, target: Target, console: Console) -> Story:
    """The convolution, by hand."""
    c, f, h = 64, 64, 56
    rng = np.random.default_rng(1)
    data = rng.standard_normal((1, c, h, h), dtype=np.float32)
    weight = rng.standard_normal((f, c, 3, 3), dtype=np.float32)
    bias = rng.standard_normal(f, dtype=np.float32)
    rival = numpy_rival.convolution(data, weight, bias, pad=1)
    race = Race((data, weight, bias), rival, effort.rounds)
    program = convolution.define(c, f, h, h)
    story = Story(program, race, target, console)
    console.heading(f"3  A convolution: 3 x 3, bias, relu, {c} to {f} channels, {h} x {h}, float32")
    console.paragraph(
        "numpy has no convolution: its rival here copies all windows into a matrix (im2col, by "
        "stride tricks) and multiplies that with the weights."
    )
    _show_source(convolution.define, f"program = define({c}, {f}, {h}, {h})", console)
    s = mt.Schedule(program)
    tiles = ladders.convolution.Tiles.of(target, h, h)
    story.tell(s, ladders.convolution.by_channels(s, tiles))
    return story


def _show_source(function: Callable[..., Any], call: str, console: Console) -> None:
    """The text of a function of this demonstration, and a call of it."""
    console.print()
    console.print(indented(console.code(f"{inspect.getsource(function)}\n{call}")))
    console.print()


def _sum_up(first: Story, second: Story, console: Console) -> None:
    """A table of all stages, and a word if the machine was not quiet."""
    console.heading("Summary")
    for title, story in (("Dense layer", first), ("Convolution", second)):
        best = max(stage.gflops for stage in story.stages)
        rows = [(stage.title, *stage.figures()) for stage in story.stages]
        console.print(console.styled(title, "bold"))
        for stage, line in zip(story.stages, console.table(rows, right=(1, 2, 3))):
            bar = console.styled("#" * round(BAR * stage.gflops / best), "green")
            console.print(f"  {line}  {bar}".rstrip())
        rivals = [stage.timed.rival for stage in story.stages]
        fastest, slowest = (f"{seconds * 1e3:.3g}" for seconds in (min(rivals), max(rivals)))
        console.print(f"  numpy itself took {fastest} to {slowest} ms")
        if max(rivals) > NOISY * min(rivals):
            busy = "  That differs too much: something else runs here; do not rely on the figures."
            console.print(console.styled(busy, "yellow"))


def _report(target: Target, first: Story, second: Story, found: SearchResult) -> dict[str, Any]:
    def described(story: Story, stages: list[Stage]) -> dict[str, Any]:
        return {
            "name": story.program.name,
            "flop": story.flop,
            "stages": [stage.described() for stage in stages],
        }

    return {
        "machine": {
            "cpu": cpu_name(),
            "cores": usable_cores(),
            "threads": target.num_cores,
            "vector_bits": target.vector_bits,
            "compiler": find_toolchain().version,
            "numpy": np.__version__,
        },
        "workloads": [described(first, first.stages), described(second, second.stages)],
        "search": {
            "trials": len(found.trials),
            "failures": found.failures,
            "best_ms": found.seconds * 1e3,
            "python": found.trace.as_python().splitlines(),
        },
    }
