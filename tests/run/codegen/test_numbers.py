"""Emitted C against the interpreter: every type, every operation, scalars and vectors."""

import numpy as np
import pytest

import minitensor as mt
from tests.parts import Extent, some
from tests.run.together import built_together

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
OF_EACH_KIND = ("float32", "bfloat16", "int32", "int8", "uint64", "bool")
N = 37

ANY = {
    "less": lambda a, b: a < b,
    "at_most": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "different": lambda a, b: a != b,
    "either": lambda a, b: mt.logical_or(a, b),
    "both": lambda a, b: mt.logical_and(a, mt.logical_not(b)),
    "select": lambda a, b: mt.select(a < b, a, b),
    "select_either": lambda a, b: mt.select(mt.logical_or(a < b, a == b), b, a),
    "if_then_else": lambda a, b: mt.if_then_else(a < b, a, b),
    "minimum": mt.minimum,
    "maximum": mt.maximum,
}
NUMBERS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negate": lambda a, b: -a,
    "absolute": lambda a, b: mt.abs(a),
}
WHOLE = {
    "chain": lambda a, b: (a + b) * a - b * (a - 3),
    "quotient": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "quotient_by_3": lambda a, b: a // 3,
    "remainder_by_5": lambda a, b: a % 5,
}
REAL = {
    "divide": lambda a, b: a / b,
    "sqrt": lambda a, b: mt.sqrt(mt.abs(a)),
    "floor": lambda a, b: mt.floor(a),
    "ceil": lambda a, b: mt.ceil(a),
    "round": lambda a, b: mt.round(a),
}
CASTS = {f"to_{d}": (lambda d: lambda a, b: a.astype(d))(d) for d in DTYPES}


def operations(dtype):
    found = {**ANY, **CASTS}
    if dtype != "bool":
        found.update(NUMBERS)
        found.update(REAL if dtype in FLOATS else WHOLE)
    return found


def values(dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, N).astype(bool)
    if dtype in FLOATS:
        x = np.abs(rng.normal(size=N) * 10) if seed % 2 else rng.normal(size=N) * 10
        x[:4] = [0.0, 1.0, 2.5, 3.5]
        return mt.to_bfloat16(x.astype("f")) if dtype == "bfloat16" else x.astype(dtype)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    x[:6] = [info.min, info.max, 0, 1, 2, info.max]
    rng.shuffle(x)
    return x


def assert_same(dtype, got, expected, what):
    if dtype == "bfloat16":
        got, expected = mt.from_bfloat16(got), mt.from_bfloat16(expected)
    assert got.dtype == expected.dtype
    same = np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f")
    assert same, f"{what}: {got} is not {expected}"


def listed(result):
    return result if isinstance(result, tuple) else (result,)


def width_of(dtype):
    """The width of the vectors in which `make test` tries a type: each has one of three."""
    return (128, 256, 512)[DTYPES.index(dtype) % 3]


def compare(dtype, named, arrays):
    """In scalars and in vectors, for `make whole` of three widths."""
    A, B = (mt.placeholder((N,), dtype, name=n) for n in "AB")
    outputs = [mt.compute((N,), lambda i, f=f: f(A[i], B[i]), name=n) for n, f in named.items()]
    program = mt.lower([A, B, *outputs], name="numbers")
    expected = mt.interpret(program, *arrays)
    s = mt.Schedule(program)
    for block in s.get_blocks():
        s.vectorize(s.get_loops(block)[0])
    wanted = {0: (program, mt.Target("c", num_cores=1, vector_bits=0))}
    widths = (128, 256, 512) if Extent.whole else (width_of(dtype),)
    wanted |= {bits: (s, mt.Target("c", num_cores=1, vector_bits=bits)) for bits in widths}
    for bits, kernel in built_together(wanted).items():
        for output, x, y in zip(outputs, listed(kernel(*arrays)), listed(expected)):
            assert_same(output.dtype, x, y, f"{output.name} of {dtype}, {bits} bits")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", some(DTYPES, lambda number: DTYPES[number] in OF_EACH_KIND))
