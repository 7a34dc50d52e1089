"""Bytes of floats in machine code: numpy's, around each step, whatever the vectors."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.runtime import find_toolchain
from tests.run.together import built_together

X86 = re.match("x86_64|amd64", find_toolchain().triple) is not None
CLANG = "clang" in find_toolchain().version
TARGET = mt.Target("c", num_cores=1)
CASES = [
    (dtype, scale, zero)
    for dtype, zeros in (("uint8", (0, 128)), ("int8", (0, -7)), ("int16", (0, 300)))
    for scale in (0.0235294122248888, 0.25, 3.7e-5, 911.3)
    for zero in zeros
]
LANES = (1, 4, 8, 16, 32)


def around_steps(dtype, scale, zero):
    """Floats around those where another number begins, and what is no number."""
    ends = np.iinfo(dtype)
    steps = np.arange(max(ends.min, -300) - zero - 2, min(ends.max, 300) - zero + 2) + 0.5
    near = (steps * float(np.float32(scale))).astype("f").view("i4")
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1e9, -1e9]
    found = np.concatenate([*((near + n).view("f") for n in range(-2, 3)), np.array(special, "f")])
    return np.resize(found, -(-len(found) // 64) * 64)


def expected(x, dtype, scale, zero):
    """The result that ONNX specifies; a NaN becomes 0."""
    ends = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        y = np.clip(np.rint(x / np.float32(scale)) + np.float32(zero), ends.min, ends.max)
    return np.where(np.isnan(y), 0, y).astype(dtype)


def quantising(dtype, scale, zero, lanes, size):
    X = mt.placeholder((size,), "float32", name="X")
    s = mt.Schedule(mt.lower([X, ops.quantize(X, scale, zero, dtype=dtype)]))
    (loop,) = s.get_loops("quantize")
    if lanes > 1:
        s.vectorize(s.split(loop, [None, lanes])[1])
    return s, TARGET


@pytest.mark.slow
@pytest.mark.parametrize("march", ["native", "x86-64-v2", "x86-64-v3"] if X86 else [""])
def test_every_step_is_numpys(march, monkeypatch):
    if march:
        monkeypatch.setenv("CFLAGS", f"-march={march}")
    inputs = {case: around_steps(*case) for case in CASES}
    kernels = built_together(
        {(*c, lanes): quantising(*c, lanes, len(inputs[c])) for c in CASES for lanes in LANES}
    )
    assert len(kernels) == len(CASES) * len(LANES)
    for (dtype, scale, zero, lanes), kernel in kernels.items():
        x = inputs[dtype, scale, zero]
        found = kernel(x)
        wrong = found != expected(x, dtype, scale, zero)
        assert not wrong.any(), (dtype, scale, zero, lanes, x[wrong][:5], found[wrong][:5])


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0.0, 300.0), (-3.0, 255.0), (0.0, 100.0)])
def test_bounds_that_a_byte_does_not_have_wrap(low, high):
    x = np.array([*range(-8, 312, 2), np.nan, np.inf, -np.inf], "f")
    x = np.resize(x, 192)

    def wrapped(lanes):
        X = mt.placeholder((192,), "float32", name="X")
        bounded = lambda i: mt.minimum(mt.maximum(mt.round(X[i]), low), high).astype("uint8")
        s = mt.Schedule(mt.lower([X, mt.compute((192,), bounded, name="Y")]))
        if lanes > 1:
            s.vectorize(s.split("i", [None, lanes])[1])
        return s, TARGET

    kernels = built_together({lanes: wrapped(lanes) for lanes in LANES})
    whole = np.clip(np.rint(np.where(np.isnan(x), 0, x)), low, high).astype("i4")
    for lanes, kernel in kernels.items():
        assert (kernel(x) == np.where(np.isnan(x), 0, whole & 255)).all(), lanes


@pytest.mark.slow
@pytest.mark.skipif(not X86 or CLANG, reason="instructions of x86 are named for GCC")
def test_a_constant_scale_takes_no_division(monkeypatch):
    monkeypatch.setenv("CFLAGS", "-march=x86-64-v3")
    code = mt.build(*quantising("uint8", 0.02353, 0, 8, 64)).assembly()
    assert "vcvtps2dq" in code and "vdivps" not in code
