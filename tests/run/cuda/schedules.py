"""Schedules for GPUs at odd sizes, through all of code generation."""

from __future__ import annotations

import minitensor as mt
from tests.unit.codegen.passes.test_map_threads import matmul


def rows(n=5, m=100, threads=32, along=1):
    """Sums of rows, which threads combine; `along` rows for a block."""
    A = mt.placeholder((n, m), name="A")
    k = mt.reduce_axis(m, name="k")
    S = mt.compute((n,), lambda i: mt.sum(A[i, k], axis=k), name="S")
    s = mt.Schedule(mt.lower([A, S], name="rows"))
    _, k = s.split("k", [None, threads])
    part = s.rfactor(k, axis=-1)
    i, last = s.get_loops("S")
    s.bind(last, "threadIdx.x")
    block, row = s.split(i, [None, along])
    s.bind(block, "blockIdx.x")
    s.bind(row, "threadIdx.y")
    s.compute_at(part, last)
    return s


def transposed(n=13, m=21, tile=8):
    """A tile of A in shared memory, read by columns."""
    A = mt.placeholder((n, m), name="A")
    B = mt.compute((m, n), lambda i, j: A[j, i], name="B")
    s = mt.Schedule(mt.lower([A, B], name="transposed"))
    i, j = s.get_loops("B")
    i_0, i_1 = s.split(i, [None, tile])
    j_0, j_1 = s.split(j, [None, tile])
    s.reorder(i_0, j_0, i_1, j_1)
    copy = s.cache_read("B", "A", "shared")
    s.compute_at(copy, j_0)
    *_, a, b = s.get_loops(copy)
    for y, x in ((i_1, j_1), (a, b)):
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    return s


def windows(n=50, width=3, threads=16):
    """Sums of neighbours, with what two blocks read in the shared memory of both."""
    A = mt.placeholder((n + width - 1,), name="A")
    k = mt.reduce_axis(width, name="k")
    B = mt.compute((n,), lambda i: mt.sum(A[i + k], axis=k), name="B")
    s = mt.Schedule(mt.lower([A, B], name="windows"))
    i = s.get_loops("B")[0]
    block, thread = s.split(i, [None, threads])
    copy = s.cache_read("B", "A", "shared")
    s.compute_at(copy, block)
    last = s.get_loops(copy)[-1]
    _, fetch = s.split(last, [None, threads])
    s.bind(fetch, "threadIdx.x")
    s.bind(thread, "threadIdx.x")
    s.bind(block, "blockIdx.x")
    return s


SCHEDULES = {
    "matmul": lambda: matmul(13, 9, 7),
    "matmul_large": lambda: matmul(40, 33, 17),
    "matmul_shares_less": lambda: matmul(19, 10, 9, shared="B"),
    "rows": rows,
    "rows_of_several_warps": lambda: rows(3, 150, 96),
    "rows_beside_each_other": lambda: rows(7, 45, 8, along=4),
    "transposed": transposed,
    "windows": windows,
}
