"""Streaming stores as they run: at any address, by several threads."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen.emit.streams import SHORTEST, SMALLEST


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "shift"), [("float32", 0), ("float32", 1), ("float64", 3)])
def test_a_large_output(dtype, shift):
    size = np.dtype(dtype).itemsize
    shape = (SMALLEST // SHORTEST, SHORTEST // size)
    A = mt.placeholder(shape, dtype, name="A")
    C = mt.compute(shape, lambda i, j: A[i, j] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.vectorize("j")
    s.parallel("i")
    kernel = mt.build(s, mt.Target("c", num_cores=2))
    assert "stream_fence();" in kernel.source
    a = np.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
    memory = np.full(a.size + shift + 16, -1, dtype)
    start = (-memory.ctypes.data // size) % (64 // size) + shift
    kernel(a, memory[start : start + a.size].reshape(shape))
    expected = np.full(a.size + shift + 16, -1, dtype)
    expected[start : start + a.size] = 2 * a.ravel()
    np.testing.assert_array_equal(memory, expected)
