"""Types of operands: how plain numbers are read, the common type of two, and conversions to it."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, unexpected


def is_number(value: object) -> bool:
    """Tell whether a value is a plain number (numpy's scalars included)."""
    return isinstance(value, (numbers.Real, np.bool_))


def as_float(value: Any, name: str) -> float:
    """A number as a Python float; refused if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        raise unexpected("a number below 1.8e308", name, value) from None


def is_whole(value: Any) -> bool:
    """Tell whether a number is an integer."""
    if isinstance(value, numbers.Rational):
        return value.denominator == 1
    return float(value).is_integer()


def promote(a: ir.DType, b: ir.DType) -> ir.DType:
    """The common type of two operands."""
    if a == b:
        return a
    if a.is_float and b.is_float:
        if a.bits == b.bits:  # float16 with bfloat16
            return ir.FLOAT32
        return a if a.bits > b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    a, b = (ir.INT64 if dtype.kind == "index" else dtype for dtype in (a, b))
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    return _common_integer(a, b)


def _common_integer(a: ir.DType, b: ir.DType) -> ir.DType:
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    bits = max(signed.bits, 2 * unsigned.bits)
    if bits > 64:
        raise ArgumentError(f"{a} and {b} have no common integer type; convert one with .astype")
    return ir.USER_DTYPES[f"int{bits}"]


def converted(node: ir.Expr, dtype: ir.DType) -> ir.Expr:
    """The node as `dtype`: itself if it is that already, constants converted at once."""
    if node.dtype == dtype:
        return node
    if isinstance(node, ir.Const) and not node.dtype.is_float:
        return ir.const(node.value, dtype)
    if isinstance(node, ir.Const) and dtype.is_float and dtype.bits >= node.dtype.bits:
        return ir.const(node.value, dtype)
    if dtype.kind == "bool":
        return ir.Binary("!=", node, ir.const(0, node.dtype))
    return ir.Cast(dtype, node)
