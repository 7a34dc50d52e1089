"""Regions: the part of a buffer that an access touches while some of the loops run.

Fix the outer loops and let the inner ones run: each index then moves within a *span*, from a linear
form of the outer variables to that form plus a constant. The spans of all indices make a box. An
index that cannot be bounded so, or that depends on data, spans its whole axis.

Spans and boxes hold the numbers of one program or those of a batch of candidates; `box_of` finds
the box of an access in one program, `batch_box` in all programs of a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.arith.interval import Ranges, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.numeric import (
    Num,
    Truth,
    as_number,
    chosen,
    greater,
    lesser,
    magnitude,
    product,
    same,
)
from minitensor.arith.operation import Operation, operation, same_operation, variables
from minitensor.arith.quotients import (
    ENDLESS,
    BatchError,
    greatest,
    is_natural,
    reduced,
    require_whole,
)
from minitensor.arith.simplify import Simplifier


@dataclass(frozen=True, slots=True)
class Span:
    """The integers from `low` to `low + spread`."""

    low: Linear
    spread: Num

    @property
    def extent(self) -> Num:
        """The number of integers."""
        return self.spread + 1

    def scaled(self, factor: Num) -> Span:
        """The span of factor * x."""
        moved = product(factor, self.spread)
        return Span(self.low.times(factor).shifted(lesser(moved, 0)), magnitude(moved))

    def plus(self, other: Span) -> Span:
        """The span of x + y."""
        return Span(self.low.plus(other.low), self.spread + other.spread)


Box: TypeAlias = tuple[Span, ...]


def whole_axis(extent: Num) -> Span:
    """The span of an axis in full."""
    return Span(constant_form(0), greater(extent - 1, 0))


# ---- boxes that are clipped, joined and compared


def clipped_box(box: Sequence[Span], shape: Sequence[Num]) -> Box:
    """The box without what is known to lie outside the shape: spans that start at a constant."""
    return tuple(_clipped(span, extent) for span, extent in zip(box, shape))


def _clipped(span: Span, extent: Num) -> Span:
    fixed = _is_constant(span.low)
    if fixed is False:
        return span
    low, last = span.low.constant, greater(extent - 1, 0)
    start = lesser(greater(low, 0), last)
    spread = greater(start, lesser(extent - 1, low + span.spread)) - start
    if fixed is True and span.low.is_constant:
        return Span(constant_form(start), spread)
    if any(isinstance(atom, Operation) for atom in span.low.terms):
        if not (same(start, low) and same(spread, span.spread)):
            raise BatchError("a region at the border of a buffer begins at a quotient")
        return span
    return Span(
        Linear(span.low.terms, chosen(fixed, start, low)), chosen(fixed, spread, span.spread)
    )


def _is_constant(form: Linear) -> Truth:
    """The candidates in which no variable moves a form, operations of a batch left aside."""
    fixed: Truth = True
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Operation):
            continue
        if isinstance(coefficient, int):
            return False
        fixed = fixed & np.equal(coefficient, 0)
    return fixed


def union_box(a: Box, b: Box, shape: Sequence[Num]) -> Box:
    """A box that holds both; an axis on which they cannot be compared is taken whole."""
    return tuple(map(union, a, b, shape))


def union(a: Span, b: Span, extent: Num) -> Span:
    """A span that holds both; the whole axis where they cannot be compared."""
    comparable, shift = _distance(a.low, b.low)
    if comparable is False:
        return whole_axis(extent)
    start, end = lesser(0, shift), greater(a.spread, shift + b.spread)
    joined = Span(a.low.shifted(start), end - start)
    if comparable is True:
        return joined
    low = joined.low.times(as_number(comparable))
    return Span(low, chosen(comparable, joined.spread, greater(extent - 1, 0)))


def _distance(a: Linear, b: Linear) -> tuple[Truth, Num]:
    """The candidates in which b - a is a constant, and that constant."""
    rest = dict(b.minus(a).terms)
    left = [x for x, c in rest.items() if isinstance(x, Operation) and np.any(c)]
    while left:
        one = left.pop()
        opposite = [x for x in left if same_operation(one, x) and same(rest[one], -rest[x])]
        if not opposite:
            raise BatchError("regions that begin at quotients cannot be compared")
        left.remove(opposite[0])
        del rest[one], rest[opposite[0]]
    comparable = _is_constant(Linear(rest))
    if comparable is not True and comparable is not False and np.all(comparable):
        comparable = True
    return comparable, b.constant - a.constant


def contains(outer: Box, inner: Box, ranges: Ranges) -> bool:
    """Return whether `inner` is known to lie within `outer`, in one program."""
    for x, y in zip(outer, inner):
        distance = y.low.minus(x.low).interval(ranges)
        if not (distance.lo >= 0 and distance.hi + y.spread <= x.spread):
            return False
    return True


# ---- in one program


def box_of(
    indices: Sequence[Linear], shape: Sequence[int], inner: frozenset[str], ranges: Ranges
) -> Box:
    """The box that an access touches while the `inner` variables run."""
    return tuple(
        span_of(form, inner, ranges) or whole_axis(extent) for form, extent in zip(indices, shape)
    )


def span_of(form: Linear, inner: frozenset[str], ranges: Ranges) -> Span | None:
    """The span of an index while the `inner` variables run; None if it cannot be bounded.

    form   the index, its atoms simplified
    inner  the variables that run; every other one is fixed
    """
    found = Span(constant_form(form.constant), 0)
    for atom, coefficient in form.terms.items():
        span = _atom_span(atom, inner, ranges)
        if span is None:
            return None
        found = found.plus(span.scaled(coefficient))
    return found


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


# ---- in a batch of programs


def batch_box(
    indices: Sequence[Linear],
    shape: Sequence[Num],
    inner: Collection[str],
    extents: Mapping[str, Num],
    units: bool = True,
) -> Box:
    """The box that an access touches while the `inner` loops run, clipped to the shape.

    indices  opened forms of the loops
    extents  of the loops
    units    whether loops of one iteration stay in where the spans begin

    Raises BatchError if it is not known: for quotients that not even replaying simplifies.
    """
    box = [_batch_span(reduced(form, extents), inner, extents, units) for form in indices]
    return clipped_box(box, shape)


_NOT_LINEAR: Final = (
    "what a block needs of a buffer whose index divides sums of loops is not known without "
    "replaying the schedule"
)


def _batch_span(
    form: Linear, inner: Collection[str], extents: Mapping[str, Num], units: bool
) -> Span:
    """The span of a form whose quotients are reduced."""
    found = Span(constant_form(form.constant), 0)
    moving = 0
    for atom, coefficient in form.terms.items():
        if not isinstance(atom, Operation):
            if atom.name in inner:
                found = found.plus(Span(Linear({}), extents[atom.name] - 1).scaled(coefficient))
            else:
                seen = 1 if units else as_number(extents[atom.name] > 1)
                found = found.plus(Span(Linear({atom: 1}).times(product(coefficient, seen)), 0))
        elif not atom.is_data and variables(Linear({atom: 1})).isdisjoint(inner):
            found = found.plus(Span(Linear({atom: coefficient}), 0))
        else:
            moving += 1
            one = _batch_atom_span(atom, inner, extents, units)
            if moving > 1 or np.any(np.less(coefficient, 0)):
                raise BatchError(_NOT_LINEAR)
            found = found.plus(one.scaled(coefficient))
    return found


def _batch_atom_span(
    atom: Operation, inner: Collection[str], extents: Mapping[str, Num], units: bool
) -> Span:
    """The span of a quotient or a remainder in which loops run."""
    if atom.op not in ("//", "%") or atom.is_data or not is_natural(atom.args[0]):
        raise BatchError(_NOT_LINEAR)
    number, by = atom.args[0], atom.args[1].constant
    if variables(atom.args[1]):
        raise BatchError(_NOT_LINEAR)
    span = _batch_span(number, inner, extents, units)
    coefficients = list(span.low.terms.values())
    if any(isinstance(x, Operation) for x in span.low.terms):
        raise BatchError(_NOT_LINEAR)
    still: Truth = False
    for coefficient in coefficients:
        still = still | np.not_equal(coefficient, 0)
    start = span.low.constant
    if atom.op == "//":
        common = by
        for coefficient in coefficients:
            common = np.gcd(common, coefficient)
        small = still & np.less(start + span.spread, common)
        require_whole(number, by, still & np.logical_not(small), extents)
        spread = (chosen(still, by - 1, start) + span.spread) // by
        spread = chosen(small, 0, spread)
        base = reduced(operation("//", span.low, atom.args[1]), extents)
        most = greatest(number, extents) // by
        if np.any(np.less(most, spread)):
            base = base.times(as_number(np.greater_equal(most, spread)))
        return Span(base, lesser(most, spread))
    fits = np.equal(by, ENDLESS)
    require_whole(number, by, ~fits, extents)
    fixed: Truth = ~fits & still & np.equal(span.spread, 0) if not units else False
    whole = ~fits & np.logical_not(fixed) & (still | np.greater_equal(start + span.spread, by))
    low = Linear(span.low.terms, start).times(as_number(~whole)) if np.any(whole) else span.low
    if np.any(fixed):
        low = low.times(as_number(np.logical_not(fixed)))
        low = low.plus(operation("%", span.low, atom.args[1]), as_number(fixed))
    return Span(low, np.where(whole, by - 1, span.spread) if np.any(whole) else span.spread)
