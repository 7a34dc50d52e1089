"""Products of 16-bit floats by the tensor cores of a GPU.

A warp does an instruction together: 16 x 8 sums of 16 products, which are divided among the
registers of its threads; an intrinsic is several of them. Operands come from shared memory, in
rows that are padded so that the eight rows of a small matrix are in different banks (PTX ISA, "Warp
Level Matrix Instructions").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minitensor.codegen import Target
from minitensor.lang import intrinsics
from minitensor.schedule import Schedule

from . import gpu_matmul
from .gpu import BLOCKS, WARP
from .hand import Steps, largest_divisor

ROWS, COLUMNS, TERMS = 16, 8, 16
"""Of an instruction."""
VECTOR = 8
"""Numbers of 16 bytes."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of the schedule.

    warps  of a block, along the rows and along the columns of C
    each   intrinsics of a warp, along the rows and along the columns
    depth  terms of the sums that are fetched at a time
    """

    warps: tuple[int, int]
    each: tuple[int, int]
    depth: int

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of C of a block of threads."""
        return ROWS * self.warps[0] * self.each[0], COLUMNS * self.warps[1] * self.each[1]

    @staticmethod
    def of(m: int, n: int, k: int) -> Tiles | None:
        """The largest tiles that cover C evenly and of which there are enough for all
        multiprocessors; None if there are none.
        """
        if m % ROWS or n % (2 * COLUMNS) or k % TERMS:
            return None
        for most_rows, most_columns in ((8, 32), (8, 16), (4, 8)):
            rows = largest_divisor(m // ROWS, most_rows)
            columns = largest_divisor(n // COLUMNS, most_columns)
            if m * n >= ROWS * rows * COLUMNS * columns * (BLOCKS // 2):
                break
        warps = largest_divisor(rows, 2), largest_divisor(columns, 4)
        each = rows // warps[0], columns // warps[1]
        return Tiles(warps, each, TERMS * largest_divisor(k // TERMS, 2))


def product(s: Schedule, target: Target) -> Steps:
    """Schedule C = A B with A and B of 16-bit floats and float32 sums."""
    (m, n), (_, k) = s.program.outputs[0].shape, s.program.inputs[0].shape
    tiles = Tiles.of(m, n, k)
    return gpu_matmul.product(s, target) if tiles is None else tiled(s, tiles)


def tiled(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule C = A B with A and B of 16-bit floats and float32 sums."""
    dtype = str(s.program.inputs[0].dtype)
    written = s.cache_write("C", "register")
    i, j, k = s.get_loops("C")
    height, width = ROWS * tiles.each[0], COLUMNS * tiles.each[1]
    i_0, i_1, i_2 = s.split(i, [None, tiles.warps[0], height])
    j_0, j_1, j_2 = s.split(j, [None, tiles.warps[1], width])
    k_0, k_1, k_2 = s.split(k, [None, tiles.depth // TERMS, TERMS])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2, k_2)
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    rows, columns = tiles.shape
    yield (
        "Blocks",
        f"A block has a tile of {rows} x {columns} of C. {math.prod(tiles.warps)} warps share it: "
        f"each has {tiles.each[0]} x {tiles.each[1]} squares of {ROWS} x {COLUMNS}.",
    )
    *_, i, j = s.reverse_compute_at(written, j_0)
    o_1, o_2 = s.split(i, [None, height])
    p_1, p_2 = s.split(j, [None, width])
    s.reorder(o_1, p_1, o_2, p_2)
    for name in ("A", "B"):
        strip = s.cache_read("C", name, "shared")
        number = s.fuse(*s.compute_at(strip, k_0))
        _, z, y, x, element = s.split(number, [None, *tiles.warps, WARP, VECTOR])
        for loop, axis in ((z, "z"), (y, "y"), (x, "x")):
            s.bind(loop, f"threadIdx.{axis}")
        s.vectorize(element)
        s.storage_align(strip, 0, 32, VECTOR)
    yield (
        "Shared memory",
        "The threads fetch the strips of A and B together, 16 bytes each at a time. Rows are "
        "padded by as much: eight of them are read at a time, from different banks.",
    )
    start = s.decompose_reduction("C", k_0)
    *_, i_s, j_s, i_f, _ = s.get_loops(start)
    s.transform_layout(written, lambda i, j: (i // height, j // width, i % height, j % width))
    s.tensorize(i_f, intrinsics.mma_fill(*tiles.each))
    s.tensorize(i_2, intrinsics.mma_m16n8k16(dtype, *tiles.each))
    s.tensorize(o_2, intrinsics.mma_store(*tiles.each))
    for row, column in ((i_s, j_s), (i_1, j_1), (o_1, p_1)):
        s.bind(row, "threadIdx.z")
        s.bind(column, "threadIdx.y")
    yield (
        "Tensor cores",
        "The sums of a warp begin, are added to and are written by its intrinsics; they stay in "
        "its registers. What several squares need of A or B is loaded once.",
    )
    s.annotate(k_0, "pipeline", 2)
    yield (
        "Pipeline",
        "While the warps compute with some terms, the next are copied: nobody waits for memory.",
    )
