"""Layer 2: passes and the C-family emitter; never imports `schedule`."""

from minitensor.codegen.target import Emitted, Target, unsupported

__all__ = [
    "Emitted",
    "Target",
    "unsupported",
]
