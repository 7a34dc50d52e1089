"""Native kernels: calls that work, calls that must not reach native code, threads, status, time."""

import dataclasses
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from minitensor import errors
from minitensor.codegen import Emitted, Target
from minitensor.runtime import Kernel, NativeKernel, load
from minitensor.runtime.cache import compile_library
from minitensor.runtime.module import ALIGNMENT, aligned_empty, load_function, pointer_to


def ones(shape=(2, 3), dtype="float32"):
    return np.ones(shape, dtype)


@pytest.fixture
def kernel(emit, toolchain):
    return load(emit(), toolchain)


@pytest.fixture
def entered(emit, toolchain):
    """How often native code was entered since the test began."""
    library = compile_library(emit().source, toolchain)
    count = load_function(library.path, "how_often", pointers=1)
    unused = pointer_to(np.empty(1))
    before = count(unused)
    return lambda: count(unused) - before


# ---- calls


def test_call(kernel, entered):
    a, b, d = ones(), ones() * 2, np.zeros((2, 3), "float32")
    np.testing.assert_array_equal(kernel(a, b), a + b)
    assert kernel(a, b, d) is d
    np.testing.assert_array_equal(d, a + b)
    assert entered() == 2


def test_what_a_kernel_says_of_itself(kernel, emit, toolchain):
    assert isinstance(kernel, Kernel) and isinstance(kernel, NativeKernel)
    assert kernel.name == "add"
    assert [b.name for b in kernel.params] == ["A", "B", "D"]
    assert kernel.source == emit().source
    assert kernel.target == emit().target
    assert kernel.command[: len(toolchain.words)] == list(toolchain.words)
    assert {"-O2", "-fwrapv", "-shared", "-fPIC", "-lm", "kernel.c"} <= set(kernel.command)
    assert not any("fast-math" in word for word in kernel.command)
    assert repr(kernel).startswith("<NativeKernel add(A: float32[2, 3],")


def test_assembly_is_that_of_the_source(kernel, cache):
    text = kernel.assembly()
    assert "add:" in text and "how_often:" in text and "ret" in text
    kept = [path.suffix for path in cache.iterdir() if "toolchain" not in path.name]
    assert sorted(kept) == [".c", ".json", ".so"]


def test_several_outputs(emit, toolchain):
    source = """
    int both(double *d, double *a, double *e, void *w) { *d = *a + 1; *e = *a - 1; return 0; }
    """
    kernel = load(
        emit(source, "both", names="DAE", shape=(), dtype="float64", outputs="DE"), toolchain
    )
    d, e = kernel(np.array(5.0))
    assert (d[()], e[()]) == (6.0, 4.0)
    given = np.array(0.0), np.array(0.0)
    returned = kernel(given[0], np.array(1.0), given[1])
    assert returned[0] is given[0] and returned[1] is given[1]
    assert (given[0][()], given[1][()]) == (2.0, 0.0)


def test_bfloat16_arrives_as_its_bits(emit, toolchain):
    source = """
    #include <stdint.h>
    int copy(uint16_t *a, uint16_t *d, void *w) { *d = *a; return 0; }
    """
    emitted = emit(source, "copy", names="AD", shape=(1,), dtype="bfloat16")
    result = load(emitted, toolchain)(np.array([0x3F80], "uint16"))
    assert result.dtype == np.uint16 and result[0] == 0x3F80


def test_array_without_elements_has_an_address_that_may_be_read(emit, toolchain):
    source = """
    int peek(float *a, float *d, void *w) {
        for (int i = 0; i < 16; i++) if (a[i] + d[i] != 0) return 1;
        return ((unsigned long)a | (unsigned long)d) % 64 != 0;
    }
    """
    emitted = emit(source, "peek", names="AD", shape=(3, 0), checks=("no scratch",))
    view = np.ndarray((3, 0), "float32", aligned_empty((64,), np.dtype("uint8")), offset=4)
    assert view.__array_interface__["data"][0] % ALIGNMENT == 4
    assert load(emitted, toolchain)(view).shape == (3, 0)


# ---- calls that must not reach native code

WRONG = {
    "none": (lambda d: (None, ones(), d), "expected A as an array"),
    "count": (lambda d: (ones(),), "but got 1"),
    "dtype": (lambda d: (ones(dtype="float64"), ones(), d), "expected A of dtype float32"),
    "byte order": (lambda d: (ones(dtype=">f4"), ones(), d), "the machine's byte order"),
    "shape": (lambda d: (ones(), ones((3, 3)), d), "expected B of shape"),
    "strided": (lambda d: (ones((2, 6))[:, ::2], ones(), d), "expected A that is C-contiguous"),
    "readonly": (lambda d: (ones(), ones(), locked(d)), "expected D that can be written to"),
    "unaligned": (
        lambda d: (np.zeros(25, np.uint8)[1:].view("float32").reshape(2, 3), ones(), d),
        "expected A aligned to 4 bytes",
    ),
    "overlap": (lambda d: (d, ones(), d), "expected D in memory of its own"),
}


def locked(array):
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("arguments, message", WRONG.values(), ids=WRONG)
def test_wrong_call_does_not_reach_native_code(kernel, entered, arguments, message):
    d = np.full((2, 3), 7, "float32")
    with pytest.raises(errors.ArgumentError, match=message) as caught:
        kernel(*arguments(d))
    assert str(caught.value).startswith("add: expected ")
    assert (d == 7).all()
    assert entered() == 0


