"""Matching: how the patterns of `rules` are found in linear forms and in expressions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from minitensor import ir
from minitensor.arith.linear import Linear, constant_form
from minitensor.arith.rules import CONSTANT_NAMES, Bindings


def dividends(pattern: ir.Expr, form: Linear, divisor: int, bound: Bindings) -> Iterator[Bindings]:
    """The ways to match the dividend of a division pattern."""
    match pattern:
        case ir.Var(name):
            yield {**bound, name: form}
        case ir.Binary("+", ir.Binary("*", ir.Var(high), ir.Var(factor)), ir.Var(low)):
            known = bound.get(factor)
            for g in [known.constant] if known is not None else _factors(form, divisor):
                split = _split(form, g)
                if split is not None:
                    yield {**bound, high: split[0], low: split[1], factor: constant_form(g)}
        case ir.Binary("//" | "%" as op, ir.Var(x), ir.Var(d)):
            match list(form.terms.items()):
                case [(ir.Binary(own, a, ir.Const(value)), 1)] if own == op and not form.constant:
                    yield {**bound, x: _known_linear(a), d: constant_form(int(value))}


def _known_linear(expr: ir.Expr) -> Linear:
    """The linear form of an expression that is simplified already."""
    match expr:
        case ir.Binary("+", a, b):
            return _known_linear(a).plus(_known_linear(b))
        case ir.Binary("-", a, b):
            return _known_linear(a).minus(_known_linear(b))
        case ir.Binary("*", a, ir.Const(value)):
            return _known_linear(a).times(int(value))
        case ir.Unary("-", a):
            return _known_linear(a).times(-1)
        case ir.Const(value):
            return constant_form(int(value))
        case _:
            return Linear({expr: 1})


def _factors(form: Linear, divisor: int) -> list[int]:
    """The divisors of `divisor` that some coefficients share with it, largest first."""
    found = {math.gcd(c, divisor) for c in form.terms.values()}
    found |= {math.gcd(a, b) for a in found for b in found}
    return sorted((g for g in found if 1 < g < abs(divisor)), reverse=True)


def _split(form: Linear, g: int) -> tuple[Linear, Linear] | None:
    """form = q*g + r with r's constant in [0, g); None if q would be 0."""
    if g == 0:
        return None
    high = form.part(lambda _, c: c % g == 0)
    low = form.part(lambda _, c: c % g != 0)
    quotient = high.divided(g).shifted(form.constant // g)
    if quotient.is_constant and quotient.constant == 0:
        return None
    return quotient, low.shifted(form.constant % g)


def binds(pattern: ir.Expr, form: Linear, bindings: Bindings) -> bool:
    """Return whether an operand of a min or max pattern matches a linear form; fills `bindings`."""
    match pattern:
        case ir.Var(name):
            if name in CONSTANT_NAMES and not form.is_constant:
                return False
            if name in bindings:
                return bindings[name] == form
            bindings[name] = form
            return True
        case ir.Binary(op, a, b):
            match list(form.terms.items()):
                case [(ir.Binary(own, x, y), 1)] if own == op and not form.constant:
                    return binds(a, _known_linear(x), bindings) and binds(
                        b, _known_linear(y), bindings
                    )
    return False


def matches(pattern: ir.Expr, expr: ir.Expr, bindings: dict[str, ir.Expr]) -> bool:
    """Return whether an expression has the shape of a pattern; fills `bindings`."""
    match pattern:
        case ir.Var(name):
            if name in bindings:
                return bindings[name] == expr
            bindings[name] = expr
            return True
        case ir.Const(value, dtype):
            return (
                isinstance(expr, ir.Const)
                and expr == ir.const(value, expr.dtype)
                and (dtype.kind == "bool") == (expr.dtype.kind == "bool")
            )
        case ir.Unary(op, a):
            return isinstance(expr, ir.Unary) and expr.op == op and matches(a, expr.a, bindings)
        case ir.Binary(op, a, b):
            return (
                isinstance(expr, ir.Binary)
                and expr.op == op
                and matches(a, expr.a, bindings)
                and matches(b, expr.b, bindings)
            )
        case ir.Select(condition, a, b):
            return (
                isinstance(expr, ir.Select)
                and matches(condition, expr.condition, bindings)
                and matches(a, expr.a, bindings)
                and matches(b, expr.b, bindings)
            )
    return False


def replaced(
    replacement: ir.Expr, bindings: dict[str, ir.Expr], subject: ir.Expr, lazy: bool
) -> ir.Expr:
    """The right-hand side of a rule; its numbers take the type of the expression it replaces."""
    match replacement:
        case ir.Var(name):
            return bindings[name]
        case ir.Const(value, dtype):
            return replacement if dtype.kind == "bool" else ir.const(value, subject.dtype)
        case ir.Select(condition, a, b):
            c, x, y = (replaced(e, bindings, subject, lazy) for e in (condition, a, b))
            return ir.Select(c, x, y, lazy)
    raise ValueError(f"cannot build {replacement}")
