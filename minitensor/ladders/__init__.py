"""Schedules written by hand: for each workload the ladder of steps from its definition to the best.

They use nothing but the public primitives of `Schedule`, and are short enough to teach from. What
depends on the machine (lanes of a vector, rows of a register tile, threads) is worked out from the
`Target`.

    for title, why in ladder.climb(s, target): ...     the steps, one group after the other
    s = scheduled(LADDERS["matmul-1024"], target)      all of them

Read in this order: `ladder`, `matmul`, `convolution`, `winograd`, `rows`, `streams`, `registry`.
"""

from minitensor.ladders import convolution, matmul, rows, streams, winograd
from minitensor.ladders.ladder import Ladder, scheduled
from minitensor.ladders.registry import LADDERS

__all__ = ["LADDERS", "Ladder", "convolution", "matmul", "rows", "scheduled", "streams", "winograd"]
