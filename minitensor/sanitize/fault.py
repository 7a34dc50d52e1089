"""Faults of kernels, as sanitizers find them, the outcome of one run, and what can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.errors import unexpected
from minitensor.runtime import Signature


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing a kernel did wrong.

    kind     "race", "out of bounds", "unwritten", "unsteady", "input changed", "undefined", "crash"
    message  what happened, in one line
    buffer   the name of the buffer it happened to, "" if that is not known
    index    the element, () if it is not known or there is only one
    line     the line of the kernel's text, 0 if it is not known
    """

    kind: str
    message: str
    buffer: str = ""
    index: tuple[int, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        return self.message


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


def element_at(buffer: ir.Buffer, offset: int) -> tuple[int, ...]:
    """The indices of the element that holds a byte of a buffer; () where that is between two."""
    rest = offset // (ir.numpy_dtype(buffer.dtype).itemsize * buffer.dtype.lanes)
    index = []
    for extent, stride in zip(buffer.shape, ir.strides_of(buffer)):
        index.append(rest // stride)
        rest %= stride
        if not 0 <= index[-1] < extent:
            return ()
    return tuple(index)


def element_name(buffer: ir.Buffer, index: tuple[int, ...]) -> str:
    """The element as messages show it."""
    name = ir.print_name(buffer.name)
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def program_of(what: Any) -> ir.Program:
    """The program itself, or that of a schedule. Raises ArgumentError for anything else."""
    program = getattr(what, "program", what)
    if not isinstance(program, ir.Program):
        raise unexpected("a schedule or a program", "what", what)
    return program


def inputs_of(emitted: Emitted, given: Sequence[object]) -> dict[str, np.ndarray]:
    """The arrays of the inputs, by name. Raises ArgumentError for one that does not fit."""
    inputs = [b for b in emitted.params if b.name not in emitted.outputs]
    accepted, _ = Signature(emitted.name or emitted.entry, inputs, ()).accept(tuple(given))
    return {b.name: array for b, array in zip(inputs, accepted)}
