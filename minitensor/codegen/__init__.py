"""Layer 3: passes and the C-family emitter; never imports `schedule`.

Read `pipeline` first: it lists the passes. Then, in their order, `bounds`, `erase`, `shrink`,
`tidy`, `partition`, `promote`, `vectors`, `unroll`, `registers`; then the emitter: `names`,
`helpers`, `storage`, `functions`, `math32`, `math64`, `mathematics`, `expressions`, `cfamily`, `c`.
Beside them stands `constants`, for `Kernel.bind`.
"""

from minitensor.codegen.constants import Split, split_constants
from minitensor.codegen.pipeline import PASSES, REQUIRED, generate, lowered, passes
from minitensor.codegen.target import Emitted, Target, unsupported

__all__ = [
    "PASSES",
    "REQUIRED",
    "Emitted",
    "Split",
    "Target",
    "generate",
    "lowered",
    "passes",
    "split_constants",
    "unsupported",
]
