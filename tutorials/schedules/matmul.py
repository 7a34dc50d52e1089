"""Products of matrices: two schedules, for large matrices and for small ones.

`packed` is that of Goto and van de Geijn (Anatomy of high-performance matrix multiplication, 2008)
without the blocking of k: a tile of C stays in registers, the panel of B that it needs streams
through the L1 cache, and a block of A stays in the L2 cache. `direct` reads the operands where they
are: packing pays only where each number is used often, or where B is bound (`in_panels`).
"""

from __future__ import annotations

from dataclasses import dataclass

from minitensor.codegen import Target
from minitensor.schedule import Schedule
from tutorials.schedules.hand import Steps, lanes_of


@dataclass(frozen=True, slots=True)
class Tiles:
    """What of the schedule depends on the machine.

    rows     of C in a register tile
    columns  of C in a register tile: two vectors
    block    register tiles whose rows of A are packed and kept in the L2 cache together
    """

    rows: int
    columns: int
    block: int

    @staticmethod
    def of(target: Target, m: int) -> Tiles:
        """16 vectors of the 32 that AVX-512 has, 8 of 16 otherwise; 128 rows of A in a block.

        Blocks are smaller where there would be fewer than two for each thread.
        """
        bits, threads = target.vector_bits or 128, target.num_cores or 1
        rows = 8 if bits >= 512 else 4
        block = 128 // rows
        while block > 1 and m // (rows * block) < 2 * threads:
            block //= 2
        return Tiles(rows, 2 * lanes_of(target), block)


def packed(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule C = A B, and D after it if there is one, for matrices that caches do not hold."""
    rows, columns = tiles.rows, tiles.columns
    i, j, k = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, tiles.block, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(i_0, i_1, j_0, k, i_2, j_1)
    yield (
        "Tiles",
        f"C is cut into tiles of {rows} x {columns}; a number read from A or B is used for a whole "
        "row or column of one.",
    )
    s.vectorize(j_1)
    s.unroll(i_2)
    yield (
        "Vectors",
        "The columns of a tile become lanes of vectors; its rows are written out one by one.",
    )
    if "D" in s.get_blocks():
        *_, j_d = s.reverse_compute_at("D", j_0)
        s.vectorize(j_d)
        yield (
            "Fusion",
            "What follows is done as soon as a tile is. The rest of C is not needed any more: the "
            "tile is all that is kept of it, and it fits in registers.",
        )
    packed_b = s.cache_read("C", "B", "global")
    s.transform_layout(packed_b, lambda k, j: (j // columns, k, j % columns))
    k_b, j_b = s.get_loops(packed_b)
    j_b0, j_b1 = s.split(j_b, [None, columns])
    s.reorder(j_b0, k_b, j_b1)
    s.vectorize(j_b1)
    yield (
        "Packing",
        "The rows of B are far apart in memory, so a tile that walks down its columns touches a "
        "new page at each step. B is copied once, into panels in the order of reading.",
    )
    s.reorder(j_0, i_1)
    packed_a = s.cache_read("C", "A", "global")
    i_a, k_a = s.compute_at(packed_a, i_0)
    s.transform_layout(packed_a, lambda i, k: (i // rows, k, i % rows))
    i_a0, i_a1 = s.split(i_a, [None, rows])
    s.reorder(i_a0, k_a, i_a1)
    s.unroll(i_a1)
    yield (
        "Reuse",
        f"A panel of B serves {tiles.block} tiles before the next one comes; their rows of A are "
        "packed too and stay in the cache.",
    )
    s.parallel(j_b0)
    s.parallel(i_0)
    yield "Threads", "Blocks of rows are independent of each other, and so are panels of B."


def direct(s: Schedule, target: Target) -> Steps:
    """Schedule C = A B, or a batch of such products, for operands that are read where they are."""
    tiles = Tiles.of(target, 1)
    *batch, i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, tiles.rows])
    j_0, j_1 = s.split(j, [None, tiles.columns])
    s.reorder(j_0, i_0, k, i_1, j_1)
    yield (
        "Tiles",
        f"C is cut into tiles of {tiles.rows} x {tiles.columns}. All the rows of C meet a panel of "
        "B before the next panel comes: B is read from memory once.",
    )
    s.vectorize(j_1)
    s.unroll(i_1)
    yield "Vectors", "The columns of a tile become lanes of vectors; its rows are written out."
    s.parallel(batch[0] if batch else j_0)
    yield "Threads", "Products of a batch are independent, and so are panels of B."


def in_panels(s: Schedule, target: Target) -> Steps:
    """Schedule C = A B for few rows of A and a B that is bound: packed once, used by many calls."""
    yield from direct(s, target)
    columns = Tiles.of(target, 1).columns
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (j // columns, k, j % columns))
    k_b, j_b = s.get_loops(packed)
    panel, lane = s.split(j_b, [None, columns])
    s.reorder(panel, k_b, lane)
    s.vectorize(lane)
    s.parallel(panel)
    yield (
        "Packing",
        "With few rows, what takes the time is reading B. In panels it is read from one end to the "
        "other, which the processor foresees. Where B is bound, packing it costs nothing.",
    )
