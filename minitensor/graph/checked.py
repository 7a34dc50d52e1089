"""The checked mode of a model: its kernels one by one, with an eye on the arena.

Before each kernel, what no value holds is filled with a pattern (the bits of a NaN), so that a
value that is read after its memory was given away is seen in the results; and the values that are
alive are compared before and after it: one that a kernel changed, though it does not compute it,
lies where another does. What can be seen in the plan alone is said at once: a value that is read
after its last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.errors import ExecutionError
from minitensor.graph.assemble import Assembly
from minitensor.graph.driver import Place
from minitensor.runtime import aligned_empty

POISON: Final = 0xFF
"""The byte that freed memory holds: floats of such bytes are NaN, integers are -1."""


def run_checked(parts: Assembly, arrays: Sequence[np.ndarray]) -> int:
    """Run the calls of a model on arrays for its inputs and outputs, and return a status as its
    function in C does.

    Raises ExecutionError, with the names of the kernel and the values, for a plan that is wrong.
    """
    check_lives(parts)
    arena = aligned_empty((parts.plan.arena,), np.dtype(np.uint8))
    arena[...] = POISON
    for number, (call, step) in enumerate(zip(parts.calls, parts.steps)):
        kernel = parts.tasks[call.kernel].kernel
        owners = parts.plan.owners
        written = {owners.get(name) for name in step.outputs}
        alive = [
            name
            for name, (first, last) in parts.plan.lives.items()
            if first <= number <= last and owners[name] not in written
        ]
        _poison(parts, arena, number)
        before = {name: _bytes(parts, arena, name).copy() for name in alive}
        given = [
            _array(parts, arena, arrays, place, buffer)
            for place, buffer in zip(call.arguments, kernel.emitted.params)
        ]
        status = kernel.run_in(aligned_empty((kernel.emitted.workspace,), arena.dtype), given)
        if status != 0:
            return (number + 1) << 12 | status
        for name in alive:
            if not np.array_equal(_bytes(parts, arena, name), before[name]):
                raise ExecutionError(
                    f"{ir.print_name(step.name)} writes where {ir.print_name(name)} lies, which is "
                    "still read: the memory plan lets them overlap",
                    "memory",
                )
    return 0


def check_lives(parts: Assembly) -> None:
    """Raise ExecutionError for a step that reads a value before or after the plan keeps it."""
    for number, step in enumerate(parts.steps):
        for name in (*step.inputs, *step.outputs):
            first, last = parts.plan.lives.get(name, (number, number))
            if not first <= number <= last:
                when = "after it is freed" if number > last else "before it is there"
                reader, value = ir.print_name(step.name), ir.print_name(name)
                raise ExecutionError(
                    f"{reader}, step {number}, reads {value} {when}: the memory "
                    f"plan keeps it from step {first} to {last}",
                    "memory",
                )


def _poison(parts: Assembly, arena: np.ndarray, number: int) -> None:
    """Fill what holds no value that a step or a later one reads."""
    kept = np.zeros(len(arena), np.bool_)
    for name, (first, last) in parts.plan.lives.items():
        if first < number <= last:
            start = parts.plan.offsets[name]
            kept[start : start + parts.plan.sizes[name]] = True
    arena[~kept] = POISON


def _bytes(parts: Assembly, arena: np.ndarray, name: str) -> np.ndarray:
    start = parts.plan.offsets[name]
    return arena[start : start + parts.plan.sizes[name]]


def _array(
    parts: Assembly,
    arena: np.ndarray,
    arrays: Sequence[np.ndarray],
    place: Place,
    buffer: ir.Buffer,
) -> np.ndarray:
    """An argument of a kernel; one in the arena as bytes, for only its address is used."""
    match place.kind:
        case "io":
            return arrays[place.number]
        case "weight":
            return parts.weights[place.number]
    return arena[place.number : place.number + buffer.nbytes]
