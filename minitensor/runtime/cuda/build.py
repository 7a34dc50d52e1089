"""From generated CUDA to kernels: many in one run of nvcc, most of which it takes to start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from minitensor.codegen import Emitted, Target, device_of
from minitensor.ir import Program
from minitensor.runtime.build import loaded, program_library
from minitensor.runtime.cache import Compiled, compile_library
from minitensor.runtime.cuda.device import cuda_of
from minitensor.runtime.cuda.kernel import CudaKernel
from minitensor.runtime.cuda.nvcc import Nvcc, find_nvcc
from minitensor.runtime.cuda.resources import read_resources
from minitensor.runtime.module import load_function

TIME_LIMIT: Final = 60.0
"""Seconds for one run of nvcc."""


def load_cuda(emitted: Emitted, *, time_limit: float = TIME_LIMIT) -> CudaKernel:
    """Compile generated CUDA (or take it from the cache) and load it; needs no GPU.

    Raises CompileError if there is no nvcc that will do, or it fails, or takes more than
    `time_limit` seconds.
    """
    return load_cuda_together([emitted], time_limit=time_limit)[0]


def load_cuda_together(
    emitted: Sequence[Emitted], *, time_limit: float = TIME_LIMIT
) -> list[CudaKernel]:
    """The kernels of one text, or of several, which are compiled in one run; all are for the same
    GPU.

    Raises as `load_cuda`: where one does not compile, none does.
    """
    nvcc = _nvcc_for(emitted[0].target)
    source = _together(emitted) if _are_apart(emitted) else emitted[0].source
    return loaded(
        lambda: compile_library(source, nvcc, time_limit),
        lambda _: emitted,
        partial(_kernels, nvcc),
    )


def load_cuda_program(program: Program, target: Target, header: str) -> CudaKernel:
    """Generate CUDA of a program, compile and load it; or take text and library from the cache.

    header  comment lines for the top of the text

    Raises as `load_cuda`.
    """
    nvcc = _nvcc_for(target)
    ways = program_library(program, target, header, nvcc, time_limit=TIME_LIMIT)
    return loaded(*ways, partial(_kernels, nvcc))[0]


def _nvcc_for(target: Target) -> Nvcc:
    return find_nvcc().making(device_of(target).capability)


def _kernels(nvcc: Nvcc, made: Compiled, emitted: Sequence[Emitted]) -> list[CudaKernel]:
    cuda = cuda_of(nvcc.library)  # which the kernels are linked to: it is loaded before them
    resources = read_resources(made.printed)
    kernels = []
    for n, one in enumerate(emitted):
        prefix = _prefix(n) if _are_apart(emitted) else ""
        function = load_function(made.path, prefix + one.entry, len(one.params) + 2)
        names = [shape.name for shape in one.kernels]
        own = {name: resources[prefix + name] for name in names if prefix + name in resources}
        kernels.append(CudaKernel(one, function, made.command, own, nvcc, cuda))
    return kernels


def _together(emitted: Sequence[Emitted]) -> str:
    """One text of several, each in a namespace and with a prefix for its own external names."""
    parts = ['#include "device.h"\n']
    for n, one in enumerate(emitted):
        names = [*(kernel.name for kernel in one.kernels), one.entry]
        parts += [f"#define {name} {_prefix(n)}{name}\n" for name in names]
        parts += [f"namespace text_{n} {{\n", f'#line 1 "kernel_{n}.cu"\n', one.source, "\n}\n"]
        parts += [f"#undef {name}\n" for name in names]
    return "".join(parts)


def _are_apart(emitted: Sequence[Emitted]) -> bool:
    """Test for kernels of several texts."""
    return any(one.source != emitted[0].source for one in emitted)


def _prefix(n: int) -> str:
    return f"text_{n}_"
