"""Preimages: the values of variables for which indices lie in a box. The inverse of `region`.

An index that is a sum is a number in mixed radix: of `2*x + k` with k < 2 the digits are x and k.
A tile of whole windows is a span of x, with any k; a part of one window is one x, with a span of k.
Digits that fusing and layouts make of a number (`f // 4` and `f % 4`, or those of `6*x + y`) are
put together first: a span of the number is one where those below a digit that moves are whole.

Windows that overlap and spans that cut them, or that would leave gaps, are not answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from minitensor import ir
from minitensor.arith.injectivity import Digit, as_digit
from minitensor.arith.interval import Interval, Ranges, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.region import Span
from minitensor.arith.simplify import NO_RANGES, Simplifier, size


def preimage(
    forms: Sequence[Linear],
    box: Sequence[Span],
    ranges: Ranges,
    outer: Ranges = NO_RANGES,
    *,
    met: bool = False,
) -> dict[str, Span] | None:
    """The spans of the variables for which, within their ranges, all forms lie in the box, and for
    no other values; None if they are not so, or it is not known. A variable that may have any of
    its values is left out.

    ranges  the values of the variables of the forms
    outer   the values of the variables of the box
    met     whether the forms are known to meet the box: so for the image of one point
    """
    found: dict[ir.Expr, Span] = {}
    for form, span in zip(forms, box):
        if not _solve(form, span, found, ranges, outer, met):
            return None
    while digits := [atom for atom in found if not isinstance(atom, ir.Var)]:
        known = {atom: digit for atom in digits if (digit := as_digit(atom)) is not None}
        if len(known) < len(digits):
            return None
        number = max((digit.number for digit in known.values()), key=size)
        own = {digit: found.pop(a) for a, digit in known.items() if digit.number == number}
        joined = _joined(own, interval_of(number, ranges), outer, met)
        if joined is None or not _solve(linear_of(number), joined, found, ranges, outer, met):
            return None
    return {atom.name: span for atom, span in found.items() if isinstance(atom, ir.Var)}


def _solve(
    form: Linear, span: Span, found: dict[ir.Expr, Span], ranges: Ranges, outer: Ranges, met: bool
) -> bool:
    """Add the spans of the atoms for which a form lies in a span; False if it is not known."""
    values = form.interval(ranges)
    if not values.is_bounded:
        return False
    rest, room = Span(span.low.shifted(-int(values.lo)), span.spread), int(values.hi - values.lo)
    for atom, coefficient in sorted(form.terms.items(), key=lambda term: -abs(term[1])):
        own, step = interval_of(atom, ranges), abs(coefficient)
        if own.is_point and len(form.terms) > 1:
            continue
        room -= step * int(own.hi - own.lo)
        parted = _parted(rest, step, room, outer)
        if parted is None:
            return False
        place, below = parted
        mirrored = coefficient < 0
        place = place.scaled(-1) if mirrored else place
        place = Span(place.low.shifted(int(own.hi if mirrored else own.lo)), place.spread)
        if found.setdefault(atom, place) != place:
            return False
        if below is None:
            return True
        rest = below
    return met or (rest.low.is_constant and -rest.spread <= rest.low.constant <= 0)


def _parted(span: Span, step: int, room: int, outer: Ranges) -> tuple[Span, Span | None] | None:
    """The spans of x and y, 0 <= y <= room, for which step*x + y lies in a span: None for all y."""
    if room >= step:
        return None
    low, spread = span.low, span.spread
    common = math.gcd(step, *low.terms.values())
    start = low.constant % common
    if common == step and (start == 0 or start > room):
        last, reached = divmod(start + spread, step)
        first = int(start > 0)
        if reached >= room and last >= first:
            base = low.shifted(-start).divided(step)
            return Span(base.shifted(first), last - first), None
    if start + spread < common:
        simplifier, by = Simplifier(outer), constant_form(step)
        place, below = simplifier.quotient(low, by), simplifier.remainder(low, by)
        return Span(place, 0), Span(below, spread)
    return None


def _joined(
    digits: Mapping[Digit, Span], values: Interval, outer: Ranges, met: bool
) -> Span | None:
    """The span of a number whose digits have these spans; None if it is none."""
    if values.lo < 0:
        return None
    found, unit = Span(constant_form(0), 0), 0
    for digit, span in sorted(digits.items(), key=lambda one: -one[0].divisor):
        divisor, base = digit.divisor, digit.base
        if unit == 0:
            if base is not None and divisor * base <= values.hi:
                return None
        else:
            if base is None or divisor * base != unit or found.spread:
                return None
            if not met and not span.low.interval(outer).within(0, base - 1 - span.spread):
                return None
        found = Span(found.low.times(base or 1).plus(span.low), span.spread)
        unit = divisor
    return Span(found.low.times(unit), found.spread * unit + unit - 1)
