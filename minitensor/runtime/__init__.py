"""Layer 3: the system compiler builds the C, cffi loads it, numpy arrays go in and out.

Read in this order: `machine`, `folder` (the cache), `process`, `flags`, `width`, `toolchain` (what
there is to compile with), `crossing` (for another processor), `cache` (compiling once), `module`
(native functions and memory), `arguments` (the checks of a call), `timing`, `rounds` (calls in
turns), `spills` and `explain` (what a schedule became), `kernel` (what a user holds), `interpreter`
(the same without a compiler), `build` (all of it in a row), `limits` (of the machine), `chase` and
`caches` (of a core), `roofs` (of the caches), `doctor`; `confined`, `descendants`, `worker`,
`bundle` (code that may crash, in another process); `cuda` (kernels for GPUs).
"""

# fmt: off
import importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from minitensor.runtime.arguments import Signature
from minitensor.runtime.bundle import SOURCE, load_kernel, save_kernel
from minitensor.runtime.build import (
    digest_of_code, interpreter_kernel, load, load_program, load_together, native_features,
    native_target, shown_target,
)
from minitensor.runtime.cache import TIME_LIMIT, compile_assembly, compile_library
from minitensor.runtime.explain import Explanation, explained
from minitensor.runtime.fault import Fault, element_at, element_name
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember, scratch_folder
from minitensor.runtime.interpreter import InterpreterKernel
from minitensor.runtime.kernel import Kernel, NativeKernel
from minitensor.runtime.machine import cpu_fingerprint, cpu_name, usable_cores
from minitensor.runtime.memory import OUTPUTS
from minitensor.runtime.module import (
    address_of, aligned_empty, load_function, null, pointer_to, starting_threads,
)
from minitensor.runtime.timing import Timing, measure
from minitensor.runtime.toolchain import Toolchain, find_toolchain, probe_toolchain

if _TYPE_CHECKING:
    from minitensor.runtime.caches import USUAL_CACHES, Caches, known_caches, largest_cache
    from minitensor.runtime.confined import confine, memory_of_this_process
    from minitensor.runtime.copies import share_out
    from minitensor.runtime.crossing import compiler_for, spelled_flags
    from minitensor.runtime.cuda.arrays import DeviceArray, to_device
    from minitensor.runtime.cuda.build import load_cuda, load_cuda_program, load_cuda_together
    from minitensor.runtime.cuda.counters import AccessCount
    from minitensor.runtime.cuda.device import cuda_of
    from minitensor.runtime.cuda.emulator import ORDERS, EmulatedKernel, load_emulated
    from minitensor.runtime.cuda.kernel import CudaKernel
    from minitensor.runtime.cuda.nvcc import Nvcc, find_nvcc
    from minitensor.runtime.cuda.reports import DeviceFault
    from minitensor.runtime.cuda.resources import Resources
    from minitensor.runtime.descendants import end_children
    from minitensor.runtime.doctor import Finding, diagnose
    from minitensor.runtime.limits import (
        Limits, Probe, compute_probe, known_limits, measure_limits, memory_probes, remember_limits,
    )
    from minitensor.runtime.roofs import cache_bandwidths
    from minitensor.runtime.rounds import (
        BLAS_SPIN_SECONDS, QUICK, RULE, SLOW_SECONDS, SPIN_SECONDS, Clock, Pace, Turns, interleave,
        ratio, take_turn,
    )
    from minitensor.runtime.worker import (
        Parent, ParentGoneError, Reason, Worker, WorkerError, waits_of,
    )

_LATER = {
    "caches": ("USUAL_CACHES", "Caches", "known_caches", "largest_cache"),
    "confined": ("confine", "memory_of_this_process"),
    "copies": ("share_out",),
    "crossing": ("compiler_for", "spelled_flags"),
    "descendants": ("end_children",),
    "doctor": ("Finding", "diagnose"),
    "limits": (
        "Limits", "Probe", "compute_probe", "known_limits", "measure_limits", "memory_probes",
        "remember_limits",
    ),
    "roofs": ("cache_bandwidths",),
    "rounds": (
        "BLAS_SPIN_SECONDS", "QUICK", "RULE", "SLOW_SECONDS", "SPIN_SECONDS", "Clock", "Pace",
        "Turns", "interleave", "ratio", "take_turn",
    ),
    "worker": ("Parent", "ParentGoneError", "Reason", "Worker", "WorkerError", "waits_of"),
    "cuda.arrays": ("DeviceArray", "to_device"),
    "cuda.build": ("load_cuda", "load_cuda_program", "load_cuda_together"),
    "cuda.counters": ("AccessCount",),
    "cuda.device": ("cuda_of",),
    "cuda.emulator": ("ORDERS", "EmulatedKernel", "load_emulated"),
    "cuda.kernel": ("CudaKernel",),
    "cuda.nvcc": ("Nvcc", "find_nvcc"),
    "cuda.reports": ("DeviceFault",),
    "cuda.resources": ("Resources",),
}
"""The modules that few programs need, with their names: imported when one is first used."""

__all__ = [
    "BLAS_SPIN_SECONDS", "ORDERS", "OUTPUTS", "QUICK", "RULE", "SLOW_SECONDS", "SOURCE",
    "SPIN_SECONDS", "TIME_LIMIT", "USUAL_CACHES", "AccessCount", "Caches", "Clock", "CudaKernel",
    "DeviceArray", "DeviceFault", "EmulatedKernel", "Explanation", "Fault", "Finding",
    "InterpreterKernel", "Kernel", "Limits", "NativeKernel", "Nvcc", "Pace", "Parent",
    "ParentGoneError", "Probe", "Reason", "Resources", "Signature", "Timing", "Toolchain", "Turns",
    "Worker", "WorkerError", "address_of", "aligned_empty", "cache_bandwidths", "cache_folder",
    "compile_assembly", "compile_library", "compiler_for", "compute_probe", "confine",
    "cpu_fingerprint", "cpu_name", "cuda_of", "diagnose", "digest_of_code", "element_at",
    "element_name", "end_children", "entry_name", "explained", "find_nvcc", "find_toolchain",
    "interleave", "interpreter_kernel", "known_caches", "known_limits", "largest_cache", "load",
    "load_cuda", "load_cuda_program", "load_cuda_together", "load_emulated", "load_function",
    "load_kernel", "load_program", "load_together", "measure", "measure_limits",
    "memory_of_this_process", "memory_probes", "native_features", "native_target", "null",
    "pointer_to", "probe_toolchain", "ratio", "recall", "remember", "remember_limits",
    "save_kernel", "scratch_folder", "share_out", "shown_target", "spelled_flags",
    "starting_threads", "take_turn", "to_device", "usable_cores", "waits_of",
]


def __getattr__(name: str) -> _Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
