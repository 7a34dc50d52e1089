"""use_reciprocal."""

import numpy as np
import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import after, chain2d, quotients, start


def test_use_reciprocal():
    s = mt.Schedule(quotients())
    assert s.use_reciprocal("D", "S") == "S_reciprocal"
    golden(
        s,
        """
        S = empty(float32[4])
        S_reciprocal = empty(float32[4])
        for i in range(4):
            S[i] = if_then_else(0.0 < A[i, 0], 4.0, 0.5)
        for ax0 in range(4):
            S_reciprocal[ax0] = 1.0 / S[ax0]
        for x in range(4):
            for y in range(6):
                D[x, y] = A[x, y] * S_reciprocal[x]
        """,
    )
    s.compute_at("S_reciprocal", "x")
    check(s)


def test_only_what_divides_changes():
    A, S = mt.placeholder((4, 6), name="A"), mt.placeholder((4,), name="S")
    C = mt.compute((4, 6), lambda i, j: (A[i, j] / S[i] + S[i]) / (S[i] / S[3]), name="C")
    s = mt.Schedule(mt.lower([A, S, C]))
    s.use_reciprocal("C", "S")
    text = "C[i, j] = (A[i, j] * S_reciprocal[i] + S[i]) / (S[i] * S_reciprocal[3])"
    assert text in str(s.program)
    check(s, [np.ones((4, 6), np.float32), np.float32([0.5, 1, 2, 4])])


def test_terms_of_a_sum():
    A, S = mt.placeholder((4, 6), name="A"), mt.placeholder((6,), name="S")
    k = mt.reduce_axis(6, name="k")
    C = mt.compute((4,), lambda i: mt.sum(A[i, k] / S[k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, S, C]))
    k_0, _ = s.split("k", [None, 4])
    s.use_reciprocal("C", "S")
    s.compute_at("S_reciprocal", k_0)
    check(s, [np.ones((4, 6), np.float32), np.float32([0.5, 1, 2, 4, 8, 0.25])])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_rounds_once_more(dtype):
    A, S = mt.placeholder((64, 40), dtype, name="A"), mt.placeholder((64,), dtype, name="S")
    s = mt.Schedule(mt.lower([A, S, mt.compute((64, 40), lambda i, j: A[i, j] / S[i], name="C")]))
    s.use_reciprocal("C", "S")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 40)).astype(dtype)
    d = np.ldexp(rng.standard_normal(64), rng.integers(-60, 60, 64)).astype(dtype)
    exact = a.astype(np.longdouble) / d[:, None].astype(np.longdouble)
    error = np.abs(mt.interpret(s, a, d) - exact) / np.spacing(np.abs(exact).astype(dtype))
    assert 0.5 < error.max() < 1.5


def test_divisors_without_a_good_reciprocal():
    A, S = mt.placeholder((6,), name="A"), mt.placeholder((6,), name="S")
    s = mt.Schedule(mt.lower([A, S, mt.compute((6,), lambda i: A[i] / S[i], name="C")]))
    s.use_reciprocal("C", "S")
    a = np.float32([1, 0, 1, -1, 1, 0])
    d = np.float32([0, 0, np.inf, -0.0, np.nan, np.inf])
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(mt.interpret(s, a, d), a / d)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_refused(dtype):
    A, S = mt.placeholder((4, 6), dtype, name="A"), mt.placeholder((4,), dtype, name="S")
    s = mt.Schedule(mt.lower([A, S, mt.compute((4, 6), lambda i, j: A[i, j] / S[i], name="C")]))
    refused(s, "R1", "of float32 or float64", lambda: s.use_reciprocal("C", "S"))


def quotients_in_order():
    """W[i] = A[i] / W[i - 1]"""
    A = mt.placeholder((8,), name="A")
    W = mt.update((8,), lambda W, i: mt.if_then_else(i > 0, A[i] / W[i - 1], 1.0), name="W")
    return mt.lower([A, W])


def halo():
    """P[i] = A[i] + 2; C[y] = A[y] / P[y] / P[y + 1]"""
    A = mt.placeholder((9,), name="A")
    P = mt.compute((9,), lambda i: A[i] * A[i] + 1.0, name="P")
    return mt.lower([A, mt.compute((8,), lambda y: A[y] / P[y] / P[y + 1], name="C")])


REFUSALS = [
    Refusal(
        "use_reciprocal",
        "R1",
        start(quotients),
        lambda s: s.use_reciprocal("D", "A"),
        r'^use_reciprocal\("D", "A"\) breaks R1: the block divides by elements of the buffer, ',
        choices=("S",),
        marks=("# <- does not divide by A",),
    ),
    Refusal(
        "use_reciprocal",
        "R2",
        start(quotients_in_order),
        lambda s: s.use_reciprocal("W", "W"),
        "R2: the block does not write the buffer$",
        marks=("# <- writes it",),
    ),
    Refusal(
        "use_reciprocal",
        "R3",
        after(quotients, lambda s: s.transform_layout("S", lambda i: (i // 2, i % 2))),
        lambda s: s.use_reciprocal("D", "S"),
        "R3: the buffer is an input, or its writers index each axis by an iter of its own$",
        marks=("# <- writes S",),
    ),
    Refusal(
        "use_reciprocal",
        "R4",
        after(
            halo,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
            lambda s: s.split("P_i", [2, 4]),
        ),
        lambda s: s.use_reciprocal("C", "P"),
        "R4: the divisors have been computed before$",
        marks=("# <- reads more than was computed",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_a_program_without_a_division():
    s = mt.Schedule(chain2d())
    refused(s, "R1", "C", lambda: s.use_reciprocal("C", "B"))
