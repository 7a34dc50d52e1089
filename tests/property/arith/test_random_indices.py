"""Many random index expressions, and that what they would find is found."""

import itertools
import random
import sys
from collections import Counter

import numpy as np
import pytest

from minitensor.arith import Interval, Linear, Simplifier, rules, simplify
from minitensor.ir import BOOL, Binary, Const, Expr, Select, Unary, Var, evaluate, less
from tests.exhaustive_simplify import COUNT, batch, check, search
from tests.index_values import value_of
from tests.parts import Extent
from tests.random_indices import NAMES, Space, random_expression, random_space

MODULE = sys.modules[Simplifier.__module__]
"""The module of the simplifier: the name in the package is that of the function."""


@pytest.mark.slow
def test_many_expressions():
    """A part of what `python -m tests.exhaustive_simplify` tries, which takes a minute."""
    count = COUNT // (10 if Extent.whole else 30)
    found = search(0, count)
    assert found.total() == count
    assert found["smaller"] > 0.7 * count
    assert found["larger"] < 0.04 * count


def test_a_thousand_expressions():
    assert search(1, 1000).total() == 1000


# ---- the expressions are about the rules


@pytest.mark.slow
def test_every_rule_is_applied(monkeypatch):
    applied: Counter[int] = Counter()
    build, replaced = Simplifier.build, MODULE.replaced
    with_digit_above = Simplifier.with_digit_above

    def counted(replacement):
        applied[id(replacement)] += 1

    def counting_build(self, replacement, bindings):
        counted(replacement)
        return build(self, replacement, bindings)

    def counting_replaced(replacement, *rest):
        counted(replacement)
        return replaced(replacement, *rest)

    def counting_digits(self, form, digit, digits):
        found = with_digit_above(self, form, digit, digits)
        if found is not form:
            gone = [atom for atom in form.terms if atom not in found.terms and atom != digit]
            second = len(gone) == 1 and isinstance(gone[0], Binary) and gone[0].op == "%"
            counted(rules.SUM[1 if second else 0].replacement)
        return found

    monkeypatch.setattr(Simplifier, "build", counting_build)
    monkeypatch.setattr(Simplifier, "with_digit_above", counting_digits)
    monkeypatch.setattr(MODULE, "replaced", counting_replaced)
    for number in range(80):
        space, exprs = batch(0, number)
        for expr in exprs:
            simplify(expr, space.ranges)
    tables = (rules.QUOTIENT, rules.REMAINDER, rules.SUM, rules.COMPARISON, rules.EXTREMUM)
    times = {}
    for rule in (*(r for table in tables for r in table), *rules.LOGIC):
        root = rule.replacement.b if rule in rules.COMPARISON else rule.replacement
        times[rule.reading] = applied[id(root)]
    assert min(times.values()) >= 3, sorted(times.items(), key=lambda item: item[1])[:5]


# ---- mistakes are found


def planted(table: str, line: str):
    """A table of the simplifier with a wrong rule in front."""
    return (rules.parse_rule(line), *getattr(rules, table))


