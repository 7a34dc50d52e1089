"""The simplifier on random expressions: equal, idempotent, at most twice as large."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor.arith import Interval, interval_of, simplify, size
from minitensor.ir import (
    BOOL,
    TRUE,
    Binary,
    Const,
    Expr,
    Select,
    Unary,
    Var,
    at_most,
    evaluate,
    less,
    print_expr,
)
from minitensor.testing import index_expressions

NAMES = "abcd"


def random_expr(rng: random.Random, depth: int) -> Expr:
    """An index expression with divisors and constants of either sign, also beyond the ranges."""
    kind = rng.randrange(12) if depth else rng.randrange(2)
    if kind == 0:
        return Const(rng.choice([0, 1, 2, 3, 4, 8, 16, -1, -3, 100, rng.randint(-40, 40)]))
    if kind <= 2:
        return Var(rng.choice(NAMES))
    a = random_expr(rng, depth - 1)
    if kind == 3:
        return Unary("-", a)
    if kind == 4:
        b, c = random_expr(rng, depth - 1), random_condition(rng, depth - 1)
        return Select(c, a, b)
    if kind <= 6:
        c = rng.choice([1, 2, 3, 4, 5, 8, 16, 24, 64, -2, -4, 0, -7])
        return Binary(rng.choice(["//", "%"]), a, Const(c))
    if kind == 7:
        return Binary("*", a, Const(rng.choice([1, 2, 3, 4, 8, 16, -1, -2, 0])))
    op = rng.choice(["+", "-", "+", "-", "*", "min", "max", "//", "%"])
    return Binary(op, a, random_expr(rng, depth - 1))


def random_condition(rng: random.Random, depth: int) -> Expr:
    kind = rng.randrange(7) if depth else rng.randrange(4)
    if kind < 4:
        op = rng.choice(["<", "<=", "==", "!="])
        return Binary(op, random_expr(rng, depth), random_expr(rng, depth))
    if kind == 4:
        return Unary("not", random_condition(rng, depth - 1))
    op = "and" if kind == 5 else "or"
    return Binary(op, random_condition(rng, depth - 1), random_condition(rng, depth - 1))


def check(rng: random.Random, expr: Expr) -> None:
    ranges = {}
    for name in NAMES:
        lo = rng.randint(-12, 12)
        if rng.random() < 0.8:
            ranges[name] = Interval(lo, lo + rng.choice([0, 1, 3, 7, 15, 30]))
    simple = simplify(expr, ranges)
    assert simplify(simple, ranges) == simple, f"not idempotent: {print_expr(expr)}"
    assert size(simple) <= 2 * size(expr)
    interval = interval_of(expr, ranges) if expr.dtype != BOOL else None
    for _ in range(12):
        values = {}
        for name in NAMES:
            lo, hi = ranges.get(name, Interval(-100, 100))
            values[name] = rng.choice([lo, hi, rng.randint(lo, hi)])
        wanted = evaluate(expr, values)
        got = evaluate(simple, values)
        assert wanted == got, f"{print_expr(expr)} -> {print_expr(simple)} at {values}, {ranges}"
        assert interval is None or interval.lo <= wanted <= interval.hi


@given(st.randoms(use_true_random=False))
@settings(max_examples=1500, deadline=None)
def test_simplified_expressions_are_equal_idempotent_and_small(rng):
    depth = rng.randint(1, 4)
    expr = random_expr(rng, depth) if rng.random() < 0.7 else random_condition(rng, depth)
    check(rng, expr)


@pytest.mark.slow
def test_twenty_thousand_expressions():
    for seed in range(20_000):
        rng = random.Random(seed)
        depth = rng.randint(1, 5)
        check(rng, random_expr(rng, depth) if seed % 3 else random_condition(rng, depth))


@given(index_expressions(), st.lists(st.integers(-50, 50), min_size=3, max_size=3))
@settings(max_examples=300)
def test_the_public_strategy_for_index_expressions(scalar, numbers):
    values = dict(zip("ijk", numbers))
    simple = mt.simplify(scalar)
    assert evaluate(simple.node, values) == evaluate(scalar.node, values)
    assert size(simple.node) <= 2 * size(scalar.node)


def test_deeply_nested_selects_are_fast():
    expr: Expr = Var("a")
    for n in range(500):
        expr = Select(less(Var("b"), Const(n)), Binary("+", expr, Const(1)), Var("c"))
    start = time.perf_counter()
    simplify(expr)
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ((Var("i") * 8 + Var("j")) // 8, "i"),
        ((Var("i") * 8 + Var("j")) % 8, "j"),
        (Var("f") // 64 * 64 + Var("f") % 64, "f"),
        (Var("f") // 64 * 64 + Var("f") // 8 % 8 * 8 + Var("f") % 8, "f"),
        ((Var("i") * 16 + Var("j")) // 64, "i//4"),
        ((Var("i") * 16 + Var("j")) % 64 // 16, "i%4"),
        (Var("x") * 2 - Var("x") - Var("x"), "0"),
        (Var("j") // 8, "0"),
        (Var("x") // 3 // 5, "x//15"),
        (Var("x") % 12 % 4, "x%4"),
        (less(Var("i") * 8 + Var("j"), 64), "True"),
        (less(Var("i") * 4, 61), "True"),
        (less(Var("x") * 4, 61), "x < 16"),
        (less(Var("x") // 8, 4), "x < 32"),
        (at_most(2, Var("x") // 8), "16 <= x"),
        (Binary("==", Var("x") * 4, Const(6)), "False"),
        (Binary("min", Var("x") + 3, Var("x")), "x"),
        (Binary("max", Const(-1), Var("i")), "i"),
        (Unary("not", less(Var("x"), 5)), "5 <= x"),
        (Binary("and", TRUE, less(Var("x"), 3)), "x < 3"),
        (less(Var("x"), Var("y")), "x < y"),
        (less(Var("x") + 2, Var("y")), "x + 3 <= y"),
        (at_most(Var("x"), Var("y") + 2), "x <= y + 2"),
        (less(-6, Var("x")), "-5 <= x"),
        (at_most(0, Var("x") + Var("y") + 5), "-5 <= x + y"),
        (Binary("==", Var("x") + 1, Const(0)), "x == -1"),
        (Binary("!=", Const(-1), Var("x")), "-1 != x"),
        (Unary("not", at_most(Var("x"), Var("y"))), "y < x"),
    ],
    ids=str,
)  # fmt: skip
def test_readable_results(given_text, expected):
    ranges = {"i": Interval(0, 7), "j": Interval(0, 7)}
    assert print_expr(simplify(given_text, ranges)) == expected
