"""Convolutions on a GPU: a product of the weights and the windows, which nobody writes down.

A block of threads computes some channels of a piece of an image. It fetches the piece, with what
windows reach beyond it, and the weights, a few input channels at a time, into shared memory; the
windows are read from there (Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014,
§3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from minitensor import ir
from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .gpu import BLOCKS, WARP, by_default
from .hand import Steps, largest_divisor


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of the schedule.

    channels  threads along the output channels, and channels of a thread
    rows      threads along the rows of an image, and rows of a thread
    columns   threads along the columns of an image
    depth     input channels that are fetched at a time
    """

    channels: tuple[int, int]
    rows: tuple[int, int]
    columns: int
    depth: int

    @property
    def threads(self) -> tuple[int, int]:
        """The threads of a block along y and x."""
        return self.channels[0], self.rows[0] * self.columns

    @staticmethod
    def of(n: int, f: int, h: int, w: int) -> Tiles:
        """The largest tiles of which there are enough for all multiprocessors.

        A warp has 32 pixels, which reach over the ends of the rows as little as can be.
        """
        columns = min((32, 16, 8), key=lambda size: -(-w // size) * size)
        down = 32 // columns
        for channels, rows in ((8, 4), (8, 2), (4, 2), (4, 1)):
            tall, wide = -(-h // (down * rows)), -(-w // columns)
            if n * math.ceil(f / (8 * channels)) * tall * wide >= BLOCKS // 2:
                break
        return Tiles((8, channels), (down, rows), columns, 8)

    def within(self, f: int, c: int, may_be_cut_off: bool) -> Tiles:
        """The tiles for f output and c input channels (of a group), no larger than these.

        may_be_cut_off  whether the last tile may reach over the end
        """
        threads, own = self.channels
        if not may_be_cut_off or f < threads * own:
            own = largest_divisor(f, own)
            threads = largest_divisor(f // own, threads)
        return replace(self, channels=(threads, own), depth=min(self.depth, c))


def convolution(s: Schedule, target: Target) -> Steps:
    """Schedule a convolution over images, in groups too, and what comes after it."""
    n, f, h, w = s.program.buffers["conv"].shape
    return tiled(s, Tiles.of(n, f, h, w))


def tiled(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule a convolution over images, in groups too, and what comes after it."""
    data, weight = (buffer.shape for buffer in s.program.inputs[:2])
    groups = data[1] // weight[1]
    tiles = tiles.within(weight[0] // groups, weight[1], groups == 1)
    *_, last = s.get_blocks()
    for block in s.get_blocks():
        if block not in ("pad", "conv", last):
            s.compute_inline(block)
    if last == "conv":
        last = s.cache_write("conv", "local")
    else:
        s.set_scope("conv", "local")
    n, f, y, x, rc, ry, rx = s.get_loops("conv")
    group, f = s.split(f, [groups, None])
    f_0, f_1, f_2 = s.split(f, [None, *tiles.channels])
    y_0, y_1, y_2 = s.split(y, [None, *tiles.rows])
    x_0, x_1 = s.split(x, [None, tiles.columns])
    rc_0, rc_1 = s.split(rc, [None, tiles.depth])
    s.reorder(n, group, f_0, y_0, x_0, rc_0, f_1, y_1, x_1, rc_1, ry, rx, y_2, f_2)
    tile = s.fuse(y_0, x_0)
    s.bind(s.fuse(n, group), "blockIdx.z")
    s.bind(f_0, "blockIdx.y")
    s.bind(tile, "blockIdx.x")
    yield (
        "Blocks",
        f"A block of threads computes {math.prod(tiles.channels)} channels of "
        f"{math.prod(tiles.rows)} x {tiles.columns} pixels, {tiles.depth} input channels at a "
        "time.",
    )
    s.bind(f_1, "threadIdx.y")
    s.bind(s.fuse(y_1, x_1), "threadIdx.x")
    start = s.decompose_reduction("conv", rc_0)
    for loop in (*s.get_loops(start)[-2:], ry, rx, y_2, f_2):
        s.unroll(loop)
    yield (
        "Threads",
        f"A thread has {tiles.channels[1]} channels of {tiles.rows[1]} pixels in registers. The "
        "threads of a warp have the same channels, so a weight is read once for all of them.",
    )
    result(s, tiles, s.reverse_compute_at(last, tile))
    yield "Result", "What follows the sums is done before a thread writes what it has."
    piece = in_shared(s)
    _, c, y, x = s.compute_at(piece, rc_0)
    pad_rows(s, piece, x, tiles.columns)
    together(s, tiles.threads, c, y, x)
    strip = s.cache_read("conv", "weight", "shared")
    f, rc, ry_w, rx_w = s.compute_at(strip, rc_0)
    own = s.cache_read("conv", strip, "local")
    s.vectorize(s.compute_at(own, rx)[0])
    together(s, tiles.threads, f, rc, ry_w, rx_w)
    for copy in (strip, own):
        s.transform_layout(copy, lambda f, rc, ry, rx: (rc, ry, rx, f))
    s.storage_align(strip, 2, 32, 4)
    yield (
        "Shared memory",
        "A pixel is in many windows, and is used for all channels; a weight is used for all "
        "pixels. The threads fetch both together, the border of zeros too. Weights are laid out "
        "with the channels side by side, which a thread reads as a vector; rows of the piece are "
        "padded, so that those of a warp are in different banks.",
    )
    s.annotate(rc_0, "pipeline", 2)
    yield (
        "Pipeline",
        "While the threads compute with some input channels, the next are copied: nobody waits "
        "for memory.",
    )


def result(s: Schedule, tiles: Tiles, loops: tuple[str, ...]) -> None:
    """Share the loops over what a block writes as those of its sums are."""
    *_, f, y, x = loops
    f_1, f_2 = s.split(f, [*tiles.channels])
    y_1, y_2 = s.split(y, [*tiles.rows])
    x_0, x_1 = s.split(x, [1, tiles.columns])
    s.reorder(f_1, y_1, x_1, x_0, f_2, y_2)
    s.bind(f_1, "threadIdx.y")
    s.bind(s.fuse(y_1, x_1), "threadIdx.x")
    for loop in (f_2, y_2):
        s.unroll(loop)


def in_shared(s: Schedule) -> str:
    """The block that brings a piece of the image to shared memory."""
    if "pad" not in s.get_blocks():
        return s.cache_read("conv", s.program.inputs[0].name, "shared")
    s.set_scope("pad", "shared")
    return "pad"


def pad_rows(s: Schedule, piece: str, x: str, columns: int) -> None:
    """Put the rows of a piece so far apart that those of a warp are in different banks.

    x        the loop over the elements of a row
    columns  threads of a warp along a row
    """
    if columns < WARP:
        used = ir.loop_sites(s.program)[x].loop.extent % WARP
        s.storage_align(piece, 2, WARP, columns if used <= columns else WARP - columns)


def together(s: Schedule, threads: tuple[int, int], outer: str, *inner: str) -> None:
    """Share the loops of a copy among all threads: those along y and those along x."""
    several, down = s.split(outer, [None, threads[0]])
    some, across = s.split(s.fuse(*inner) if len(inner) > 1 else inner[0], [None, threads[1]])
    s.reorder(down, across, several, some)
    s.bind(down, "threadIdx.y")
    s.bind(across, "threadIdx.x")


def depthwise(s: Schedule, target: Target) -> Steps:
    """Schedule a depthwise convolution (blocks pad, conv)."""
    return of_channels(s, Tiles((1, 1), (8, 4), 32, 1))


def of_channels(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule a depthwise convolution by tiles of its rows and columns."""
    n, c, y, x, ry, rx = s.get_loops("conv")
    written = s.cache_write("conv", "local")
    y_0, y_1, y_2 = s.split(y, [None, *tiles.rows])
    x_0, x_1 = s.split(x, [None, tiles.columns])
    s.reorder(n, c, y_0, x_0, y_1, x_1, ry, rx, y_2)
    tile = s.fuse(y_0, x_0)
    s.bind(s.fuse(n, c), "blockIdx.y")
    s.bind(tile, "blockIdx.x")
    s.bind(y_1, "threadIdx.y")
    s.bind(x_1, "threadIdx.x")
    start = s.decompose_reduction("conv", ry)
    for loop in (s.get_loops(start)[-1], ry, rx, y_2):
        s.unroll(loop)
    *_, y, _ = s.reverse_compute_at(written, x_1)
    s.unroll(y)
    yield (
        "Tiles",
        f"A block has {math.prod(tiles.rows)} x {tiles.columns} pixels of a channel, a thread "
        f"{tiles.rows[1]} rows of a column: it uses a number of the image for all of them.",
    )
    *_, y, x = s.compute_at(in_shared(s), tile)
    together(s, (tiles.rows[0], tiles.columns), y, x)
    yield (
        "Shared memory",
        "The windows overlap: the threads fetch their piece of the image together.",
    )


def transposed(s: Schedule, target: Target) -> Steps:
    """Schedule a transposed convolution (blocks pad, conv)."""
    s.skip_zeros("conv")
    yield (
        "Phases",
        "Between two pixels of the image there are zeros. Which places of the window meet pixels "
        "depends on the remainder of a row and of a column: each phase has a window of its own.",
    )
    yield from by_default(s, target)
