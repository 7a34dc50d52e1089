"""Reductions of rows and columns, and normalisations: a row is done while it is in the cache."""

from __future__ import annotations

from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of

WAYS = 4
"""Vectors of partial results: an addition takes about as many cycles as there must be of them for
the processor to start one in each."""
STREAMED = 8
"""The most lanes of a vector whose operands come from memory: where wider ones were measured (Zen
4, 512 bits), they read a stream at 31 to 37 GB/s and these at 42."""
FEWEST = 4
"""Lanes that are reduced as a vector, at least."""


def reduce_in_lanes(s: Schedule, block: str, lanes: int, most: int = 1 << 10) -> None:
    """Reduce over the last loop of a block in `WAYS` vectors, these to one, and that to half of it
    again and again, until few lanes are left, which are combined one after the other.

    All are computed right where the block's result is, for each of its rows.

    lanes  of a vector
    most   that are used of them
    """
    width = min(lanes, most)
    _, inner = s.split(s.get_loops(block)[-1], [None, WAYS * width])
    parts = [s.rfactor(inner)]
    size = lanes
    while size >= min(FEWEST, lanes):
        _, inner = s.split(s.get_loops(block)[-1], [None, size])
        parts.append(s.rfactor(inner))
        size //= 2
    row = s.get_loops(block)[-2]
    for part in reversed(parts):
        *_, step, lane = s.compute_at(part, row)
        if part != parts[0]:
            s.unroll(step)
        if part in parts[:2]:
            way, lane = s.split(lane, [None, width])
            s.unroll(way)
        s.vectorize(lane)


def row_sum(s: Schedule, target: Target) -> Steps:
    """Schedule B[i] = sum of A[i, k], or of A[i, k] x[k]: a matrix times a vector."""
    reduce_in_lanes(s, "B", lanes_of(target), STREAMED)
    yield (
        "Lanes",
        "An addition waits for the one before it. Partial sums in the lanes of several vectors do "
        "not wait for each other.",
    )
    s.parallel(s.get_loops("B")[0])
    yield "Threads", "Rows are independent of each other."


def argmax(s: Schedule, target: Target) -> Steps:
    """Schedule B[i] = the position of the maximum of A[i, k]."""
    reduce_in_lanes(s, "B", lanes_of(target))
    yield (
        "Lanes",
        "A value and its position are reduced together. Each lane has the best of every so many "
        "elements; in the end the best of these is found, the first one if several are equal.",
    )
    s.parallel(s.get_loops("B")[0])
    yield "Threads", "Rows are independent of each other."


def running_sums(s: Schedule, target: Target) -> Steps:
    """Schedule B[i, j] = B[i, j-1] + A[i, j]."""
    s.parallel(s.get_loops("B")[0])
    yield (
        "Threads",
        "Each sum waits for the one before it, so the order within a row stays; what one step "
        "leaves for the next is kept in a register. Rows are independent of each other.",
    )


def full_sum(s: Schedule, target: Target) -> Steps:
    """Schedule B = sum of A[i, j]."""
    rows = s.rfactor(s.get_loops("B")[0])
    yield "Rows", "The sum of each row becomes a partial result of its own."
    reduce_in_lanes(s, rows, lanes_of(target), STREAMED)
    yield "Lanes", "The sum of a row is computed in the lanes of several vectors."
    s.parallel(s.get_loops(rows)[0])
    yield "Threads", "Rows are independent of each other."


def column_sum(s: Schedule, target: Target) -> Steps:
    """Schedule B[j] = sum of A[k, j], or of A[k, j] x[k]: a matrix times a vector, transposed."""
    j, k = s.get_loops("B")
    columns, wide = s.program.outputs[0].shape[0], WAYS * lanes_of(target)
    groups = next((n for n in (16, 4) if columns // (n * wide) >= 2 * (target.num_cores or 1)), 1)
    strip, group, vectors, lane = s.split(j, [None, groups, WAYS, lanes_of(target)])
    k_0, k_1 = s.split(k, [None, WAYS])
    s.reorder(strip, k_0, group, k_1, vectors, lane)
    yield (
        "Strips",
        f"A strip of {groups * wide} columns reads long runs of each row, {WAYS} rows at a time: "
        "its sums stay in the L1 cache, and are read and written once for all of these.",
    )
    s.vectorize(lane)
    s.unroll(vectors)
    s.unroll(k_1)
    yield "Lanes", "Columns are side by side, so they are lanes: nothing has to be combined."
    s.parallel(strip)
    yield "Threads", "Strips are independent of each other."


def softmax(s: Schedule, target: Target) -> Steps:
    """Schedule the stages row_max, exps, row_sum and the last of a softmax, or of its logarithm."""
    lanes = lanes_of(target)
    if s.get_blocks()[-1] == "softmax":
        s.use_reciprocal("softmax", "row_sum")
        yield (
            "Reciprocal",
            "All of a row is divided by its sum: with the reciprocal that is one division and a "
            "product for each element, which rounds once more.",
        )
    *before, last = s.get_blocks()
    row, column = s.get_loops(last)
    s.vectorize(column)
    for block in reversed(before):
        s.compute_at(block, row)
    s.vectorize(s.get_loops("exps")[-1])
    yield (
        "Fusion",
        "The stages of a row follow each other while the row is in the L1 cache. The "
        "exponentials become polynomials in all lanes at once.",
    )
    for block in ("row_max", "row_sum"):
        reduce_in_lanes(s, block, lanes)
    yield "Lanes", "Maximum and sum of a row are computed in the lanes of several vectors."
    s.parallel(row)
    yield "Threads", "Rows are independent of each other."


def layer_norm(s: Schedule, target: Target) -> Steps:
    """Schedule the stages row_sum, mean, squares, scale and D of a layer normalisation."""
    lanes = lanes_of(target)
    row, column = s.get_loops("D")
    s.vectorize(column)
    for block in ("scale", "squares", "mean", "row_sum"):
        s.compute_at(block, row)
    yield "Fusion", "The stages of a row follow each other while the row is in the L1 cache."
    for block in ("row_sum", "squares"):
        reduce_in_lanes(s, block, lanes)
    yield "Lanes", "The two sums of a row are computed in the lanes of several vectors."
    s.parallel(row)
    yield "Threads", "Rows are independent of each other."
