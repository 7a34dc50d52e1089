"""Regions: which part of a buffer an access touches while some of the loops run.

Fix the outer loops and let the inner ones run: each index then moves within a *span*, from a linear
form of the outer variables to that form plus a constant. The spans of all indices make a box. An
index that cannot be bounded so, or that depends on data, spans its whole axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minitensor import ir
from minitensor.arith.interval import Ranges, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.simplify import Simplifier


@dataclass(frozen=True, slots=True)
class Span:
    """The integers from `low` to `low + spread`."""

    low: Linear
    spread: int

    @property
    def extent(self) -> int:
        """How many integers that is."""
        return self.spread + 1

    def scaled(self, factor: int) -> Span:
        """The span of factor * x."""
        low = self.low.times(factor)
        if factor < 0:
            low = low.shifted(factor * self.spread)
        return Span(low, abs(factor) * self.spread)


Box: TypeAlias = tuple[Span, ...]


def whole_axis(extent: int) -> Span:
    """The span of an axis in full."""
    return Span(constant_form(0), max(0, extent - 1))


def span_of(form: Linear, inner: frozenset[str], ranges: Ranges) -> Span | None:
    """The span of an index while the `inner` variables run; None if it cannot be bounded.

    form   the index, its atoms simplified
    inner  the variables that run; every other one is fixed
    """
    low, spread = constant_form(form.constant), 0
    for atom, coefficient in form.terms.items():
        span = _atom_span(atom, inner, ranges)
        if span is None:
            return None
        part = span.scaled(coefficient)
        low, spread = low.plus(part.low), spread + part.spread
    return Span(low, spread)


def _atom_span(atom: ir.Expr, inner: frozenset[str], ranges: Ranges) -> Span | None:
    if inner.isdisjoint(ir.free_vars(atom)) and (isinstance(atom, ir.Var) or not ir.loads(atom)):
        return Span(Linear({atom: 1}), 0)
    span: Span | None = None
    if (
        isinstance(atom, ir.Binary)
        and isinstance(atom.b, ir.Const)
        and not isinstance(atom.a, ir.Const)
    ):
        divisor = int(atom.b.value)
        if atom.op in ("//", "%") and divisor > 0:
            operand = span_of(linear_of(atom.a), inner, ranges)
            if operand is not None:
                divide = _quotient_span if atom.op == "//" else _remainder_span
                span = divide(operand, divisor, ranges)
    interval = interval_of(atom, ranges)
    if interval.is_bounded and (span is None or interval.hi - interval.lo < span.spread):
        span = Span(constant_form(int(interval.lo)), max(0, int(interval.hi - interval.lo)))
    return span


def _quotient_span(operand: Span, divisor: int, ranges: Ranges) -> Span:
    """The span of x // divisor for x in the operand's span."""
    low = operand.low
    if all(c % divisor == 0 for c in low.terms.values()):
        start = low.constant % divisor
        base = low.shifted(-start).divided(divisor)
        return Span(base, (start + operand.spread) // divisor)
    base = Simplifier(ranges).quotient(low, constant_form(divisor))
    return Span(base, (operand.spread + divisor - 1) // divisor)


def _remainder_span(operand: Span, divisor: int, ranges: Ranges) -> Span:
    """The span of x % divisor for x in the operand's span."""
    low = operand.low
    if all(c % divisor == 0 for c in low.terms.values()):
        start = low.constant % divisor
        if start + operand.spread < divisor:
            return Span(constant_form(start), operand.spread)
    return Span(constant_form(0), divisor - 1)


def box_of(
    indices: Sequence[Linear], shape: Sequence[int], inner: frozenset[str], ranges: Ranges
) -> Box:
    """The box that an access touches while the `inner` variables run."""
    return tuple(
        span_of(form, inner, ranges) or whole_axis(extent) for form, extent in zip(indices, shape)
    )


def clipped_box(box: Sequence[Span], shape: Sequence[int]) -> Box:
    """The box without what is known to lie outside the shape: spans that start at a constant."""
    return tuple(_clipped(span, extent) for span, extent in zip(box, shape))


def _clipped(span: Span, extent: int) -> Span:
    if not span.low.is_constant:
        return span
    start = min(max(0, span.low.constant), max(0, extent - 1))
    end = max(start, min(extent - 1, span.low.constant + span.spread))
    return Span(constant_form(start), end - start)


def swept(box: Box, ranges: Ranges) -> tuple[range, ...] | None:
    """The integers on each axis that the box takes up while all variables run; None if they leave
    gaps, or are not the same for every place on the other axes.
    """
    seen: set[str] = set()
    found = []
    for span in box:
        start, end = span.low.constant, span.low.constant + span.extent
        for atom, step in sorted(span.low.terms.items(), key=lambda term: abs(term[1])):
            if not isinstance(atom, ir.Var) or atom.name in seen or atom.name not in ranges:
                return None
            seen.add(atom.name)
            values = ranges[atom.name]
            if not values.is_bounded:
                return None
            if values.hi < values.lo:
                return tuple(range(0) for _ in box)
            if values.hi > values.lo and abs(step) > end - start:
                return None
            a, b = sorted((step * int(values.lo), step * int(values.hi)))
            start, end = start + a, end + b
        found.append(range(start, end))
    return tuple(found)


def union_box(a: Box, b: Box, shape: Sequence[int]) -> Box:
    """A box that holds both; an axis on which they cannot be compared is taken whole."""
    return tuple(_union(x, y) or whole_axis(n) for x, y, n in zip(a, b, shape))


def _union(a: Span, b: Span) -> Span | None:
    distance = b.low.minus(a.low)
    if not distance.is_constant:
        return None
    shift = distance.constant
    start, end = min(0, shift), max(a.spread, shift + b.spread)
    return Span(a.low.shifted(start), end - start)


def contains(outer: Box, inner: Box, ranges: Ranges) -> bool:
    """Whether `inner` is known to lie within `outer`."""
    for x, y in zip(outer, inner):
        distance = y.low.minus(x.low).interval(ranges)
        if not (distance.lo >= 0 and distance.hi + y.spread <= x.spread):
            return False
    return True
