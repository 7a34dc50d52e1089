"""The reference of a search: inputs, the outputs of the unscheduled program, and how far off an
output may be.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.api import build
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, ExecutionError, unexpected
from minitensor.search.inputs import LARGEST_INPUT, random_inputs

RANGES: Final = ((-LARGEST_INPUT, LARGEST_INPUT), (0, LARGEST_INPUT), (0, 1), (0, 0))
"""Of random inputs: the next is tried where the unscheduled program leaves a buffer with those of
the one before, for what it computes of them is an index.
"""

BLOCK: Final = 1 << 15
"""Elements that are compared at a time, in a cache."""


def reference(
    program: ir.Program, target: Target, inputs: Sequence[Any] | None, seed: int
) -> tuple[Sequence[Any], Sequence[np.ndarray]]:
    """An array for each input, and what the program computes from them, unscheduled.

    inputs  one for each input; None for random integers (see `inputs`), positive ones where the
            others give NaN (roots and logarithms: NaN hides what is wrong)

    Raises ArgumentError for inputs that do not fit, or where no random ones do; CompileError
    without a compiler.
    """
    if inputs is None:
        return _found_inputs(program, target, seed)
    try:
        given = list(inputs)
    except TypeError:
        raise unexpected("a sequence of arrays", "inputs", inputs) from None
    if len(given) != len(program.inputs):
        names = ", ".join(ir.print_name(b.name) for b in program.inputs)
        raise unexpected(f"{len(program.inputs)} arrays ({names})", "inputs", inputs)
    return given, _results(build(program, target), given)


def _results(kernel: Callable[..., Any], given: Sequence[Any]) -> Sequence[np.ndarray]:
    result = kernel(*given)
    return result if isinstance(result, tuple) else (result,)


def _found_inputs(
    program: ir.Program, target: Target, seed: int
) -> tuple[Sequence[Any], Sequence[np.ndarray]]:
    """Random inputs with which no check fails, and the outputs."""
    kernel, failures = build(program, target), []
    for least, most in RANGES:
        given = random_inputs(program, seed, least, most)
        try:
            found = _results(kernel, given)
        except ExecutionError as failure:
            failures.append(failure)
            continue
        if any(has_nan(b, a) for b, a in zip(program.outputs, found)):
            with contextlib.suppress(ExecutionError):
                positive = random_inputs(program, seed, least=1)
                return positive, _results(kernel, positive)
        return given, found
    raise ArgumentError(
        f"no random inputs suit {ir.print_name(program.name)}: {failures[0].message}; give arrays "
        "as inputs="
    ) from failures[0]


def has_nan(buffer: ir.Buffer, array: np.ndarray) -> bool:
    """Test whether there is a NaN among the elements of a buffer."""
    if not buffer.dtype.is_float:
        return False
    return bool(np.isnan(ir.unpack(array, buffer.dtype)).any())


def wrong_output(
    program: ir.Program,
    kernel: Callable[..., Any],
    inputs: Sequence[Any],
    expected: Sequence[np.ndarray],
) -> str | None:
    """A description of what is wrong in the outputs of a kernel; None if nothing is."""
    found = zip(program.outputs, _results(kernel, inputs), expected)
    return next((text for one in found if (text := difference(*one)) is not None), None)


def difference(buffer: ir.Buffer, got: np.ndarray, expected: np.ndarray) -> str | None:
    """A description of the first wrong element of an output; None if there is none."""
    tolerance = buffer.dtype.tolerance
    if tolerance and _are_near(buffer.dtype, got, expected):
        return None
    if np.array_equal(got, expected):
        return None
    got, expected = ir.unpack(got, buffer.dtype), ir.unpack(expected, buffer.dtype)
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


def _are_near(dtype: ir.DType, got: np.ndarray, expected: np.ndarray) -> bool:
    """Test, block by block, whether finite numbers differ by no more than the tolerance of their
    dtype. False says nothing of arrays that are not finite.
    """
    flat = np.ravel(got), np.ravel(expected)
    blocks = [slice(n, n + BLOCK) for n in range(0, flat[1].size, BLOCK)]

    def largest(numbers: np.ndarray) -> float:
        return float(max(numbers.max(), -numbers.min()))  # of NaN: NaN

    with np.errstate(all="ignore"):
        peaks = [largest(ir.unpack(flat[1][block], dtype)) for block in blocks]
        if not all(map(math.isfinite, peaks)):
            return False
        off_by = dtype.tolerance * max(peaks, default=0.0)
        return all(
            largest(np.subtract(*(ir.unpack(array[block], dtype) for array in flat))) <= off_by
            for block in blocks
        )
