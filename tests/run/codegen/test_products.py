"""Products and sums in machine code: fused in a sum of products, and nowhere else."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import find_toolchain

X86 = re.match("x86_64|amd64", find_toolchain().triple) is not None
HALVES = "-march=sapphirerapids"
"""Processors with arithmetic on float16: gcc makes it of float's where the rounding is the same."""


def elementwise(dtype, expression, vector=None):
    A, B, C = (mt.placeholder((32,), dtype, name=n) for n in "ABC")
    D = mt.compute((32,), lambda i: expression(A[i], B[i], C[i]), name="D")
    s = mt.Schedule(mt.lower([A, B, C, D]))
    if vector:
        s.vectorize(s.split("i", [None, vector])[1])
    return s


def fused(kernel):
    """The fused instructions of a kernel on x86 and on ARM."""
    return re.findall(r"\b(?:vfn?m(?:add|sub)\d*[a-z]+|fn?m(?:add|sub|la|ls))\b", kernel.assembly())


@pytest.mark.slow
@pytest.mark.skipif(not X86, reason="the flag is of x86")
@pytest.mark.parametrize("vector", [None, 8, 32])
def test_float16_is_not_fused_by_processors_that_compute_in_it(vector, monkeypatch):
    monkeypatch.setenv("CFLAGS", HALVES)
    try:
        kernel = mt.build(elementwise("float16", lambda a, b, c: a * b - b, vector))
    except mt.CompileError:
        pytest.skip(f"the compiler does not know {HALVES}")
    assert [name for name in fused(kernel) if name.endswith(("sh", "ph"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vector", [None, 4, 16])
def test_elementwise_sums_are_not_fused(dtype, vector):
    total = lambda a, b, c: a * b - b / 2 + mt.select(a < b, a * c, -(b * c)) - a * (b * c)
    kernel = mt.build(elementwise(dtype, total, vector), mt.Target("c", num_cores=1))
    if vector:
        assert fused(kernel) == []
    arrays = [np.random.default_rng(n).normal(size=32).astype(dtype) for n in range(3)]
    a, b, c = arrays
    wanted = a * b - b / 2 + np.where(a < b, a * c, -(b * c)) - a * (b * c)
    assert kernel(*arrays).tobytes() == wanted.tobytes()


def test_float16_differs_from_what_a_fused_kernel_computes():
    a, b = (np.random.default_rng(n).normal(size=32).astype(np.float16) for n in range(2))
    at_once = (a.astype(np.float64) * b.astype(np.float64) - b.astype(np.float64)).astype(a.dtype)
    assert (at_once != a * b - b).any()
    for vector in (None, 8):
        kernel = mt.build(elementwise("float16", lambda a, b, c: a * b - b, vector))
        assert kernel(a, b, a).tobytes() == (a * b - b).tobytes()


@pytest.mark.skipif(find_toolchain().vector_bits < 256, reason="older machines have no FMA")
@pytest.mark.parametrize("columns", [4, 8, 16])
def test_sums_of_products_are_fused(columns):
    A, B = mt.placeholder((16, 64), name="A"), mt.placeholder((64, 64), name="B")
    k = mt.reduce_axis(64, name="k")
    C = mt.compute((16, 64), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    inner = s.split("j", [None, columns])[1]
    s.reorder("k", inner)
    s.vectorize(inner)
    kernel = mt.build(s, mt.Target("c", num_cores=1))
    assert "product_" not in kernel.source
    if X86:
        assert fused(kernel) and not re.search(r"\bvmul[sp]s\b", kernel.assembly())
