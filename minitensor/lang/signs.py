"""Signs of values: a function that knows that of its argument leaves out what cannot happen.

`exp` of a number that is never positive cannot overflow. Its argument is such a number where a
value is taken from the maximum over that value and others (softmax), where a square or a distance
is negated (Gaussians), or a positive number is. `lower` writes `exp_nonpositive` there: the same
value, bit for bit, in fewer instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from minitensor import arith, ir


class Sign(NamedTuple):
    """Bounds of a value that is not NaN."""

    at_least_0: bool
    at_most_0: bool

    def __neg__(self) -> Sign:
        return Sign(self.at_most_0, self.at_least_0)


class Extreme(NamedTuple):
    """The largest or the smallest of values over some axes: the elements of a buffer.

    op       "max" or "min"
    axes     the variables of an element, in the order of its indices
    reduced  the extents of the axes that it is taken over, by variable
    value    in terms of all of them
    """

    op: str
    axes: tuple[str, ...]
    reduced: Mapping[str, int]
    value: ir.Expr


_UNKNOWN: Final = Sign(False, False)
_POSITIVE: Final = ("exp", "exp_nonpositive", "abs", "sqrt", "sigmoid")
"""Functions that are never negative (an exponential may be rounded to 0)."""


class Signs:
    """The signs of the elements of buffers, each learnt before it is read."""

    def __init__(self) -> None:
        self._known: dict[str, Sign] = {}
        self._extremes: dict[str, Extreme] = {}

    def learn(
        self,
        buffers: Sequence[str],
        values: Sequence[ir.Expr],
        axes: Mapping[str, int],
        reduced: Mapping[str, int],
        reducer: ir.Reducer | None,
    ) -> None:
        """Note the signs of elements that are `values`, or their reduction.

        axes, reduced  the extents of the variables in the values, those of an element first
        """
        domain = {**axes, **reduced}
        op = ir.combines(reducer) if reducer is not None else ""
        if 0 in domain.values() or (reducer is not None and op not in ("+", "max", "min")):
            return
        ranges = {name: arith.extent_range(extent) for name, extent in domain.items()}
        for buffer, value in zip(buffers, values):
            self._known[buffer] = self.of(value, ranges)
            if op in ("max", "min"):
                self._extremes[buffer] = Extreme(op, tuple(axes), reduced, value)

    def of(self, expr: ir.Expr, ranges: arith.Ranges) -> Sign:
        """The sign of a float; unknown for numbers that can wrap around."""
        if not expr.dtype.is_float:
            return _UNKNOWN
        match expr:
            case ir.Const(value):
                return Sign(not value < 0, not value > 0)
            case ir.Load(buffer):
                return self._known.get(buffer, _UNKNOWN)
            case ir.Call(function) if function in _POSITIVE:
                return Sign(True, False)
            case ir.Call("power", (_, ir.Const(exponent))) if exponent % 2 == 0:
                return Sign(True, False)
            case ir.Unary("-", a) | ir.Cast(_, a):
                sign = self.of(a, ranges)
                return -sign if isinstance(expr, ir.Unary) else sign
            case ir.Select(_, a, b):
                return _both(self.of(a, ranges), self.of(b, ranges))
            case ir.Binary(op, a, b):
                return self._binary(op, a, b, ranges)
        return _UNKNOWN

    def _binary(self, op: ir.BinaryOp, a: ir.Expr, b: ir.Expr, ranges: arith.Ranges) -> Sign:
        x, y = self.of(a, ranges), self.of(b, ranges)
        match op:
            case "+":
                return _both(x, y)
            case "-":
                sign = _both(x, -y)
                above = self._is_best("max", a, b, ranges) or self._is_best("min", b, a, ranges)
                below = self._is_best("max", b, a, ranges) or self._is_best("min", a, b, ranges)
                return Sign(sign.at_least_0 or above, sign.at_most_0 or below)
            case "*" if a == b:
                return Sign(True, False)
            case "*":
                same, opposite = _both(x, y), _both(x, -y)
                return Sign(any(same), any(opposite))
            case "/" if isinstance(b, ir.Const) and b.value != 0:
                return x if b.value > 0 else -x
            case "max":
                return Sign(x.at_least_0 or y.at_least_0, x.at_most_0 and y.at_most_0)
            case "min":
                return Sign(x.at_least_0 and y.at_least_0, x.at_most_0 or y.at_most_0)
        return _UNKNOWN

    def _is_best(
        self, op: Literal["max", "min"], expr: ir.Expr, among: ir.Expr, ranges: arith.Ranges
    ) -> bool:
        """Tell whether an expression is the largest (or smallest) of values, `among` one of them.

        ranges  of the variables in `among`
        """
        match expr:
            case ir.Binary(other, a, b) if other == op:
                return among in (a, b)
            case ir.Load(buffer, indices) if buffer in self._extremes:
                of, axes, reduced, value = self._extremes[buffer]
                point: dict[str, ir.Expr] = {}
                if of != op or not _bind(value, among, point):
                    return False
                point.update(zip(axes, indices))
                if any(at.dtype != ir.INDEX for at in point.values()):  # it could wrap around
                    return False
                inside = all(
                    arith.interval_of(point.setdefault(name, ir.Const(0)), ranges).within(
                        0, extent - 1
                    )
                    for name, extent in reduced.items()
                )
                return inside and ir.substitute(value, point) == among
        return False

    def used(self, expr: ir.Expr, ranges: arith.Ranges) -> ir.Expr:
        """The same value, by functions that leave out what the signs of their arguments exclude."""

        def one(node: ir.Expr) -> ir.Expr:
            match node:
                case ir.Call("exp", (argument,), dtype) if self.of(argument, ranges).at_most_0:
                    return ir.Call("exp_nonpositive", (argument,), dtype)
            return node

        return ir.rewrite(expr, one)  # type: ignore[arg-type]


def _both(x: Sign, y: Sign) -> Sign:
    return Sign(x.at_least_0 and y.at_least_0, x.at_most_0 and y.at_most_0)


def _bind(pattern: ir.Expr, expr: ir.Expr, found: dict[str, ir.Expr]) -> bool:
    """Put into `found` what stands in an expression where the pattern has a variable.

    Returns False if the expression is of another form, mostly before much of it was looked at.
    """
    if isinstance(pattern, ir.Var):
        found.setdefault(pattern.name, expr)
        return True
    if type(pattern) is not type(expr) or getattr(pattern, "op", 0) != getattr(expr, "op", 0):
        return False
    pairs = zip(ir.children(pattern), ir.children(expr))
    return all(_bind(a, b, found) for a, b in pairs)  # type: ignore[arg-type]
