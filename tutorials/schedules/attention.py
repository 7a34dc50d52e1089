"""Attention: two products and a softmax between them, a few rows at a time.

What is in between is as large as the square of the sequence, far larger than operands and result
(Dao et al., FlashAttention, NeurIPS'22). A few rows of it fit in the cache.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor.codegen import Target
from minitensor.lang import Tensor, compute, exp, max_, placeholder, reduce_axis, sum_
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of
from .matmul import Tiles
from .rows import reduce_in_lanes


def defined(b: int, m: int, n: int, dim: int) -> list[Tensor]:
    """O = softmax(Q K^T / sqrt(dim)) V for each of b heads.

    Q and O (b, m, dim), K and V (b, n, dim): m queries meet n keys and values.
    """
    Q, K, V = (placeholder((b, size, dim), name=x) for size, x in ((m, "Q"), (n, "K"), (n, "V")))
    k, l_0, l_1, l_2 = (reduce_axis(size, name="l") for size in (dim, n, n, n))
    stage, row = (b, m, n), (b, m)
    S = compute(stage, lambda b, i, j: sum_(Q[b, i, k] * K[b, j, k], axis=k), name="S")
    scores = compute(stage, lambda b, i, j: S[b, i, j] * (1 / math.sqrt(dim)), name="scores")
    top = compute(row, lambda b, i: max_(scores[b, i, l_0], axis=l_0), name="row_max")
    exps = compute(stage, lambda b, i, j: exp(scores[b, i, j] - top[b, i]), name="exps")
    total = compute(row, lambda b, i: sum_(exps[b, i, l_1], axis=l_1), name="row_sum")
    P = compute(stage, lambda b, i, j: exps[b, i, j] / total[b, i], name="softmax")

    def element(b: Any, i: Any, j: Any) -> Any:
        return sum_(P[b, i, l_2] * V[b, l_2, j], axis=l_2)

    return [Q, K, V, compute((b, m, dim), element, name="O")]


def attention(s: Schedule, target: Target) -> Steps:
    """Schedule the stages S, scores, row_max, exps, row_sum, softmax and O."""
    heads, threads = s.program.outputs[0].shape[0], target.num_cores or 1
    tiles = Tiles.of(target, 1)
    rows, columns = tiles.rows, tiles.columns
    head, i, j, k = s.get_loops("O")
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(head, i_0, j_0, k, i_1, j_1)
    for block in ("softmax", "row_sum", "exps", "row_max", "scores", "S"):
        s.compute_at(block, i_0)
    yield (
        "Fusion",
        f"All stages of {rows} rows follow each other while these are in the cache: the whole of "
        "what is in between is never in memory.",
    )
    s.vectorize(j_1)
    s.unroll(i_1)
    i_s, j_s, k = s.get_loops("S")[-3:]
    j_s0, j_s1 = s.split(j_s, [None, columns])
    s.reorder(j_s0, k, i_s, j_s1)
    s.unroll(i_s)
    s.vectorize(j_s1)
    keys = s.cache_read("S", "K", "global")
    s.transform_layout(keys, lambda b, j, k: (b, j // columns, k, j % columns))
    _, j_k, k = s.get_loops(keys)
    j_k0, j_k1 = s.split(j_k, [None, columns])
    s.reorder(j_k0, k, j_k1)
    s.vectorize(j_k1)
    yield (
        "Products",
        "Both products are register tiles with columns as lanes. Those of the first are keys, so "
        "the keys are packed with these side by side.",
    )
    *_, j_t = s.reverse_compute_at("scores", j_s0)
    s.vectorize(j_t)
    for block in ("exps", "softmax"):
        s.vectorize(s.get_loops(block)[-1])
    for block in ("row_max", "row_sum"):
        reduce_in_lanes(s, block, lanes_of(target))
    yield "Lanes", "Maximum and sum of a row are computed in the lanes of several vectors."
    s.parallel(s.fuse(*s.get_loops(keys)[:2]))
    s.parallel(head if heads >= 4 * threads else i_0)
    yield "Threads", "Heads are independent of each other, so are rows, and so are panels of keys."
