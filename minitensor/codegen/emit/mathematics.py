"""The functions that are computed by definitions in the IR's terms, and not by the C library.

float32, and the narrower floats computed in it, have all of them. What is not defined here is the
library's: what is exact, and one instruction on most machines (sqrt, floor, ceil, round, abs), and
on float64 power, sin, cos, log1p and expm1, which need more bits than a float64 has.
`ldexp`, which exp ends in, is one instruction where vectors are AVX-512's: with the same result.
`exp_nonpositive` is exp, to the bit, for arguments that `lang.signs` proves never to be positive.
"""

from __future__ import annotations

from functools import cache

from minitensor.codegen.emit.c_types import compute_type
from minitensor.codegen.emit.functions import (
    Function,
    computes_wider,
    parse_functions,
    write_function,
    write_in_halves,
)
from minitensor.codegen.emit.helpers import Definition, Helpers
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.emit.math32 import MATH32
from minitensor.codegen.emit.math64 import MATH64
from minitensor.codegen.emit.wider import WIDER
from minitensor.ir import DType


def defined(helpers: Helpers, name: str, dtype: DType) -> str | None:
    """The name that a function has in a text, on scalars or vectors; None if it is not defined in
    the IR's terms.

    dtype  that it is computed in
    """
    if (name, dtype.scalar) not in definitions():
        return None
    return helpers.need(_definition, name, dtype)


def _definition(helpers: Helpers, name: str, dtype: DType) -> Definition:
    function, writer = definitions()[name, dtype.scalar], helpers.dialect.writer
    own = f"{name}_{compute_type(dtype) if dtype.lanes == 1 else dtype}"
    if dtype.lanes > 1 and computes_wider(function):
        helper = _half if dtype.lanes > 2 else _definition
        half = helpers.need(helper, name, dtype.with_lanes(dtype.lanes // 2))
        return own, write_in_halves(function, own, half, dtype.lanes, writer(helpers))
    text = write_function(function, own, dtype.lanes, writer(helpers))
    return own, with_instruction(text, name, dtype, tuple(p.name for p in function.params))


def _half(helpers: Helpers, name: str, dtype: DType) -> Definition:
    """The function on half a vector, where it is computed in wider numbers."""
    own, writer = f"{name}_part_{dtype}", helpers.dialect.writer
    return own, write_function(definitions()[name, dtype.scalar], own, dtype.lanes, writer(helpers))


@cache
def definitions() -> dict[tuple[str, DType], Function]:
    """Every definition, by name and type: parsed when one is first asked for."""
    return parse_functions(MATH32 + WIDER + MATH64)
