"""Products of matrices on a GPU: tiles in shared memory, and tiles of those in registers.

A block of threads computes a tile of C. It fetches a strip of A and one of B into shared memory,
together; each thread multiplies its rows and columns of them, which it holds in registers, and
then come the next strips (Volkov & Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, SC'08;
Nath, Tomov & Dongarra, An Improved MAGMA GEMM for Fermi, 2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from minitensor import ir
from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .gpu import BLOCKS, by_default
from .hand import Steps

FEW: Final = 16
"""Rows or columns of C, below which most of a tile would be outside of it."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of the schedule.

    rows, columns  of C in a tile of a block of threads
    depth          terms of the sums in a strip
    down, across   threads of a block along the rows and the columns
    vector         numbers that a thread moves at a time, and that it holds side by side of a row or
                   column
    """

    rows: int
    columns: int
    depth: int
    down: int
    across: int
    vector: int = 4

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.down * self.across

    @property
    def of_rows(self) -> tuple[int, int, int]:
        """The rows of a tile: strips of what all threads have, threads, and those of a thread."""
        return self.rows // (self.down * self.vector), self.down, self.vector

    @property
    def of_columns(self) -> tuple[int, int, int]:
        """The columns of a tile, likewise."""
        return self.columns // (self.across * self.vector), self.across, self.vector

    @staticmethod
    def of(m: int, n: int, batch: int = 1) -> Tiles:
        """The largest tiles of which there are enough for all multiprocessors."""
        for rows, columns in ((128, 128), (128, 64), (64, 64)):
            if batch * math.ceil(m / rows) * math.ceil(n / columns) >= BLOCKS // 2:
                return Tiles(rows, columns, 16, rows // 8, columns // 8)
        return Tiles(32, 32, 16, 8, 8)


def product(s: Schedule, target: Target) -> Steps:
    """Schedule C = A B, or a batch of such products, and D after it if there is one."""
    *batch, m, n = s.program.buffers["C"].shape
    if min(m, n) < FEW:
        return by_default(s, target)
    return tiled(s, Tiles.of(m, n, math.prod(batch)))


def tiled(s: Schedule, tiles: Tiles, block: str = "C", last: str = "") -> Steps:
    """Schedule a block that is a product of matrices, or a batch of them. Each operand may be given
    transposed.

    last  an elementwise block that reads it alone; "" for the only block behind it, if any
    """
    product = s.program.blocks[block]
    operands = [load for load in ir.loads(product.body) if load.buffer != block]
    terms = ir.Var(product.iters[-1].var)
    last = last or s.get_blocks()[-1]
    written = s.cache_write(last, "local")
    if last != block:
        s.set_scope(block, "local")
    *batch, i, j, k = s.get_loops(block)
    i_0, i_1, i_2, i_3 = s.split(i, [None, *tiles.of_rows])
    j_0, j_1, j_2, j_3 = s.split(j, [None, *tiles.of_columns])
    k_0, k_1 = s.split(k, [None, tiles.depth])
    s.reorder(*batch, i_0, j_0, k_0, i_2, j_2, k_1, i_1, j_1, i_3, j_3)
    if batch:
        s.bind(s.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    yield (
        "Blocks",
        f"A block of threads computes a tile of {tiles.rows} x {tiles.columns} of C. It adds up "
        f"{tiles.depth} terms of all of its sums, then the next: so few rows and columns of A and "
        "B are needed at a time.",
    )
    s.bind(i_2, "threadIdx.y")
    s.bind(j_2, "threadIdx.x")
    start = s.decompose_reduction(block, k_0)
    for loop in (*s.get_loops(start)[-4:], k_1, i_1, j_1, i_3, j_3):
        s.unroll(loop)
    yield (
        "Threads",
        f"Each of {tiles.threads} threads has squares of {tiles.vector} x {tiles.vector} of the "
        "tile, so far apart that neighbours read neighbouring numbers. Its sums stay in registers: "
        "they begin before the terms, and the loops over them are written out.",
    )
    *_, i, j = s.reverse_compute_at(last if last != block else written, j_0)
    i_1o, i_2o, i_3o = s.split(i, tiles.of_rows)
    j_1o, j_2o, j_3o = s.split(j, tiles.of_columns)
    s.reorder(i_2o, j_2o, i_1o, i_3o, j_1o, j_3o)
    s.bind(i_2o, "threadIdx.y")
    s.bind(j_2o, "threadIdx.x")
    for loop in (i_1o, i_3o, j_1o):
        s.unroll(loop)
    if last != block:
        s.unroll(j_3o)
        j_3o = s.reverse_compute_at(written, j_1o)[-1]
    s.vectorize(j_3o)
    yield (
        "Result",
        "In the end each thread writes what it has, a vector at a time. What follows the product "
        "is done before that.",
    )
    sides = (tiles.rows, i_1), (tiles.columns, j_1)
    for load, (side, square) in zip(operands, sides, strict=True):
        strip = s.cache_read(block, load.buffer, "shared")
        *_, x, y = s.compute_at(strip, k_0)
        if load.indices[-1] == terms:
            fetch(s, tiles, x, y, tiles.depth, 1)
            *axes, _, _ = s.program.buffers[strip].shape
            s.transform_layout(strip, turned if not axes else turned_in_batch)
            s.storage_align(strip, len(axes), 32, tiles.vector)
        else:
            s.vectorize(fetch(s, tiles, x, y, side, tiles.vector))
        own = s.cache_read(block, strip, "local")
        s.vectorize(s.compute_at(own, square)[-1])
    yield (
        "Shared memory",
        "A number of A is used for all columns of the tile, one of B for all rows: the threads "
        "fetch them together. Where the terms are side by side, they are laid out the other way, "
        "padded so that the threads of a warp write to different banks. From there a thread reads "
        "what it needs for a term into registers, in vectors.",
    )
    s.annotate(k_0, "pipeline", 2)
    yield (
        "Pipeline",
        "While the threads compute with some terms, the next are copied: nobody waits for memory.",
    )


def fetch(s: Schedule, tiles: Tiles, row: str, column: str, width: int, vector: int) -> str:
    """Share the two loops of a copy, the inner one of `width` iterations, among all threads.

    Returns the innermost loop, over the elements of a vector.
    """
    row_0, row_1 = s.split(row, [None, tiles.threads * vector // width])
    vectors, element = s.split(column, [width // vector, vector])
    s.reorder(row_1, vectors, row_0, element)
    down, across = s.split(s.fuse(row_1, vectors), [tiles.down, tiles.across])
    s.bind(down, "threadIdx.y")
    s.bind(across, "threadIdx.x")
    s.unroll(row_0)
    return element


def turned(i: Any, k: Any) -> tuple[Any, ...]:
    """The layout of a matrix with its axes exchanged."""
    return k, i


def turned_in_batch(b: Any, i: Any, k: Any) -> tuple[Any, ...]:
    """The layout of a batch of matrices with their axes exchanged."""
    return b, k, i
