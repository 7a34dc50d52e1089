"""The reference of a search: inputs, the outputs of the unscheduled program, and how far off an
output may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.api import build
from minitensor.codegen import Target
from minitensor.errors import unexpected

_LARGEST_INPUT: Final = 4


def reference(
    program: ir.Program, target: Target, inputs: Sequence[Any] | None, seed: int
) -> tuple[Sequence[Any], Sequence[np.ndarray]]:
    """An array for each input, and what the program computes from them, unscheduled.

    inputs  one for each input; None for small random integers, positive ones where the others give
            NaN (roots and logarithms: NaN hides what is wrong)

    Raises ArgumentError for inputs that do not fit, CompileError without a compiler.
    """
    if inputs is None:
        given = random_inputs(program, seed)
    else:
        try:
            given = list(inputs)
        except TypeError:
            raise unexpected("a sequence of arrays", "inputs", inputs) from None
    if len(given) != len(program.inputs):
        names = ", ".join(ir.print_name(b.name) for b in program.inputs)
        raise unexpected(f"{len(program.inputs)} arrays ({names})", "inputs", inputs)
    kernel = build(program, target)

    def results() -> Sequence[np.ndarray]:
        result = kernel(*given)
        return result if isinstance(result, tuple) else (result,)

    found = results()
    if inputs is None and any(has_nan(b, a) for b, a in zip(program.outputs, found)):
        given = random_inputs(program, seed, least=1)
        found = results()
    return given, found


def has_nan(buffer: ir.Buffer, array: np.ndarray) -> bool:
    """Test whether there is a NaN among the elements of a buffer."""
    if not buffer.dtype.is_float:
        return False
    return bool(np.isnan(ir.unpack(array, buffer.dtype)).any())


def random_inputs(program: ir.Program, seed: int, least: int = -_LARGEST_INPUT) -> list[np.ndarray]:
    """One array for each input of a program, of integers from `least` to 4 (from 0 if unsigned)."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in program.inputs:
        low = max(least, 0) if buffer.dtype.kind in ("uint", "bool") else least
        high = 1 if buffer.dtype.kind == "bool" else _LARGEST_INPUT
        values = rng.integers(low, high + 1, buffer.shape)
        arrays.append(ir.pack(values, buffer.dtype))
    return arrays


def difference(buffer: ir.Buffer, got: np.ndarray, expected: np.ndarray) -> str | None:
    """A description of the first wrong element of an output; None if there is none."""
    if np.array_equal(got, expected):
        return None
    got, expected = ir.unpack(got, buffer.dtype), ir.unpack(expected, buffer.dtype)
    tolerance = buffer.dtype.tolerance
    if tolerance:
        finite = np.abs(expected[np.isfinite(expected)])
        off_by = tolerance * float(finite.max(initial=0.0))
        same = np.isclose(got, expected, rtol=0.0, atol=off_by, equal_nan=True)
    else:
        same = np.asarray(got == expected)
    if same.all():
        return None
    at = tuple(int(n) for n in np.argwhere(~same)[0])
    index = ", ".join(map(str, at)) or "()"
    return (
        f"{ir.print_name(buffer.name)}[{index}] is {got[at]}, but the unscheduled program gives "
        f"{expected[at]} ({np.count_nonzero(~same)} of {same.size} elements differ)"
    )
