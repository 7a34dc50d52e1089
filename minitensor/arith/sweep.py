"""The box that a box takes up while all loops around it run, where it does not leave gaps.

The begin of the box on an axis is a sum of *digits*: variables, and the quotients and remainders
that fusing makes of one. Digits that are free of each other (`f // 4` and `f % 4` are, where f runs
over a multiple of 4) take up every combination of their values. Where the number ends within a
round of the lower digits, that round is left out. Sums that leave gaps, and axes whose digits hang
together, are not answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from minitensor import ir
from minitensor.arith.injectivity import Digit, as_digit
from minitensor.arith.interval import Ranges
from minitensor.arith.linear import linear_of
from minitensor.arith.region import Box, Span

Values: TypeAlias = dict[ir.Expr, range]


def swept(box: Box, ranges: Ranges) -> tuple[range, ...] | None:
    """Integers on each axis of which the box takes up every combination while all variables run,
    and all of them but for a last round of digits; None if they leave gaps, or are not the same for
    every position on the other axes, or it is not known.
    """
    values = _independent((atom for span in box for atom in span.low.terms), ranges)
    if values is None:
        return None
    if not all(values.values()):
        return tuple(range(0) for _ in box)
    found = []
    for span in box:
        taken = _without_gaps(span, values)
        if taken is None:
            return None
        found.append(taken)
    return tuple(found)


def _without_gaps(span: Span, values: Values) -> range | None:
    """The integers of the spans that begin at every value; None if they leave gaps."""
    start, end = span.low.constant, span.low.constant + int(span.extent)
    for atom, step in sorted(span.low.terms.items(), key=lambda term: abs(term[1])):
        run = values[atom]
        if len(run) > 1 and abs(step) > end - start:
            return None
        a, b = sorted((step * run[0], step * run[-1]))
        start, end = start + a, end + b
    return range(start, end)


def _independent(atoms: Iterable[ir.Expr], ranges: Ranges) -> Values | None:
    """Values of each atom, of which every combination occurs; None if not so, or not known."""
    numbers: dict[ir.Expr, dict[Digit, ir.Expr]] = {}
    for atom in atoms:
        digit = Digit(atom, 1, None) if isinstance(atom, ir.Var) else as_digit(atom)
        if digit is None or digit in numbers.setdefault(digit.number, {}):
            return None
        numbers[digit.number][digit] = atom
    found: Values = {}
    known: set[str] = set()
    for number, digits in numbers.items():
        names = set(ir.free_vars(number))
        whole = _values_of(number, ranges)
        if whole is None or not known.isdisjoint(names):
            return None
        known |= names
        own = _digit_values(whole, sorted(digits, key=lambda digit: digit.divisor))
        if own is None:
            return None
        found.update(zip((digits[digit] for digit in own), own.values()))
    return found


def _values_of(number: ir.Expr, ranges: Ranges) -> range | None:
    """The values of a variable, or of a sum of variables that leaves no gaps."""
    if not isinstance(number, ir.Var):
        inside = swept((Span(linear_of(number), 0),), ranges)
        return None if inside is None else inside[0]
    values = ranges.get(number.name)
    if values is None or not values.is_bounded:
        return None
    return range(int(values.lo), int(values.hi) + 1)


def _digit_values(whole: range, digits: list[Digit]) -> dict[Digit, range] | None:
    """Values of the digits of a number, given from the lowest, so that all combinations occur."""
    if not whole or [(digit.divisor, digit.base) for digit in digits] == [(1, None)]:
        return dict.fromkeys(digits, whole)
    if whole.start != 0:
        return None
    size, below = len(whole), 1
    found = {}
    for digit in digits:
        divisor, base = digit.divisor, digit.base
        if below == 0 or divisor % below:
            return None
        if base is None or size <= divisor * base:
            base = size // divisor if below > 1 else -(-size // divisor)
        found[digit] = range(base)
        below = divisor * base
    return found
