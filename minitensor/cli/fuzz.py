"""`minitensor fuzz`: programs and schedules drawn at random, for as long as one likes."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError, UsageError
from minitensor.errors import ArgumentError
from minitensor.runtime import find_toolchain, usable_cores
from minitensor.sanitize import Sanitizer

if TYPE_CHECKING:
    from minitensor.testing import Campaign, Found, State

TEXT: Final = "test random schedules of random programs"
EPILOG: Final = """\
examples:
  minitensor fuzz                                 a minute, on all cores
  minitensor fuzz --seconds 3600 --seed 7         an hour of other programs
  minitensor fuzz --sanitize races                looks for races, one iteration a thread
  minitensor fuzz --target cuda-emulator          schedules for a GPU

Programs and schedules of them are drawn at random. Every primitive must refuse with a rule it
declares or give a program that computes the same, in the interpreter, in C with one thread and with
two, and in numpy. Kernels run between guard pages. Those for a GPU run in the emulator, which looks
for races, in three orders of threads.

Each failure becomes a script, the first of each kind made small. The state is kept: the same
command goes on where it was stopped (give more --seconds).
"""
MOST_JOBS: Final = 256
MOST_SECONDS: Final = 7 * 24 * 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="N", help="how long to draw (60)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="which programs are drawn (0)"
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="processes (one for each core)")
    parser.add_argument(
        "--sanitize",
        choices=[s.value for s in Sanitizer],
        default=Sanitizer.GUARDS.value,
        help="what kernels run under (guards: guard pages around every buffer)",
    )
    parser.add_argument(
        "--target",
        choices=["c", "cuda-emulator"],
        default="c",
        help="what schedules are drawn for (c)",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="where state and scripts are kept (fuzz-SEED, with SANITIZE, TARGET)",
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run a campaign; 0 if nothing was found, 1 otherwise."""
    if not 0 < arguments.seconds <= MOST_SECONDS:
        raise UsageError(f"--seconds must be above 0 and at most {MOST_SECONDS:,.0f}")
    jobs = usable_cores() if arguments.jobs is None else arguments.jobs
    if not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"--jobs must be from 1 to {MOST_JOBS}, but is {jobs}")
    find_toolchain()  # fail here, not in each process
    kind = "" if arguments.sanitize == "guards" else f"-{arguments.sanitize}"
    kind += "" if arguments.target == "c" else f"-{arguments.target}"
    folder = Path(arguments.out or f"fuzz-{arguments.seed}{kind}")
    try:
        campaign = _campaign(folder, arguments, jobs)
    except OSError as failure:
        raise CommandError(f"cannot use the folder {folder}: {failure.strerror}") from failure
    except ArgumentError as failure:
        raise CommandError(str(failure)) from failure
    line = _Line(console, campaign.state.seconds + arguments.seconds, quiet=arguments.json)
    if campaign.resumed:
        line.say(f"going on after {campaign.resumed:,} pairs (from {folder})")
    try:
        state = campaign.run(arguments.seconds, line.show)
        line.end()
        campaign.reduce(lambda found: line.say(f"making pair {found.number} small: {_text(found)}"))
    except KeyboardInterrupt:
        line.end()
        line.say(f"stopped; the same command goes on from {folder}")
        raise
    except OSError as failure:
        if failure.filename is None:  # a stream's
            raise
        raise CommandError(f"cannot write to the folder {folder}: {failure.strerror}") from failure
    finally:
        campaign.close()
    if arguments.json:
        console.json({**asdict(state), "rate": state.rate})
    else:
        _report(state, folder, console)
    return 1 if state.found else 0


def _campaign(folder: Path, arguments: argparse.Namespace, jobs: int) -> Campaign:
    """The campaign. Raises CommandError where Hypothesis is not installed."""
    try:
        from minitensor.testing import Campaign  # noqa: PLC0415 - needs an optional package
    except ImportError as failure:
        raise CommandError(str(failure)) from failure
    return Campaign(folder, arguments.seed, jobs, arguments.sanitize, arguments.target)


def _report(state: State, folder: Path, console: Console) -> None:
    counts = state.counts
    console.print(
        f"{counts.pairs:,} pairs in {state.seconds:,.0f} s ({state.rate:,.0f} an hour), "
        f"{counts.interpreted:,} interpreted, "
        f"{counts.kernels:,} kernels, {counts.attempts:,} primitives drawn, "
        f"{state.acceptance:.0%} of them accepted"
    )
    if state.target != "c":
        console.print(
            f"for a GPU: {counts.shared:,} with shared memory, {counts.barriers:,} with barriers, "
            f"{counts.combined:,} with threads that combine; {counts.refused:,} that none runs"
        )
    if not state.found:
        console.print("no failure")
        return
    kinds = Counter(found.failure.kind for found in state.found)
    console.print(f"failures: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}")
    for found in state.found:
        console.print(f"  {folder / (found.script or '')}  {_text(found)}")


def _text(found: Found) -> str:
    text = f"{found.failure.kind}: {found.failure.message}"
    return text if len(text) <= 120 else text[:119] + "…"


class _Line:
    """One line of a terminal that is overwritten; off a terminal, a line now and then."""

    def __init__(self, console: Console, end: float, quiet: bool) -> None:
        self.console, self.finish, self.quiet = console, end, quiet
        self.live = sys.stderr.isatty()
        self.last = 0.0

    def show(self, state: State) -> None:
        left = max(0, int(self.finish - state.seconds))
        text = (
            f"{state.counts.pairs:,} pairs, {state.rate:,.0f} an hour, {state.acceptance:.0%} of "
            f"primitives accepted, {len(state.found)} failures, {left // 60}:{left % 60:02} left"
        )
        if self.live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif state.seconds - self.last >= 60:
            self.last = state.seconds
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live:
            print(file=sys.stderr)

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)
