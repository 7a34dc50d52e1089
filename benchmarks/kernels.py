"""Typical kernels, scheduled: what the benchmarks build."""

from __future__ import annotations

import minitensor as mt
from minitensor.cli.demo import convolution, dense
from minitensor.runtime import native_target


def matmul_tile(size: int = 512) -> mt.Schedule:
    """A dense layer with register tiles, packed operands and threads: that of the demo."""
    s = mt.Schedule(dense.define(size, size, size))
    for _ in dense.schedule(s, dense.Tiles.of(native_target(mt.Target("c")), size)):
        pass
    return s


def conv_tile() -> mt.Schedule:
    """A 3 x 3 convolution, 64 to 64 channels, 56 x 56, with bias and relu: that of the demo."""
    s = mt.Schedule(convolution.define(64, 64, 56, 56))
    for _ in convolution.schedule(s, convolution.Tiles.of(native_target(mt.Target("c")), 56)):
        pass
    return s


def softmax() -> mt.Schedule:
    """Softmax of 4096 rows of 1024, rows on threads, each stage beside the others."""
    s = mt.Schedule(mt.lower(mt.workloads.softmax(m=4096, n=1024), name="softmax"))
    *_, last = s.get_blocks()
    row, column = s.get_loops(last)
    s.vectorize(column)
    for block in reversed(s.get_blocks()[:-1]):
        s.compute_at(block, row)
    s.parallel(row)
    return s


def elementwise() -> mt.Schedule:
    """Five operations on 16 M elements, fused into one loop."""
    s = mt.Schedule(mt.lower(mt.workloads.elementwise_chain(shape=1 << 24), name="elementwise"))
    for block in s.get_blocks()[:-1]:
        s.compute_inline(block)
    (loop,) = s.get_loops(s.get_blocks()[0])
    outer, inner = s.split(loop, [None, 64])
    s.vectorize(inner)
    s.parallel(outer)
    return s


KERNELS = {
    "matmul tile": matmul_tile,
    "conv tile": conv_tile,
    "softmax": softmax,
    "elementwise": elementwise,
}
