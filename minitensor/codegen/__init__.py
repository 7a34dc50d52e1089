"""Layer 3: passes and the C-family emitter; never imports `schedule`.

Read `pipeline` first: it lists the passes, which are in `passes`, one file each. `emit` writes what
they leave as text: `emit.emitter` statements, `emit.expressions` expressions, `emit.c` a whole
file. `remarks` records missed optimizations, `report` collects them for a user with the `pressure`
on registers. `constants` splits a program for `Kernel.bind`; `in_place` makes one of two arrays.
"""

# fmt: off
from minitensor.codegen.constants import Split, split_constants
from minitensor.codegen.emit.intrinsics import emit_alone, intrinsics_in
from minitensor.codegen.emit.lines import comment
from minitensor.codegen.emit.mathematics import definitions
from minitensor.codegen.emit.names import safe
from minitensor.codegen.gpu.devices import DEFAULT, DEVICES, Device, device_named, device_of
from minitensor.codegen.gpu.kernels import Kernel, is_host, kernel_of, nbytes, shared_offsets
from minitensor.codegen.gpu.vthreads import indexed, with_axes, without_vthreads
from minitensor.codegen.in_place import in_place, overwritten
from minitensor.codegen.pipeline import (
    CUDA_PASSES, PASSES, REQUIRED, Dump, Pass, Passes, checked_passes, generate, generate_together,
    lowered, passes_of, passes_without,
)
from minitensor.codegen.pressure import Pressure, usual_registers
from minitensor.codegen.remarks import Remark, Storage
from minitensor.codegen.report import Report, gpu_remarks, report_of
from minitensor.codegen.target import FEATURES, KINDS, Emitted, KernelShape, Target, unsupported

__all__ = [
    "CUDA_PASSES", "DEFAULT", "DEVICES", "FEATURES", "KINDS", "PASSES", "REQUIRED", "Device",
    "Dump", "Emitted", "Kernel", "KernelShape", "Pass", "Passes", "Pressure", "Remark", "Report",
    "Split", "Storage", "Target", "checked_passes", "comment", "definitions", "device_named",
    "device_of", "emit_alone", "generate", "generate_together", "gpu_remarks", "in_place",
    "indexed", "intrinsics_in", "is_host", "kernel_of", "lowered", "nbytes", "overwritten",
    "passes_of", "passes_without", "report_of", "safe", "shared_offsets", "split_constants",
    "unsupported", "usual_registers", "with_axes", "without_vthreads",
]
