"""Choices and conversions in vectors: the bits of scalars, and machine code without lanes."""

import re

import numpy as np
import pytest

import minitensor as mt
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
