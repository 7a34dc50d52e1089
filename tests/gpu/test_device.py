"""Kernels on a GPU. Without one, or without nvcc, all of this is skipped."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import cuda_of, find_nvcc, to_device
from tests.run.cuda.test_built import product, summed

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def cuda():
    """The GPU."""
    try:
        found = cuda_of(find_nvcc().library)
        assert found.count > 0
        return found
    except mt.MinitensorError as failure:
        pytest.skip(failure.message)


@pytest.fixture(scope="module")
def add():
    return mt.build(summed(), "cuda")


A = np.arange(1024, dtype=np.float32)
B = np.full(1024, 3, np.float32)


def test_the_target_is_the_gpu_of_this_machine(cuda, add):
    assert mt.codegen.DEVICES[add.target.device].capability <= cuda.capability


def test_numpy_arrays(add):
    assert np.array_equal(add(A, B), A + B)
    given = np.empty_like(A)
    assert add(A, B, given) is given and np.array_equal(given, A + B)


def test_arrays_on_the_gpu(add):
    result = add(to_device(A), to_device(B))
    assert np.array_equal(result.numpy(), A + B)
    assert np.array_equal(add(result, to_device(B)).numpy(), A + 2 * B)


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_a_product_is_that_of_numpy(tile):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (512, 512)).astype(np.float32) for _ in range(2))
    assert np.array_equal(mt.build(product(tile, 8), "cuda")(a, b), a @ b)


def test_constants(add):
    assert np.array_equal(add.bind(A=A)(B), A + B)


def test_time(add):
    timing = add.time(A, B, repeat=3, min_repeat_ms=2)
    assert 0 < timing.median < 1e-3


def test_torch(add):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    a, b = torch.from_numpy(A).cuda(), torch.from_numpy(B).cuda()
    d = torch.empty_like(a)
    assert add(a, b, d) is d and torch.equal(d, a + b)
    assert torch.equal(torch.as_tensor(add(a, b), device="cuda"), a + b)
    with pytest.raises(mt.ArgumentError, match="expected A of dtype float32"):
        add(a.double(), b)
    with pytest.raises(mt.ArgumentError, match="that is C-contiguous"):
        add(torch.stack([a, a], 1)[:, 0], b)
    with pytest.raises(mt.ArgumentError, match="in the memory of the GPU, as A is"):
        add(a, b.cpu())


def test_cupy(add):
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a, b = cupy.asarray(A), cupy.asarray(B)
        result = add(a, b)
        assert result.stream == stream.ptr
        assert np.array_equal(result.numpy(), A + B)


def test_an_index_out_of_bounds_is_an_error_and_no_crash():
    X, P = mt.placeholder((64,), name="X"), mt.placeholder((64,), "int32", name="P")
    s = mt.Schedule(mt.lower([X, P, mt.compute((64,), lambda i: X[P[i]], name="Y")], name="take"))
    s.bind("i", "threadIdx.x")
    kernel = mt.build(s, "cuda")
    x, places = A[:64].copy(), np.arange(64, dtype=np.int32)[::-1].copy()
    assert np.array_equal(kernel(x, places), x[::-1])
    places[7] = 64
    with pytest.raises(mt.VerifyError, match="take: "):
        kernel(x, places)
    places[7] = 0
    assert kernel(x, places)[7] == x[0]
