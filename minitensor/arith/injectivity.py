"""Injective index maps, by mixed-radix reasoning: different iterations access different elements.

Index expressions made by split and fuse are numbers in mixed radix: `i_0*8 + i_1` has the digits
i_0 and i_1, `f // 64` and `f % 64` are the digits of f. If an index holds a digit of x where
nothing else changes it, equal indices mean an equal digit; if all digits of x are held
in some index, equal indices mean an equal x. That is the test for independence of loop iterations.
Sums of digits are decomposed again: for f = f_0*24 + f_1, f determines f_0.
The idea is that of TVM's iteration maps (Feng et al., TensorIR, ASPLOS 2023, section 3.3), used
only to prove that a map is injective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minitensor import ir
from minitensor.arith.interval import Ranges, interval_of
from minitensor.arith.linear import Linear, linear_of


class Digit(NamedTuple):
    """(number // divisor) % base; the leading digit has base None."""

    number: ir.Expr
    divisor: int
    base: int | None


def as_digit(atom: ir.Expr) -> Digit | None:
    """An atom as a digit of some number: x // c, x % c or x // c % d."""
    match atom:
        case ir.Binary("//", a, ir.Const(c)) if c > 0:
            return Digit(a, int(c), None)
        case ir.Binary("%", ir.Binary("//", a, ir.Const(c)), ir.Const(d)) if c > 0 and d > 0:
            return Digit(a, int(c), int(d))
        case ir.Binary("%", a, ir.Const(d)) if d > 0:
            return Digit(a, 1, int(d))
    return None


def separates(
    name: str, a: Sequence[Linear], b: Sequence[Linear], free: frozenset[str], ranges: Ranges
) -> bool:
    """Return whether equal indices imply an equal value of the variable `name`.

    a, b   the indices of two accesses to one buffer (or of one access, twice)
    free   the variables that may differ between the two; `name` is one. All others are the same.

    False means "don't know".
    """
    if interval_of(ir.Var(name), ranges).hi <= interval_of(ir.Var(name), ranges).lo:
        return True
    digits: list[Digit] = []
    others: list[tuple[ir.Expr, int, Linear, Linear]] = []
    for left, right in zip(a, b):
        for atom, coefficient in left.terms.items():
            if right.terms.get(atom) != coefficient:
                continue
            if name not in ir.free_vars(atom):
                others.append((atom, coefficient, left, right))
            elif _pinned(atom, coefficient, left, right, free, ranges):
                if atom == ir.Var(name):
                    return True
                digits.append(as_digit(atom) or Digit(atom, 1, None))
    if not digits:
        return False
    digits += [
        as_digit(atom) or Digit(atom, 1, None)
        for atom, coefficient, left, right in others
        if not free.isdisjoint(ir.free_vars(atom))
        and _pinned(atom, coefficient, left, right, free, ranges)
    ]
    for number in {digit.number for digit in digits if name in ir.free_vars(digit.number)}:
        form = linear_of(number)
        found = [_as_digit_of(number, form, digit, ranges) for digit in digits]
        moving = form.part(lambda atom, _: not free.isdisjoint(ir.free_vars(atom)))
        if _complete([digit for digit in found if digit], moving, ranges) and (
            number == ir.Var(name)
            or (len(form.terms) > 1 and separates(name, [form], [form], free, ranges))
        ):
            return True
    return False


def _as_digit_of(number: ir.Expr, form: Linear, digit: Digit, ranges: Ranges) -> Digit | None:
    """The digit as one of `number`, where that is k*x + low + high for the digit x // c or
    x // c % d: low is less than k, and high is a multiple of k*c*d, which a remainder leaves out.
    """
    if digit.number == number:
        return digit
    part = linear_of(digit.number)
    for k in sorted({form.terms.get(atom, 0) // c for atom, c in part.terms.items()}):
        if k < 1:
            continue
        rest = _without_quotients(form.minus(part.times(k)))
        period = k * digit.divisor * (digit.base or 0)
        low = {atom: c for atom, c in rest.terms.items() if not period or c % period}
        values = Linear(low, rest.constant).interval(ranges)
        if values.lo >= 0 and values.hi < k:
            return Digit(number, k * digit.divisor, digit.base)
    return None


def _without_quotients(form: Linear) -> Linear:
    """The form with x - x % c in the place of (x // c) * c."""
    found = form
    for atom, coefficient in form.terms.items():
        digit = as_digit(atom)
        if digit is not None and digit.base is None and coefficient % digit.divisor == 0:
            whole = linear_of(digit.number)
            rest = Linear({ir.Binary("%", digit.number, ir.Const(digit.divisor)): 1})
            found = found.plus(Linear({atom: 1}), -coefficient)
            found = found.plus(whole.minus(rest), coefficient // digit.divisor)
    return found


def _pinned(
    atom: ir.Expr,
    coefficient: int,
    left: Linear,
    right: Linear,
    free: frozenset[str],
    ranges: Ranges,
) -> bool:
    """Return whether equality of the two indices implies equality of the atom's two values.

    The rest of each index splits into multiples of coefficient * (number of values of the atom),
    which cannot disturb the atom's digit, and the others, which must be too small to reach it.
    """
    values = interval_of(atom, ranges)
    if not values.is_bounded:
        return False
    period = abs(coefficient) * max(1, int(values.hi - values.lo) + 1)
    fixed: dict[ir.Expr, int] = {}
    shift = right.constant - left.constant
    low, high = float(shift), float(shift)
    for sign, form in ((1, right), (-1, left)):
        for other, c in form.terms.items():
            if free.isdisjoint(ir.free_vars(other)):
                fixed[other] = fixed.get(other, 0) + sign * c
            elif c % period != 0 and other != atom:
                part = interval_of(other, ranges).times(sign * c)
                low, high = low + part.lo, high + part.hi
    if any(fixed.values()):
        return False
    return low > -abs(coefficient) and high < abs(coefficient)


def _complete(digits: Sequence[Digit], moving: Linear, ranges: Ranges) -> bool:
    """Return whether the digits give the whole number; its two values differ in its moving part."""
    known = {1}  # the moduli for which the number's remainder is known
    for digit in sorted(digits, key=lambda d: d.divisor):
        if all(modulus % digit.divisor for modulus in known):
            continue
        if digit.base is None:
            return True
        known.add(digit.divisor * digit.base)
    values = moving.interval(ranges)
    return bool(values.hi - values.lo < max(known))
