"""Products of matrices."""

from __future__ import annotations

from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import maximum
from minitensor.lang.tensor import compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import Tensors, check_sizes, result_dtype


def matmul(m: int, n: int, k: int, dtype: str = "float32", out_dtype: str | None = None) -> Tensors:
    """Matrix product (GMM).

        C[i, j] = sum over k of A[i, k] * B[k, j]

    A (m, k) and B (k, n) of `dtype`; C (m, n) of `out_dtype` (default: `dtype`), in which products
    are formed and summed.

    Source: Ansor, OSDI'20, §7.1.
    """
    check_sizes(m=m, n=n, k=k)
    operand, result = result_dtype(dtype, out_dtype)
    A = placeholder((m, k), operand, name="A")
    B = placeholder((k, n), operand, name="B")
    r = reduce_axis(k, name="k")
    C = compute(
        (m, n),
        lambda i, j: sum_(A[i, r].astype(result) * B[r, j].astype(result), axis=r),
        name="C",
    )
    return A, B, C


def matmul_bias_relu(
    m: int, n: int, k: int, dtype: str = "float32", out_dtype: str | None = None
) -> Tensors:
    """Matrix product, bias for each column, and rectifier: a dense layer of a network.

        D[i, j] = max((A B)[i, j] + bias[j], 0)

    A (m, k) and B (k, n) of `dtype`; bias (n,) and D (m, n) of `out_dtype` (default: `dtype`).
    """
    A, B, C = matmul(m, n, k, dtype, out_dtype)
    bias = placeholder((n,), C.dtype, name="bias")
    D = compute((m, n), lambda i, j: maximum(C[i, j] + bias[j], 0), name="D")
    return A, B, bias, D


def batch_matmul(
    b: int, m: int, n: int, k: int, dtype: str = "float32", out_dtype: str | None = None
) -> Tensors:
    """One matrix product for each element of a batch.

        C[b, i, j] = sum over k of A[b, i, k] * B[b, k, j]

    A (b, m, k) and B (b, k, n) of `dtype`; C (b, m, n) of `out_dtype` (default: `dtype`).
    """
    check_sizes(b=b, m=m, n=n, k=k)
    operand, result = result_dtype(dtype, out_dtype)
    A = placeholder((b, m, k), operand, name="A")
    B = placeholder((b, k, n), operand, name="B")
    r = reduce_axis(k, name="k")
    C = compute(
        (b, m, n),
        lambda b, i, j: sum_(A[b, i, r].astype(result) * B[b, r, j].astype(result), axis=r),
        name="C",
    )
    return A, B, C
