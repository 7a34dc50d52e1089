"""`minitensor bench`: a schedule in turns with its definition, and with numpy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from minitensor import ir, runtime
from minitensor.api import build
from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli.by_numpy import ByNumpy
from minitensor.cli.console import Console, aligned, counted
from minitensor.cli.errors import CommandError, UsageError
from minitensor.codegen import Target
from minitensor.errors import printable
from minitensor.schedule import Schedule
from minitensor.search import Roofline, difference, load_best, random_inputs, schedule_for

Arrays = Sequence[np.ndarray]

AS_SLOW: Final = "the interpreter is as slow with one schedule as with another: use c"
SCHEDULED: Final = "scheduled"
DEFINED: Final = "as defined"
NUMPY: Final = "numpy"
BY_RULES: Final = (
    "  scheduled by rules, without a trial (mt.schedule_for); `minitensor tune` searches, and\n"
    "  `bench --log` times what it found"
)
BUSY: Final = 1.5
"""The factor between turns of one call from which on the machine is called busy."""

TEXT: Final = "time a schedule in turns with its definition and numpy"
EPILOG: Final = """\
examples:
  minitensor bench conv2d                            as rules schedule it, without a search
  minitensor bench my_schedule.py:s
  minitensor bench matmul --trace best.json --cores 1
  minitensor bench matmul --log tuning.jsonl         the fastest that a search recorded

Results are compared before anything is timed. Then all take turns, and a figure is the median over
the rounds of the fastest call in a round: a ratio holds where a time of another run does not.
"2.00 x" is twice as fast.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser)
    targets.add_arguments(parser)
    parser.add_argument("--log", metavar="FILE", help="the best schedule of a log of `tune`")
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of each (default: 7)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of short bursts")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Check, time, and print a table."""
    target = targets.compiled(arguments, AS_SLOW)
    pace = pace_of(arguments)
    subject = subjects.resolve(arguments)
    schedule = subject.schedule
    if arguments.log:
        if len(subject.programs) > 1:
            raise UsageError(f"--log is for a program, and {subject.name} has steps already")
        schedule = load_best(arguments.log, subject.programs[0], target)
    by_rules = subject.is_program and not arguments.log
    if by_rules:
        schedule = schedule_for(subject.programs[0], target)
    compared = compare(subject.name, schedule, target, pace)
    if arguments.json:
        console.json(compared.described() | {"by_rules": by_rules})
    else:
        for line in compared.lines(console):
            console.print(line)
        if by_rules:
            console.print(BY_RULES)
    return 0


def pace_of(arguments: argparse.Namespace) -> runtime.Pace:
    """--quick and --rounds. Raises UsageError for no rounds at all."""
    pace = runtime.QUICK if arguments.quick else runtime.Pace()
    if arguments.rounds is None:
        return pace
    if arguments.rounds < 1:
        raise UsageError(f"expected at least one round, but got --rounds {arguments.rounds}")
    return runtime.Pace(arguments.rounds, pace.burst, pace.warm, pace.least_calls)


@dataclass(frozen=True)
class Call:
    """A kernel on its arrays; see `runtime.rounds.Timed`."""

    name: str
    call: Callable[[], object]
    spin: float = runtime.SPIN_SECONDS


@dataclass(frozen=True)
class Compared:
    """The turns of a schedule and of its baselines, by name; `dropped`: baselines left out, why."""

    name: str
    target: Target
    roofline: Roofline
    turns: dict[str, runtime.Turns]
    dropped: dict[str, str] = field(default_factory=dict)

    def lines(self, console: Console) -> Iterator[str]:
        """A table: times, rates, and the factor by which the schedule is faster."""
        own = self.turns[SCHEDULED]
        yield console.styled(
            f"{printable(self.name)}, {counted(self.target.num_cores or 1, 'thread')}", "bold"
        )
        rows = []
        for name, turns in self.turns.items():
            faster = "" if turns is own else f"{SCHEDULED} is {self.ratio(name):.3g} x as fast"
            rows.append((f"  {name}", self.roofline.figures(turns.seconds), faster))
        yield from aligned(rows)
        for name, reason in self.dropped.items():
            yield console.styled(f"  {name}: {reason}", "yellow")
        if self.spread > BUSY:
            yield console.styled(
                f"  the machine is busy: a slowest turn took {self.spread:.2g} times as long as "
                "the fastest, and figures may be off by as much; close what else runs",
                "yellow",
            )

    @property
    def spread(self) -> float:
        """The factor between the slowest turn and the fastest, of what varies most."""
        return max(max(turns.fastest) / min(turns.fastest) for turns in self.turns.values())

    def ratio(self, name: str) -> float:
        """The factor by which the schedule is faster than a baseline."""
        return runtime.ratio(self.turns[SCHEDULED].fastest, self.turns[name].fastest)

    def described(self) -> dict[str, Any]:
        """As JSON; seconds of every round."""
        return {
            "name": self.name,
            "target": self.target.as_dict(),
            "flop": self.roofline.flop or None,
            "bytes": self.roofline.bytes,
            "of_peak": self.roofline.part(self.turns[SCHEDULED].seconds),
            "seconds": {name: turns.seconds for name, turns in self.turns.items()},
            "rounds": {name: turns.fastest for name, turns in self.turns.items()},
            "times_as_fast_as": {n: self.ratio(n) for n in self.turns if n != SCHEDULED},
            "dropped": self.dropped,
        }


def compare(name: str, schedule: Schedule, target: Target, pace: runtime.Pace) -> Compared:
    """Check a schedule and time it beside its definition and numpy.

    Raises CommandError if it is wrong.
    """
    exact = runtime.native_target(target)
    definition = schedule.history[0]
    inputs = random_inputs(definition, seed=0)
    made = {SCHEDULED: schedule}
    if len(schedule.history) > 1:
        made[DEFINED] = Schedule(definition)
    calls, results = [], {}
    for one, of in made.items():
        outputs = [
            runtime.aligned_empty(b.shape, ir.numpy_dtype(b.dtype)) for b in definition.outputs
        ]
        calls.append(Call(one, build(of, exact).prepare(*inputs, *outputs)))
        results[one] = outputs
    expected = results[list(made)[-1]]
    check(definition, results[SCHEDULED], expected, SCHEDULED)
    dropped = {}
    try:
        numpy = ByNumpy(definition, inputs)
        numpy()
        check(definition, numpy.outputs, expected, NUMPY)
        calls.append(Call(NUMPY, numpy, runtime.BLAS_SPIN_SECONDS))
    except CommandError as failure:
        dropped[NUMPY] = str(failure)
    turns = runtime.interleave(calls, pace, pause=(exact.num_cores or 1) > 1)
    return Compared(name, exact, Roofline.of(definition, exact), dict(turns), dropped)


def check(program: ir.Program, own: Arrays, expected: Arrays, name: str) -> None:
    """Raise CommandError if results differ by more than rounding."""
    for buffer, got, right in zip(program.outputs, own, expected):
        wrong = difference(buffer, got, right)
        if wrong:
            raise CommandError(f"the result of {name!r} is wrong: {wrong}; please report this")
