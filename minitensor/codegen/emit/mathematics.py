"""Which functions are computed by definitions in the IR's terms, and which by the C library.

float32, and the narrower floats computed in it, have all of them. What is not defined here is the
library's: what is exact, and one instruction on most machines (sqrt, floor, ceil, round, abs), and
power on float64, whose logarithm needs more bits than a float64 has.
`ldexp`, which exp ends in, is one instruction where vectors are AVX-512's: with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from minitensor.codegen.emit.functions import (
    Function,
    Writer,
    computes_wider,
    parse_functions,
    write_function,
    write_in_halves,
)
from minitensor.codegen.emit.helpers import compute_type, vector_name
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.emit.math32 import MATH32
from minitensor.codegen.emit.math64 import MATH64
from minitensor.ir import DType


def define(name: str, dtype: DType, writer: Callable[[], Writer]) -> str | None:
    """The name that a function has in a text, on scalars or vectors; its definition is added.

    dtype   that it is computed in
    writer  makes what writes expressions, for a function of its own

    Returns None if the function is not defined in the IR's terms.
    """
    function = definitions().get((name, dtype.scalar))
    if function is None:
        return None
    own = f"{name}_{_kind(dtype)}"
    helpers = writer().helpers
    if own in helpers.texts:
        return own
    if dtype.lanes > 1 and computes_wider(function):
        part = dtype.with_lanes(dtype.lanes // 2)
        half = f"{name}_part_{_kind(part)}" if part.lanes > 1 else str(define(name, part, writer))
        if half not in helpers.texts:
            helpers.texts[half] = write_function(function, half, part.lanes, writer())
        helpers.texts[own] = write_in_halves(function, own, half, dtype.lanes, writer())
    else:
        text = write_function(function, own, dtype.lanes, writer())
        params = tuple(p.name for p in function.params)
        helpers.texts[own] = with_instruction(text, name, dtype, params)
    return own


def _kind(dtype: DType) -> str:
    return compute_type(dtype) if dtype.lanes == 1 else vector_name(dtype, dtype.lanes)


@cache
def definitions() -> dict[tuple[str, DType], Function]:
    """Every definition, by name and type: parsed when one is first asked for."""
    return parse_functions(MATH32 + MATH64)
