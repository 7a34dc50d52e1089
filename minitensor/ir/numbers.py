"""Arithmetic of the reference semantics: every operation on scalars.

Data are numpy scalars (so integers wrap and float32 rounds at each step); `index` values are Python
ints and conditions Python bools. A value of a packed type, such as bfloat16, is held in the type in
which it is computed, and rounded after each step; a conversion goes through that type.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from minitensor.ir.dtype import DType, compute_dtype, pack, unpack
from minitensor.ir.expr import floor_div, floor_mod

Value = Any
"""A numpy scalar, an int (index), a bool, or for vectors an array of them."""


def round_to(value: Value, dtype: DType) -> Value:
    """A result as its type holds it."""
    if dtype.is_packed:
        rounded = unpack(pack(np.atleast_1d(value), dtype), dtype)
        return rounded if np.ndim(value) else rounded[0]
    return value


def constant(value: float, dtype: DType) -> Value:
    """A constant of the given type."""
    if dtype.kind in ("index", "bool"):
        return value
    return round_to(compute_dtype(dtype).type(value), dtype)


def cast(value: Value, source: DType, target: DType) -> Value:
    """`value` of type `source` converted to `target`.

    A float is truncated and then wraps; one that no 64-bit integer holds (NaN too) becomes 0.
    """
    if source.is_float and target.kind in ("int", "uint", "index"):
        value = _truncated(np.asarray(value, np.float64), target)
    if target.kind == "index" and source.lanes == 1:
        return int(value)
    if target.kind == "bool" and source.lanes == 1:
        return bool(value != 0)
    array = np.asarray(value)
    if target.kind == "bool":
        return array != 0
    return round_to(array.astype(compute_dtype(target))[()], target)


def _power(a: Value, b: Value) -> Value:
    """a ** b as C's pow has it; numpy takes a square root where b is 0.5, which fails at -inf."""
    result = np.power(a, b)
    return np.where((a == -np.inf) & (b == 0.5), np.inf, result).astype(np.asarray(result).dtype)[
        ()
    ]


def _truncated(values: np.ndarray, target: DType) -> Value:
    """Floats as 64-bit integers."""
    signed = (values >= -(2.0**63)) & (values < 2.0**63)
    result = np.where(signed, values, 0).astype(np.int64)
    if target == "uint64":
        high = (values >= 2.0**63) & (values < 2.0**64)
        result = np.where(high, np.where(high, values, 0).astype(np.uint64), result.view(np.uint64))
    return result[()]


def binary(op: str, dtype: DType) -> Callable[[Value, Value], Value]:
    """The function that a Binary `op` on operands of type `dtype` computes."""
    if dtype.lanes > 1:
        return _ON_VECTORS.get(op) or _BINARY[op]
    if dtype.kind == "index":
        return _ON_INDICES.get(op) or _BINARY[op]
    return _BINARY[op]


_BINARY: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": np.floor_divide,
    "%": np.remainder,
    "min": lambda a, b: b if b < a or b != b else a,
    "max": lambda a, b: b if b > a or b != b else a,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << (b & (8 * b.itemsize - 1)),
    ">>": lambda a, b: a >> (b & (8 * b.itemsize - 1)),
}
_ON_INDICES: Final[dict[str, Callable[[Value, Value], Value]]] = {"//": floor_div, "%": floor_mod}
_ON_VECTORS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "min": lambda a, b: np.where((b < a) | (b != b), b, a),
    "max": lambda a, b: np.where((b > a) | (b != b), b, a),
}

UNARY: Final[dict[str, Callable[[Value], Value]]] = {
    "-": lambda a: -a,
    "not": np.logical_not,
}

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _as_type_of(x: Value, result: Value) -> Value:
    return np.asarray(result).astype(np.asarray(x).dtype)[()]


def _rsqrt(x: Value) -> Value:
    return _as_type_of(x, 1 / np.sqrt(np.asarray(x, np.float64)))


def _sigmoid(x: Value) -> Value:
    """The sigmoid, rounded to its type once; exp(-x) would overflow where the result is small."""
    wide = np.asarray(x, np.float64)
    small = np.exp(-np.abs(wide))
    return _as_type_of(x, np.where(wide < 0, small, 1.0) / (1 + small))


def _ldexp(x: Value, n: Value) -> Value:
    """x * 2^n, rounded once; NaN where n is."""
    whole = np.nan_to_num(np.asarray(n, np.float64)).clip(-2000, 2000).astype(np.int64)
    scaled = np.ldexp(np.asarray(x, np.float64), whole)
    return _as_type_of(x, np.where(np.isnan(n), np.nan, scaled))


def popcount(x: Value) -> Value:
    """The bits that are set in each integer."""
    each = np.ascontiguousarray(x)
    return _as_type_of(x, np.unpackbits(each.view(np.uint8)).reshape(*np.shape(x), -1).sum(-1))


FUNCTION: Final[dict[str, Callable[..., Value]]] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": lambda x: _as_type_of(x, _erf(x)),
    "sin": np.sin,
    "sin_far": np.sin,
    "cos": np.cos,
    "cos_far": np.cos,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "abs": abs,
    "popcount": popcount,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "power": _power,
    "ldexp": _ldexp,
    "ldexp_nonpositive": lambda x, biased: _ldexp(x, biased - np.float32(12583103)),
}
"""The functions of `expr.FUNCTIONS` on values, except `in_bounds`, whose error names an access."""
