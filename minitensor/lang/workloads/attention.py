"""The products of multi-head attention."""

from __future__ import annotations

import math

from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import Tensor, compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import Tensors, check_sizes, float_dtype, number_dtype
from minitensor.lang.workloads.norm import softmax_over_last


def transpose_batch_matmul(
    b: int, length: int, heads: int, dim: int, dtype: str = "float32"
) -> Tensors:
    """Queries times keys, both transposed to put the heads before the sequence (TBG).

        C[b, h, i, j] = sum over k of query[b, i, h, k] * key[b, j, h, k]

    query, key (b, length, heads, dim) and C (b, heads, length, length), all of `dtype`. The two
    transpositions are stages.

    Source: the first part of the subgraph TBS of Ansor, OSDI'20, §7.2.
    """
    check_sizes(b=b, length=length, heads=heads, dim=dim)
    operand = number_dtype(dtype)
    query = placeholder((b, length, heads, dim), operand, name="query")
    key = placeholder((b, length, heads, dim), operand, name="key")
    return query, key, _products(query, key)


def _products(query: Tensor, key: Tensor) -> Tensor:
    b, length, heads, dim = query.shape
    rows = compute((b, heads, length, dim), lambda b, h, i, k: query[b, i, h, k], name="query_t")
    columns = compute((b, heads, dim, length), lambda b, h, k, j: key[b, j, h, k], name="key_t")
    r = reduce_axis(dim, name="k")
    product: Tensor = compute(
        (b, heads, length, length),
        lambda b, h, i, j: sum_(rows[b, h, i, r] * columns[b, h, r, j], axis=r),
        name="C",
    )
    return product


def transpose_batch_matmul_softmax(
    b: int, length: int, heads: int, dim: int, dtype: str = "float32"
) -> Tensors:
    """Attention scores: how much each position attends to each other one (TBS).

        softmax over j of (sum over k of query[b, i, h, k] * key[b, j, h, k]) / sqrt(dim)

    query, key (b, length, heads, dim) and softmax (b, heads, length, length), of one float dtype.

    Source: Ansor, OSDI'20, §7.2; Vaswani et al., Attention Is All You Need, 2017, §3.2.1, which has
    the factor 1 / sqrt(dim).
    """
    float_dtype(dtype)
    query, key, product = transpose_batch_matmul(b, length, heads, dim, dtype)
    scale = 1 / math.sqrt(dim)
    scores = compute(product.shape, lambda b, h, i, j: product[b, h, i, j] * scale, name="scores")
    return query, key, softmax_over_last(scores, ("b", "h", "i", "j"))
