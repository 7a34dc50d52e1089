"""Races of iterations, the outcome of one run, and what can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.phrasebook import SCHEDULE_OR_PROGRAM, no_program
from minitensor.runtime import Fault, Signature


@dataclass(frozen=True, slots=True)
class Race(Fault):
    """Two iterations of a parallel loop that touch the same bytes, one of them writing.

    loop        the variable of the loop
    iterations  the two, the earlier one first
    writes      whether the one and the other write
    """

    loop: str = ""
    iterations: tuple[int, int] = (0, 0)
    writes: tuple[bool, bool] = (True, True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run.

    status   what the kernel returned: 0, or which of its own checks failed (see `Emitted`); the
             outputs are then incomplete, and not looked at
    outputs  in call order
    faults   what it did wrong
    """

    status: int
    outputs: tuple[np.ndarray, ...]
    faults: tuple[Fault, ...]


def program_of(what: Any) -> ir.Program:
    """The program itself, or that of a schedule. Raises ArgumentError for anything else."""
    program = getattr(what, "program", what)
    if not isinstance(program, ir.Program):
        raise no_program("what", what, SCHEDULE_OR_PROGRAM)
    return program


def inputs_of(emitted: Emitted, given: Sequence[object]) -> dict[str, np.ndarray]:
    """The arrays of the inputs, by name. Raises ArgumentError for one that does not fit."""
    inputs = [b for b in emitted.params if b.name not in emitted.outputs]
    accepted, _ = Signature(emitted.name or emitted.entry, inputs, ()).accept(tuple(given))
    return {b.name: array for b, array in zip(inputs, accepted)}
