"""Layer 3: passes and the C-family emitter; never imports `schedule`.

Read `pipeline` first: it lists the passes. Then, in their order, `bounds`, `erase`, `shrink`,
`tidy`, `partition`, `vectors`, `unroll`; then the emitter: `names`, `helpers`, `cfamily`, `c`.
"""

from minitensor.codegen.pipeline import PASSES, generate, lowered
from minitensor.codegen.target import Emitted, Target, unsupported

__all__ = [
    "PASSES",
    "Emitted",
    "Target",
    "generate",
    "lowered",
    "unsupported",
]
