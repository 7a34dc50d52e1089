"""exp, log and their like in C: within their bounds everywhere, and the same in every schedule."""

import numpy as np
import pytest

import minitensor as mt
from tests.accuracy import (
    BOUNDS,
    EXTENDED,
    borders,
    kernel,
    powers,
    special,
    strided,
    worst,
)

pytestmark = pytest.mark.slow  # make quick leaves it out

CASES = [(name, dtype) for dtype, bounds in BOUNDS.items() for name in bounds]
SCALARS = mt.Target("c", num_cores=1, vector_bits=0)
VECTORS = mt.Target("c", num_cores=1)


def check(name, dtype, target, *arrays):
    """Fail if a value is further from the exact one than the bound."""
    run = kernel(name, dtype, len(arrays[0]), target, vectorized=target is not SCALARS)
    error, place = worst(name, run(*arrays), *arrays)
    assert error <= BOUNDS[dtype][name], f"{error} ulp at {place}"


def small(name, dtype):
    """Every special value and what lies around the borders, of a length that leaves tails."""
    kind = np.dtype(dtype).type
    if name == "power":
        a, b = np.meshgrid(special(kind), special(kind))
        x, y = powers(4096, 1)
        return np.concatenate([x, a.ravel()]), np.concatenate([y, b.ravel()])
    values = np.concatenate([special(kind), borders(name, kind), strided(kind, 4096, 3)])
    if (name, dtype) == ("erf", "float64"):
        values = np.concatenate([special(kind), values[::7]])
    return (values[: len(values) - (len(values) + 1) % 16],)


@pytest.mark.parametrize("target", [SCALARS, VECTORS], ids=["scalars", "vectors"])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_and_borders(name, dtype, target):
    if dtype == "float64" and not EXTENDED:
        pytest.skip("this machine has no longer floats to compare with")
    arrays = small(name, dtype)
    assert name == "power" or len(arrays[0]) % 16 == 15
    check(name, dtype, target, *arrays)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BOUNDS["float32"]))
def test_four_million_floats_over_the_whole_range(name):
    arrays = powers(1 << 22, 2) if name == "power" else (strided(np.float32, 1 << 22, 711),)
    check(name, "float32", VECTORS, *arrays)


@pytest.mark.slow
@pytest.mark.skipif(not EXTENDED, reason="this machine has no longer floats to compare with")
@pytest.mark.parametrize("name", sorted(set(BOUNDS["float64"]) - {"erf"}))
def test_a_million_doubles_over_the_whole_range_and_where_it_matters(name):
    check(name, "float64", VECTORS, strided(np.float64, 1 << 20, 711))
    rng = np.random.default_rng(0)
    check(name, "float64", VECTORS, rng.uniform(-8 if name != "log" else 0.3, 8, 1 << 20))


@pytest.mark.many
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_without_fused_operations(name, dtype, monkeypatch):
    if dtype == "float64" and not EXTENDED:
        pytest.skip("this machine has no longer floats to compare with")
    monkeypatch.setenv("CFLAGS", "-ffp-contract=off")
    check(name, dtype, VECTORS, *small(name, dtype))


@pytest.mark.many
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_schedule_does_not_change_a_value(name, dtype):
    arrays = small(name, dtype)
    count = len(arrays[0])
    wanted = kernel(name, dtype, count, SCALARS, vectorized=False)(*arrays)
    for bits in (128, 256, 512):
        target = mt.Target("c", num_cores=1, vector_bits=bits)
        got = kernel(name, dtype, count, target, vectorized=True)(*arrays)
        np.testing.assert_array_equal(got, wanted, err_msg=f"{bits} bits")


