"""A scalar loop, the same loop vectorized node by node, and as one Lanes: the same numbers."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor.ir import (
    FLOAT32,
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    For,
    Lanes,
    Load,
    LoopKind,
    Program,
    Ramp,
    Select,
    Store,
    Unary,
    Var,
    const,
    interpret,
    verify,
)

SIZE = 16
INPUTS = {"A": FLOAT32, "B": DType.of("bfloat16"), "N": DType.of("int32"), "U": DType.of("uint8")}


def random_index(rng: random.Random) -> Expr:
    expr = Var("i") * rng.choice([0, 1, 2, 3]) + Const(rng.randrange(4))
    if rng.random() < 0.3:
        expr = Binary(rng.choice(["//", "%", "min", "max"]), expr, Const(rng.randint(1, 5)))
    return expr % SIZE


def random_value(rng: random.Random, dtype: DType, depth: int) -> Expr:
    """A value of the type; only operations that numpy rounds alike on scalars and arrays."""
    kind = rng.randrange(7) if depth else rng.randrange(2)
    if kind == 0:
        return const(rng.randint(0, 5), dtype)
    if kind == 1:
        names = [n for n, d in INPUTS.items() if d == dtype]
        if names:
            return Load(rng.choice(names), (random_index(rng),), dtype)
        return Cast(dtype, random_index(rng))
    if kind == 2:
        return Unary("-", random_value(rng, dtype, depth - 1))
    if kind == 3:
        source = rng.choice([d for d in INPUTS.values() if d.is_integer])
        return Cast(dtype, random_value(rng, source, depth - 1))
    a, b = random_value(rng, dtype, depth - 1), random_value(rng, dtype, depth - 1)
    if kind == 4:
        op = rng.choice(["<", "<=", "==", "!="])
        return Select(Binary(op, a, b), a, b)
    if dtype.is_float and kind == 5:
        return Call(rng.choice(["abs", "floor", "ceil", "round", "sqrt"]), (a,), dtype)
    ops = (
        ["+", "-", "*", "min", "max", "/"]
        if dtype.is_float
        else ["+", "-", "*", "min", "max", "//", "%"]
    )
    return Binary(rng.choice(ops), a, b)


def vectorized(expr: Expr, lanes: int) -> Expr:
    """The expression for i = 0 … lanes-1 at once."""
    match expr:
        case Var("i"):
            return Ramp(Const(0), 1, lanes)
        case Const():
            return Broadcast(expr, lanes)
        case Unary(op, a):
            return Unary(op, vectorized(a, lanes))
        case Binary(op, a, b):
            return Binary(op, vectorized(a, lanes), vectorized(b, lanes))
        case Select(condition, a, b):
            return Select(*[vectorized(e, lanes) for e in (condition, a, b)])
        case Cast(dtype, a):
            return Cast(dtype.with_lanes(lanes), vectorized(a, lanes))
        case Load(buffer, indices, dtype):
            where = tuple(vectorized(i, lanes) for i in indices)
            return Load(buffer, where, dtype.with_lanes(lanes))
        case Call(function, args, dtype):
            every = tuple(vectorized(a, lanes) for a in args)
            return Call(function, every, dtype.with_lanes(lanes))
    raise AssertionError(expr)


@given(st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_three_ways_to_run_a_loop(rng):
    dtype = rng.choice(list(INPUTS.values()))
    lanes = rng.randint(2, 5)
    value = random_value(rng, dtype, rng.randint(0, 3))
    ramp = Ramp(Const(0), 1, lanes)
    bodies = [
        For("i", lanes, Store("C", (Var("i"),), value), LoopKind.VECTORIZE),
        Store("C", (ramp,), Lanes("i", lanes, value)),
        Store("C", (ramp,), vectorized(value, lanes)),
    ]
    data = np.random.default_rng(rng.randrange(1 << 30))
    arrays = [
        data.integers(-4, 5, SIZE).astype(np.float32),
        (data.integers(-4, 5, SIZE).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
        data.integers(-(2**31), 2**31, SIZE).astype(np.int32),
        data.integers(0, 256, SIZE).astype(np.uint8),
    ]
    inputs = tuple(Buffer(n, (SIZE,), d) for n, d in INPUTS.items())
    results = []
    for body in bodies:
        program = Program("p", (*inputs, Buffer("C", (lanes,), dtype)), (), body)
        verify(program)
        outputs, counts = interpret(program, arrays)
        assert counts.stores["C"] == lanes
        results.append((outputs[0], counts))
    for other, counts in results[1:]:
        np.testing.assert_array_equal(other, results[0][0])
        assert counts == results[0][1]
