"""The simplifier: an equal expression, smaller if the rules can make it so.

Index expressions are kept as linear forms, which collects like terms and folds constants; their
divisions, extrema and comparisons, and everything that is not an index, go through the tables of
`rules`. The result is equal to the argument for every assignment within `ranges`, simplifying it
again changes nothing, and it has at most twice as many nodes. It is larger only where a constant is
multiplied into a sum or divided out of one, or where the sign of a negative divisor moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeGuard

from minitensor import ir
from minitensor.arith.interval import Ranges, Remembered, extent_range
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.match import binds, dividends, matches, replaced
from minitensor.arith.rules import (
    COMPARISON,
    EXTREMUM,
    FLOAT,
    INTEGER,
    LOGIC,
    QUOTIENT,
    REMAINDER,
    Bindings,
    Rule,
    interval_end,
)

NO_RANGES: Final[Ranges] = {}
GROWTH: Final = 2


def simplify(expr: ir.Expr, ranges: Ranges = NO_RANGES) -> ir.Expr:
    """An expression equal to `expr` wherever the variables are within `ranges`."""
    if isinstance(expr, (ir.Var, ir.Const)) and not ranges:
        return expr
    ir.make_room(expr)
    result = Simplifier(ranges).expr(expr)
    if result == expr:
        return expr
    if size(result) > GROWTH * size(expr):
        return expr
    return result


def _for_the_printer(extents: Mapping[str, int]) -> Callable[[ir.Expr], ir.Expr]:
    ranges = {name: extent_range(extent) for name, extent in extents.items()}
    return Simplifier(ranges, keep_units=True).expr


ir.simplify_indices_by(_for_the_printer)


def simplified_linear(expr: ir.Expr, ranges: Ranges = NO_RANGES) -> Linear:
    """The linear form of an index expression whose atoms are simplified."""
    return Simplifier(ranges).linear(expr)


def size(expr: ir.Expr) -> int:
    """The number of nodes."""
    return sum(1 for _ in ir.walk(expr))


_simple_under: Final = ir.Note[Ranges]()
"""The ranges under which nothing of a value could be simplified last, units kept."""


class Simplifier:
    """Simplifies any number of expressions under the same ranges.

    values      linear forms to take for variables, such as a block's iters: their bindings
    keep_units  whether a variable that can have one value only is left in place; schedules do, so
                that a loop of extent 1 drives what a longer one would
    """

    def __init__(
        self,
        ranges: Ranges,
        values: Mapping[str, Linear] | None = None,
        keep_units: bool = False,
    ) -> None:
        self.ranges = ranges if isinstance(ranges, Remembered) else Remembered(ranges)
        self.keep_units = keep_units
        self.values: Mapping[str, Linear] = values if values is not None else {}
        self.keeps_all = keep_units and not self.values
        self.again = Simplifier(self.ranges, keep_units=keep_units) if self.values else self
        """For what is simplified already: the values are put in once."""
        self.quotients: dict[ir.Expr, Linear] = {}
        """For `recombine`: by x % c, what x // c is."""

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """The expression, simplified."""
        if expr.dtype == ir.INDEX:
            found = self.linear(expr).expr()
            return expr if found == expr else found
        if self.keeps_all and self.ranges == _simple_under.of(expr):
            return expr
        match expr:
            case ir.Var() | ir.Const():
                return expr
            case ir.Binary(op, a, b) if op in ir.COMPARISONS and a.dtype == ir.INDEX:
                return self.comparison(op, self.linear(b).minus(self.linear(a)))
            case ir.Binary(op) if op in ir.LOGICAL:
                return self.by_rules(LOGIC, ir.map_children(expr, self.expr))
            case ir.Unary("not", a):
                return self.negation(self.expr(a))
            case ir.Select():
                return self.by_rules(LOGIC, ir.map_children(expr, self.expr))
            case ir.Cast():
                return self.cast(ir.map_children(expr, self.expr))
            case ir.Binary() | ir.Unary():
                return self.data(ir.map_children(expr, self.expr))
            case _:
                return ir.map_children(expr, self.expr)

    def value(self, expr: ir.Expr) -> ir.Expr:
        """As `expr`; what is simple already is remembered, and not looked at in another value."""
        found = self.expr(expr)
        if found is expr and self.keeps_all:
            _simple_under.keep(expr, dict(self.ranges))
        return found

    # ---- index expressions

    def linear(self, expr: ir.Expr) -> Linear:
        """The linear form of an index expression, its atoms simplified."""
        match expr:
            case ir.Const(value):
                return constant_form(int(value))
            case ir.Var(name) if name in self.values:
                return self.values[name]
            case ir.Var(name):
                known = self.ranges.get(name)
                if known is not None and known.is_point and not self.keep_units:
                    return constant_form(int(known.lo))
                return Linear({expr: 1})
            case ir.Binary("+" | "-"):
                return self.recombine(self.total(expr))
            case ir.Unary("-", a):
                return self.linear(a).times(-1)
            case ir.Binary("*", a, b):
                return self.product(self.linear(a), self.linear(b))
            case ir.Binary("//", a, b):
                return self.quotient(self.linear(a), self.linear(b))
            case ir.Binary("%", a, b):
                return self.remainder(self.linear(a), self.linear(b))
            case ir.Binary("min" | "max" as op, a, b):
                return self.extremum(op, self.linear(a), self.linear(b))
            case ir.Select(condition, a, b, lazy):
                return self.selection(self.expr(condition), self.expr(a), self.expr(b), lazy)
            case ir.Cast(_, a):
                inner = self.expr(a)
                if isinstance(inner, ir.Const) and inner.dtype.kind in ("int", "uint", "bool"):
                    return constant_form(int(inner.value))
                return _atom(ir.Cast(ir.INDEX, inner))
            case ir.Call(function, args, dtype):
                return _atom(ir.Call(function, tuple(self.expr(a) for a in args), dtype))
            case _:
                return _atom(ir.map_children(expr, self.expr))

    def total(self, expr: ir.Expr) -> Linear:
        """The linear form of a sum, its digits not put together yet."""
        match expr:
            case ir.Binary("+", a, b):
                return self.total(a).plus(self.total(b))
            case ir.Binary("-", a, b):
                return self.total(a).minus(self.total(b))
            case _:
                return self.linear(expr)

    def product(self, a: Linear, b: Linear) -> Linear:
        """a * b."""
        if b.is_constant:
            return a.times(b.constant)
        if a.is_constant:
            return b.times(a.constant)
        return _atom(ir.Binary("*", a.expr(), b.expr()))

    def quotient(self, a: Linear, b: Linear) -> Linear:
        """a // b."""
        if not b.is_constant:
            return _atom(ir.Binary("//", a.expr(), b.expr()))
        if a.is_constant:
            return constant_form(ir.floor_div(a.constant, b.constant))
        for rule in QUOTIENT:
            found = self.division(rule, a, b.constant)
            if found is not None:
                return found
        return _atom(ir.Binary("//", a.expr(), ir.Const(b.constant)))

    def remainder(self, a: Linear, b: Linear) -> Linear:
        """a % b."""
        if not b.is_constant:
            return _atom(ir.Binary("%", a.expr(), b.expr()))
        if a.is_constant:
            return constant_form(ir.floor_mod(a.constant, b.constant))
        for rule in REMAINDER:
            found = self.division(rule, a, b.constant)
            if found is not None:
                return found
        return _atom(ir.Binary("%", a.expr(), ir.Const(b.constant)))

    def division(self, rule: Rule, a: Linear, divisor: int) -> Linear | None:
        """`a` divided by the constant, as the rule says, if its pattern and condition hold."""
        pattern = rule.pattern
        assert isinstance(pattern, ir.Binary)
        bound: Bindings = {}
        match pattern.b:
            case ir.Const(value):
                if value != divisor:
                    return None
            case ir.Var(name):
                bound[name] = constant_form(divisor)
        for bindings in dividends(pattern.a, a, divisor, bound):
            if rule.holds(bindings, self.ranges):
                return self.build(rule.replacement, bindings)
        return None

    def build(self, replacement: ir.Expr, bindings: Bindings) -> Linear:
        """The right-hand side of a rule, simplified."""
        match replacement:
            case ir.Var(name) if name.startswith(("lo(", "hi(")):
                return constant_form(interval_end(bindings[name[3:-1]], name[:2], self.ranges))
            case ir.Var(name):
                return bindings[name]
            case ir.Const(value):
                return constant_form(int(value))
            case ir.Unary(_, a):
                return self.build(a, bindings).times(-1)
            case ir.Binary(op, a, b):
                left, right = self.build(a, bindings), self.build(b, bindings)
                match op:
                    case "+":
                        return self.recombine(left.plus(right))
                    case "-":
                        return self.recombine(left.minus(right))
                    case "*":
                        return self.product(left, right)
                    case "//":
                        return self.quotient(left, right)
                    case "%":
                        return self.remainder(left, right)
                    case "min" | "max":
                        return self.extremum(op, left, right)
        raise ValueError(f"cannot build {replacement}")

    def recombine(self, form: Linear) -> Linear:
        """The rules SUM: where a sum holds both digits of a number, that number."""
        while digits := [atom for atom in form.terms if _is_digit(atom)]:
            before, factors = form, set(form.terms.values())
            for digit in digits:
                if _modulus(digit) * form.terms.get(digit, 0) in factors:
                    form = self.with_digit_above(form, digit, digits)
            if form is before:
                break
        return form

    def with_digit_above(
        self, form: Linear, digit: ir.Binary, digits: Sequence[ir.Binary]
    ) -> Linear:
        """The sum; if it has x // c, or of `digits` x // c % d, at the right place for its digit
        x % c, with the number that both make instead.
        """
        base, factor = _modulus(digit), form.terms[digit]
        number, wanted = linear_of(digit.a), base * factor
        if digit not in self.quotients:
            self.quotients[digit] = self.quotient(number, constant_form(base))
        high = self.quotients[digit]
        match list(high.terms.items()):
            case [(atom, 1)] if not high.constant and form.terms.get(atom) == wanted:
                return form.minus(Linear({digit: factor, atom: wanted})).plus(number, factor)
        for other in digits:
            if form.terms.get(other) == wanted and linear_of(other.a) == high:
                whole = self.remainder(number, constant_form(base * _modulus(other)))
                return form.minus(Linear({digit: factor, other: wanted})).plus(whole, factor)
        return form

    def extremum(self, op: Literal["min", "max"], a: Linear, b: Linear) -> Linear:
        """min(a, b) or max(a, b)."""
        if a.is_constant and not b.is_constant:
            a, b = b, a
        for rule in EXTREMUM:
            pattern = rule.pattern
            assert isinstance(pattern, ir.Binary)
            if pattern.op != op:
                continue
            bindings: Bindings = {}
            if not (binds(pattern.a, a, bindings) and binds(pattern.b, b, bindings)):
                continue
            if rule.holds(bindings, self.ranges):
                return self.build(rule.replacement, bindings)
        return _atom(ir.Binary(op, a.expr(), b.expr()))

    def selection(self, condition: ir.Expr, a: ir.Expr, b: ir.Expr, lazy: bool) -> Linear:
        """select(condition, a, b) on index expressions."""
        found = self.by_rules(LOGIC, ir.Select(condition, a, b, lazy))
        return _atom(found) if isinstance(found, ir.Select) else self.again.linear(found)

    # ---- conditions

    def comparison(self, op: str, difference: Linear) -> ir.Expr:
        """`0 op difference`, that is `a op b` with difference = b - a."""
        if op in ("==", "!="):
            return self.equality(op, difference)
        at_least_zero = difference.shifted(-1) if op == "<" else difference
        return self.inequality(at_least_zero)

    def equality(self, op: str, difference: Linear) -> ir.Expr:
        """`difference == 0` or its negation."""
        same, other = (ir.TRUE, ir.FALSE) if op == "==" else (ir.FALSE, ir.TRUE)
        interval = difference.interval(self.ranges)
        if interval == (0, 0):
            return same
        if interval.lo > 0 or interval.hi < 0:
            return other
        factor = Linear(difference.terms).divisor
        if difference.constant % factor:
            return other
        left, right = _two_sides(difference.divided(factor))
        if isinstance(left, ir.Const):
            left, right = right, left
        return ir.Binary("==" if op == "==" else "!=", left, right)

    def inequality(self, form: Linear) -> ir.Expr:
        """`0 <= form`."""
        interval = form.interval(self.ranges)
        if interval.lo >= 0:
            return ir.TRUE
        if interval.hi < 0:
            return ir.FALSE
        factor = Linear(form.terms).divisor
        form = Linear({a: c // factor for a, c in form.terms.items()}, form.constant // factor)
        if len(form.terms) == 1:
            ((atom, coefficient),) = form.terms.items()
            if isinstance(atom, ir.Binary) and atom.op == "//" and isinstance(atom.b, ir.Const):
                rule = COMPARISON[0 if coefficient > 0 else 1]
                bindings = {
                    "x": self.again.linear(atom.a),
                    "c": constant_form(int(atom.b.value)),
                    "k": constant_form(form.constant),
                }
                if rule.holds(bindings, self.ranges):
                    assert isinstance(rule.replacement, ir.Binary)
                    return self.inequality(self.build(rule.replacement.b, bindings))
        left, right = _two_sides(form)
        if isinstance(right, ir.Const):
            return ir.Binary("<", left, ir.Const(int(right.value) + 1))
        if form.constant == -1 and not isinstance(left, ir.Const):
            return ir.Binary("<", *_two_sides(form.shifted(1)))
        return ir.Binary("<=", left, right)

    def negation(self, condition: ir.Expr) -> ir.Expr:
        """`not condition` of a simplified one, pushed into comparisons of index expressions."""
        match condition:
            case ir.Binary(op, a, b) if a.dtype == ir.INDEX and op in ir.COMPARISONS:
                difference = self.again.linear(b).minus(self.again.linear(a))
                match op:
                    case "<":
                        return self.comparison("<=", difference.times(-1))
                    case "<=":
                        return self.comparison("<", difference.times(-1))
                    case "==":
                        return self.comparison("!=", difference)
                    case _:
                        return self.comparison("==", difference)
            case _:
                return self.by_rules(LOGIC, ir.Unary("not", condition))

    # ---- everything else

    def by_rules(self, table: tuple[Rule, ...], expr: ir.Expr) -> ir.Expr:
        """The expression rewritten by the first rule whose pattern it is, or itself."""
        op = getattr(expr, "op", None)
        for rule in table:
            if getattr(rule.pattern, "op", op) != op:
                continue
            bindings: dict[str, ir.Expr] = {}
            if matches(rule.pattern, expr, bindings):
                lazy = isinstance(expr, ir.Select) and expr.lazy
                return self.again.expr(replaced(rule.replacement, bindings, expr, lazy))
        return expr

    def data(self, expr: ir.Expr) -> ir.Expr:
        """Arithmetic on data: constants of integer types folded as they wrap, then the tables."""
        if expr.dtype.lanes > 1:
            return expr
        if expr.dtype.kind in ("int", "uint"):
            match expr:
                case ir.Binary(op, ir.Const(x), ir.Const(y), dtype=dtype) if op in _FOLD:
                    folded = _FOLD[op](int(x), int(y))
                    return ir.const(folded, dtype)
                case ir.Unary("-", ir.Const(x), dtype=dtype):
                    return ir.const(-int(x), dtype)
            return self.by_rules(INTEGER, expr)
        if expr.dtype.is_float and not (isinstance(expr, ir.Binary) and expr.op in ir.COMPARISONS):
            return self.by_rules(FLOAT, expr)
        return expr

    def cast(self, expr: ir.Cast) -> ir.Expr:
        """A conversion: of an integer constant folded, to its own type dropped."""
        if expr.a.dtype == expr.dtype:
            return expr.a
        match expr.a:
            case ir.Const(value, dtype) if not dtype.is_float and not expr.dtype.is_float:
                return ir.const(value, expr.dtype)
        return expr


_FOLD: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": ir.floor_div,
    "%": ir.floor_mod,
    "min": min,
    "max": max,
}


def _is_digit(atom: ir.Expr) -> TypeGuard[ir.Binary]:
    """Return whether an atom is x % c with a constant c > 0."""
    match atom:
        case ir.Binary("%", _, ir.Const(c)):
            return c > 0
    return False


def _modulus(digit: ir.Binary) -> int:
    assert isinstance(digit.b, ir.Const)
    return int(digit.b.value)


def _atom(expr: ir.Expr) -> Linear:
    return Linear({expr: 1})


def _two_sides(form: Linear) -> tuple[ir.Expr, ir.Expr]:
    """`left` and `right` with 0 <= form as left <= right; no term on either side is negative."""
    left = form.part(lambda _, c: c < 0).times(-1)
    right = form.part(lambda _, c: c > 0)
    if left.is_constant or (form.constant < 0 and not right.is_constant):
        left = left.shifted(-form.constant)
    else:
        right = right.shifted(form.constant)
    return left.expr(), right.expr()
