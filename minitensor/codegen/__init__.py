"""Layer 3: passes and the C-family emitter; never imports `schedule`.

Read `pipeline` first: it lists the passes. Then, in their order, `bounds`, `erase`, `shrink`,
`tidy`, `partition`, `promote`, `vectors`, `unroll`, `registers`; then the emitter: `names`,
`helpers`, `intrinsics`, `cfamily`, `c`. Beside them stands `constants`, for `Kernel.bind`.
"""

from minitensor.codegen.constants import Split, split_constants
from minitensor.codegen.intrinsics import emit_alone
from minitensor.codegen.pipeline import PASSES, generate, lowered
from minitensor.codegen.target import Emitted, Target, unsupported

__all__ = [
    "PASSES",
    "Emitted",
    "Split",
    "Target",
    "emit_alone",
    "generate",
    "lowered",
    "split_constants",
    "unsupported",
]
