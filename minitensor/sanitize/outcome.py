"""What a run under a sanitizer gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitensor.sanitize.fault import Fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run.

    status   what the kernel returned: 0, or which of its own checks failed (see `Emitted`); the
             outputs are then incomplete, and not looked at
    outputs  in call order
    faults   what it did wrong
    """

    status: int
    outputs: tuple[np.ndarray, ...]
    faults: tuple[Fault, ...]
