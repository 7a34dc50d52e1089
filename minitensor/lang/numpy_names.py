"""Numpy's names for operators and functions, and what they are on symbolic values."""

from __future__ import annotations

from typing import Final

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
