"""Calls of kernels that nvcc compiled, in a runtime whose GPU is the host."""

import gc

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime.cuda.arrays import DeviceArray, copied_to, empty_on
from minitensor.runtime.cuda.build import load_cuda, load_cuda_together
from tests.run.cuda.conftest import ADD, TWICE, emit

A = np.arange(8, dtype=np.float32).reshape(2, 4)
B = np.full((2, 4), 10, np.float32)


class Lender:
    """An array of another library, on the GPU; `changes` to what its interface says."""

    def __init__(self, array, **changes):
        self.array = array
        plain = {"version": 2, "strides": None, "stream": None}
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | plain | changes


@pytest.fixture
def add(faked):
    return load_cuda(emit())


def on(faked, *arrays):
    return [copied_to(faked, array) for array in arrays]


@pytest.mark.slow
def test_numpy_arrays_are_copied_there_and_back(add, faked):
    result = add(A, B)
    assert type(result) is np.ndarray and np.array_equal(result, A + B)
    assert faked.state.launches == 1
    assert faked.state.grid == [2, 1, 1] and faked.state.block == [4, 1, 1]
    assert faked.state.copied == 3 * A.nbytes
    given = np.empty_like(A)
    assert add(A, B, given) is given and np.array_equal(given, A + B)


@pytest.mark.slow
def test_arrays_on_the_gpu_are_used_where_they_are(add, faked):
    a, b = on(faked, A, B)
    faked.state.copied = 0
    result = add(a, Lender(b))
    assert type(result) is DeviceArray and faked.state.copied == 0
    assert np.array_equal(result.numpy(), A + B)
    given = Lender(empty_on(faked, (2, 4), np.dtype("float32")))
    assert add(a, b, given) is given
    assert np.array_equal(given.array.numpy(), A + B)


@pytest.mark.slow
def test_memory_is_freed(add, faked):
    add(A, B)
    gc.collect()
    before = faked.state.live
    for _ in range(3):
        add(A, B)
    (a, b) = on(faked, A, B)
    result = add(a, b)
    assert faked.state.live == before + 3 * A.nbytes
    del a, b, result
    gc.collect()
    assert faked.state.live == before


def test_a_launch_goes_into_the_stream_that_an_array_names(add, faked):
    a, b = on(faked, A, B)
    result = add(a, Lender(b, version=3, stream=77))
    assert faked.state.stream == 77 and result.stream == 77 and faked.state.waited == 0
    assert result.__cuda_array_interface__["stream"] == 77
    result.numpy()
    assert faked.state.waits[0] == 77
    add(a, b)
    assert faked.state.stream == 0


def test_a_second_stream_is_waited_for(add, faked):
    a, b = on(faked, A, B)
    add(Lender(a, version=3, stream=77), Lender(b, version=3, stream=78))
    assert faked.state.stream == 77
    assert faked.state.waited == 1 and faked.state.waits[0] == 78


def test_dlpack(add, faked):
    class Capsules:
        """The DLPack protocol by numpy's, since memory of the stand-in runtime is the host's."""

        def __init__(self, array, kind=2):
            self.array, self.kind = array, kind

        def __dlpack_device__(self):
            return self.kind, 0

        def __dlpack__(self, stream=None):
            assert stream == 1
            return self.array.__dlpack__()

    result = add(Capsules(A), Capsules(B, 13))
    assert type(result) is DeviceArray and np.array_equal(result.numpy(), A + B)
    with pytest.raises(
        mt.ArgumentError, match=r"expected A of dtype float32, but got A.dtype=floa"
    ):
        add(Capsules(A.astype(np.float64)), Capsules(B))
    with pytest.raises(mt.ArgumentError, match=r"A that is C-contiguous, but got A.strides=\(4, 8"):
        add(Capsules(np.asfortranarray(A)), Capsules(B))


