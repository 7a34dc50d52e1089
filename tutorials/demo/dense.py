"""A dense layer, relu(A B + bias): its definition.

Its schedule by hand is `schedules.matmul.packed`.
"""

from __future__ import annotations

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
