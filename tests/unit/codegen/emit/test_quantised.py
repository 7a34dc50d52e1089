"""Rounded quotients without a division: the same integer for every float."""

from fractions import Fraction

import numpy as np
import pytest

from minitensor import ir
from minitensor.codegen.emit import quantised
from minitensor.codegen.emit.quantised import Quantised, Quotient
from tests.parts import times


def nearest_float(exact):
    """The float32 nearest to a number, the even one of two."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(end)) for end in (-np.inf, np.inf)]
    return min((guess, *around), key=lambda x: (abs(Fraction(float(x)) - exact), x.view("i4") & 1))


def test_fused_multiply_adds_round_once():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2000).astype("f")
    more = x * np.float32(3e-8) * rng.choice([1, -1], 2000).astype("f")
    factor = np.float32(1.2345678)
    exact = [
        nearest_float(Fraction(float(a)) * Fraction(float(factor)) + Fraction(float(b)))
        for a, b in zip(x, more)
    ]
    assert (quantised._fused(x, factor, more) == np.array(exact)).all()


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-128, 127), (-77, 178), (0, 65535)])
def test_steps_are_those_of_the_division(low, high):
    """The floats around each step, where a product alone is wrong."""
    rng = np.random.default_rng(high)
    wrong = 0
    for _ in range(times(20, 400)):
        c = np.float32(np.exp(rng.uniform(-9, 3)))
        found = Quotient.of(float(c), float(low), float(high))
        assert found is not None
        near = ((np.arange(low, high) + 0.5) * float(c)).astype("f")
        x = np.concatenate([near.view("i4") + n for n in range(-9, 10)]).astype("i4").view("f")
        x = np.clip(x, np.float32(found.least), np.float32(found.most))
        part, rest = np.float32(found.high_part), np.float32(found.low_part)
        expected = np.rint(x / c)
        assert (np.rint(quantised._fused(x, part, x * rest)) == expected).all()
        wrong += (np.rint(x * part) != expected).any()
    assert wrong


def test_constants_that_floats_lose_bits_of_are_left_alone():
    for divisor in (0.0, -0.1, float("nan"), float("inf"), 1e-30, 1e30):
        assert Quotient.of(divisor, 0.0, 255.0) is None


def number(value):
    return ir.Broadcast(ir.const(value, ir.FLOAT32), 8)


def vector(build):
    return build(ir.Broadcast(ir.Var("x", ir.FLOAT32), 8), number)


def rounded(x):
    return ir.Call("round", (x,), x.dtype)


def between(x, low, high):
    return ir.Binary("min", ir.Binary("max", x, low), high)


def test_what_is_quantised_is_recognized():
    found = Quantised.of(vector(lambda x, n: between(rounded(x), n(0), n(255))))
    assert (found.low, found.high, found.zero, found.quotient) == (0, 255, 0, None)
    moved = vector(
        lambda x, n: between(ir.Binary("+", rounded(ir.Binary("/", x, n(0.3))), n(3)), n(0), n(255))
    )
    found = Quantised.of(moved)
    assert (found.low, found.high, found.zero) == (-3, 252, 3)
    assert found.quotient.divisor == np.float32(0.3)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, n: between(x, n(0), n(255)),  # not rounded
        lambda x, n: between(rounded(x), n(0.5), n(255)),
        lambda x, n: between(rounded(x), n(255), n(0)),
        lambda x, n: between(rounded(x), n(0), n(1e9)),  # whole numbers that float32 lacks
        lambda x, n: between(ir.Binary("+", rounded(x), n(0.5)), n(0), n(255)),
        lambda x, n: between(ir.Binary("+", rounded(x), x), n(0), n(255)),
        lambda x, n: between(rounded(x), x, n(255)),
        lambda x, n: rounded(x),
    ],
)
def test_anything_else_is_not(build):
    assert Quantised.of(vector(build)) is None


def test_powers_of_two_stay_products():
    found = Quantised.of(
        vector(lambda x, n: between(rounded(ir.Binary("/", x, n(0.25))), n(0), n(9)))
    )
    assert found.quotient is None and isinstance(found.value, ir.Binary)
