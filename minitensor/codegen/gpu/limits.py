"""Kernels held against a GPU: threads, blocks, shared memory, a thread's own memory.

What one nest breaks, `bind` refuses. Here is what comes of several nests in one kernel, and of the
storage of a kernel, which is as large as it stays.
"""

from __future__ import annotations

import math
from typing import Final

from minitensor import ir
from minitensor.codegen.gpu.devices import MOST_LOCAL, device_of
from minitensor.codegen.gpu.kernels import (
    SHARED_ALIGNMENT,
    Kernel,
    kernel_of,
    kernels_in,
    nbytes,
    shared_offsets,
)
from minitensor.codegen.intrinsics import declared
from minitensor.codegen.target import Target
from minitensor.errors import LoweringError

MMA: Final = "mma_m16n8k16"
"""The product of matrices of 16 x 16 and 16 x 8 in device.h."""
TENSOR_CORES: Final = 80
"""The compute capability from which GPUs have it."""


def check_kernels(program: ir.Program, target: Target) -> ir.Program:
    """The program as it is. Raises LoweringError for a kernel that the GPU cannot run."""
    for stmt in kernels_in(program.body):
        _check(ir.print_name(program.name), kernel_of(stmt), target)
    return program


def _is_product(stmt: ir.Stmt) -> bool:
    """Tell whether a statement is a product of matrices by tensor cores."""
    return isinstance(stmt, ir.Tensorized) and MMA in declared(stmt.intrinsic).cuda


def _check(name: str, kernel: Kernel, target: Target) -> None:
    for loop in (*kernel.blocks, *kernel.threads):
        if loop.extent > ir.MOST_ALONG[loop.kind]:
            raise LoweringError(
                f"{name}: {ir.print_name(loop.var)} has {loop.extent:,} iterations, but "
                f"{loop.kind.value} has at most {ir.MOST_ALONG[loop.kind]:,}; split the loop and "
                "bind a part of it"
            )
    threads = math.prod(kernel.block)
    if threads > ir.MOST_THREADS:
        shape = " * ".join(f"{n:,}" for n in kernel.block if n > 1)
        raise LoweringError(
            f"{name}: a kernel would have {shape} = {threads:,} threads a block, the most that its "
            f"nests have along each index, but at most {ir.MOST_THREADS:,} are possible; bind "
            "loops of like extents in all nests of the kernel"
        )
    device = device_of(target)
    combined = -(-kernel.combined_bytes // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
    shared = shared_offsets(kernel)[1] + combined
    if shared > device.most_shared:
        found = [f"{ir.print_name(b.name)} {nbytes(b):,}" for b in kernel.shared]
        if combined:
            found.append(f"reductions across threads {combined:,}")
        parts = ", ".join(found)
        raise LoweringError(
            f"{name}: {shared:,} bytes of shared memory ({parts}), but a block of {device.name} "
            f"has at most {device.most_shared:,}; split the loops for smaller tiles, or compute_at "
            "what fills them further inside"
        )
    for stmt in ir.stmts_of(kernel.body):
        if device.capability < TENSOR_CORES and _is_product(stmt):
            raise LoweringError(
                f"{name}: the intrinsic {MMA} needs a GPU of compute capability 8.0 or later, and "
                f"{device.name} is of {device.capability / 10}; leave tensorize out, or name "
                'another GPU, as in mt.Target("cuda", device="a100")'
            )
        if isinstance(stmt, ir.Alloc) and nbytes(stmt.buffer) > MOST_LOCAL:
            raise LoweringError(
                f"{name}: {ir.print_name(stmt.buffer.name)} has {nbytes(stmt.buffer):,} bytes for "
                f"each thread, but at most {MOST_LOCAL:,} are possible; set_scope it to global or "
                "shared, or compute_at what fills it further inside"
            )