def test_every_operation(dtype):
    compare(dtype, operations(dtype), [values(dtype, 2), values(dtype, 3)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_chain_of_operations(dtype):
    """On small integers, where it makes no difference that a product and a sum may be fused."""
    arrays = [np.arange(N) % 5 - 2.0, np.arange(N) % 7 - 3.0]
    arrays = [
        mt.to_bfloat16(x.astype("f")) if dtype == "bfloat16" else x.astype(dtype) for x in arrays
    ]
    compare(dtype, {"chain": WHOLE["chain"]}, arrays)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", some(FLOATS, lambda number: FLOATS[number] in OF_EACH_KIND))
def test_special_values(dtype):
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 65504.0, 1e-7] * 5)[:N]
    other = np.roll(special, 4)
    arrays = [special, other]
    if dtype == "bfloat16":
        arrays = [mt.to_bfloat16(x.astype("f")) for x in arrays]
    else:
        arrays = [x.astype(dtype) for x in arrays]
    compare(dtype, operations(dtype), arrays)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_that_no_integer_type_holds_are_converted_alike_everywhere(dtype):
    edges = [2.0**n for n in (7, 8, 15, 16, 31, 32, 62, 63, 64, 65, 100)] + [5e9, 1e19, 2.5, np.nan]
    x = np.resize([*edges, *(-edge for edge in edges)], N)
    with np.errstate(over="ignore"):
        x = mt.to_bfloat16(x.astype("f")) if dtype == "bfloat16" else x.astype(dtype)
    compare(dtype, CASTS, [x, x])


def test_a_float_wraps_when_it_is_made_an_integer():
    A = mt.placeholder((6,), "float64", name="A")
    B = mt.compute((6,), lambda i: A[i].astype("uint8"), name="B")
    C = mt.compute((6,), lambda i: A[i].astype("uint64"), name="C")
    a = np.array([-2.5, 256.5, 1e19, 1e20, np.nan, 2.0**63])
    for target in ("interpreter", "c"):
        b, c = mt.build(mt.lower([A, B, C]), target)(a)
        assert b.tolist() == [254, 0, 0, 0, 0, 0]
        assert c.tolist() == [2**64 - 2, 256, 10**19, 0, 0, 2**63]


def test_constants_are_rounded_to_their_type():
    A = mt.placeholder((1,), "float16", name="A")
    B = mt.placeholder((1,), "float32", name="B")
    C = mt.compute((1,), lambda i: A[i] + 0.1, name="C")
    D = mt.compute((1,), lambda i: B[i] * 1e-45 + 16777217.0, name="D")
    E = mt.compute((1,), lambda i: B[i] + float("inf"), name="E")
    F = mt.compute((1,), lambda i: mt.maximum(B[i], float("nan")), name="F")
    program = mt.lower([A, B, C, D, E, F])
    arrays = [np.ones(1, "float16"), np.ones(1, "float32")]
    for a, b in zip(mt.build(program)(*arrays), mt.interpret(program, *arrays)):
        assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_constant_is_the_number_of_its_type(dtype):
    numbers = [
        0.1,
        0.3,
        -1 / 3,
        1e-5,
        6e-8,
        1e-45,
        65519.0,
        65520.0,
        1e5,
        -1e9,
        3.4e38,
        1e40,
        -1e300,
    ]
    A = mt.placeholder((1,), dtype, name="A")
    outputs = [mt.compute((1,), lambda i, n=n: mt.maximum(A[i], n) + n, name="C") for n in numbers]
    program = mt.lower([A, *outputs])
    (a,) = [mt.to_bfloat16(np.zeros(1, "f")) if dtype == "bfloat16" else np.zeros(1, dtype)]
    for output, x, y in zip(outputs, mt.build(program)(a), mt.interpret(program, a)):
        assert_same(output.dtype, x, y, "constant")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_constants_of_every_size(dtype):
    info = np.iinfo(dtype)
    numbers = [info.min, info.max, 0, 127, info.max // 2 + 1]
    A = mt.placeholder((1,), dtype, name="A")
    outputs = [mt.compute((1,), lambda i, n=n: A[i] * 0 + n, name="C") for n in numbers]
    got = mt.build(mt.lower([A, *outputs]))(np.ones(1, dtype))
    assert [int(x[0]) for x in got] == numbers
