"""The seam by which a tab of a browser compiles and loads, with a compiler of this machine."""

import subprocess

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import find_toolchain, module, process, toolchain, webassembly


def compiled(words, source, text, folder):
    """The shared library that gcc makes, for words meant for clang and wasm-ld."""
    (folder / source).write_text(text)
    ours = [w for w in words if not w.startswith(("-Wl,--ex", "-Wl,--no", "-Wl,--al", "-msimd"))]
    done = subprocess.run(["gcc", *ours], cwd=folder, capture_output=True, text=True, check=False)
    made = folder / words[words.index("-o") + 1]
    return (made.read_bytes() if made.exists() else b""), done.stderr


@pytest.fixture
def tab(tmp_path, monkeypatch):
    """As in a tab: the compiler is a function, and ctypes loads what it makes."""
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(process, "REPLACED", [])
    monkeypatch.setattr(toolchain, "REPLACED", [])
    monkeypatch.setattr(webassembly, "COMPILERS", process.REPLACED)
    monkeypatch.setattr(webassembly, "TOOLCHAINS", toolchain.REPLACED)
    monkeypatch.setattr(module, "cffi", webassembly)
    kept = module.ffi, module._finder
    for one in kept:
        one.cache_clear()
    asked = []

    def compile_text(words, source, text):
        asked.append(words)
        return compiled(words, source, text, tmp_path)

    webassembly.use(compile_text, "clang of a test")
    yield asked
    for one in kept:
        one.cache_clear()


def scheduled():
    s = mt.Schedule(mt.lower(list(mt.workloads.matmul(12, 20, 16)), name="product"))
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, 8])
    s.reorder(i, j_0, k, j_1)
    s.vectorize(j_1)
    s.parallel(i)
    return s


def test_a_kernel_is_compiled_and_loaded(tab):
    kernel = mt.build(scheduled())
    assert type(kernel).__name__ == "NativeKernel"
    assert (kernel.target.vector_bits, kernel.target.num_cores) == (128, 1)
    assert "#pragma omp" not in kernel.source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype("float32") for shape in ((12, 16), (16, 20)))
    assert np.array_equal(kernel(a, b), a @ b)
    assert kernel.time(a, b).median > 0
    assert find_toolchain().version == "clang of a test"
    assert len(tab) == 1 and "-msimd128" in tab[0]
    mt.build(scheduled())
    assert len(tab) == 1  # from the cache


def test_constants_and_prepared_calls_keep_their_arrays(tab):
    kernel = mt.build(scheduled())
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, shape).astype("float32") for shape in ((12, 16), (16, 20)))
    out = np.zeros((12, 20), "float32")
    call = kernel.prepare(a.copy(), b.copy(), out)
    bound = kernel.bind(B=b)
    del kernel
    call()
    assert np.array_equal(out, a @ b) and np.array_equal(bound(a), a @ b)


def test_what_the_compiler_says_is_told(tab, monkeypatch):
    monkeypatch.setattr(process, "REPLACED", [lambda *_: process.Finished(1, "", "k.c: error: no")])
    with pytest.raises(mt.CompileError, match=r"failed with status 1: k\.c: error: no"):
        mt.build(scheduled())


def test_a_failing_check_is_the_kernels(tab):
    A, at = mt.placeholder((8,), "float32", name="A"), mt.placeholder((4,), "int32", name="at")
    kernel = mt.build(mt.lower([A, at, mt.compute((4,), lambda i: A[at[i]], name="B")]))
    a = np.arange(8, dtype="float32")
    assert kernel(a, np.array([7, 0, 1, 2], "int32")).tolist() == [7, 0, 1, 2]
    with pytest.raises(mt.ExecutionError):
        kernel(a, np.array([8, 0, 1, 2], "int32"))