def test_wrong_call_is_not_timed(kernel, entered):
    with pytest.raises(errors.ArgumentError, match="expected A"):
        kernel.time(None, ones())
    with pytest.raises(errors.ArgumentError, match="got number=0"):
        kernel.time(ones(), ones(), number=0)
    assert entered() == 0


# ---- status


def test_failed_check_is_an_execution_error(emit, toolchain):
    source = "int f(float *a, float *d, void *w) { d[0] = 1; return (int)a[0]; }"
    checks = ("A[7] is outside A", "B[3] is outside B")
    kernel = load(emit(source, "f", names="AD", shape=(1,), checks=checks), toolchain)
    assert kernel(np.zeros(1, "float32"))[0] == 1
    for status, text in enumerate(checks, start=1):
        with pytest.raises(errors.ExecutionError) as caught:
            kernel(np.array([status], "float32"))
        assert str(caught.value) == f"f: {text}"
        assert caught.value.kind == "out of bounds"
    with pytest.raises(errors.ExecutionError, match="outside A"):
        kernel.time(np.array([1], "float32"))


# ---- workspace and threads

SUM_IN_WORKSPACE = """
#include <stdint.h>
int slow_sum(double *a, double *d, void *workspace) {
    double *own = workspace;
    if ((uintptr_t)workspace % 64 != 0) return 1;
    for (int r = 0; r < 50; r++) {
        for (int i = 0; i < 4096; i++) own[i] = a[i];
        double sum = 0;
        for (int i = 0; i < 4096; i++) sum += own[i];
        *d = sum;
        if (sum != 4096 * a[0]) return 2;
    }
    return 0;
}
"""


@pytest.fixture
def summing(emit, toolchain):
    emitted = emit(
        SUM_IN_WORKSPACE,
        "slow_sum",
        names="AD",
        shape=(4096,),
        dtype="float64",
        checks=("the workspace is aligned", "the workspace is not shared"),
        workspace=4096 * 8,
    )
    return load(emitted, toolchain)


def test_threads_have_workspaces_of_their_own(summing):
    barrier = threading.Barrier(4)

    def run(value):
        barrier.wait()
        a = np.full(4096, value, "float64")
        return [summing(a)[0] for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(1, 5)))
    assert results == [[4096.0 * value] * 25 for value in range(1, 5)]


def test_workspace_is_kept_between_calls(summing):
    a = np.ones(4096)
    summing(a)
    (first,) = summing._workspaces
    summing(a)
    assert summing._workspaces == [first]


def test_call_lets_other_threads_run(emit, toolchain):
    source = """
    #include <unistd.h>
    int nap(float *d, void *w) { usleep(300000); *d = 1; return 0; }
    """
    kernel = load(emit(source, "nap", names="D", shape=()), toolchain)
    thread = threading.Thread(target=kernel)
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    assert turns > 1000


def test_openmp_uses_the_threads_it_is_told(emit, toolchain):
    if not toolchain.openmp:
        pytest.skip("this compiler has no OpenMP")
    source = """
    int count(int *d, void *w) {
        int seen = 0;
        #pragma omp parallel num_threads(3) reduction(+:seen)
        seen += 1;
        *d = seen;
        return 0;
    }
    """
    kernel = load(emit(source, "count", names="D", shape=(), dtype="int32"), toolchain)
    assert kernel()[()] == 3


# ---- time


def test_time_is_that_of_the_call(emit, toolchain):
    source = """
    #include <unistd.h>
    int nap(float *d, void *w) { usleep(2000); *d = 1; return 0; }
    """
    kernel = load(emit(source, "nap", names="D", shape=()), toolchain)
    d = np.zeros((), "float32")
    timing = kernel.time(d, number=2, repeat=3)
    assert timing.number == 2 and len(timing.results) == 3
    assert 0.002 <= timing.min <= timing.median <= timing.max < 0.5
    assert d[()] == 1


def test_time_chooses_the_number_of_calls(kernel, entered):
    timing = kernel.time(ones(), ones(), repeat=2, min_repeat_ms=2)
    assert timing.number > 10
    assert all(seconds * timing.number >= 0.002 for seconds in timing.results)
    assert entered() > 2 * timing.number


def test_call_with_small_arrays_is_cheap(kernel):
    """The promise is 5 µs over a bare call; the bound here leaves room for a busy machine."""
    a, b, d = ones(), ones(), ones()
    bare = kernel.time(a, b, d, repeat=5, min_repeat_ms=5).min
    whole = min(_seconds(lambda: kernel(a, b, d)) for _ in range(5))
    assert whole - bare < 20e-6


def _seconds(call, number=2000):
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def test_allocated_outputs_are_aligned(kernel):
    assert all(kernel(ones(), ones()).ctypes.data % ALIGNMENT == 0 for _ in range(20))


def test_library_stays_loaded_after_its_kernel(emit, toolchain):
    """Threads of an OpenMP runtime may still wait in it."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("what is loaded cannot be seen here")
    source = "int only_here(float *d, void *w) { *d = 3; return 0; }"
    assert load(emit(source, "only_here", names="D", shape=()), toolchain)()[()] == 3
    gc.collect()
    assert str(compile_library(source, toolchain).path) in maps.read_text()


def test_a_compiler_without_16_bit_floats(toolchain):
    """The error says what has them, before the compiler is asked."""
    lacking = dataclasses.replace(toolchain, float16=False)
    source = "int f(_Float16 *a, void *w) { return 0; }"
    target = Target("c", 1, 128)
    emitted = Emitted(source, "f", (), frozenset(), (), 0, target, float16=True)
    with pytest.raises(errors.CompileError, match=r"no 16-bit floats.*gcc 12"):
        load(emitted, lacking)