def refused(faked):
    """(arguments, message) of calls with arrays that do not fit."""
    a, b = on(faked, A, B)
    d = empty_on(faked, (2, 4), np.dtype("float32"))
    big = copied_to(faked, np.zeros(64, np.float32))
    address = big.address

    def at(place, **changes):
        return Lender(a, data=(place, False), **changes)

    yield (a,), r"add: expected 2 arrays \(A, B\), or with the outputs 3 \(A, B, D\), but got 1"
    yield (a, B), "expected B in the memory of the GPU, as A is, but got one in that of the CPU; "
    yield (a, B), r"pass minitensor.runtime.to_device\(B\), or all arrays as numpy's"
    yield (A, b, d), "expected A in the memory of the GPU, as B is"
    yield (Lender(a, typestr="<f8"), b), r"expected A of dtype float32, but got A.dtype=float64; "
    yield (Lender(a, typestr="<f8"), b), r"\(torch: A.to\(torch.float32\), cupy: A.astype"
    yield (Lender(a, typestr=">f4"), b), "expected A of dtype float32, but got A.dtype=>f4"
    yield (a, b, Lender(d, typestr="<i4")), "D.dtype=int32; pass a new array, or leave the outputs"
    yield (Lender(a, shape=(4, 2)), b), r"of shape \(2, 4\), but got A.shape=\(4, 2\); pass a cont"
    yield (Lender(a, shape=(8,)), b), "a kernel is built for one shape; build another for this one"
    yield (Lender(a, strides=(4, 8)), b), r"expected A that is C-contiguous, but got A.strides=\(4,"
    yield (Lender(a, strides=(4, 8)), b), r"torch: A.contiguous\(\), cupy: cupy.ascontiguousarray"
    yield (a, b, Lender(d, data=(d.address, True))), "D that can be written to, but got a read-only"
    yield (at(address + 2), b), "expected A aligned to 4 bytes, but got an address of 0x"
    yield (a, b, a), "expected D in memory of its own, but got one that overlaps A"
    yield (at(address), b, at(address + 16)), "one that overlaps A"
    yield (at(4096), b), "A in the memory of a GPU, but got an address of 0x1000, which no GPU has"
    yield (Lender(a, mask=b), b), "expected A that lends its memory, but got A=.*: it has a mask"
    yield (Lender(a, stream=0), b), "its stream is 0, which has no meaning there"
    yield (Lender(a, strides=(4,)), b), "it has 1 strides for 2 axes"
    yield (Lender(a, typestr="nonsense"), b), "expected A that lends its memory"


def test_what_does_not_fit_is_refused_before_anything_runs(add, faked):
    for arguments, message in refused(faked):
        with pytest.raises(mt.ArgumentError, match=message):
            add(*arguments)
    assert faked.state.launches == 0


def test_an_array_of_another_gpu(add, faked):
    a, b = on(faked, A, B)
    faked.state.move(b.address, 1)
    message = r"expected B on GPU 0, where kernels run, but got one on GPU 1; pass a copy there \(t"
    with pytest.raises(mt.ArgumentError, match=message):
        add(a, Lender(b))


def test_wide_loads_need_aligned_arrays(faked):
    add = load_cuda(emit(aligned=frozenset("A")))
    big = copied_to(faked, np.zeros(64, np.float32))
    apart = Lender(copied_to(faked, A), data=(big.address + 4, False))
    with pytest.raises(
        mt.ArgumentError, match="expected A aligned to 16 bytes, but got an address"
    ):
        add(apart, Lender(copied_to(faked, B)))
    assert add(copied_to(faked, A), apart).shape == (2, 4)
    rows = np.zeros(9, np.float32)[1:].reshape(2, 4)
    assert np.array_equal(add(rows, B), B)  # a numpy array is copied, so it may be anywhere


def test_an_array_that_fails_says_why(add, faked):
    class Failing:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("it requires grad; use detach()")

    with pytest.raises(
        mt.ArgumentError, match=r"that lends its memory, .*: it requires grad; use d"
    ):
        add(Failing(), copied_to(faked, B))


