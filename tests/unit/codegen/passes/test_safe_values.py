"""Choices of lanes: both sides are computed where that does no harm, and only there."""

import pytest

import minitensor as mt
from minitensor.arith import extent_range
from minitensor.codegen.passes.safe_values import is_safe, written_whole
from minitensor.ir import (
    INDEX,
    Binary,
    Const,
    Lanes,
    Load,
    LoopKind,
    Var,
    loops_of,
    print_program,
    walk,
)
from minitensor.ir.dtype import DType
from minitensor.testing import assert_equivalent
from tests.unit.codegen.passes.test_passes import run

i, j = Var("i"), Var("j")
FLOAT, INT = DType.of("float32"), DType.of("int32")
RANGES = {"i": extent_range(8), "j": extent_range(4)}
SHAPES = {"A": (8, 4), "T": (32,)}


def load(name, *indices, dtype=FLOAT):
    return Load(name, indices, dtype)


@pytest.mark.parametrize(
    ("expr", "safe"),
    [
        (load("A", i, j), True),
        (load("T", i * 4 + j), True),
        (load("T", i * 4 + j + 1), False),  # behind the end, once
        (load("A", i - 1, j), False),
        (load("A", i // 2, j % 2), True),
        (load("B", i), False),  # of which nothing is known
        (load("A", load("A", i, j, dtype=INDEX), j), False),  # a place that depends on data
        (Binary("//", load("A", i, j, dtype=INT), load("A", i, j, dtype=INT)), False),
        (Binary("%", load("A", i, j, dtype=INT), Const(3, INT)), False),
        (Binary("*", load("A", i, j), Const(2.0, FLOAT)), True),
    ],
)
def test_what_may_be_computed_in_vain(expr, safe):
    assert is_safe(expr, RANGES, SHAPES, {"A", "T"}) is safe
    assert not is_safe(expr, RANGES, SHAPES, set())


def test_what_holds_where_a_value_stands_is_known():
    behind = load("T", i * 4 + j + 1)
    assert is_safe(behind, RANGES, SHAPES, {"T"}, [Binary("<", i * 4 + j, Const(31, INDEX))])
    assert not is_safe(behind, RANGES, SHAPES, {"T"}, [Binary("<", i * 4 + j, Const(32, INDEX))])


def body_of(make):
    """The statement that a schedule of a two-stage program makes of its first stage."""
    A = mt.placeholder((8, 4), name="A")
    T = mt.compute((32,), lambda n: A[n // 4, n % 4], name="T")
    s = mt.Schedule(mt.lower([A, T, mt.compute((32,), lambda n: T[n], name="C")]))
    make(s)
    return run(s.program, "simplify").body


@pytest.mark.parametrize(
    ("make", "whole"),
    [
        (lambda s: None, True),
        (lambda s: s.split("n", [None, 8]), True),
        (lambda s: s.reorder(*reversed(s.split("n", [4, None]))), True),
        (lambda s: s.split("n", [None, 7]), False),  # some of it under a guard
    ],
)
def test_buffers_that_are_written_whole(make, whole):
    found = set(written_whole(body_of(make), {"T": (32,), "C": (32,)}))
    assert ("T" in found) is whole


def masked(make, *shapes, rows=24, columns=40):
    """A schedule with rows in lanes of what `make` says of the elements of inputs."""
    inputs = [mt.placeholder(shape, name=f"X{n}") for n, shape in enumerate(shapes)]
    value = mt.compute((rows, columns), lambda i, j: make(*inputs, i, j), name="C")
    s = mt.Schedule(mt.lower([*inputs, value]))
    s.vectorize("j")
    return s


MASKS = [
    lambda X, i, j: mt.if_then_else(j <= i, X[i, j], 0.0),
    lambda X, i, j: mt.if_then_else(X[i, j] > 0.0, X[i, j], X[i, j] * X[i, j]),
    lambda X, i, j: mt.if_then_else(i * 2 < j, X[i, j] * 3.0, X[i, 39 - j]),
    lambda X, i, j: mt.if_then_else(mt.logical_and(j < i + 9, i < j + 5), X[i, j], X[i, 0]),
]


@pytest.mark.parametrize("mask", MASKS)
def test_masks_are_vectors(mask):
    s = masked(mask, (24, 40))
    program = run(s.program, "vectorize_loops")
    assert not any(isinstance(node, Lanes) for node in walk(program.body))
    assert not any(loop.kind is LoopKind.VECTORIZE for loop in loops_of(program.body))
    assert_equivalent(s.history[0], s, targets=("interpreter", "passes", "c"))


def test_a_guard_around_a_mask_keeps_its_vectors():
    s = masked(lambda X, i, j: mt.if_then_else(j <= i, X[i, j], 0.0), (23, 40), rows=23)
    s.unroll(s.split("i", [None, 6])[1])
    program = run(s.program, "vectorize_loops")
    assert not any(isinstance(node, Lanes) for node in walk(program.body))
    assert_equivalent(s.history[0], s, targets=("interpreter", "passes", "c"))


def test_places_are_compared_as_numbers_of_32_bits():
    text = print_program(run(masked(MASKS[0], (24, 40)).program, "vectorize_loops"))
    assert "ramp(0, 1, " in text and "int32(" in text


OUTSIDE = [
    lambda X, i, j: mt.if_then_else(j <= i, X[i - j, j], 0.0),
    lambda X, i, j: mt.if_then_else(i < j, X[i, j - i - 1], 1.0),
]


@pytest.mark.parametrize("mask", OUTSIDE)
def test_what_may_read_outside_is_chosen_by_each_lane(mask):
    s = masked(mask, (24, 40))
    assert_equivalent(s.history[0], s, targets=("interpreter", "passes", "c"))


def test_what_was_not_written_is_not_read():
    """Of T, one half is there where the other is asked for."""
    X = mt.placeholder((32,), name="X")
    T = mt.compute((32,), lambda n: X[n] * 2.0, name="T")
    C = mt.compute((2, 16), lambda h, n: mt.if_then_else(n < h * 16, T[h * 16 + n], 1.0), name="C")
    s = mt.Schedule(mt.lower([X, T, C]))
    s.vectorize(s.get_loops("C")[1])
    assert_equivalent(s.history[0], s, targets=("interpreter", "passes", "c"))


def test_integers_of_data_are_divided_only_where_they_are_to_be():
    X = mt.placeholder((24, 40), "int32", name="X0")
    value = lambda i, j: mt.if_then_else(X[i, j] != 0, 100 // X[i, j], 0)
    s = mt.Schedule(mt.lower([X, mt.compute((24, 40), value, name="C")]))
    s.vectorize("j")
    assert_equivalent(s.history[0], s, targets=("interpreter", "passes", "c"))
