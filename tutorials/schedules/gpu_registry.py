"""The schedules for GPUs by name: of every operator, and what `benchmarks.gpu` measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from minitensor.codegen import Target
from minitensor.ir import Program
from minitensor.lang import lower, workloads
from minitensor.schedule import Schedule

from . import gpu_attention, gpu_conv, gpu_matmul, gpu_rows, gpu_tensor_cores
from .gpu import by_default
from .hand import HandSchedule, Steps
from .registry import HAND_SCHEDULES, product

Schedules: TypeAlias = Callable[[Schedule, Target], Steps]

OF_OPERATORS: Final[dict[str, Schedules]] = {
    "matmul": gpu_matmul.product,
    "matmul_bias_relu": gpu_matmul.product,
    "batch_matmul": gpu_matmul.product,
    "transpose_batch_matmul": by_default,
    "transpose_batch_matmul_softmax": by_default,
    "conv1d": by_default,
    "conv2d": gpu_conv.convolution,
    "conv2d_nhwc": by_default,
    "conv3d": by_default,
    "grouped_conv2d": gpu_conv.convolution,
    "dilated_conv2d": gpu_conv.convolution,
    "depthwise_conv2d": gpu_conv.depthwise,
    "conv2d_transpose": gpu_conv.transposed,
    "capsule_conv2d": by_default,
    "conv2d_winograd": by_default,
    "conv2d_bias_relu": gpu_conv.convolution,
    "conv2d_bias_bn_relu": gpu_conv.convolution,
    "max_pool2d": by_default,
    "avg_pool2d": by_default,
    "global_avg_pool2d": by_default,
    "matrix_norm": by_default,
    "softmax": gpu_rows.rows,
    "layer_norm": gpu_rows.rows,
    "row_sum": gpu_rows.row_sums,
    "full_sum": by_default,
    "argmax": gpu_rows.row_sums,
    "elementwise_chain": gpu_rows.elementwise,
    "transpose_add": gpu_rows.transpose_add,
    "stencil2d": by_default,
    "cumsum": by_default,
}
"""For each operator of `mt.workloads` the steps of its schedule."""

_STEPS: Final[dict[str, Schedules]] = {
    "matmul-1024": gpu_matmul.product,
    "matmul-2048": gpu_matmul.product,
    "matmul-odd": gpu_matmul.product,
    "matmul-16": gpu_matmul.product,
    "matmul-long": gpu_matmul.product,
    "batch-matmul": gpu_matmul.product,
    "dense-1024": gpu_matmul.product,
    "conv-64-56": gpu_conv.convolution,
    "conv-128-28": gpu_conv.convolution,
    "conv-256-14": gpu_conv.convolution,
    "conv-512-7": gpu_conv.convolution,
    "conv-batch": gpu_conv.convolution,
    "conv-1x1": gpu_conv.convolution,
    "conv-7x7": gpu_conv.convolution,
    "winograd-64-56": by_default,
    "depthwise": gpu_conv.depthwise,
    "transposed": gpu_conv.transposed,
    "softmax": gpu_rows.rows,
    "attention": gpu_attention.attention,
    "layer-norm": gpu_rows.rows,
    "row-sum": gpu_rows.row_sums,
    "matvec": gpu_rows.row_sums,
    "column-sum": gpu_rows.column_sums,
    "full-sum": by_default,
    "elementwise": gpu_rows.elementwise,
    "transpose-add": gpu_rows.transpose_add,
}


def _for_a_gpu(hand: HandSchedule, steps: Schedules) -> HandSchedule:
    """The workload of a hand schedule with the steps for a GPU."""
    return replace(hand, steps=steps, constants=(), bound=None)


def _in_bfloat16(n: int) -> HandSchedule:
    """A product of square matrices of bfloat16, with float32 sums."""
    sizes = {"m": n, "n": n, "k": n}

    def define() -> Program:
        tensors = workloads.matmul(**sizes, dtype="bfloat16", out_dtype="float32")
        return lower(tensors, name="matmul_bf16")

    moved = (2 + 2 + 4) * n * n
    steps = gpu_tensor_cores.product
    return HandSchedule(f"matmul bf16 {n}", define, steps, (), 2 * n**3, moved, "matmul", sizes)


GPU_SCHEDULES: Final[dict[str, HandSchedule]] = {
    "matmul-4096": _for_a_gpu(product(4096, 4096, 4096), gpu_matmul.product),
    "matmul-4096-bf16": _in_bfloat16(4096),
    **{name: _for_a_gpu(HAND_SCHEDULES[name], steps) for name, steps in _STEPS.items()},
}
"""Every workload that is measured, by a short name."""