@pytest.mark.slow
def test_bfloat16_by_its_bits_or_its_name(faked):
    source = TWICE.replace("float", "uint16_t")
    kernel = load_cuda(emit(source, "twice", "AD", dtype="bfloat16"))
    bits = copied_to(faked, np.zeros((2, 4), np.uint16))
    packed = Lender(bits, typestr="<V2")
    for given in (bits, packed):
        arrays, _ = kernel._signature.accept((given,))
        assert [array.dtype for array in arrays] == [np.uint16, np.uint16]
    with pytest.raises(
        mt.ArgumentError, match=r"expected A of dtype bfloat16, but got A.dtype=int16"
    ):
        kernel(Lender(bits, typestr="<i2"))


@pytest.mark.slow
def test_several_kernels_in_one_run(faked, monkeypatch, tmp_path):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    add, twice, more = load_cuda_together([emit(), emit(TWICE, "twice", "AD"), emit()])
    assert len(list((tmp_path / "cache").glob("kernel-*.so"))) == 1
    assert np.array_equal(add(A, B), A + B) and np.array_equal(twice(A), 2 * A)
    assert np.array_equal(more(A, A), 2 * A)
    assert list(add.resources) == ["add_kernel"] and list(twice.resources) == ["twice_kernel"]
    assert "add_kernel" in add.ptx and add.command[0] == twice.command[0]


@pytest.mark.slow
def test_several_kernels_of_one_text(faked):
    both = ADD + TWICE.replace('#include "device.h"', "")
    emitted = emit(both), emit(both, "twice", "AD")
    add, twice = load_cuda_together(emitted)
    assert np.array_equal(add(A, B), A + B) and np.array_equal(twice(A), 2 * A)
    assert list(twice.resources) == ["twice_kernel"] and twice.source == add.source


def test_a_prepared_call_and_its_time(add, faked):
    a, b = on(faked, A, B)
    d = empty_on(faked, (2, 4), np.dtype("float32"))
    call = add.prepare(a, b, d)
    assert faked.state.launches == 1
    faked.copy(a.address, B.ctypes.data, B.nbytes)
    assert call() == 0 and np.array_equal(d.numpy(), 2 * B)
    for arrays in ((a, b), (A, B)):
        timing = add.time(*arrays, number=3, repeat=4)
        assert timing.number == 3 and timing.results == pytest.approx([0.0005] * 4)


def test_errors_are_sentences(add, faked):
    faked.state.planned = 701
    with pytest.raises(mt.VerifyError, match=r"^add: a block needs more registers or shared mem"):
        add(A, B)
    faked.state.late = 700
    with pytest.raises(
        mt.VerifyError, match=r"^add: a kernel accessed memory that is not .* start Py"
    ):
        add(A, B)
    faked.state.room = 0
    with pytest.raises(mt.VerifyError) as caught:
        add(A, B)
    assert "add: there is not enough memory left on the GPU: 32 bytes are needed" in str(
        caught.value
    )
    assert caught.value.kind == "memory"
    faked.state.driver = 0
    with pytest.raises(
        mt.VerifyError, match="the driver of NVIDIA is missing, or too old: there is"
    ):
        add(A, B)
    assert np.array_equal(faked.state.launches, 1)


def test_the_first_gpu_is_used_whatever_is_current(add, faked):
    faked.state.devices, faked.state.current = 2, 1
    assert np.array_equal(add(A, B), A + B)
    assert faked.state.current == 1


def test_constants_lie_on_the_gpu(add, faked):
    assert type(add._constant(A)) is DeviceArray
    arrays, _ = add._signature.accept((A, B))
    arrays[0] = add._constant(A)
    faked.state.copied = 0
    assert add._run(arrays) == 0
    assert faked.state.copied == 2 * A.nbytes and np.array_equal(arrays[2], A + B)


def test_explained(add):
    assert str(add.explain()).splitlines() == [
        "add for h100:",
        f"    add_kernel: 2 x 1 x 1 blocks of 4 x 1 x 1 threads; {add.resources['add_kernel']}",
    ]
