"""The types of a text: of elements in memory, of values as they are computed, and of vectors."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from minitensor import ir

_ELEMENT: Final = {
    "float64": "double",
    "float32": "float",
    "float16": "_Float16",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
    "index": "int64_t",
}


def element_type(dtype: ir.DType) -> str:
    """The C type of an element in memory."""
    return _ELEMENT.get(dtype.scalar) or f"{dtype.scalar}_t"


def compute_type(dtype: ir.DType) -> str:
    """The C type in which an element is computed: float for narrow floats."""
    return element_type(computed(dtype.scalar))


def is_narrow_float(dtype: ir.DType) -> bool:
    """Tell whether elements are floats that are computed in a wider type."""
    return dtype.is_float and dtype.bits < 32


def computed(dtype: ir.DType) -> ir.DType:
    """The type, with as many lanes, in which elements are computed: narrow floats in float32,
    indices in int64.
    """
    if is_narrow_float(dtype):
        return ir.DType.of("float32").with_lanes(dtype.lanes)
    return ir.DType.of("int64").with_lanes(dtype.lanes) if dtype.scalar == ir.INDEX else dtype


def int_twin(dtype: ir.DType) -> ir.DType:
    """The signed integer type of the same width and lanes, which holds a mask for such elements."""
    return ir.DType.of(f"int{dtype.bits}").with_lanes(dtype.lanes)


def of_lanes(name: str, like: ir.DType) -> ir.DType:
    """The type `name` with as many lanes as another."""
    return ir.DType.of(name).with_lanes(like.lanes)


def whole(dtype: ir.DType) -> ir.DType:
    """The type of the vector that holds so many lanes: registers have 2, 4, 8, …"""
    lanes = dtype.lanes
    return dtype.with_lanes(1 << lanes.bit_length()) if lanes & (lanes - 1) else dtype


def widest(target: ir.DType) -> ir.DType:
    """The 64-bit integer type by way of which a float becomes another type."""
    return of_lanes("uint64" if target.scalar == "uint64" else "int64", target)


def conversion_steps(source: ir.DType, target: ir.DType) -> list[ir.DType]:
    """The types by way of which a vector becomes one of another type, which is the last; none if it
    is of that type. Integers double their bits, or halve them; floats come from 32 or more.
    """
    if source == target:
        return []
    steps: list[ir.DType] = []
    bits, wanted = source.bits, max(32, source.bits) if target.is_float else target.bits
    while source.is_integer and wanted not in (bits // 2, bits, 2 * bits):
        bits = 2 * bits if bits < wanted else bits // 2
        steps.append(of_lanes(f"{source.kind}{bits}", source))
    if source.is_integer and target.is_float and bits < wanted:
        steps.append(of_lanes("int32", source))
    return [*steps, target]


def elements_of(buffer: ir.Buffer) -> int:
    """The elements that the buffer takes in memory, at least one."""
    if not buffer.shape:
        return 1
    return max(1, ir.strides_of(buffer)[0] * buffer.shape[0])


def number(value: float, dtype: ir.DType) -> str:
    """A number as a literal of the type in which C computes with such elements; an index as an int
    where few bits hold it, since what it is multiplied with or added to is longer.
    """
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    held = int(ir.const(value, dtype).value)
    if held == -(1 << 63):
        return "(-9223372036854775807ll - 1)"
    is_long = dtype.bits == 64 and (dtype != ir.INDEX or abs(held) >= 1 << 31)
    unsigned = dtype.kind == "uint" and dtype.bits >= 32
    return f"{held}{'u' if unsigned else ''}{'ll' if is_long else ''}"


def _float_literal(value: float, dtype: ir.DType) -> str:
    suffix = "" if dtype.bits == 64 else "f"
    if value != value:
        return f'__builtin_nan{suffix}("")'
    with np.errstate(over="ignore"):
        held = ir.constant_value(value, dtype)
    if math.isinf(held):
        return f"{'-' if held < 0 else ''}__builtin_inf{suffix}()"
    return f"{float(held)!r}" if dtype.bits == 64 else f"{np.float32(held)!s}f"
