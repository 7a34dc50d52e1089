"""What the printer writes means, read as Python, what the interpreter makes of the expression."""

import random

from hypothesis import given
from hypothesis import strategies as st

from minitensor.ir import (
    BOOL,
    Binary,
    Const,
    Expr,
    Select,
    Unary,
    Var,
    evaluate,
    print_expr,
)
from tests.parts import examples
from tests.sent import imported

NAMES = "abc"


def random_number(rng: random.Random, depth: int) -> Expr:
    kind = rng.randrange(8) if depth else rng.randrange(2)
    if kind == 0:
        return Const(rng.randint(-9, 9))
    if kind == 1:
        return Var(rng.choice(NAMES))
    if kind == 2:
        return Unary("-", random_number(rng, depth - 1))
    if kind == 3:
        condition = random_condition(rng, depth - 1)
        sides = random_number(rng, depth - 1), random_number(rng, depth - 1)
        return Select(condition, *sides, lazy=rng.random() < 0.5)
    if kind == 4:
        divisor = Const(rng.choice([-3, -1, 1, 2, 5]))
        return Binary(rng.choice(["//", "%"]), random_number(rng, depth - 1), divisor)
    op = rng.choice(["+", "-", "*", "+", "-", "*", "min", "max"])
    return Binary(op, random_number(rng, depth - 1), random_number(rng, depth - 1))


def random_condition(rng: random.Random, depth: int) -> Expr:
    kind = rng.randrange(6) if depth else rng.randrange(3)
    if kind == 0:
        return Var(rng.choice("pq"), BOOL)
    if kind <= 2:
        op = rng.choice(["<", "<=", "==", "!="])
        return Binary(op, random_number(rng, depth), random_number(rng, depth))
    if kind == 3:
        return Unary("not", random_condition(rng, depth - 1))
    op = rng.choice(["and", "or", "and", "or", "==", "!="])
    return Binary(op, random_condition(rng, depth - 1), random_condition(rng, depth - 1))


MODULE = """
def select(condition, a, b):
    return a if condition else b


if_then_else = select


def value(a, b, c, p, q):
    return {text}
"""


@given(st.randoms(use_true_random=False))
@examples(400, 2000, deadline=None, derandomize=True)
def test_printed_expressions_read_as_python_have_their_value(rng):
    depth = rng.randint(0, 4)
    expr = random_number(rng, depth) if rng.random() < 0.5 else random_condition(rng, depth)
    text = print_expr(expr)
    function = imported(MODULE.format(text=text)).value
    for _ in range(8):
        values = {name: rng.randint(-9, 9) for name in NAMES}
        values |= {name: rng.random() < 0.5 for name in "pq"}
        wanted = evaluate(expr, values)
        got = function(**values)
        assert got == wanted, f"{text} at {values}: {got}, not {wanted}; from {expr!r}"
