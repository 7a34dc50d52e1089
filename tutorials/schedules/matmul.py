"""Products of matrices: schedules for large matrices, for few rows, and for short sums.

`packed` is that of Goto and van de Geijn (Anatomy of high-performance matrix multiplication, 2008)
without the blocking of k where it is not too long: a tile of C stays in registers, the panel of B
that it needs streams through the L1 cache, and a block of A stays in the L2 cache. `direct` and
`short` read the operands where they are: packing pays only where each number is used often, or
where B is bound (`in_panels`).
"""

from __future__ import annotations

from dataclasses import dataclass

from minitensor import ir
from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of the schedule, chosen for the machine.

    rows     of C in a register tile
    columns  of C in a register tile: two vectors
    block    register tiles whose rows of A are packed and kept in the L2 cache together
    depth    terms of a sum that are added at a time: a panel of B so long is a part of the L2 cache
    """

    rows: int
    columns: int
    block: int
    depth: int = 2048

    @staticmethod
    def of(target: Target, m: int) -> Tiles:
        """16 vectors of the 32 that AVX-512 has, 12 of 16 otherwise; 16 tiles of rows in a block.

        Blocks are smaller where there would be fewer than two for each thread.
        """
        bits, threads = target.vector_bits or 128, target.num_cores or 1
        rows, block = 8 if bits >= 512 else 6, 16
        while block > 1 and m // (rows * block) < 2 * threads:
            block //= 2
        return Tiles(rows, 2 * lanes_of(target), block)


def packed(s: Schedule, tiles: Tiles) -> Steps:
    """Schedule C = A B, and D after it if there is one, for matrices that caches do not hold.

    Each of A and B may be given transposed: what is packed is in the order of reading anyway.
    """
    rows, columns = tiles.rows, tiles.columns
    is_long = s.program.blocks["C"].iters[-1].extent > tiles.depth
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
    if is_long:
        k_0, k_1 = s.split(k, [None, tiles.depth])
        s.reorder(j_0, k_0, i_1, k_1)
        s.decompose_reduction("C", k_0)
        yield (
            "Parts",
            f"A panel of B of more than {tiles.depth} rows would leave the L2 cache before the "
            "next tile comes. So all tiles of a block add up one part of their sums, then the "
            "next.",
        )
    if "D" in s.get_blocks():
        *_, j_d = s.reverse_compute_at("D", j_0)
        s.vectorize(j_d)
        yield (
            "Fusion",
            "What follows is done as soon as a tile is. The rest of C is not needed any more: the "
            "tile is all that is kept of it, and it fits in registers.",
        )
    j_b, _, j_b1 = panels(s, "B", columns)
    s.vectorize(j_b1)
    yield (
        "Packing",
        "The rows of B are far apart in memory, so a tile that walks down its columns touches a "
        "new page at each step. B is copied once, into panels in the order of reading.",
    )
    if not is_long:
        s.reorder(j_0, i_1)
    *_, i_a1 = panels(s, "A", rows, i_0)
    s.unroll(i_a1)
    yield (
        "Reuse",
        f"A panel of B serves {tiles.block} tiles before the next one comes; their rows of A are "
        "packed too and stay in the cache.",
    )
    s.parallel(j_b)
    s.parallel(i_0)
    yield "Threads", "Blocks of rows are independent of each other, and so are panels of B."


def panels(s: Schedule, operand: str, width: int, at: str = "root") -> tuple[str, str, str]:
    """Pack an operand of C into panels of some of its rows or columns, side by side for each k.

    Returns the loops over panels, over k, and over what is side by side.
    """
    block = s.program.blocks["C"]
    (load,) = (one for one in ir.loads(block.body) if one.buffer == operand)
    copy = s.cache_read("C", operand, "global")
    first, second = s.get_loops(copy) if at == "root" else s.compute_at(copy, at)
    if load.indices[0] == ir.Var(block.iters[-1].var):
        s.transform_layout(copy, lambda k, x: (x // width, k, x % width))
        k, x = first, second
    else:
        s.transform_layout(copy, lambda x, k: (x // width, k, x % width))
        x, k = first, second
    x_0, x_1 = s.split(x, [None, width])
    s.reorder(x_0, k, x_1)
    return x_0, k, x_1


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
    panel, _, lane = panels(s, "B", Tiles.of(target, 1).columns)
    s.vectorize(lane)
    s.parallel(panel)
    yield (
        "Packing",
        "With few rows, what takes the time is reading B. In panels it is read from one end to the "
        "other, which the processor foresees. Where B is bound, packing it costs nothing.",
    )


def short(s: Schedule, target: Target) -> Steps:
    """Schedule C = A B for a k so short that most of the time C is written."""
    tiles = Tiles.of(target, 1)
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, tiles.rows])
    j_0, j_1 = s.split(j, [None, tiles.columns])
    s.reorder(i_0, j_0, k, i_1, j_1)
    yield (
        "Tiles",
        f"C is cut into tiles of {tiles.rows} x {tiles.columns}. The few rows of B stay in the "
        "cache for all of them, so nothing is packed.",
    )
    s.vectorize(j_1)
    s.unroll(i_1)
    s.unroll(k)
    yield "Vectors", "The columns of a tile become lanes of vectors; its sums are written out."
    s.parallel(i_0)
    yield "Threads", "Strips of rows are independent of each other."
