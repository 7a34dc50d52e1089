"""Choices and conversions in vectors: the bits of scalars, and machine code without lanes."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import generate
from minitensor.ir.dtype import DType, compute_dtype, pack
from minitensor.runtime import find_toolchain
from tests.run.together import built_together

X86 = re.match("x86_64|amd64", find_toolchain().triple) is not None
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, -np.nan, 1e-45, 65519.0, 3e38]
TERMS = {
    "less": lambda a, b: mt.select(a < b, a, b),
    "greater": lambda a, b: mt.select(a < b, b, a),
    "at most": lambda a, b: mt.select(a <= b, a, b),
    "other": lambda a, b: mt.select(a == b, -a, b),
    "max": mt.maximum,
    "min": mt.minimum,
    "abs": lambda a, b: mt.abs(a),
    "floor": lambda a, b: mt.floor(a * 0.5),
    "ceil": lambda a, b: mt.ceil(a * 0.5),
    "round": lambda a, b: mt.round(a * 0.5),
    "sqrt": lambda a, b: mt.sqrt(mt.abs(a)),
}


TARGET = mt.Target("c", num_cores=1)
WIDE = mt.Target("c", num_cores=1, vector_bits=256)  # for texts, whatever the machine has


def scheduled(function, dtype, lanes, size):
    A, B = (mt.placeholder((size,), dtype, name=n) for n in "AB")
    C = mt.compute((size,), lambda i: function(A[i], B[i]), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    if lanes > 1:
        s.vectorize(s.split("i", [None, lanes])[1])
    return s


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_zeros_and_nans_have_the_bits_of_scalars(dtype):
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    kind = DType.of(dtype)
    with np.errstate(over="ignore"):
        arrays = [pack(x.astype(compute_dtype(kind)), kind) for x in (a, b)]
    kernels = built_together(
        {
            (name, lanes): (scheduled(term, dtype, lanes, a.size), TARGET)
            for name, term in TERMS.items()
            for lanes in (1, 4, 8, 16)
        }
    )
    found = {case: kernel(*arrays).tobytes() for case, kernel in kernels.items()}
    assert len(found) == 4 * len(TERMS)
    for (name, lanes), got in found.items():
        assert got == found[name, 1], (name, lanes)


def exp_of_difference(a, b):
    return mt.exp(a - b) * mt.select(a < b, a * b, b)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.skipif(not X86, reason="the flags are of x86")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "march",
    [
        "x86-64-v3",
        "x86-64-v4",
        *[pytest.param(m, marks=pytest.mark.slow) for m in ("rocketlake", "sapphirerapids")],
    ],
)
def test_no_vector_is_taken_apart(dtype, march, monkeypatch):
    bits = 256 if march == "x86-64-v3" else 512
    monkeypatch.setenv("CFLAGS", f"-march={march}")
    lanes = bits // (64 if dtype == "float64" else 32)
    try:
        s = scheduled(exp_of_difference, dtype, lanes, 64 * lanes)
        code = mt.build(s, TARGET).assembly()
    except mt.CompileError:
        pytest.skip(f"the compiler does not know {march}")
    apart = re.findall(r"\bv(?:p?(?:extr|extract|insr|insert|unpck)\w*|comis\w*)", code)
    assert apart == []


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
KINDS = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64"]


def edges(dtype):
    """Values of a type: small ones, those at its ends, and of floats what is no number."""
    kind = DType.of(dtype)
    if dtype == "bool":
        return np.array([False, True] * 16)
    if kind.is_float:
        values = [*SPECIAL, 127.5, 128.0, -129.0, 255.9, 32768.0, -40000.0, 2.0**31, -(2.0**31)]
        with np.errstate(over="ignore"):
            return pack(np.resize(np.array(values), 32).astype(compute_dtype(kind)), kind)
    ends = np.iinfo(dtype)
    values = [0, 1, 2, 9, 10, 11, 99, 100, 127, ends.max, ends.max - 1, ends.min, ends.min + 1]
    if ends.min < 0:
        values += [-1, -9, -10, -11, -100, -128]
    return np.resize(np.array(values, dtype), 32)


def unary(function, dtype, lanes):
    A = mt.placeholder((32,), dtype, name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((32,), lambda i: function(A[i]), name="C")]))
    if lanes > 1:
        s.vectorize(s.split("i", [None, lanes])[1])
    return s, TARGET


def same_in_all_lanes(functions, dtype):
    """Each function has the bits of scalars, in vectors of 4 to 32 lanes."""
    cases = {
        (name, lanes): unary(function, dtype, lanes)
        for name, function in functions.items()
        for lanes in (1, 4, 8, 16, 32)
    }
    found = {case: kernel(edges(dtype)).tobytes() for case, kernel in built_together(cases).items()}
    assert len(found) == 5 * len(functions)
    for (name, lanes), got in found.items():
        assert got == found[name, 1], (name, lanes)


@pytest.mark.slow
@pytest.mark.parametrize("march", ["native", "x86-64-v3"] if X86 else [""])
@pytest.mark.parametrize("dtype", KINDS)
def test_conversions_have_the_bits_of_scalars(dtype, march, monkeypatch):
    if march:
        monkeypatch.setenv("CFLAGS", f"-march={march}")
    targets = {kind: lambda x, kind=kind: x.astype(kind) for kind in KINDS if kind != dtype}
    if DType.of(dtype).is_float:
        for kind, low, high in (("int8", -128, 127), ("uint8", 0, 255), ("int16", -9.5, 1e9)):
            targets[f"{kind}, clamped"] = lambda x, kind=kind, low=low, high=high: mt.minimum(
                mt.maximum(x.astype("float32"), float(low)), float(high)
            ).astype(kind)
    same_in_all_lanes(targets, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_by_constants_have_the_bits_of_scalars(dtype):
    largest = int(np.iinfo(dtype).max)
    functions = {}
    for divisor in (1, 3, 10, 127, largest, -3):
        if divisor > 0 or dtype.startswith("int"):
            functions[f"//{divisor}"] = lambda x, divisor=divisor: x // divisor
            functions[f"%{divisor}"] = lambda x, divisor=divisor: x % divisor
    same_in_all_lanes(functions, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint64", "float16"])
@pytest.mark.parametrize("times, start", [(2, 0), (4, 0), (8, 0), (3, 0), (2, 1), (16, 0)])
def test_lanes_that_read_an_element_several_times(dtype, times, start):
    """Images that grow by whole factors, from the first column and from another."""
    columns = 70 // times + 2
    A = mt.placeholder((3, columns), dtype, name="A")
    C = mt.compute((3, 70), lambda i, j: A[i, (j + start) // times], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.vectorize("j")
    a = np.arange(3 * columns).reshape(3, columns).astype(dtype)
    kernel = mt.build(s, TARGET)
    np.testing.assert_array_equal(kernel(a), a[:, (np.arange(70) + start) // times])
    whole = start == 0 and times in (2, 4) and dtype in ("float32", "int32")
    assert f"repeated_{times}_" in generate(s.program, WIDE).source or not whole


@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
def test_elements_of_two_arrays_in_turn(dtype):
    A, B = (mt.placeholder((50,), dtype, name=n) for n in "AB")
    C = mt.compute((100,), lambda i: mt.if_then_else(i % 2 == 0, A[i // 2], B[i // 2]), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.vectorize("i")
    a, b = (np.arange(50, dtype=dtype) + n for n in (0, 100))
    kernel = mt.build(s, TARGET)
    np.testing.assert_array_equal(kernel(a, b), np.stack([a, b], 1).ravel())
    assert "_lane" not in generate(s.program, WIDE).source.split("kernel(")[1]


def test_a_side_that_reads_outside_is_not_read():
    """The last pair has no second element: where it would be read, another side is chosen."""
    A = mt.placeholder((16,), name="A")
    C = mt.compute(
        (64,), lambda i: mt.if_then_else(i // 2 < 16, A[mt.minimum(i // 2, 40)], 0.0), name="C"
    )
    s = mt.Schedule(mt.lower([A, C]))
    s.vectorize("i")
    a = np.arange(16, dtype="f")
    wanted = np.concatenate([np.repeat(a, 2), np.zeros(32, "f")])
    np.testing.assert_array_equal(mt.build(s, TARGET)(a), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64"])
@pytest.mark.parametrize("factor", [1, -3, 1 << 29])
def test_places_as_numbers(dtype, factor):
    """Of lanes; those of the largest factor need more than 32 bits."""
    Y = mt.compute((5, 40), lambda i, j: ((j - i) * factor).astype(dtype), name="Y")
    s = mt.Schedule(mt.lower([Y]))
    s.vectorize("j")
    i, j = np.indices((5, 40))
    with np.errstate(over="ignore"):
        wanted = ((j - i) * factor).astype(dtype)
    np.testing.assert_array_equal(mt.build(s, TARGET)(), wanted)
