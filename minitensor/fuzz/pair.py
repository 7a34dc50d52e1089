"""One case of a campaign: a program, a schedule of it, arrays; and what is asked of them.

A pair is drawn from a list of answers (see `choices`), so a seed and a number name it, and so does
the list itself. What goes wrong is a `Failure`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import MinitensorError
from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.oracle import compare, small_arrays
from minitensor.fuzz.programs import Limits, draw_program
from minitensor.fuzz.reference import evaluate_by_numpy
from minitensor.fuzz.steps import Attempt, BrokenPromiseError, draw_schedule
from minitensor.schedule import Schedule

LIMITS: Final = Limits(steps=1024)
"""Programs are small, so that the interpreter takes milliseconds."""
MOST_INTERPRETED: Final = 100_000
"""Steps of a scheduled program beyond which only its native code is run: a second, or so. Moving a
producer can make it compute everything again for each element.
"""
MOST_RUN: Final = 1 << 30
"""Steps beyond which its native code is not run either."""
VALUES: Final = 1 << 16
"""How many seeds for the values of arrays there are."""


@dataclass(frozen=True)
class Failure:
    """What went wrong.

    kind     where: "program" (it cannot be drawn), "primitive", "numpy" (against the interpreter),
             "interpreter", "generate", "compile", "native", "crash", "hang"
    message  the first line of what was raised
    """

    kind: str
    message: str


class FailedError(Exception):
    """A pair that failed, with what is known of it."""

    def __init__(self, failure: Failure, program: ir.Program | None = None) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure
        self.program = program
        self.schedule: Schedule | None = None
        self.call = ""
        """The call of a primitive that failed, as Python."""


@dataclass(frozen=True)
class Pair:
    """A program, and a schedule of it."""

    program: ir.Program
    schedule: Schedule
    values: int
    attempts: tuple[Attempt, ...]

    @property
    def arrays(self) -> list[np.ndarray]:
        """The inputs."""
        return small_arrays(self.program, self.values)

    @property
    def work(self) -> int:
        """How often blocks of the scheduled program run."""
        nests = ir.paths(self.schedule.program).values()
        return sum(math.prod(loop.extent for loop in nest) for nest in nests)


def draw_pair(choices: Recorded) -> Pair:
    """A pair. Raises FailedError if it cannot be drawn, or a primitive broke its promise."""
    values = choices.number(0, VALUES - 1)
    try:
        program = draw_program(choices, LIMITS)
    except Exception as failure:
        raise FailedError(Failure("program", _line(failure))) from failure
    try:
        drawn = draw_schedule(choices, program)
    except BrokenPromiseError as broken:
        failed = FailedError(Failure("primitive", _line(broken)), program)
        failed.schedule, failed.call = broken.schedule, broken.call
        raise failed from broken
    except Exception as failure:
        raise FailedError(Failure("primitive", _line(failure)), program) from failure
    return Pair(program, drawn.schedule, values, tuple(drawn.attempts))


def check_meaning(pair: Pair) -> list[np.ndarray]:
    """Compare the scheduled program, in the interpreter, with what numpy says of the definition.

    One of more than MOST_INTERPRETED steps is verified only.

    Returns what numpy says. Raises FailedError.
    """
    arrays = pair.arrays
    try:
        expected = evaluate_by_numpy(pair.program, arrays)
    except Exception as failure:
        raise FailedError(Failure("numpy", _line(failure)), pair.program) from failure
    scheduled = pair.schedule.program
    names = [b.name for b in pair.program.outputs]
    try:
        ir.verify(scheduled)
        if pair.work <= MOST_INTERPRETED:
            got, _ = ir.interpret(scheduled, arrays, names)
            compare(pair.program.outputs, expected, got, "in the interpreter", scheduled)
    except Exception as failure:
        failed = FailedError(Failure("interpreter", _line(failure)), pair.program)
        failed.schedule = pair.schedule
        raise failed from failure
    return expected


def targets(pair: Pair) -> list[Target]:
    """What the pair is compiled for: one thread, and two if that makes a difference."""
    if pair.work > MOST_RUN:
        return []
    parallel = any(
        loop.kind is ir.LoopKind.PARALLEL for loop in ir.loops_of(pair.schedule.program.body)
    )
    return [Target("c", num_cores=n) for n in ((1, 2) if parallel else (1,))]


def compare_native(
    pair: Pair, target: Target, expected: Sequence[np.ndarray], got: Sequence[np.ndarray]
) -> None:
    """Raise FailedError where compiled code gives something else."""
    scheduled = pair.schedule.program
    try:
        compare(pair.program.outputs, expected, got, f"in C ({target})", scheduled)
    except AssertionError as failure:
        failed = FailedError(Failure("native", _line(failure)), pair.program)
        failed.schedule = pair.schedule
        raise failed from failure


def failed_at(kind: str, pair: Pair, failure: BaseException) -> FailedError:
    """The error for a pair that failed in a later stage."""
    failed = FailedError(Failure(kind, _line(failure)), pair.program)
    failed.schedule = pair.schedule
    return failed


def _line(failure: BaseException) -> str:
    """The first line of a failure, with its type unless it is one of ours."""
    text = str(failure).partition("\n")[0][:400]
    known = isinstance(failure, (MinitensorError, AssertionError))
    return text if known and text else f"{type(failure).__name__}: {text}"
