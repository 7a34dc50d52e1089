"""Schedules written by hand: for each workload the steps from its definition to the best.

They use nothing but the public primitives of `Schedule`, and are short enough to teach from. What
depends on the machine (lanes of a vector, rows of a register tile, threads) is worked out from the
`Target`.

    for title, why in hand.steps(s, target): ...     the steps, one group after the other
    s = scheduled(HAND_SCHEDULES["matmul-1024"], target)      all of them

Read in this order: `hand`, `matmul`, `convolution`, `winograd`, `rows`, `attention`, `streams`,
`registry`.
"""

from tutorials.schedules import attention, convolution, matmul, rows, streams, winograd
from tutorials.schedules.hand import HandSchedule, scheduled
from tutorials.schedules.registry import HAND_SCHEDULES

__all__ = [
    "HAND_SCHEDULES",
    "HandSchedule",
    "attention",
    "convolution",
    "matmul",
    "rows",
    "scheduled",
    "streams",
    "winograd",
]
