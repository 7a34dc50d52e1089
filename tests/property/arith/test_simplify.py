"""The simplifier on random expressions: equal, idempotent, at most twice as large."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor.arith import Interval, simplify, size
from minitensor.ir import (
    TRUE,
    Binary,
    Const,
    Expr,
    Unary,
    Var,
    at_most,
    evaluate,
    less,
    print_expr,
)
from minitensor.testing import index_expressions
from tests.parts import examples
from tests.random_indices import random_expression, random_space


def check(rng: random.Random, expr: Expr) -> None:
    """Against the interpreter, at a few points; `exhaustive_simplify` has another oracle."""
    space = random_space(rng)
    simple = simplify(expr, space.ranges)
    assert simplify(simple, space.ranges) == simple, f"not idempotent: {print_expr(expr)}"
    assert size(simple) <= 2 * size(expr)
    for place in range(0, len(space.points["d"]), 17):
        values = {name: array[place].item() for name, array in space.points.items()}
        values["d"] = np.int8(values["d"])
        wanted, got = evaluate(expr, values), evaluate(simple, values)
        assert wanted == got, f"{print_expr(expr)} -> {print_expr(simple)} at {values}, {space}"


@given(st.randoms(use_true_random=False))
@examples(100, 1000, deadline=None)
def test_simplified_expressions_are_equal_idempotent_and_small(rng):
    check(rng, random_expression(rng, rng.randint(1, 4)))


@given(index_expressions(), st.lists(st.integers(-50, 50), min_size=3, max_size=3))
@settings(max_examples=300)
def test_the_public_strategy_for_index_expressions(scalar, numbers):
    values = dict(zip("ijk", numbers))
    simple = mt.simplify(scalar)
    assert evaluate(simple.node, values) == evaluate(scalar.node, values)
    assert size(simple.node) <= 2 * size(scalar.node)


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
        (Binary("!=", Const(-1), Var("x")), "x != -1"),
        (Unary("not", at_most(Var("x"), Var("y"))), "y < x"),
    ],
    ids=str,
)  # fmt: skip
def test_readable_results(given_text, expected):
    ranges = {"i": Interval(0, 7), "j": Interval(0, 7)}
    assert print_expr(simplify(given_text, ranges)) == expected