WRONG = {
    "the sign of a divisor": ("QUOTIENT", "x // c -> x // (0 - c) if c < 0"),
    "a remainder one too large": (
        "QUOTIENT",
        "(q*g + r) // c -> q // (c // g) if 1 < g and 0 < c and c % g == 0 and 0 <= r and r <= g",
    ),
    "a dividend of which too little is known": ("REMAINDER", "x % c -> x if 0 < c and x < c"),
    "a modulus that does not divide": ("REMAINDER", "x % d % c -> x % c if 0 < c and 0 < d"),
    "the wrong end": ("EXTREMUM", "max(x, y) -> x if x <= y"),
    "the wrong side": ("LOGIC", "select(not x, y, z) -> select(x, y, z)"),
    "a disjunction": ("LOGIC", "x or True -> x"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name, monkeypatch):
    table, line = WRONG[name]
    monkeypatch.setattr(MODULE, table, planted(table, line))
    with pytest.raises(AssertionError, match=" became "):
        search(0, 6000)


def wrong_quotient(self, divisor):
    return Interval(self.lo // divisor, self.hi // divisor - 1)


def wrong_remainder(self, divisor):
    return Interval(0, divisor - 2)


@pytest.mark.parametrize(
    ("method", "wrong"), [("floor_div", wrong_quotient), ("floor_mod", wrong_remainder)]
)
def test_a_wrong_interval_is_found(method, wrong, monkeypatch):
    monkeypatch.setattr(Interval, method, wrong)
    with pytest.raises(AssertionError, match=r" became | lacks "):
        search(0, 3000)


def test_a_wrong_comparison_is_found(monkeypatch):
    inequality = Simplifier.inequality
    monkeypatch.setattr(Simplifier, "inequality", lambda s, form: inequality(s, form.shifted(1)))
    with pytest.raises(AssertionError, match=" became "):
        search(0, 1000)


def test_a_result_that_changes_again_is_found(monkeypatch):
    quotient, calls = Simplifier.quotient, itertools.count()

    def not_always(self, a, b):
        if next(calls) % 5 == 0:
            return Linear({Binary("//", a.expr(), b.expr()): 1})
        return quotient(self, a, b)

    monkeypatch.setattr(Simplifier, "quotient", not_always)
    with pytest.raises(AssertionError, match="simplified again"):
        search(0, 1000)


def test_a_result_that_is_too_large_is_found(monkeypatch):
    expr = Linear.expr
    monkeypatch.setattr(MODULE, "GROWTH", 100)
    monkeypatch.setattr(Linear, "expr", lambda form: expr(form) * 1 + 0 + 0)
    with pytest.raises(AssertionError, match="nodes, now"):
        search(0, 1000)


# ---- with the linear forms and units that schedules ask for


def test_values_of_variables_are_put_in():
    rng = random.Random(2)
    for _ in range(1500):
        space = random_space(rng)
        expr = random_expression(rng, 3)
        name = rng.choice(NAMES)
        form = Linear({Var("j"): rng.choice([1, 2, 8]), Var("k"): 1}, rng.randint(-3, 3))
        ranges = {n: r for n, r in space.ranges.items() if n != name}
        simple = Simplifier(ranges, {name: form}).expr(expr)
        points = {**space.points, name: value_of(form.expr(), space.points)}
        assert np.array_equal(value_of(expr, points), value_of(simple, space.points))


def test_units_that_are_kept():
    rng = random.Random(3)
    kept = 0
    for _ in range(500):
        space = random_space(rng)
        expr = random_expression(rng, 3)
        simple = Simplifier(space.ranges, keep_units=True).expr(expr)
        assert np.array_equal(value_of(expr, space.points), value_of(simple, space.points))
        assert Simplifier(space.ranges, keep_units=True).expr(simple) == simple
        kept += simple != simplify(expr, space.ranges)
    assert kept > 20
    assert Simplifier({"i": Interval(0, 0)}, keep_units=True).expr(Var("i")) == Var("i")
    assert simplify(Var("i"), {"i": Interval(0, 0)}) == Const(0)


# ---- the evaluator that the expressions are tried with


def test_the_vectorized_values_are_those_of_the_interpreter():
    rng = random.Random(4)
    for _ in range(600):
        space, expr = random_space(rng), random_expression(rng, 4)
        found = value_of(expr, space.points)
        for place in range(0, len(found), 23):
            values = {name: array[place].item() for name, array in space.points.items()}
            values["d"] = np.int8(values["d"])
            assert evaluate(expr, values) == found[place]


def test_values_beyond_64_bits_are_exact():
    i, big = Var("i"), 10**30
    points = {"i": np.array([3, -4, 0])}
    assert list(value_of(i * big // (big // 2), points)) == [6, -8, 0]
    chosen = Select(less(i, 0), Const(5), Const(7))
    assert list(value_of(chosen * (1 << 62), points)) == [7 << 62, 5 << 62, 7 << 62]
    assert list(value_of(Binary("%", i * big, i), points)) == [0, 0, 0]
    assert list(value_of(Binary("max", i, Const(big)), points)) == [big] * 3


def test_the_definition_of_division():
    points = {"i": np.array([7, -7, 0]), "j": np.array([0, -2, 0])}
    i, j = Var("i"), Var("j")
    assert list(value_of(Binary("//", i, j), points)) == [0, 3, 0]
    assert list(value_of(Binary("%", i, j), points)) == [0, -1, 0]
    assert list(value_of(Binary("%", i, Const(0)), points)) == [0, 0, 0]
    assert list(value_of(Unary("not", Var("p", BOOL)), {"p": np.array([True])})) == [False]


def test_the_spaces_hold_corners_and_nothing_else():
    rng = random.Random(5)
    empty = 0
    for _ in range(300):
        space: Space = random_space(rng)
        for name, (low, high) in space.ranges.items():
            values = space.points[name]
            if len(values) == 0:
                empty += 1
                continue
            assert (values.min(), values.max()) == (low, high)
    assert 0 < empty < 100


def test_check_tells_where():
    expr: Expr = Var("i") % 3
    space = Space({}, {"i": np.array([0, 1])})
    assert check(expr, space) == expr
