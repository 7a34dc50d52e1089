"""Linear forms: a sum of integer multiples of atoms, plus a constant.

An *atom* is a variable or any index expression that is not itself a sum: `x // 8`, `min(x, y)`,
`index(A[i])`. Two index expressions are equal if the linear form of their difference is 0; that is
how sums are compared everywhere.

Coefficients and constants are ints, or arrays with a number for each candidate of a batch (see
`numeric`). An atom that holds such numbers is an `Operation` on linear forms (see `operation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from minitensor import ir
from minitensor.arith.interval import Interval, Ranges, interval_of
from minitensor.arith.numeric import Num, is_zero, product

Term: TypeAlias = tuple[ir.Expr, int]


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + Σ coefficient * atom; no coefficient is the int 0. Treat `terms` as immutable.

    terms  by atom: an ir.Expr; in the forms of a batch an ir.Var or an Operation
    """

    terms: Mapping[Any, Num]
    constant: Num = 0

    def plus(self, other: Linear, factor: Num = 1) -> Linear:
        """self + factor * other."""
        added = other if type(factor) is int and factor == 1 else other.times(factor)
        if not self.terms or not added.terms:  # as most sums begin
            return Linear(self.terms or added.terms, self.constant + added.constant)
        terms = dict(self.terms)
        for atom, coefficient in added.terms.items():
            if atom not in terms:
                terms[atom] = coefficient
            elif is_zero(total := terms[atom] + coefficient):
                del terms[atom]
            else:
                terms[atom] = total
        return Linear(terms, self.constant + added.constant)

    def minus(self, other: Linear) -> Linear:
        """self - other."""
        return self.plus(other, -1)

    def times(self, factor: Num) -> Linear:
        """self * factor."""
        if is_zero(factor):
            return Linear({})
        terms = {a: product(c, factor) for a, c in self.terms.items()}
        return Linear(terms, product(self.constant, factor))

    def divided(self, divisor: int) -> Linear:
        """self / divisor, which must divide every coefficient and the constant."""
        return Linear({a: c // divisor for a, c in self.terms.items()}, self.constant // divisor)

    def shifted(self, amount: Num) -> Linear:
        """self + amount."""
        return Linear(self.terms, self.constant + amount)

    @property
    def is_constant(self) -> bool:
        """Return whether there are no terms."""
        return not self.terms

    @property
    def divisor(self) -> int:
        """The greatest integer that divides every coefficient and the constant (0 for zero)."""
        return math.gcd(self.constant, *self.terms.values())

    def part(self, keep: Callable[[ir.Expr, int], bool]) -> Linear:
        """The terms that satisfy `keep`, without the constant."""
        return Linear({a: c for a, c in self.terms.items() if keep(a, c)})

    def coefficient(self, name: str) -> Num:
        """The coefficient of a variable."""
        return self.terms.get(ir.Var(name), 0)

    def interval(self, ranges: Ranges) -> Interval:
        """An interval that holds every value."""
        result = Interval(self.constant, self.constant)
        for atom, coefficient in self.terms.items():
            result = result.plus(interval_of(atom, ranges).times(coefficient))
        return result

    def mentions_any(self, names: Iterable[str]) -> bool:
        """Return whether one of the variables occurs, in a term or inside an atom."""
        wanted = set(names)
        return any(not wanted.isdisjoint(ir.free_vars(atom)) for atom in self.terms)

    def expr(self) -> ir.Expr:
        """As an expression: larger coefficients first, then by name, positive terms leading."""
        ordered = (
            sorted(self.terms.items(), key=_order) if len(self.terms) > 1 else self.terms.items()
        )
        positive = [(a, c) for a, c in ordered if c > 0]
        negative = [(a, c) for a, c in ordered if c < 0]
        result: ir.Expr | None = None
        for atom, coefficient in positive:
            term = scaled(atom, coefficient)
            result = term if result is None else ir.Binary("+", result, term)
        if result is None and (self.constant or not negative):
            result = ir.Const(self.constant)
        elif result is not None and self.constant and not negative:
            result = ir.Binary("+", result, ir.Const(self.constant))
        for atom, coefficient in negative:
            if result is None:
                result = ir.Unary("-", atom) if coefficient == -1 else scaled(atom, coefficient)
            else:
                result = ir.Binary("-", result, scaled(atom, -coefficient))
        assert result is not None
        if positive and negative and self.constant:
            result = ir.Binary("+", result, ir.Const(self.constant))
        return result


def _order(term: Term) -> tuple[int, str]:
    atom, coefficient = term
    return -abs(coefficient), atom.name if isinstance(atom, ir.Var) else ir.print_expr(atom)


def scaled(atom: ir.Expr, coefficient: int) -> ir.Expr:
    """atom * coefficient, or the atom itself for 1."""
    return atom if coefficient == 1 else ir.Binary("*", atom, ir.Const(coefficient))


def constant_form(value: Num) -> Linear:
    """The linear form of a number."""
    return Linear({}, value)


def linear_of(expr: ir.Expr) -> Linear:
    """The linear form of an index expression. Total: what is not a sum becomes an atom."""
    match expr:
        case ir.Const(value):
            return Linear({}, int(value))
        case ir.Binary("+", a, b):
            return linear_of(a).plus(linear_of(b))
        case ir.Binary("-", a, b):
            return linear_of(a).minus(linear_of(b))
        case ir.Unary("-", a):
            return linear_of(a).times(-1)
        case ir.Binary("*", a, b):
            left, right = linear_of(a), linear_of(b)
            if right.is_constant:
                return left.times(right.constant)
            if left.is_constant:
                return right.times(left.constant)
            return Linear({expr: 1})
        case _:
            return Linear({expr: 1})
