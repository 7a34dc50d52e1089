"""Schedules written by hand: for each workload the steps from its definition to the best.

They use nothing but the public primitives of `Schedule`, and are short enough to teach from. What
depends on the machine (lanes of a vector, rows of a register tile, threads) is worked out from the
`Target`.

    for title, why in hand.steps(s, target): ...     the steps, one group after the other
    s = scheduled(HAND_SCHEDULES["matmul-1024"], target)      all of them

Read in this order: `hand`, `matmul`, `convolution`, `winograd`, `rows`, `attention`, `streams`,
`registry`; for GPUs `gpu`, `gpu_matmul`, `gpu_tensor_cores`, `gpu_rows`,
`gpu_conv`, `gpu_attention`, `gpu_registry`.
"""

from . import (
    attention,
    convolution,
    gpu,
    gpu_attention,
    gpu_conv,
    gpu_matmul,
    gpu_rows,
    gpu_tensor_cores,
    matmul,
    rows,
    streams,
    winograd,
)
from .gpu_registry import GPU_SCHEDULES
from .hand import HandSchedule, scheduled
from .registry import HAND_SCHEDULES

__all__ = [
    "GPU_SCHEDULES",
    "HAND_SCHEDULES",
    "HandSchedule",
    "attention",
    "convolution",
    "gpu",
    "gpu_attention",
    "gpu_conv",
    "gpu_matmul",
    "gpu_rows",
    "gpu_tensor_cores",
    "matmul",
    "rows",
    "scheduled",
    "streams",
    "winograd",
]
