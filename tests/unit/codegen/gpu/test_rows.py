"""Kernels of several rows, and of one block: where their temporaries are."""

import minitensor as mt
from minitensor.codegen.gpu.kernels import kernel_of, kernels_in
from tests.unit.codegen.passes.test_map_threads import allocated, mapped


def test_a_grid_of_one_block_is_a_kernel():
    A = mt.placeholder((3,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((3,), lambda i: A[i] * 2, name="C")]))
    block, thread = s.split("i", [1, 3])
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    copy = s.cache_read("C", "A", "shared")
    (loop,) = s.compute_at(copy, block)
    s.bind(loop, "threadIdx.x")
    program = mapped(s)
    (kernel,) = map(kernel_of, kernels_in(program.body))
    assert (kernel.grid, kernel.block) == ((1, 1, 1), (3, 1, 1))
    assert allocated(program)["A_shared"][0] == "shared"


def test_what_a_row_of_threads_shares_is_not_what_the_next_row_shares():
    """T lives in a loop over threads; those along the other index read what others wrote."""
    A = mt.placeholder((6, 4), name="A")
    T = mt.compute((6, 4), lambda i, j: A[i, j] + 1, name="T")
    s = mt.Schedule(mt.lower([A, mt.compute((6, 4), lambda i, j: T[i, 3 - j] * 2, name="C")]))
    row, column = s.get_loops("C")
    block, own = s.split(row, [None, 4])
    s.bind(block, "blockIdx.x")
    s.bind(own, "threadIdx.y")
    s.bind(column, "threadIdx.x")
    s.bind(s.compute_at("T", own)[-1], "threadIdx.x")
    assert allocated(mapped(s))["T"] == ("shared", (4, 4))
