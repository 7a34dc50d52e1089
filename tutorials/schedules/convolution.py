"""Convolutions with bias and relu: lanes are output channels, or pixels where windows are single.

A register tile is a few pixels of one row in some vectors of output channels (Georganas et al.,
Anatomy of high-performance deep learning convolutions on SIMD architectures, SC'18); the weights
are packed so that the channels of a vector are side by side. The sums over window and input
channels run outside of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of, largest_divisor

PACKED_AT_A_TIME = 16
"""Input channels whose weights are packed before those of the next output channels: they are read
from as many lines of the cache as there are lanes."""
FEW_ROWS = 14
"""Rows up to which an image is not cut into strips."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of the schedule, chosen for the machine and the images.

    pixels   side by side in a register tile
    vectors  of channels in a register tile
    lanes    of a vector
    rows     of an image in a strip; if that is all of them, threads share the output channels
    """

    pixels: int
    vectors: int
    lanes: int
    rows: int

    @staticmethod
    def of(target: Target, n: int, f: int, h: int, w: int) -> Tiles:
        """16 or 24 vectors of the 32 that AVX-512 has, 8 or 12 of 16 otherwise.

        There are two strips for each thread. Tiles reach over the end of a row, and over the last
        channel, as little as can be. An image of few rows is a single strip: its weights are many,
        and each thread reads its own.
        """
        bits, threads = target.vector_bits or 128, target.num_cores or 1
        lanes, most = lanes_of(target), 8 if bits >= 512 else 4
        # for a vector of weights a tile reads its pixels, and more that is as much as two
        pixels = min(range(most, 0, -1), key=lambda p: -(-w // p) * (p + 2))
        vectors = min((2, 3), key=lambda v: -f % (v * lanes))
        strips = (r for r in (14, 7, 4, 2) if r < h and h % r == 0)
        rows = next((r for r in strips if n * h // r >= 2 * threads), 1)
        shared = n == 1 or f // (vectors * lanes) >= 2 * threads
        return Tiles(pixels, vectors, lanes, h if h <= FEW_ROWS and shared else rows)


def by_channels(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule a convolution (blocks pad, conv, relu) with output channels as lanes."""
    pixels, channels = tiles.pixels, tiles.vectors * tiles.lanes
    n, f, y, x, rc, ry, rx = s.get_loops("conv")
    f_0, f_1 = s.split(f, [None, channels])
    y_0, y_1 = s.split(y, [None, tiles.rows])
    x_0, x_1 = s.split(x, [None, pixels])
    is_whole = tiles.rows == s.program.outputs[0].shape[2]
    outer = (f_0, n, y_0) if is_whole else (n, y_0, f_0)
    s.reorder(*outer, y_1, x_0, rc, ry, rx, x_1, f_1)
    yield (
        "Tiles",
        f"A tile is {pixels} pixels of a row in {channels} output channels. The sums over window "
        "and input channels run outside it.",
    )
    packed = s.cache_read("conv", "weight", "global")
    s.transform_layout(packed, lambda f, rc, ry, rx: (f // channels, rc, ry, rx, f % channels))
    f_p, rc_p, ry_p, rx_p = s.get_loops(packed)
    f_p0, f_p1, f_p2 = s.split(f_p, [None, tiles.vectors, tiles.lanes])
    rc_p0, rc_p1 = s.split(rc_p, [None, PACKED_AT_A_TIME])
    s.reorder(f_p0, rc_p0, f_p1, rc_p1, ry_p, rx_p, f_p2)
    s.vectorize(f_p2)
    s.vectorize(f_1)
    s.unroll(x_1)
    s.unroll(rx)
    yield (
        "Vectors",
        "Lanes are output channels, so the weights are packed with these side by side. Storing a "
        "vector still scatters it over as many images.",
    )
    *_, x_r = s.reverse_compute_at("relu", x_0)
    s.unroll(x_r)
    s.transform_layout("conv", lambda n, f, y, x: (n, y, x, f))
    yield (
        "Fusion",
        "Bias and relu follow as soon as a tile is done; what is kept of conv is one tile, its "
        "channels side by side: registers. It is turned around as it is written out.",
    )
    if "pad" in s.get_blocks():
        s.compute_inline("pad")
        yield (
            "Padding",
            "No padded copy of the image is needed: a tile takes 0 for what lies beyond the "
            "border. Most tests for that fall away when the code is written.",
        )
    s.parallel(f_p0)
    s.parallel(f_0 if is_whole else s.fuse(n, y_0))
    yield (
        "Threads",
        "Strips of the images are independent of each other, and so are panels of channels.",
    )


def by_pixels(s: Schedule, target: Target) -> Steps:
    """Schedule a convolution with windows of one pixel: the rows of the image are lanes.

    There is no window to step through, so the pixels of a row are side by side already, and so are
    those of the result: nothing is packed and nothing is turned around.
    """
    channels = 6 if (target.vector_bits or 128) >= 512 else 3
    n, f, y, x, rc, ry, rx = s.get_loops("conv")
    f_0, f_1 = s.split(f, [None, channels])
    s.reorder(n, y, f_0, rc, ry, rx, f_1, x)
    yield "Tiles", f"A tile is a whole row of the image in {channels} output channels."
    s.vectorize(x)
    s.unroll(f_1)
    yield "Vectors", "The pixels of a row become lanes of vectors; the channels are written out."
    *_, x_r = s.reverse_compute_at("relu", f_0)
    s.vectorize(x_r)
    yield "Fusion", "Bias and relu follow as soon as a tile is done, while it is in the cache."
    s.parallel(y)
    yield "Threads", "Rows of the image are independent of each other."


def depthwise(s: Schedule, target: Target) -> Steps:
    """Schedule a depthwise convolution (blocks pad, conv): each channel is an image of its own."""
    rows = 2 if (target.vector_bits or 128) >= 512 else 1
    n, c, y, x, ry, rx = s.get_loops("conv")
    y_0, y_1 = s.split(y, [None, rows])
    s.reorder(n, c, y_0, ry, rx, y_1, x)
    s.vectorize(x)
    for loop in (y_1, ry, rx):
        s.unroll(loop)
    yield (
        "Vectors",
        f"Lanes are the pixels of a row. {rows} rows are summed in registers over the whole "
        "window, which is written out.",
    )
    if "pad" in s.get_blocks():
        *_, x_p = s.compute_at("pad", c)
        s.vectorize(x_p)
        yield (
            "Padding",
            "One channel at a time gets its border, in a buffer that stays in the L1 cache. The "
            "border is cut off the vectors, so that the rest is a copy.",
        )
    s.parallel(c)
    yield "Threads", "Channels are independent of each other."


def grouped(s: Schedule, target: Target) -> Steps:
    """Schedule a convolution in groups (blocks pad, conv): each group is a small convolution."""
    most = 8 if (target.vector_bits or 128) >= 512 else 4
    data, weight = (buffer.shape for buffer in s.program.inputs)
    size = weight[0] * weight[1] // data[1]
    n, f, y, x, rc, ry, rx = s.get_loops("conv")
    group, f_0 = s.split(f, [None, size])
    yield (
        "Groups",
        f"The {size} output channels of a group read the same input channels. Cut there, that is "
        "plain to see: what is read depends on the group alone.",
    )
    f_0, f_1 = s.split(f_0, [None, largest_divisor(size, most)])
    s.reorder(n, group, y, f_0, rc, ry, rx, f_1, x)
    s.vectorize(x)
    for loop in (f_1, ry, rx):
        s.unroll(loop)
    yield "Tiles", "The pixels of a row are lanes; some channels of a group use each of them."
    if "pad" in s.get_blocks():
        *_, x_p = s.compute_at("pad", group)
        s.vectorize(x_p)
        yield "Padding", "The images of a group get their border while they are in the cache."
    s.parallel(s.fuse(n, group))
    yield "Threads", "Groups are independent of each other."


def transposed(s: Schedule, target: Target) -> Steps:
    """Schedule a transposed convolution (blocks pad, conv) as one convolution for each phase."""
    channels = 8 if (target.vector_bits or 128) >= 512 else 4
    copy = s.skip_zeros("conv")
    yield (
        "Phases",
        "Between two pixels of the image there are zeros. Which places of the window meet pixels "
        "depends on the remainder of a row and of a column: each phase has a window of its own.",
    )
    n, f, y_1, x_1, y_0, x_0, rc, ry, rx = s.get_loops("conv")
    f_0, f_1 = s.split(f, [None, channels])
    s.reorder(n, y_0, y_1, x_1, f_0, rc, ry, rx, f_1, x_0)
    s.vectorize(x_0)
    for loop in (f_1, ry, rx):
        s.unroll(loop)
    yield (
        "Tiles",
        f"The pixels of a row of a phase are lanes; {channels} channels use each of them.",
    )
    *_, x_c = s.reverse_compute_at(copy, f_0)
    s.vectorize(x_c)
    yield "Fusion", "What is done goes to where it belongs, between the other phases."
    s.parallel(y_0)
    if "pad" in s.get_blocks():
        *_, x_p = s.get_loops("pad")
        s.vectorize(x_p)
        s.parallel(s.get_loops("pad")[1])
    yield "Threads", "Rows are independent of each other."
