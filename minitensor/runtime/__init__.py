"""Layer 3: the system compiler builds the C, cffi loads it, numpy arrays go in and out.

Read in this order: `machine`, `folder`, `process`, `flags`, `toolchain` (what there is to compile
with), `cache` (compiling once), `texts` (generating once), `module` (native functions and memory),
`arguments` (the checks of a call), `timing`, `spills` and `explain` (what a schedule became),
`kernel` (what a user holds), `build` (all of it in a row), `doctor`.
"""

from minitensor.runtime.arguments import Signature
from minitensor.runtime.build import interpreter_kernel, load, native_target
from minitensor.runtime.doctor import Finding, diagnose
from minitensor.runtime.explain import Explanation, explained
from minitensor.runtime.folder import cache_folder
from minitensor.runtime.kernel import InterpreterKernel, Kernel, NativeKernel
from minitensor.runtime.machine import cpu_name, usable_cores
from minitensor.runtime.texts import remembered
from minitensor.runtime.timing import Timing, measure
from minitensor.runtime.toolchain import Toolchain, find_toolchain, probe_toolchain

__all__ = [
    "Explanation",
    "Finding",
    "InterpreterKernel",
    "Kernel",
    "NativeKernel",
    "Signature",
    "Timing",
    "Toolchain",
    "cache_folder",
    "cpu_name",
    "diagnose",
    "explained",
    "find_toolchain",
    "interpreter_kernel",
    "load",
    "measure",
    "native_target",
    "probe_toolchain",
    "remembered",
    "usable_cores",
]
