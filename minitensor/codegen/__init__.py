"""Layer 3: passes and the C-family emitter; never imports `schedule`.

Read `pipeline` first: it lists the passes. Then, in their order, `bounds`, `erase`, `shrink`,
`tidy`, `partition`, `promote`, `vectors`, `unroll`, `registers`; then the emitter: `names`,
`hooks`, `helpers`, `storage`, `functions`, `math32`, `math64`, `mathematics`, `precedence`,
`expressions`, `intrinsics`, `cfamily`, `c`. Beside them stand `constants`, for `Kernel.bind`, and
what tells a user what became of a schedule: `notes` (told by the passes), `pressure`, `account`.
"""

# fmt: off
from minitensor.codegen.account import Account, account_of
from minitensor.codegen.constants import Split, split_constants
from minitensor.codegen.intrinsics import emit_alone, intrinsics_in
from minitensor.codegen.names import safe
from minitensor.codegen.notes import Note, Place
from minitensor.codegen.pipeline import (
    PASSES, REQUIRED, generate, generate_together, lowered, passes,
)
from minitensor.codegen.pressure import Pressure, usual_registers
from minitensor.codegen.target import Emitted, Target, unsupported

__all__ = [
    "PASSES", "REQUIRED", "Account", "Emitted", "Note", "Place", "Pressure", "Split", "Target",
    "account_of", "emit_alone", "generate", "generate_together", "intrinsics_in", "lowered",
    "passes", "safe", "split_constants", "unsupported", "usual_registers",
]
