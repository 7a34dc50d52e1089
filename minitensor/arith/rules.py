"""The rules of the simplifier: one line each, and the line *is* the rule.

    pattern -> replacement   [if condition]

In a pattern, `c d g m k` stand for integer constants and any other name for any expression; a name
that occurs twice must be the same thing both times. `q*g + r` splits a sum: q collects what is
divisible by g, r the rest (for an unbound g every divisor that the coefficients offer is tried).
Conditions hold when they can be proven from the intervals of what was matched; `lo(x)` and `hi(x)`
are the ends of such an interval, and a condition that needs one that is infinite does not hold.

Every rule is valid for all integers, negative ones included, with x // 0 = x % 0 = 0, and makes the
expression smaller in an order that has no infinite descent: fewer divisions, smaller divisors,
less nesting. `tests/unit/arith/test_rules.py` tries each on every assignment from [-16, 16].
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from minitensor import ir
from minitensor.arith.interval import Interval, Ranges
from minitensor.arith.linear import Linear, constant_form

CONSTANT_NAMES: Final = frozenset("cdgmk")

Bindings: TypeAlias = dict[str, Linear]
Condition: TypeAlias = Callable[[Mapping[str, Linear], Ranges], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a table, parsed. `lo(x)` and `hi(x)` appear in `replacement` as Vars so named."""

    reading: str
    pattern: ir.Expr
    replacement: ir.Expr
    condition: Condition | None

    def holds(self, bindings: Mapping[str, Linear], ranges: Ranges) -> bool:
        """Return whether the condition can be proven for what the pattern matched."""
        if self.condition is None:
            return True
        try:
            return self.condition(bindings, ranges)
        except _UnknownError:
            return False


class _UnknownError(Exception):
    """An interval that a condition asks for is infinite."""


def parse_rule(line: str) -> Rule:
    """A rule from its line."""
    pattern, _, rest = line.partition("->")
    replacement, _, condition = rest.partition(" if ")
    test = _condition(_tree(condition)) if condition else None
    return Rule(line, _expr(_tree(pattern)), _expr(_tree(replacement)), test)


