"""Typical kernels, scheduled by hand: what the benchmarks build."""

from __future__ import annotations

import minitensor as mt
from minitensor.runtime import native_target
from tutorials.schedules import HAND_SCHEDULES, scheduled


def matmul_tile() -> mt.Schedule:
    """A dense layer with register tiles, packed operands and threads."""
    return _scheduled("dense-1024")


def conv_tile() -> mt.Schedule:
    """A 3 x 3 convolution, 64 to 64 channels, 56 x 56, with bias and relu."""
    return _scheduled("conv-64-56")


def softmax() -> mt.Schedule:
    """Softmax of 4096 rows of 1024."""
    return _scheduled("softmax")


def elementwise() -> mt.Schedule:
    """Five operations on 16 M elements, fused into one loop."""
    return _scheduled("elementwise")


def _scheduled(name: str) -> mt.Schedule:
    return scheduled(HAND_SCHEDULES[name], native_target(mt.Target("c")))


KERNELS = {
    "matmul tile": matmul_tile,
    "conv tile": conv_tile,
    "softmax": softmax,
    "elementwise": elementwise,
}
