"""Expressions that a loop built up, hundreds of levels deep: little work, and clear ends.

Work is counted in calls of Python functions, of which a machine does some millions a second.
"""

import contextlib
import sys
from collections.abc import Callable

import pytest

import minitensor as mt
from minitensor.arith import Interval, interval_of, prove, simplify, size
from minitensor.ir import FALSE, Binary, Const, Expr, Select, Unary, Var, less, make_room
from tests.parts import some

DEEPEST = 2000
"""What `make_room` accepts."""
i, j, k = Var("i"), Var("j"), Var("k")


def repeated(step: Callable[[Expr, int], Expr], first: Expr = i) -> Callable[[int], Expr]:
    """An expression of n levels: step(... step(step(first, 0), 1) ..., n - 1)."""

    def made(levels: int) -> Expr:
        expr = first
        for n in range(levels):
            expr = step(expr, n)
        return expr

    return made


def own(n: int) -> Var:
    return Var(f"v{n}")


SHAPES = {
    "selects": repeated(lambda e, n: Select(less(j, n), e + 1, k)),
    "selects on the right": repeated(lambda e, n: Select(less(j, n), k, e)),
    "selects in conditions": repeated(
        lambda e, n: Select(e, less(j, n), less(k, n)), less(i, 3)
    ),
    "sums": repeated(lambda e, n: e + own(n)),
    "differences": repeated(lambda e, n: own(n) - e),
    "sums of digits": repeated(lambda e, n: e + own(n) % 8 + own(n) // 8 * 8),
    "sums of others' digits": repeated(lambda e, n: e + own(n) % 8 + Var(f"w{n}") // 8 * 8),
    "minima": repeated(lambda e, n: Binary("min", e, own(n))),
    "minima of constants": repeated(lambda e, n: Binary("min", e, Const(-n))),
    "minima and maxima": repeated(
        lambda e, n: Binary("min" if n % 2 else "max", e, Const(5000 - n if n % 2 else n - 5000))
    ),
    "quotients": repeated(lambda e, n: e // (2 + n % 3)),
    "remainders": repeated(lambda e, n: e % (2 + n % 7)),
    "quotients of sums": repeated(lambda e, n: (e + own(n)) // (2 + n % 3)),
    "remainders of sums": repeated(lambda e, n: (e + own(n)) % (2 + n % 3)),
    "quotients and remainders": repeated(
        lambda e, n: e % (8 + n % 7) if n % 2 else (e * 3 + j) // 2
    ),
    "products": repeated(lambda e, n: e * j),
    "products of sums": repeated(lambda e, n: (e + j) * 3),
    "signs": repeated(lambda e, n: Unary("-", e)),
    "negations": repeated(lambda e, n: Unary("not", e), less(i, 3)),
    "conjunctions": repeated(lambda e, n: Binary("and", e, less(own(n), n)), less(i, 3)),
    "conjunctions and disjunctions": repeated(
        lambda e, n: Binary("or" if n % 2 else "and", e, less(own(n), n)), less(i, 3)
    ),
}  # fmt: skip


def work(expr: Expr) -> int:
    """The calls that simplifying it makes."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        simplify(expr)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("name", SHAPES)
def test_a_hundred_and_fifty_levels(name):
    expr = SHAPES[name](150)
    simple = simplify(expr)
    assert size(simple) <= 2 * size(expr)
    assert simplify(simple) == simple


def test_five_hundred_selects_are_little_work():
    assert work(SHAPES["selects"](500)) < 2_000_000  # less than half a second


@pytest.mark.slow
@pytest.mark.parametrize("name", some(SHAPES, lambda n: n % 4 == 1))
def test_three_hundred_levels_are_little_work(name):
    """The work is at most quadratic: this is less than 4,000,000 for five hundred levels."""
    assert work(SHAPES[name](300)) < 4_000_000 * 3**2 // 5**2


@pytest.mark.parametrize("name", SHAPES)
def test_twice_as_deep_is_at_most_four_times_the_work(name):
    assert work(SHAPES[name](100)) < 4.4 * work(SHAPES[name](50))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize(
    "name",
    [
        *("selects", "selects in conditions", "sums", "sums of digits", "minima of constants"),
        *("quotients", "remainders", "products", "signs", "negations", "conjunctions"),
    ],
)
def test_the_deepest_that_is_accepted(name):
    """A level of a shape has up to three operations."""
    for levels in (DEEPEST - 10, DEEPEST // 2 - 10, DEEPEST // 3 - 10):
        expr = SHAPES[name](levels)
        with contextlib.suppress(mt.ArgumentError):
            make_room(expr)
            break
    simple = simplify(expr)
    assert size(simple) <= 2 * size(expr)


@pytest.mark.many
@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize(
    ("name", "levels"), [*((name, 5000) for name in SHAPES), ("sums", 2001), ("selects", 20_000)]
)
def test_too_deep_is_an_error_that_says_so(name, levels):
    expr = SHAPES[name](levels)
    with pytest.raises(mt.ArgumentError, match=f"at most {DEEPEST} deep.*a compute of their own"):
        simplify(expr)


@pytest.mark.usefixtures("shallow")
def test_a_condition_too_deep_to_prove_is_the_same_error():
    condition = less(SHAPES["selects"](5000), 3)
    with pytest.raises(mt.ArgumentError, match=f"at most {DEEPEST} deep"):
        prove(condition)
    assert prove(less(SHAPES["selects"](500), 3)) is None


def test_a_shared_part_that_is_used_again_and_again_is_refused():
    expr: Expr = i
    for _ in range(30):
        expr = Binary("min", expr, expr)
    with pytest.raises(mt.ArgumentError, match="at most 100000 operations"):
        simplify(expr)


def test_a_long_sum_under_ranges():
    expr = SHAPES["sums"](500)
    ranges = {"i": Interval(0, 3)} | {f"v{n}": Interval(0, 0) for n in range(500)}
    assert simplify(expr, ranges) == i
    assert interval_of(expr, ranges) == (0, 3)
    assert simplify(less(3, expr), ranges) == FALSE
