"""What memory limits: chains of elementwise operations, and a transposition."""

from __future__ import annotations

from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of

PAGE_ROWS = 64
"""Rows of the result in a tile of a transposition: whole lines of the cache of the operand that is
read down its columns are used before they are gone."""


def elementwise(s: Schedule, target: Target) -> Steps:
    """Schedule a chain of elementwise stages over one axis; its last block is the result."""
    *before, last = s.get_blocks()
    for block in before:
        s.compute_inline(block)
    yield "Fusion", "One pass over memory instead of one for each stage."
    (loop,) = s.get_loops(last)
    outer, inner = s.split(loop, [None, 4 * lanes_of(target)])
    s.vectorize(inner)
    yield "Vectors", "Four vectors at a time."
    s.parallel(outer)
    yield "Threads", "Elements are independent of each other."


def transpose_add(s: Schedule, target: Target) -> Steps:
    """Schedule C[i, j] = A[j, i] + B[i, j]."""
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, PAGE_ROWS])
    j_0, j_1 = s.split(j, [None, lanes_of(target)])
    s.reorder(i_0, j_0, i_1, j_1)
    yield (
        "Tiles",
        "A is read down its columns: each number from another line of the cache. A tile uses the "
        "lines while they are there.",
    )
    s.vectorize(j_1)
    yield "Vectors", "The lanes of A are gathered, those of B and C are side by side."
    s.parallel(i_0)
    yield "Threads", "Strips of rows are independent of each other."
