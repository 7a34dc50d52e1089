"""Numpy's names for operators and functions, and what they are on symbolic values."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from minitensor.errors import ArgumentError
from minitensor.phrasebook import PHRASES

REFLECTED: Final = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
"""The method of the right operand, where the left one is a number of numpy."""
OURS: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "rint": "round",
    "float_power": "power",
    "maximum": "maximum",
    "minimum": "minimum",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_not": "logical_not",
}
"""Functions that have another name here, or are no `ir.Call`."""


class NoArray:
    """A base of what numpy would else take for an array of one object."""

    def __array_ufunc__(self, ufunc: Any, method: str, *_: object, **options: object) -> NoReturn:
        self._refuse_numpy(ufunc.__name__)

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        self._refuse_numpy(function.__name__)

    def __array__(self, *_: object, **options: object) -> NoReturn:
        self._refuse_numpy("asarray")

    def _refuse_numpy(self, name: str) -> NoReturn:
        phrase = PHRASES["tensor"].get(name)
        here = phrase.here if phrase else "mt.compute of elements: A[i, j]"
        raise ArgumentError(f"np.{name} is for arrays, and {self!r} is symbolic; write {here}")
