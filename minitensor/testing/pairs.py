"""One case of a campaign: a program, a schedule of it, arrays; and what is asked of them.

A seed and a number name a pair. What goes wrong is a `Failure`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor import ir
from minitensor.codegen import Target, passes_of
from minitensor.errors import LoweringError, MinitensorError
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.testing.draws import drawn
from minitensor.testing.kernels import kernel_attempts
from minitensor.testing.oracle import compare, small_arrays
from minitensor.testing.programs import programs
from minitensor.testing.reference import evaluate_by_numpy
from minitensor.testing.schedules import Attempt, BrokenPromiseError, attempts

MOST_INTERPRETED: Final = 100_000
"""Steps of a scheduled program beyond which only its native code is run: a second, or so. Moving a
producer can make it compute everything again for each element.
"""
MOST_RUN: Final = 1 << 30
"""Steps beyond which its native code is not run either."""
VALUES: Final = 1 << 16
"""The number of seeds for the values of arrays."""
TARGETS: Final = ("c", "cuda-emulator")
"""The targets that a pair may be for."""


@dataclass(frozen=True)
class Failure:
    """The failure of a pair.

    kind     where: "program" (it cannot be drawn), "primitive", "numpy" (against the interpreter),
             "interpreter", "pass" (for a GPU: the interpreter after a pass), "generate", "compile",
             "native", "crash", "hang"
    message  the first line of what was raised
    """

    kind: str
    message: str


@dataclass(frozen=True)
class Pair:
    """A program, and a schedule of it.

    values  the seed of the inputs
    call    the call of a primitive that broke its promise, as Python, after the schedule
    target  one of TARGETS, which the schedule is for
    """

    program: ir.Program
    schedule: Schedule
    values: int
    attempts: tuple[Attempt, ...] = ()
    call: str = ""
    target: str = "c"

    @property
    def arrays(self) -> list[np.ndarray]:
        """The inputs."""
        return small_arrays(self.program, self.values)

    @property
    def work(self) -> int:
        """The number of block instances of the scheduled program."""
        nests = ir.paths(self.schedule.program).values()
        return sum(math.prod(loop.extent for loop in nest) for nest in nests)


class FailedError(Exception):
    """A pair that failed, if there is one: a program may fail to be drawn."""

    def __init__(self, kind: str, cause: BaseException, pair: Pair | None) -> None:
        self.failure = Failure(kind, _line(cause))
        super().__init__(f"{kind}: {self.failure.message}")
        self.pair = pair


@st.composite
def pairs(draw: DrawFn, target: str = "c") -> Pair:
    """A pair for one of TARGETS. Raises FailedError if it cannot be drawn, or a primitive broke its
    promise.
    """
    values = draw(st.integers(0, VALUES - 1))
    try:
        program = draw(programs())
    except Exception as failure:
        raise FailedError("program", failure, None) from failure
    try:
        found = draw(attempts(program) if target == "c" else kernel_attempts(program))
    except BrokenPromiseError as broken:
        pair = Pair(program, broken.schedule, values, call=broken.call, target=target)
        raise FailedError("primitive", broken, pair) from broken
    except Exception as failure:
        pair = Pair(program, Schedule(program), values, target=target)
        raise FailedError("primitive", failure, pair) from failure
    return Pair(program, found.schedule, values, tuple(found.attempts), target=target)


def pair_of(seed: int | str, number: int, target: str = "c") -> Pair:
    """A pair by its number. Raises FailedError as `pairs` does."""
    return drawn(pairs(target), f"{seed}:{number}")


def check_meaning(pair: Pair) -> list[np.ndarray]:
    """Compare the scheduled program, in the interpreter, with what numpy says of the definition.

    One of more than MOST_INTERPRETED steps is verified only.

    Returns what numpy says. Raises FailedError.
    """
    arrays = pair.arrays
    try:
        expected = evaluate_by_numpy(pair.program, arrays)
    except Exception as failure:
        raise FailedError("numpy", failure, pair) from failure
    scheduled = pair.schedule.program
    names = [b.name for b in pair.program.outputs]
    try:
        ir.verify(scheduled)
        if pair.work <= MOST_INTERPRETED:
            got, _ = ir.interpret(scheduled, arrays, names)
            compare(pair.program.outputs, expected, got, "in the interpreter", scheduled)
    except Exception as failure:
        raise FailedError("interpreter", failure, pair) from failure
    return expected


def check_mapping(pair: Pair, expected: list[np.ndarray]) -> ir.Program | None:
    """Run the passes for a GPU, verify what each gives, and compare what the kernels do, in the
    interpreter: with barriers where map_threads put them, and at the end.

    Returns the program after all passes; None if no GPU runs the schedule.
    Raises FailedError.
    """
    (target,), program = targets(pair), pair.schedule.program
    names = [b.name for b in pair.program.outputs]
    passes = passes_of(target)
    try:
        for name, run in passes:
            program = run(program, target)
            ir.verify(program)
            last = name in ("map_threads", passes[-1][0])
            if last and _steps(program.body) <= MOST_INTERPRETED:
                got, _ = ir.interpret(program, pair.arrays, names)
                compare(pair.program.outputs, expected, got, f"after the pass {name}", program)
    except LoweringError:
        return None
    except Exception as failure:
        raise FailedError("pass", failure, pair) from failure
    return program


def _steps(stmt: ir.Stmt) -> int:
    """The number of statements that a program executes, at most, of those that hold no others."""
    inner = sum(_steps(child) for child in ir.children(stmt) if isinstance(child, ir.Stmt))
    return stmt.extent * inner if isinstance(stmt, ir.For) else max(1, inner)


def targets(pair: Pair) -> list[Target]:
    """The targets of a pair: for a CPU one thread, and two if that makes a difference."""
    if pair.work > MOST_RUN:
        return []
    if pair.target != "c":
        return [native_target(Target(pair.target))]
    parallel = any(
        loop.kind is ir.LoopKind.PARALLEL for loop in ir.loops_of(pair.schedule.program.body)
    )
    return [Target("c", num_cores=n) for n in ((1, 2) if parallel else (1,))]


def _line(failure: BaseException) -> str:
    """The first line of a failure, with its type unless it is one of ours."""
    text = str(failure).partition("\n")[0][:400]
    known = isinstance(failure, (MinitensorError, AssertionError))
    return text if known and text else f"{type(failure).__name__}: {text}"
