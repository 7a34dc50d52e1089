"""Attention on a GPU: two products, and a softmax between them, in three kernels.

What is in between is written to memory and read again. To keep it in shared memory, a block would
need all of some rows of it at a time.
"""

from __future__ import annotations

import math

from minitensor.codegen import Target
from minitensor.schedule import Schedule

from . import gpu_matmul, gpu_rows
from .hand import Steps


def attention(s: Schedule, target: Target) -> Steps:
    """Schedule the stages S, scores, row_max, exps, row_sum, softmax and O."""
    *heads, m, dim = s.program.outputs[0].shape
    n = s.program.buffers["S"].shape[-1]
    batch = math.prod(heads)
    return separate(s, gpu_matmul.Tiles.of(m, n, batch), gpu_matmul.Tiles.of(m, dim, batch))


def separate(s: Schedule, scores: gpu_matmul.Tiles, values: gpu_matmul.Tiles) -> Steps:
    """Schedule the stages as three kernels.

    scores, values  the tiles of the two products
    """
    yield from gpu_matmul.tiled(s, scores, "S", "scores")
    yield from gpu_matmul.tiled(s, values, "O", "O")
    yield from gpu_rows.stages(s, ("row_max", "exps", "row_sum", "softmax"))
