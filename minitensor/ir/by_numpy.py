"""Operators of expressions on numpy arrays: what a reference and a baseline compute with.

It shares nothing with the interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError
from minitensor.ir.dtype import INDEX, DType, numpy_dtype
from minitensor.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from minitensor.ir.numbers import popcount
from minitensor.ir.visit import measured

Array = np.ndarray


def apply_by_numpy(expr: Expr, parts: Sequence[Array]) -> Array:
    """The value of an expression that has no name, from those of its children."""
    match expr:
        case Unary(op):
            return ~parts[0] if op == "not" else -parts[0]
        case Binary(op):
            return _BINARY[op](*parts)
        case Select():
            return np.where(*parts)
        case Cast(dtype):
            return _cast(parts[0], dtype)
        case Call(function) if function in _FUNCTION:
            return np.asarray(_FUNCTION[function](*parts)).astype(numpy_dtype(expr.dtype))
    raise ArgumentError(f"numpy computes definitions, and this expression is none: {expr!r}")


def value_by_numpy(expr: Expr, values: Mapping[str, Any]) -> Any:
    """The values of an index or a condition, from those of its variables; None if they depend on
    data, or on a variable that has none.
    """

    def measure(node: Any, below: list[Any]) -> Any:
        match node:
            case Var(name):
                return values.get(name)
            case Const(value):
                return np.asarray(value)
            case Cast(dtype) if dtype == INDEX and below[0] is not None:
                return below[0].astype(np.int64)
            case Load():
                return None
        if any(part is None for part in below):
            return None
        return apply_by_numpy(node, [np.asarray(part) for part in below])

    return measured(expr, measure)


def _cast(values: Array, dtype: DType) -> Array:
    """Converted as `Cast` says: truncated, wrapped, 0 for what no 64-bit integer holds."""
    target = numpy_dtype(dtype)
    if dtype.kind == "bool":
        truth: Array = values != 0
        return truth
    if values.dtype.kind != "f" or dtype.is_float:
        return values.astype(target)
    wide = values.astype(np.float64)
    if dtype == "uint64":
        high = (wide >= 2.0**63) & (wide < 2.0**64)
        upper = np.where(high, wide - 2.0**63, 0).astype(np.uint64) + np.uint64(1 << 63)
        return np.where(high, upper, _cast(values, DType.of("int64")).view(np.uint64))
    fits = (wide >= -(2.0**63)) & (wide < 2.0**63)
    return np.trunc(np.where(fits, wide, 0)).astype(np.int64).astype(target)


def _floored(operation: Callable[..., Any], a: Array, b: Array) -> Array:
    """A division, total: by 0 it gives 0 where numbers are integers."""
    if a.dtype.kind == "f":
        return np.asarray(operation(a, b))
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient: Array = np.asarray(operation(a, safe)).astype(a.dtype)
    total: Array = np.where(b == 0, np.zeros_like(quotient), quotient)
    return total


def _places(b: Array) -> Array:
    """By how much a shift by `b` moves: modulo the width of its type."""
    places: Array = np.remainder(b, 8 * b.dtype.itemsize).astype(b.dtype)
    return places


_BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": lambda a, b: _floored(np.floor_divide, a, b),
    "%": lambda a, b: _floored(np.remainder, a, b),
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: np.left_shift(a, _places(b)),
    ">>": lambda a, b: np.right_shift(a, _places(b)),
}

_FUNCTION: Final[Mapping[str, Callable[..., Any]]] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x.astype(np.float64)),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "abs": np.abs,
    "popcount": popcount,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "power": np.power,
}
