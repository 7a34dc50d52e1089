"""Reducers: what they do; those of the positions of extrema, where of two that are level position
decides, or order.
"""

from __future__ import annotations

import math
from typing import Final

from minitensor.ir.dtype import INT64, DType
from minitensor.ir.expr import Binary, BinaryOp, Expr, Select, Var, const
from minitensor.ir.stmt import Reducer

NAMES: Final = ("argmax", "argmin")


def lowest(dtype: DType) -> float:
    """The identity of max: -inf, or the least integer."""
    return -math.inf if dtype.is_float else dtype.min_value


def highest(dtype: DType) -> float:
    """The identity of min: inf, or the greatest integer."""
    return math.inf if dtype.is_float else dtype.max_value


def arg_extremum(name: str, dtype: DType) -> Reducer:
    """The reducer "argmax" or "argmin", of pairs of a position (int64) and a value.

    It keeps the better value, and of two that are level the smaller position. A NaN is better than
    any number, and level with another.
    """
    i, x, j, y = _variables(dtype)
    better, level = _compared(name, "<", x, y), Binary("==", x, y)
    if dtype.is_float:
        is_nan = Binary("!=", x, x)
        better = Binary("or", better, Binary("and", is_nan, Binary("==", y, y)))
        level = Binary("or", level, is_nan)
    return _keeping(name, dtype, Binary("or", better, Binary("and", level, Binary("<", i, j))))


def operator_of(reducer: Reducer) -> str:
    """The operator between the values that it combines, "+" for a sum whatever its name is; "" if
    there is more to it.
    """
    match reducer.results:
        case (Binary(op, a, b),) if (a, b) == (*reducer.lhs, *reducer.rhs):
            return op
    return ""


def in_order(reducer: Reducer) -> Reducer | None:
    """The same reducer for pairs that come in the order of their positions, so that of two that are
    level the first stays; None for one that is no `arg_extremum`.
    """
    name, dtype = reducer.name, reducer.lhs[-1].dtype
    if name not in NAMES or reducer != arg_extremum(name, dtype):
        return None
    _, x, _, y = _variables(dtype)
    keep: Expr = _compared(name, "<=", x, y)
    if dtype.is_float:
        keep = Binary("or", keep, Binary("!=", x, x))
    return _keeping(name, dtype, keep)


def _variables(dtype: DType) -> tuple[Var, Var, Var, Var]:
    return Var("i", INT64), Var("x", dtype), Var("j", INT64), Var("y", dtype)


def _compared(name: str, op: BinaryOp, x: Var, y: Var) -> Binary:
    """The comparison that says that `y` is worse than `x`, or no better."""
    return Binary(op, y, x) if name == "argmax" else Binary(op, x, y)


def _keeping(name: str, dtype: DType, keep: Expr) -> Reducer:
    """The reducer that keeps the first of two pairs under a condition."""
    i, x, j, y = _variables(dtype)
    worst = lowest(dtype) if name == "argmax" else highest(dtype)
    identity = (const(INT64.max_value, INT64), const(worst, dtype))
    return Reducer(name, (i, x), (j, y), (Select(keep, i, j), Select(keep, x, y)), identity)
