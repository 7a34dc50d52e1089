"""Intervals of integers, closed, possibly unbounded, and the interval of an index expression."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from minitensor import ir

Bound: TypeAlias = float
"""An int, or ±math.inf (Python compares ints with infinities exactly)."""


class Interval(NamedTuple):
    """All integers from `lo` to `hi`; empty if lo > hi."""

    lo: Bound
    hi: Bound

    @property
    def is_point(self) -> bool:
        """Return whether exactly one integer is inside."""
        return self.lo == self.hi

    @property
    def is_bounded(self) -> bool:
        """Return whether both ends are finite."""
        return -math.inf < self.lo and self.hi < math.inf

    def within(self, lo: Bound, hi: Bound) -> bool:
        """Return whether every integer inside is in [lo, hi]."""
        return lo <= self.lo and self.hi <= hi

    def plus(self, other: Interval) -> Interval:
        """The interval of x + y."""
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def times(self, factor: int) -> Interval:
        """The interval of x * factor."""
        if factor == 0:
            return POINT_ZERO
        a, b = self.lo * factor, self.hi * factor
        return Interval(a, b) if factor > 0 else Interval(b, a)

    def union(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def floor_div(self, divisor: int) -> Interval:
        """The interval of x // divisor, for divisor > 0."""
        return Interval(_floor_div(self.lo, divisor), _floor_div(self.hi, divisor))

    def floor_mod(self, divisor: int) -> Interval:
        """The least interval known to hold x % divisor, for divisor > 0."""
        if self.is_bounded and self.lo // divisor == self.hi // divisor:
            return Interval(self.lo % divisor, self.hi % divisor)
        return Interval(0, divisor - 1)


EVERYTHING: Final = Interval(-math.inf, math.inf)
POINT_ZERO: Final = Interval(0, 0)
TRUTH: Final = Interval(0, 1)

Ranges: TypeAlias = Mapping[str, Interval]
"""Known intervals of variables; one that is absent may be any integer."""


class Remembered(dict[str, Interval]):
    """Ranges that stay as they are, with the intervals found under them: one within another is
    asked for again and again.
    """

    __slots__ = ("intervals",)

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges)
        self.intervals: dict[int, tuple[ir.Expr, Interval]] = {}
        """By id, with the expression itself, which must not be collected meanwhile."""


def extent_range(extent: int) -> Interval:
    """The values of a loop variable (empty for an extent of 0)."""
    return Interval(0, extent - 1)


def _floor_div(bound: Bound, divisor: int) -> Bound:
    return bound if math.isinf(bound) else bound // divisor


def _product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def dtype_interval(dtype: ir.DType) -> Interval:
    """Every value of an integer or bool type; everything for the others and for `index`."""
    if dtype.kind == "bool":
        return TRUTH
    if dtype.kind in ("int", "uint"):
        return Interval(dtype.min_value, dtype.max_value)
    return EVERYTHING


def interval_of(expr: ir.Expr, ranges: Ranges) -> Interval:
    """An interval that holds every value of an expression, of type index unless it is opaque.

    Exact when each variable occurs once and only +, -, * by constants and // by constants are used;
    an overestimate otherwise.
    """
    match expr:
        case ir.Var(name):
            return ranges.get(name, EVERYTHING)
        case ir.Const(value):
            return Interval(int(value), int(value)) if value == value else EVERYTHING
        case ir.Cast(_, a) if expr.dtype == ir.INDEX:
            return interval_of(a, ranges) if isinstance(a, ir.Const) else dtype_interval(a.dtype)
        case ir.Call("in_bounds", (_, ir.Const(extent))):
            return Interval(0, int(extent) - 1)
        case _ if expr.dtype != ir.INDEX:
            return dtype_interval(expr.dtype)
        case ir.Unary("-", a):
            return interval_of(a, ranges).times(-1)
        case ir.Select(_, a, b):
            return interval_of(a, ranges).union(interval_of(b, ranges))
        case ir.Binary(op, a, b):
            if not isinstance(ranges, Remembered):
                return binary_interval(op, interval_of(a, ranges), interval_of(b, ranges))
            known = ranges.intervals.get(id(expr))
            if known is None:
                found = binary_interval(op, interval_of(a, ranges), interval_of(b, ranges))
                known = ranges.intervals[id(expr)] = (expr, found)
            return known[1]
        case _:
            return EVERYTHING


def binary_interval(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of `x op y` for x in a and y in b."""
    match op:
        case "+":
            return a.plus(b)
        case "-":
            return a.plus(b.times(-1))
        case "*":
            corners = [_product(x, y) for x in a for y in b]
            return Interval(min(corners), max(corners))
        case "min":
            return Interval(min(a.lo, b.lo), min(a.hi, b.hi))
        case "max":
            return Interval(max(a.lo, b.lo), max(a.hi, b.hi))
        case "//" if b.is_point and b.lo > 0:
            return a.floor_div(int(b.lo))
        case "%" if b.is_point and b.lo > 0:
            return a.floor_mod(int(b.lo))
        case "%" if b.lo > 0:
            return Interval(0, b.hi - 1)
        case "//":
            most = max(abs(a.lo), abs(a.hi))
            return Interval(0 if min(a.lo, b.lo) >= 0 else -most, most)
        case "%":
            return Interval(min(0, b.lo), max(0, b.hi))
        case _:
            return EVERYTHING