@pytest.mark.parametrize("flags", ["", "-ffp-contract=off"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_of_what_is_never_positive_is_exp_to_the_bit(dtype, flags, monkeypatch):
    monkeypatch.setenv("CFLAGS", flags)
    (a,) = small("exp", dtype)
    a = a[~(a > 0)]
    A = mt.placeholder(a.shape, dtype, name="A")
    C = mt.compute(a.shape, lambda i: mt.exp(mt.minimum(A[i], 0.0)), name="C")
    program = mt.lower([A, C])
    assert "exp_nonpositive(" in str(program)
    wanted = kernel("exp", dtype, len(a), SCALARS, vectorized=False)(a)
    for bits in (0, 128, 256, 512):
        s = mt.Schedule(program)
        if bits:
            s.vectorize("i")
        got = mt.build(s, mt.Target("c", num_cores=1, vector_bits=bits))(a)
        np.testing.assert_array_equal(got, wanted, err_msg=f"{bits} bits")


@pytest.mark.many
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", sorted(BOUNDS["float32"]))
def test_narrow_floats_are_computed_in_float32_and_rounded(name, vectorized):
    """Every float16 and bfloat16; for power, those with the exponent 1.5."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    for dtype, values in (("float16", bits.view(np.float16)), ("bfloat16", bits)):
        wide = mt.from_bfloat16(values) if dtype == "bfloat16" else values.astype("f")
        exponents = np.full(1 << 16, 1.5, "f")
        narrow_exponents = exponents.astype("f2")
        if dtype == "bfloat16":
            narrow_exponents = mt.to_bfloat16(exponents)
        more, narrow_more = ((exponents,), (narrow_exponents,)) if name == "power" else ((), ())
        full = kernel(name, "float32", 1 << 16, SCALARS, vectorized=False)(wide, *more)
        got = kernel(name, dtype, 1 << 16, VECTORS, vectorized)(values, *narrow_more)
        with np.errstate(over="ignore"):
            if dtype == "bfloat16":
                got, wanted = mt.from_bfloat16(got), mt.from_bfloat16(mt.to_bfloat16(full))
            else:
                wanted = full.astype("f2")
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_side_that_is_not_taken_is_not_evaluated(vectorized):
    """A function in padding: its load would be outside the buffer."""
    A = mt.placeholder((20,), name="A")
    C = mt.compute((40,), lambda i: mt.if_then_else(i < 20, mt.exp(A[i]), 7.0), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    if vectorized:
        s.vectorize("i")
    a = np.linspace(-3, 3, 20, dtype="f")
    got = mt.build(s)(a)
    wanted = kernel("exp", "float32", 20, SCALARS, vectorized=False)(a)
    np.testing.assert_array_equal(got, np.concatenate([wanted, np.full(20, 7, "f")]))


def test_functions_meet_in_one_kernel():
    A = mt.placeholder((3, 50), name="A")
    named = [mt.exp, mt.log, mt.tanh, mt.sigmoid, mt.erf, mt.rsqrt, lambda x: mt.power(x, 1.5)]
    named += [mt.sin, mt.cos, mt.log1p, mt.expm1]
    outputs = [mt.compute((3, 50), lambda i, j, f=f: f(A[i, j] + 1.0), name="C") for f in named]
    program = mt.lower([A, *outputs])
    s = mt.Schedule(program)
    for block in s.get_blocks():
        s.vectorize(s.get_loops(block)[1])
    a = np.random.default_rng(0).random((3, 50), dtype="f")
    for got, wanted in zip(mt.build(s)(a), mt.build(program)(a)):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_shifts_divide_negative_numbers_downwards(dtype, vectorized):
    info = np.iinfo(dtype)
    A = mt.placeholder((21,), dtype, name="A")
    outputs = [
        mt.compute((21,), lambda i, f=f: f(A[i]), name="C")
        for f in (lambda x: x // 8, lambda x: x % 8, lambda x: (x + 1) // 1, lambda x: -(x % 64))
    ]
    s = mt.Schedule(mt.lower([A, *outputs]))
    for block in s.get_blocks() if vectorized else ():
        s.vectorize(s.get_loops(block)[0])
    a = np.resize(np.array([info.min, -9, -8, -7, -1, 0, 1, 7, 8, 9, info.max], dtype), 21)
    for got, wanted in zip(mt.build(s)(a), mt.interpret(s, a)):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["sin", "cos", "log1p", "expm1"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_functions_of_the_library_on_doubles(name, vectorized):
    values = np.concatenate([special(np.float64), np.random.default_rng(0).normal(size=1024)])
    got = kernel(name, "float64", len(values), VECTORS, vectorized)(values)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(values)
    np.testing.assert_allclose(got, wanted, rtol=1e-15, atol=0)
    zeros = values == 0
    if name != "cos":
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(values[zeros]))
