"""What can be checked, and on what: a program, or a schedule, which has one; arrays that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor.codegen import Emitted
from minitensor.errors import unexpected
from minitensor.ir import Program
from minitensor.runtime import Signature


def program_of(what: Any) -> Program:
    """The program itself, or that of a schedule. Raises ArgumentError for anything else."""
    program = getattr(what, "program", what)
    if not isinstance(program, Program):
        raise unexpected("a schedule or a program", "what", what)
    return program


def inputs_of(emitted: Emitted, given: Sequence[object]) -> list[np.ndarray]:
    """One array for each input, in call order. Raises ArgumentError for one that does not fit."""
    inputs = [b for b in emitted.params if b.name not in emitted.outputs]
    return Signature(emitted.name or emitted.entry, inputs, ()).accept(tuple(given))[0]
