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
