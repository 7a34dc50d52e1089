"""Schedules built for CUDA: what nvcc says of them, and calls where the GPU is the host."""

import re
import time

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import generate
from minitensor.runtime import CudaKernel, load_cuda_together, native_target, to_device
from minitensor.runtime.kernel import BoundKernel

TARGET = mt.Target("cuda", device="h100")
SIZE = 1024


def summed():
    """D = A + B, a kernel that the runtime for tests knows."""
    A, B = (mt.placeholder((SIZE,), name=name) for name in "AB")
    D = mt.compute((SIZE,), lambda i: A[i] + B[i], name="D")
    s = mt.Schedule(mt.lower([A, B, D], name="add"))
    block, thread = s.split("i", (None, 256))
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


def product(tile, step):
    """A matmul whose threads have tiles of their own."""
    A, B = (mt.placeholder((512, 512), name=name) for name in "AB")
    k = mt.reduce_axis(512, name="k")
    C = mt.compute((512, 512), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C], name="matmul"))
    i, j, k = s.get_loops("C")
    i0, i1, i2 = s.split(i, (None, 16, tile))
    j0, j1, j2 = s.split(j, (None, 16, tile))
    k0, k1 = s.split(k, (None, step))
    s.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    for loop, thread in ((i0, "blockIdx.y"), (j0, "blockIdx.x")):
        s.bind(loop, thread)
    for loop, thread in ((i1, "threadIdx.y"), (j1, "threadIdx.x")):
        s.bind(loop, thread)
    return s


@pytest.mark.slow
def test_a_schedule_is_built_and_called(faked):
    kernel = mt.build(summed(), TARGET)
    assert type(kernel) is CudaKernel and kernel.target == mt.Target("cuda", 1, 0, "h100")
    (shape,) = kernel.emitted.kernels
    assert shape.grid == (4, 1, 1) and shape.block == (256, 1, 1)
    assert kernel.resources[shape.name].spills == kernel.resources[shape.name].stack == 0
    a, b = np.arange(SIZE, dtype=np.float32), np.ones(SIZE, np.float32)
    assert np.array_equal(kernel(a, b), a + 1)
    assert mt.build(summed(), TARGET, check=True).source == kernel.source
    assert "4 x 1 x 1 blocks of 256 x 1 x 1 threads" in str(mt.explain(summed(), TARGET))


def backwards():
    """C, a kernel of threads that read what others wrote, from B, which is to be each thread's."""
    A = mt.placeholder((64,), name="A")
    B = mt.compute((64,), lambda i: A[i] + 1, name="B")
    C = mt.compute((64,), lambda i: B[63 - i], name="C")
    s = mt.Schedule(mt.lower([A, C], name="backwards"))
    s.bind("C_i", "threadIdx.x")
    s.set_scope("B", "local")
    s.bind("i", "threadIdx.x")
    return s


@pytest.mark.slow
def test_optimizations_that_were_missed_are_explained(installed):
    remark = "owner: B: is in device memory: several kernels use it; compute_at what writes it"
    for target in ("cuda", "cuda-emulator"):
        assert remark in str(mt.explain(backwards(), target))
        assert remark in str(mt.build(backwards(), target).explain())
        s = product(8, 16)
        s.annotate("k_0", "pipeline", 3)
        remarks = str(mt.explain(s, target))
        assert "pipeline: k_0: it stands in no kernel with shared memory" in remarks


@pytest.mark.slow
def test_a_text_is_generated_once(faked, monkeypatch):
    first = mt.build(summed(), TARGET)
    monkeypatch.setattr("minitensor.runtime.build.generate", None)
    again = mt.build(summed(), TARGET)
    assert again.emitted == first.emitted and again.resources == first.resources


@pytest.mark.slow
def test_constants_are_copied_to_the_gpu_once(faked):
    a, b = np.arange(SIZE, dtype=np.float32), np.ones(SIZE, np.float32)
    bound = mt.build(summed(), TARGET).bind(A=a)
    assert type(bound) is BoundKernel
    a[...] = 0
    faked.state.copied = 0
    expected = np.arange(SIZE, dtype=np.float32) + 1
    assert np.array_equal(bound(b), expected)
    assert faked.state.copied == 2 * b.nbytes
    on_gpu = to_device(b)
    assert np.array_equal(bound(on_gpu).numpy(), expected)
    assert bound.time(on_gpu, number=2, repeat=2).results == pytest.approx([0.0005] * 2)
    assert np.array_equal(bound.bind(B=b)(), expected)


@pytest.mark.slow
def test_barriers_of_the_text_are_those_of_the_code(faked):
    A = mt.placeholder((64, 64), name="A")
    B = mt.compute((64, 64), lambda i, j: A[j, i] + 0.0, name="B")
    s = mt.Schedule(mt.lower([A, B], name="transposed"))
    i, j = s.get_loops("B")
    i0, i1 = s.split(i, (None, 16))
    j0, j1 = s.split(j, (None, 16))
    s.reorder(i0, j0, i1, j1)
    s.bind(i0, "blockIdx.y")
    s.bind(j0, "blockIdx.x")
    copy = s.cache_read("B", "A", "shared")
    s.compute_at(copy, j0)
    rows, columns = s.get_loops(copy)[-2:]
    for loops in ((rows, columns), (i1, j1)):
        s.bind(loops[0], "threadIdx.y")
        s.bind(loops[1], "threadIdx.x")
    kernel = mt.build(s, TARGET)
    assert kernel.source.count("__syncthreads();") == 1
    assert len(re.findall(r"\bbar\.sync\b", kernel.ptx)) == 1
    assert kernel.resources["transposed_kernel"].shared == 16 * 16 * 4


@pytest.mark.slow
def test_twelve_kernels_take_less_than_a_third_of_a_second_each(faked):
    target = native_target(TARGET)
    sizes = [(tile, step) for tile in (1, 2, 4) for step in (2, 4, 8, 16)]
    texts = [generate(product(*size).program, target) for size in sizes]
    begun = time.process_time(), time.monotonic()
    kernels = load_cuda_together(texts)
    assert time.monotonic() - begun[1] < 12 * 0.3 * 3  # other tests run beside this one
    assert len(kernels) == 12 and all(k.resources["matmul_kernel"].spills == 0 for k in kernels)
    assert len({str(kernel.source) for kernel in kernels}) == 12
