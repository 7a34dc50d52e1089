"""A dense layer, relu(A B + bias): its definition and its numpy rival.

Its schedule by hand is `ladders.matmul.packed`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import minitensor as mt


def define(m: int, n: int, k: int) -> mt.Program:
    """D[i, j] = max(sum over r of A[i, r] * B[r, j] + bias[j], 0), all float32."""
    A = mt.placeholder((m, k), "float32", name="A")
    B = mt.placeholder((k, n), "float32", name="B")
    bias = mt.placeholder((n,), "float32", name="bias")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = mt.compute((m, n), lambda i, j: mt.maximum(C[i, j] + bias[j], 0), name="D")
    return mt.lower([A, B, bias, D], name="dense")


def numpy_rival(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> Callable[[], np.ndarray]:
    """A function that computes the layer with numpy, into the same array at each call."""
    d = np.empty((a.shape[0], b.shape[1]), a.dtype)

    def call() -> np.ndarray:
        np.matmul(a, b, out=d)
        np.add(d, bias, out=d)
        return np.maximum(d, 0, out=d)

    return call
