"""What index expressions are worth at many points at once, with numpy.

    points = {"i": np.array([0, 1, 2]), "p": np.array([True, False, True])}
    value_of(Var("i") * 4 // 3, points)        array([0, 1, 2])

Written apart from the interpreter and from the simplifier, which it tests. Values are exact: what
64 bits may not hold is computed with Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from minitensor.ir import Binary, Cast, Const, Expr, Select, Unary, Var

Points = Mapping[str, np.ndarray]
"""By name of a variable: one value a point."""
LARGEST: Final = 1 << 62


class _TooLargeError(Exception):
    """A value may be beyond 64 bits."""


def value_of(expr: Expr, points: Points) -> np.ndarray:
    """The value at each point, an array as long as those of `points`.

    Index expressions are integers (int64, or objects where that is too small), conditions booleans;
    variables and constants of other types have the values that they are given.
    """
    length = max((len(array) for array in points.values()), default=1)
    with np.errstate(divide="ignore"):
        try:
            value, _ = _value(expr, points, LARGEST)
        except _TooLargeError:
            exact = {n: a if a.dtype == bool else a.astype(object) for n, a in points.items()}
            value, _ = _value(expr, exact, None)
    return np.broadcast_to(value, (length,))


def _value(expr: Expr, points: Points, largest: int | None) -> tuple[Any, int]:
    """The value, and a bound of its magnitude."""
    match expr:
        case Var(name):
            array = points[name]
            if array.dtype == bool or largest is None:
                return array, 1
            return array, max(abs(int(array.min())), abs(int(array.max()))) if len(array) else 0
        case Const(bool() as truth):
            return np.bool_(truth), 1
        case Const(value):
            if largest is not None and abs(value) >= largest:
                raise _TooLargeError
            return int(value), abs(int(value))
        case Unary(op, a):
            inner, bound = _value(a, points, largest)
            return (np.logical_not(inner) if op == "not" else -inner), bound
        case Cast(_, a):
            return _value(a, points, largest)
        case Select(condition, a, b):
            truth, _ = _value(condition, points, largest)
            yes, bound = _value(a, points, largest)
            no, other = _value(b, points, largest)
            chosen = np.where(truth, yes, no)
            return (chosen if largest is not None else chosen.astype(object)), max(bound, other)
        case Binary(op, a, b):
            left, bound = _value(a, points, largest)
            right, other = _value(b, points, largest)
            bound = _bound(op, bound, other)
            if largest is not None and bound >= largest:
                raise _TooLargeError
            return _OPERATIONS[op](left, right), bound
    raise ValueError(f"not an index expression: {expr}")


def _bound(op: str, a: int, b: int) -> int:
    match op:
        case "+" | "-":
            return a + b
        case "*":
            return a * b
        case _:
            return max(a, b)


def _quotient(a: Any, b: Any) -> Any:
    """a // b rounded down, 0 where b is 0."""
    if isinstance(b, int):
        return a // b if b else 0
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _remainder(a: Any, b: Any) -> Any:
    """a - a // b * b, but 0 where b is 0."""
    if isinstance(b, int):
        return a % b if b else 0
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


def _many(a: Any, b: Any) -> bool:
    return isinstance(a, np.ndarray) or isinstance(b, np.ndarray)


_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _quotient,
    "%": _remainder,
    "min": lambda a, b: np.minimum(a, b) if _many(a, b) else min(a, b),
    "max": lambda a, b: np.maximum(a, b) if _many(a, b) else max(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": np.logical_and,
    "or": np.logical_or,
}
