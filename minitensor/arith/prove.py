"""Provers for conditions on index expressions. They may answer None: "don't know"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from minitensor import ir
from minitensor.arith.interval import Ranges
from minitensor.arith.linear import Linear, linear_of
from minitensor.arith.simplify import NO_RANGES, Simplifier, simplify


def prove(
    condition: ir.Expr, ranges: Ranges = NO_RANGES, facts: Sequence[Linear] = ()
) -> bool | None:
    """True if the condition always holds, False if it never does, None if neither is known.

    ranges  what values the variables may take
    facts   linear forms known to be >= 0 (see `facts_of`); each is tried alone
    """
    simple = simplify(condition, ranges)
    if simple == ir.TRUE:
        return True
    if simple == ir.FALSE:
        return False
    verdicts = [_prove_one(part, ranges, facts) for part in ir.conjuncts(simple)]
    if all(verdict is True for verdict in verdicts):
        return True
    if any(verdict is False for verdict in verdicts):
        return False
    return None


def _prove_one(condition: ir.Expr, ranges: Ranges, facts: Sequence[Linear]) -> bool | None:
    forms = at_least_zero(condition, ranges)
    if forms is None:
        return None
    if all(is_nonnegative(form, ranges, facts) for form in forms):
        return True
    if any(is_nonnegative(form.times(-1).shifted(-1), ranges, facts) for form in forms):
        return False
    return None


def at_least_zero(condition: ir.Expr, ranges: Ranges = NO_RANGES) -> tuple[Linear, ...] | None:
    """The forms that are all >= 0 exactly where a comparison of indices holds; None for others."""
    match condition:
        case ir.Binary("<" | "<=" | "==" as op, a, b) if a.dtype == ir.INDEX:
            simplifier = Simplifier(ranges)
            difference = simplifier.linear(b).minus(simplifier.linear(a))
            if op == "<":
                return (difference.shifted(-1),)
            if op == "<=":
                return (difference,)
            return (difference, difference.times(-1))
    return None


def is_nonnegative(form: Linear, ranges: Ranges, facts: Sequence[Linear] = ()) -> bool:
    """Return whether the form is known to be >= 0, by its interval or by one of the facts."""
    if form.interval(ranges).lo >= 0:
        return True
    if any(_follows(form, fact, ranges) for fact in facts):
        return True
    undivided = _undivided(form) if facts else None
    return undivided is not None and is_nonnegative(undivided, ranges, facts)


def _undivided(form: Linear) -> Linear | None:
    """For c * (x // d) + r with constants: a form of x that is >= 0 exactly where this one is."""
    match list(form.terms.items()):
        case [(ir.Binary("//", x, ir.Const(d)), c)] if d > 0:
            return _of_number(linear_of(x), int(d), c, form.constant)
    return None


def _of_number(x: Linear, d: int, c: int, r: int) -> Linear:
    """A form of x that is >= 0 exactly where c * (x // d) + r is.

    x // d >= n is x >= n*d, and x // d <= n is x < (n + 1)*d.
    """
    if c > 0:
        return x.shifted(-d * -(r // c))
    return x.times(-1).shifted(d * (r // -c + 1) - 1)


def undivided(facts: Iterable[Linear], ranges: Ranges = NO_RANGES) -> list[Linear]:
    """The facts about numbers that facts about their quotients imply, as forms that are >= 0.

    c * (x // d) + c*y is c * ((x + d*y) // d); all else in a fact takes its greatest value.
    """
    found: list[Linear] = []
    for fact in facts:
        for atom, c in fact.terms.items():
            match atom:
                case ir.Binary("//", x, ir.Const(d)) if d > 0:
                    among = Linear({a: other for a, other in fact.terms.items() if other % c == 0})
                    most = fact.minus(among).interval(ranges).hi
                    if math.isfinite(most):
                        others = among.minus(Linear({atom: c})).times(d)
                        number = linear_of(x).plus(others.divided(c))
                        found.append(_of_number(number, int(d), c, int(most)))
    return found


def _follows(form: Linear, fact: Linear, ranges: Ranges) -> bool:
    """Return whether form >= 0 follows from fact >= 0: for a factor m > 0, m*form - fact > -m."""
    factors = {1}
    for atom, coefficient in form.terms.items():
        ratio, rest = divmod(fact.terms.get(atom, 0), coefficient)
        if rest == 0 and ratio > 0:
            factors.add(ratio)
    return any(form.times(m).minus(fact).interval(ranges).lo > -m for m in factors)


def facts_of(conditions: Iterable[ir.Expr], ranges: Ranges = NO_RANGES) -> tuple[Linear, ...]:
    """The facts that true comparisons state, as forms that are >= 0."""
    found: list[Linear] = []
    for condition in conditions:
        for part in ir.conjuncts(condition):
            found.extend(at_least_zero(part, ranges) or ())
    return tuple(found)
