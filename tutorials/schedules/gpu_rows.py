"""Rows and columns on a GPU: sums, normalisations, and what memory alone limits.

A row is done by a warp, or by a block of threads if it is long: each thread has some of it in
registers, and the threads combine what they have. Memory is read and written in vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor import ir
from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .gpu import BLOCKS, THREADS, WARP, elements, size
from .hand import Steps

BITS: Final = 128
"""The most that a thread reads or writes at a time."""
OF_A_WARP: Final = 1024
"""Elements of the longest row that a warp does alone: 32 for each thread."""
ROWS: Final = 4
"""Rows of a block, where a warp does one."""
WRITTEN_OUT: Final = 8
"""The longest loop over the vectors of a thread that is written out."""
TILE: Final = 32
"""Rows and columns of a tile that is turned around."""


def vector_of(s: Schedule, n: int) -> int:
    """The elements of rows of n that a thread reads or writes at a time: such that no vector is cut
    off, and that the threads of a warp have one each.
    """
    bits = max(buffer.dtype.bits for buffer in s.program.params)
    fitting = (v for v in (8, 4, 2) if v * bits <= BITS and n % v == 0 and n >= v * WARP)
    return next(fitting, 1)


def threads_of(n: int) -> int:
    """The threads that share a row of n elements."""
    return WARP if n <= OF_A_WARP else next((t for t in (256, 512) if n <= 16 * t), 1024)


def rows(s: Schedule, target: Target) -> Steps:
    """Schedule a stage over rows, and the sums, maxima and elementwise stages of a row before it: a
    softmax, a layer normalisation.
    """
    return stages(s, s.get_blocks())


def stages(s: Schedule, blocks: Sequence[str]) -> Steps:
    """Schedule some blocks as `rows` does: those of the program, or those of a part of it."""
    *before, last = blocks
    n = s.program.buffers[last].shape[-1]
    for block in before:
        iters = s.program.blocks[block].iters
        if size(iters, ir.IterKind.REDUCE) == 1 and iters[-1].extent != n:
            s.compute_inline(block)
    yield (
        "Scalars",
        "What is computed once for a row is computed where it is used: no thread waits for it.",
    )
    threads, vector = threads_of(n), vector_of(s, n)
    written = s.cache_write(last, "local") if vector > 1 else None
    row = by_rows(s, last, threads)
    for block in reversed(before):
        if block in s.get_blocks():
            s.compute_at(block, row)
    yield (
        "Fusion",
        "All stages of a row follow each other. What is in between stays in registers: each thread "
        "has the same elements of it in all stages.",
    )
    for block in (*(block for block in before if block in s.get_blocks()), last):
        if s.program.blocks[block].init is not None:
            summed(s, block, threads, vector)
        else:
            some = shared_out(s, block, threads, vector)
            if block == last and written is not None:
                s.vectorize(s.reverse_compute_at(written, some)[-1])
    yield (
        "Threads",
        f"{threads} threads share a row, {vector} neighbours at a time. Each has a part of a sum, "
        "and they combine what they have.",
    )


def row_sums(s: Schedule, target: Target) -> Steps:
    """Schedule B[i] = the sum, or another reduction, of A[i, k], or of A[i, k] x[k]."""
    n = s.program.blocks["B"].iters[-1].extent
    threads = threads_of(n)
    row, _ = s.get_loops("B")
    s.split(row, [None, ROWS if threads == WARP else 1])
    summed(s, "B", threads, vector_of(s, n))
    grid, own, _ = s.get_loops("B")
    s.bind(grid, "blockIdx.x")
    s.bind(own, "threadIdx.y")
    yield (
        "Threads",
        f"{threads} threads share a row: each has a part of the sum, and they combine what they "
        "have.",
    )


def by_rows(s: Schedule, block: str, threads: int) -> str:
    """Share the rows of a block, all its loops but the last, among blocks of threads.

    Returns the loop over the rows of a block of threads.
    """
    *outer, _ = s.get_loops(block)
    row = s.fuse(*outer) if len(outer) > 1 else outer[0]
    grid, own = s.split(row, [None, ROWS if threads == WARP else 1])
    s.bind(grid, "blockIdx.x")
    s.bind(own, "threadIdx.y")
    return own


def shared_out(s: Schedule, block: str, threads: int, vector: int) -> str:
    """Share the last loop of an elementwise block among threads.

    Returns the loop over the vectors of a thread.
    """
    some, thread, lane = s.split(s.get_loops(block)[-1], [None, threads, vector])
    s.reorder(thread, some, lane)
    s.bind(thread, "threadIdx.x")
    in_vectors(s, block, some, vector)
    return some


def summed(s: Schedule, block: str, threads: int, vector: int) -> None:
    """Share the last loop of a reduction among threads, which combine what they have."""
    _, thread, _ = s.split(s.get_loops(block)[-1], [None, threads, vector])
    parts = s.rfactor(thread)
    *_, row, thread = s.get_loops(block)
    *_, some, own, lane = s.compute_at(parts, row)
    s.set_scope(parts, "local")
    s.reorder(own, some, lane)
    s.bind(own, "threadIdx.x")
    s.bind(thread, "threadIdx.x")
    in_vectors(s, parts, some, vector)


def in_vectors(s: Schedule, block: str, some: str, vector: int) -> None:
    """Read the parameters of a block in vectors, those of `some` iterations ahead of their use."""
    if ir.loop_sites(s.program)[some].loop.extent <= WRITTEN_OUT:
        s.unroll(some)
    if vector == 1:
        return
    inputs = {b.name for b in s.program.inputs}
    for buffer in sorted({load.buffer for load in ir.loads(s.program.blocks[block].body)} & inputs):
        copy = s.cache_read(block, buffer, "local")
        s.vectorize(s.compute_at(copy, some)[-1])


def column_sums(s: Schedule, target: Target) -> Steps:
    """Schedule B[j] = the sum of A[k, j], or of A[k, j] x[k]."""
    j, k = s.get_loops("B")
    columns, terms = (ir.loop_sites(s.program)[loop].loop.extent for loop in (j, k))
    down = THREADS // WARP
    parts = max(1, min(-(-BLOCKS * WARP // columns), terms // (8 * down)))
    if parts > 1:
        part, _ = s.split(k, [parts, None])
        block = s.rfactor(part)
        elements(s, "B")
    else:
        block = "B"
    yield (
        "Parts",
        "A strip of columns is too little work for a block, and there are too few of them: several "
        "blocks share one, and a second kernel adds up what they have.",
    )
    j, *rest, k = s.get_loops(block)
    s.split(j, [None, WARP])
    _, row = s.split(k, [None, down])
    summands = s.rfactor(row)
    strip, column, *rest, row = s.get_loops(block)
    s.reorder(*rest, strip, column, row)
    for loop in rest:
        s.bind(loop, "blockIdx.y")
    s.bind(strip, "blockIdx.x")
    s.bind(column, "threadIdx.x")
    column, *_, some, row = s.compute_at(summands, strip)
    s.reorder(row, column, some)
    s.bind(row, "threadIdx.y")
    s.bind(column, "threadIdx.x")
    s.set_scope(summands, "shared")
    yield (
        "Threads",
        f"The threads of a warp have neighbouring columns. {down} warps have every so manyth row; "
        "one of them adds up what they have, in shared memory.",
    )


def elementwise(s: Schedule, target: Target) -> Steps:
    """Schedule a chain of elementwise stages over one shape; its last block is the result."""
    *before, last = s.get_blocks()
    for block in before:
        s.compute_inline(block)
    yield "Fusion", "One pass over memory instead of one for each stage."
    vector = BITS // max(buffer.dtype.bits for buffer in s.program.params)
    shape = s.program.outputs[0].shape
    if len(shape) > 1 and shape[-1] % vector:
        elements(s, last)
        yield "Threads", "An element is computed by a thread: vectors would reach over the rows."
        return
    written = s.cache_write(last, "local")
    *outer, loop = s.get_loops(last)
    some, lane = s.split(loop, [None, vector])
    s.unroll(lane)
    for buffer in s.program.inputs:
        copy = s.cache_read(last, buffer.name, "local")
        s.vectorize(s.compute_at(copy, some)[-1])
    s.vectorize(s.reverse_compute_at(written, some)[-1])
    yield "Vectors", "A thread reads and writes 16 bytes at a time: fewer requests for as much."
    number = s.fuse(*outer, some) if outer else some
    block, thread = s.split(number, [None, THREADS])
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    yield "Threads", "Neighbouring threads have neighbouring vectors."


def transpose_add(s: Schedule, target: Target) -> Steps:
    """Schedule C[i, j] = A[j, i] + B[i, j]."""
    i, j = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, TILE * WARP // THREADS, THREADS // WARP])
    j_0, j_1 = s.split(j, [None, TILE])
    s.reorder(i_0, j_0, i_2, j_1, i_1)
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    s.bind(i_2, "threadIdx.y")
    s.bind(j_1, "threadIdx.x")
    s.unroll(i_1)
    yield (
        "Tiles",
        f"A block has a tile of {TILE} x {TILE}; the threads of a warp are neighbours in a row of "
        "B and of C, so what they read and write is a whole line.",
    )
    tile = s.cache_read("C", "A", "shared")
    column, row = s.compute_at(tile, j_0)
    some, down = s.split(column, [None, THREADS // WARP])
    s.reorder(down, row, some)
    s.bind(down, "threadIdx.y")
    s.bind(row, "threadIdx.x")
    s.unroll(some)
    yield (
        "Shared memory",
        "Down the columns of A they would read as many lines. The tile of A is read by rows too, "
        "and turned around in shared memory.",
    )
    s.storage_align(tile, 0, 32, 1)
    yield (
        "Banks",
        "The elements of a column of the tile would all be in one bank of shared memory. Rows of "
        "one element more put them into different ones.",
    )
