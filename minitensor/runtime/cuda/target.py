"""The GPU that a target leaves open."""

from __future__ import annotations

import dataclasses

from minitensor.codegen import DEVICES, Target, device_of
from minitensor.errors import CompileError, ExecutionError
from minitensor.runtime.cuda.device import cuda_of
from minitensor.runtime.cuda.nvcc import find_nvcc


def cuda_target(target: Target) -> Target:
    """The target with what it leaves open filled in.

    device  for "cuda", the GPU of the table that is most like the first of this machine, if there
            is one; else "a100"
    """
    device = target.device
    if device is None and target.kind == "cuda":
        device = _device_here()
    exact = dataclasses.replace(target, device=device or device_of(target).name)
    return exact.resolved(num_cores=1, vector_bits=0)


def _device_here() -> str | None:
    """The GPU of the table whose code the first GPU of this machine runs best; None without any."""
    try:
        cuda = cuda_of(find_nvcc().library)
        return nearest_device(cuda.name, cuda.capability)
    except (CompileError, ExecutionError):
        return None


def nearest_device(name: str, capability: int) -> str | None:
    """The GPU of the table that a name contains; else the last that is not newer; else None."""
    spelled = "".join(name.lower().split())
    older = [d for d in DEVICES.values() if d.capability <= capability]
    found = max(older, key=lambda d: (d.capability, d.name in spelled), default=None)
    return found.name if found is not None else None
