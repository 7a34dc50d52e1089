"""Sanitizers: faults of kernels, found as they run.

    from minitensor.sanitize import check_address, check_memory, check_races

    check_races(schedule, a, b)      iterations of a parallel loop that race
    check_memory(schedule, a, b)     accesses outside buffers, elements not written
    check_address(schedule, a, b)    the same inside temporaries too, and undefined behaviour

Each returns a list of faults, empty where there are none. For many kernels at once, `Sanitizer`,
`load_sanitized` and `run_sanitized` are the parts. Read in this order: `fault`, `builds`, `memory`
(and guards.c), `guards`, `races` (races.c), `address` (address.c), `run`.
"""

# fmt: off
from minitensor.runtime import Fault
from minitensor.sanitize.address import read_report
from minitensor.sanitize.builds import Sanitizer, environment, load_sanitized, toolchain_for
from minitensor.sanitize.fault import Outcome, Race
from minitensor.sanitize.guards import bits_of_nothing, run_guarded
from minitensor.sanitize.memory import (
    GuardedMemory, Hit, bits_of, guarded_empty, guards_library, outside, watched,
)
from minitensor.sanitize.races import check_races, several_cores
from minitensor.sanitize.run import check_address, check_memory, run_sanitized

__all__ = [
    "Fault", "GuardedMemory", "Hit", "Outcome", "Race", "Sanitizer", "bits_of", "bits_of_nothing",
    "check_address", "check_memory", "check_races", "environment", "guarded_empty",
    "guards_library", "load_sanitized", "outside", "read_report", "run_guarded", "run_sanitized",
    "several_cores", "toolchain_for", "watched",
]
