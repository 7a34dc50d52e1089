"""One kernel, run once, under whichever sanitizer it was built for."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor.runtime import NativeKernel
from minitensor.sanitize.address import run_with_address_sanitizer
from minitensor.sanitize.builds import Sanitizer
from minitensor.sanitize.fault import Outcome
from minitensor.sanitize.guards import run_guarded
from minitensor.sanitize.races import run_watched


def run_sanitized(sanitizer: Sanitizer, kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel that `load_sanitized` gave for this sanitizer.

    inputs  one array for each input, in call order; they are copied

    With Sanitizer.ADDRESS a fault ends the process; its stderr is for `read_report`. With the
    others only an access far outside every buffer does. Raises ArgumentError for an array that does
    not fit.
    """
    run = {
        Sanitizer.GUARDS: run_guarded,
        Sanitizer.ADDRESS: run_with_address_sanitizer,
        Sanitizer.RACES: run_watched,
    }[sanitizer]
    return run(kernel, inputs)