def _tree(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


_OPERATORS: Final[dict[type, ir.BinaryOp]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.And: "and",
    ast.Or: "or",
    ast.Lt: "<",
    ast.LtE: "<=",
}


def _expr(tree: ast.expr) -> ir.Expr:
    match tree:
        case ast.Name(name):
            return ir.Var(name)
        case ast.Constant(bool() as value):
            return ir.TRUE if value else ir.FALSE
        case ast.Constant(int() | float() as number):
            return ir.Const(number)
        case ast.UnaryOp(ast.Not(), operand):
            return ir.Unary("not", _expr(operand))
        case ast.UnaryOp(_, operand):
            return ir.Unary("-", _expr(operand))
        case ast.BinOp(a, op, b) if type(op) in _OPERATORS:
            return ir.Binary(_OPERATORS[type(op)], _expr(a), _expr(b))
        case ast.BoolOp(logic, [a, b]):
            return ir.Binary(_OPERATORS[type(logic)], _expr(a), _expr(b))
        case ast.Compare(a, [order], [b]):
            return ir.Binary(_OPERATORS[type(order)], _expr(a), _expr(b))
        case ast.Call(ast.Name("min" | "max" as op), [a, b]):
            return ir.Binary("min" if op == "min" else "max", _expr(a), _expr(b))
        case ast.Call(ast.Name("select"), [condition, a, b]):
            return ir.Select(_expr(condition), _expr(a), _expr(b))
        case ast.Call(ast.Name("lo" | "hi" as end), [ast.Name(name)]):
            return ir.Var(f"{end}({name})")
    raise ValueError(f"not a rule: {ast.unparse(tree)}")


# ---- conditions: arithmetic on linear forms, comparisons by the interval of the difference

_Term: TypeAlias = Callable[[Mapping[str, Linear], Ranges], Linear]


def _condition(tree: ast.expr) -> Condition:
    match tree:
        case ast.BoolOp(ast.And(), parts):
            tests = [_condition(part) for part in parts]
            return lambda bound, ranges: all(test(bound, ranges) for test in tests)
        case ast.Compare(first, operators, others):
            terms = [_term(t) for t in (first, *others)]
            steps = [_compare(type(o), a, b) for o, a, b in zip(operators, terms, terms[1:])]
            return lambda bound, ranges: all(step(bound, ranges) for step in steps)
    raise ValueError(f"not a condition: {ast.unparse(tree)}")


def _compare(operator: type, a: _Term, b: _Term) -> Condition:
    def difference(bound: Mapping[str, Linear], ranges: Ranges) -> Interval:
        return b(bound, ranges).minus(a(bound, ranges)).interval(ranges)

    if operator is ast.Lt:
        return lambda bound, ranges: difference(bound, ranges).lo > 0
    if operator is ast.LtE:
        return lambda bound, ranges: difference(bound, ranges).lo >= 0
    return lambda bound, ranges: difference(bound, ranges) == Interval(0, 0)


def _term(tree: ast.expr) -> _Term:
    match tree:
        case ast.Name(name):
            return lambda bound, ranges: bound[name]
        case ast.Constant(int() as value):
            return lambda bound, ranges: constant_form(value)
        case ast.Call(ast.Name("lo" | "hi" as end), [ast.Name(name)]):
            return lambda bound, ranges: constant_form(interval_end(bound[name], end, ranges))
        case ast.BinOp(a, op, b):
            left, right, symbol = _term(a), _term(b), _OPERATORS[type(op)]
            return lambda bound, ranges: _fold(symbol, left(bound, ranges), right(bound, ranges))
    raise ValueError(f"not a term: {ast.unparse(tree)}")


def _fold(op: str, a: Linear, b: Linear) -> Linear:
    if op in ("+", "-"):
        return a.plus(b, 1 if op == "+" else -1)
    if not (a.is_constant and b.is_constant):
        raise _UnknownError
    x, y = a.constant, b.constant
    if y == 0 and op != "*":
        return constant_form(0)
    return constant_form({"*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y}[op]())


def interval_end(form: Linear, end: str, ranges: Ranges) -> int:
    """The lower or upper end of a form's interval; raises if it is infinite."""
    interval = form.interval(ranges)
    if not interval.is_bounded:
        raise _UnknownError
    return int(interval.lo if end == "lo" else interval.hi)


# ---- the tables


def _table(*lines: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(line) for line in lines)


QUOTIENT: Final = _table(
    "x // 0 -> 0",
    "x // 1 -> x",
    "x // c -> -x // (0 - c) if c < 0",
    "x // c -> lo(x) // c if lo(x) // c == hi(x) // c",
    "(q*c + r) // c -> q + r // c if 0 < c",
    "(q*g + r) // c -> q // (c // g) if 1 < g and 0 < c and c % g == 0 and 0 <= r and r < g",
    "x // d // c -> x // (d * c) if 0 < c and 0 < d",
    "x % d // c -> x // c % (d // c) if 0 < c and 0 < d and d % c == 0",
)
"""For `x // c` with a constant c."""

REMAINDER: Final = _table(
    "x % 0 -> 0",
    "x % 1 -> 0",
    "x % c -> -(-x % (0 - c)) if c < 0",
    "x % c -> x - lo(x) // c * c if 0 < c and lo(x) // c == hi(x) // c",
    "(q*c + r) % c -> r % c if 0 < c",
    "(q*g + r) % c -> q % (c // g) * g + r if 1 < g and 0 < c and c % g == 0 and 0 <= r and r < g",
    "x % d % c -> x % c if 0 < c and 0 < d and d % c == 0",
)
"""For `x % c` with a constant c."""

SUM: Final = _table(
    "x // c * (c * m) + x % c * m -> x * m if 0 < c",
    "x // d % c * (d * m) + x % d * m -> x % (d * c) * m if 0 < c and 0 < d",
)
"""For two terms of a sum: the digits of a number put together again."""

COMPARISON: Final = _table(
    "0 <= x // c + k -> 0 <= x + k * c if 0 < c",
    "0 <= k - x // c -> 0 <= k * c + c - 1 - x if 0 < c",
)
"""For an inequality that has been brought to the form 0 <= sum."""

EXTREMUM: Final = _table(
    "min(x, y) -> x if x <= y",
    "min(x, y) -> y if y <= x",
    "max(x, y) -> x if y <= x",
    "max(x, y) -> y if x <= y",
    "min(min(x, c), d) -> min(x, min(c, d))",
    "max(max(x, c), d) -> max(x, max(c, d))",
)
"""For min and max of index expressions."""

LOGIC: Final = _table(
    "x and True -> x",
    "True and x -> x",
    "x and False -> False",
    "False and x -> False",
    "x and x -> x",
    "x or True -> True",
    "True or x -> True",
    "x or False -> x",
    "False or x -> x",
    "x or x -> x",
    "not True -> False",
    "not False -> True",
    "not not x -> x",
    "select(True, x, y) -> x",
    "select(False, x, y) -> y",
    "select(x, y, y) -> y",
    "select(not x, y, z) -> select(x, z, y)",
)
"""For conditions and for selections of any type."""

INTEGER: Final = _table(
    "x + 0 -> x",
    "0 + x -> x",
    "x - 0 -> x",
    "x - x -> 0",
    "x * 1 -> x",
    "1 * x -> x",
    "x * 0 -> 0",
    "0 * x -> 0",
    "x // 1 -> x",
    "x % 1 -> 0",
    "min(x, x) -> x",
    "max(x, x) -> x",
    "- -x -> x",
)
"""For integers that hold data and wrap: the identities that wrapping leaves true."""

FLOAT: Final = _table(
    "x * 1 -> x",
    "1 * x -> x",
    "x / 1 -> x",
    "x - 0 -> x",
    "min(x, x) -> x",
    "max(x, x) -> x",
    "- -x -> x",
)
"""For floats: the identities that hold for NaN, infinities and both zeros."""
