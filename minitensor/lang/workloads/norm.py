"""Norms and normalisations: a reduction for each row, then something for each element.

Each reduction is a stage, and so is everything that is computed once for each row, so that a
schedule can decide what is kept and what is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor.errors import is_real, unexpected
from minitensor.lang.elementwise import exp, rsqrt, sqrt
from minitensor.lang.reduce import max_, sum_
from minitensor.lang.tensor import Tensor, compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import Tensors, check_sizes, float_dtype, labelled


def matrix_norm(b: int, m: int, n: int, dtype: str = "float32") -> Tensors:
    """The Frobenius norm of each matrix of a batch (NRM).

        D[b] = sqrt(sum over i, j of A[b, i, j] ** 2)

    A (b, m, n) and D (b,) of one float dtype.

    Source: Ansor, OSDI'20, §7.1 (NRM): the loop over the batch alone is too short to be parallel.
    """
    check_sizes(b=b, m=m, n=n)
    A = placeholder((b, m, n), float_dtype(dtype), name="A")
    i, j = reduce_axis(m, name="i"), reduce_axis(n, name="j")
    C = compute((b,), lambda b: sum_(A[b, i, j] * A[b, i, j], axis=[i, j]), name="C")
    D = compute((b,), lambda b: sqrt(C[b]), name="D")
    return A, D


def softmax(m: int, n: int, dtype: str = "float32") -> Tensors:
    """Softmax of each row, which does not overflow.

        softmax[i, j] = exp(A[i, j] - max over k of A[i, k]) / (the sum of these over j)

    A and softmax (m, n) of one float dtype. Stages: row_max, exps, row_sum, softmax.
    """
    check_sizes(m=m, n=n)
    A = placeholder((m, n), float_dtype(dtype), name="A")
    return A, softmax_over_last(A, ("i", "j"))


def softmax_over_last(scores: Tensor, labels: Sequence[str]) -> Tensor:
    """The four stages of a softmax over the last axis; `labels` name the loops."""
    k = reduce_axis(scores.shape[-1], name="k")

    def for_rows(reduction: Callable[..., Any], tensor: Tensor, name: str) -> Any:
        def element(*row: Any) -> Any:
            index = (*row, k)
            return reduction(tensor[index], axis=k)

        return compute(scores.shape[:-1], labelled(labels[:-1], element), name=name)

    def for_elements(function: Callable[..., Any], name: str) -> Any:
        return compute(scores.shape, labelled(labels, lambda *i: function(i)), name=name)

    top = for_rows(max_, scores, "row_max")
    exps = for_elements(lambda i: exp(scores[i] - top[i[:-1]]), "exps")
    total = for_rows(sum_, exps, "row_sum")
    result: Tensor = for_elements(lambda i: exps[i] / total[i[:-1]], "softmax")
    return result


def layer_norm(m: int, n: int, eps: float = 1e-5, dtype: str = "float32") -> Tensors:
    """Each row brought to mean 0 and variance 1, then scaled and shifted for each column.

        D[i, j] = (A[i, j] - mean[i]) / sqrt(variance[i] + eps) * gamma[j] + beta[j]

    A and D (m, n), gamma and beta (n,), all of one float dtype. The variance is that of the whole
    row (divided by n), from the squared deviations: exact where a difference of moments cancels.

    Source: Ba, Kiros, Hinton, Layer Normalization, 2016, §3.
    """
    check_sizes(m=m, n=n)
    if not is_real(eps, 0):
        raise unexpected("a finite number >= 0", "eps", eps)
    float_ = float_dtype(dtype)
    A = placeholder((m, n), float_, name="A")
    gamma = placeholder((n,), float_, name="gamma")
    beta = placeholder((n,), float_, name="beta")
    k = reduce_axis(n, name="k")
    total = compute((m,), lambda i: sum_(A[i, k], axis=k), name="row_sum")
    mean = compute((m,), lambda i: total[i] / n, name="mean")

    def squared_deviation(i: Any, j: Any) -> Any:
        deviation = A[i, j] - mean[i]
        return deviation * deviation

    squares = compute((m,), lambda i: sum_(squared_deviation(i, k), axis=k), name="squares")
    scale = compute((m,), lambda i: rsqrt(squares[i] / n + eps), name="scale")
    D = compute((m, n), lambda i, j: (A[i, j] - mean[i]) * scale[i] * gamma[j] + beta[j], name="D")
    return A, gamma, beta, D
