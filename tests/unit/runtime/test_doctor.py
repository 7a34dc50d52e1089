"""What the doctor finds, above all where there is nothing to find."""

import importlib.util
from types import SimpleNamespace

import pytest

from minitensor.errors import ExecutionError
from minitensor.runtime import diagnose, doctor
from minitensor.runtime.cuda.nvcc import Nvcc

NAMES = [
    "python", "numpy", "cffi", "C compiler", "OpenMP", "vector registers", "caches", "cores",
    "cache folder", "nvcc", "GPU", "rich",
]  # fmt: skip


def findings():
    return {finding.name: finding for finding in diagnose()}


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without programs and without optional packages."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_bare_machine(bare, cache):
    found = findings()
    assert list(found) == NAMES
    compiler = found["C compiler"]
    assert compiler.ok is False
    assert compiler.detail == "no C compiler is found on PATH (tried cc, gcc, clang)"
    assert "apt install gcc" in compiler.advice
    for name in ("OpenMP", "vector registers", "nvcc", "GPU", "rich"):
        assert found[name].ok is None
    assert found["rich"].advice == "python -m pip install rich"
    assert found["nvcc"].detail.startswith("no nvcc is found (looked for in NVCC, CUDA_HOME")
    assert "only for CUDA: install one (python -m pip install" in found["nvcc"].advice
    assert "cuda-emulator" in found["GPU"].advice
    assert found["cache folder"].ok is True and str(cache) in found["cache folder"].detail


def test_whatever_is_not_there_comes_with_advice(bare, monkeypatch):
    for finding in diagnose():
        assert (finding.ok is True) == (finding.advice == ""), finding
        assert finding.detail


def test_refused_cflags_are_a_finding(bare, tmp_path, monkeypatch):
    (tmp_path / "bin" / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "cc").chmod(0o755)
    monkeypatch.setenv("CFLAGS", "-Ofast")
    found = findings()["C compiler"]
    assert found.ok is False
    assert "expected CFLAGS without -Ofast" in found.detail and "CFLAGS" in found.detail


def test_unfit_cache_folder_is_a_finding(bare, cache):
    cache.mkdir()
    cache.chmod(0o777)
    found = findings()["cache folder"]
    assert found.ok is False and "is writable by others" in found.detail and found.advice


def test_temporary_cache_folder_is_a_finding(bare, monkeypatch):
    for variable in ("MINITENSOR_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    found = findings()["cache folder"]
    assert found.ok is None and "MINITENSOR_CACHE_DIR" in found.advice


def test_nvcc_that_cannot_be_used_is_a_finding(bare, tmp_path, monkeypatch):
    path = tmp_path / "nvcc"
    path.write_text('#!/bin/sh\necho "Cuda compilation tools, release 10.2, V10.2.89"\n')
    path.chmod(0o755)
    monkeypatch.setenv("NVCC", str(path))
    found = findings()["nvcc"]
    assert found.ok is None and found.detail == (
        f"nvcc 10.2 ({path}) is too old: 11.8 or newer is needed"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "count", "ok", "detail"),
    [
        (90, 1, True, "NVIDIA H100, sm_90, 132 multiprocessors; kernels are built for 'h100'"),
        (90, 2, True, "132 multiprocessors, the first of 2; kernels are built for 'h100'"),
        (70, 1, None, "too old for minitensor (sm_75 is the first)"),
    ],
)
def test_gpu_is_a_finding(monkeypatch, capability, count, ok, detail):
    found = Nvcc("/bin/nvcc", (13, 0), "nvcc 13.0 (/bin/nvcc)", (75, 120), "/lib/libcudart.so")
    gpu = SimpleNamespace(name="NVIDIA H100", capability=capability, multiprocessors=132)
    gpu.count = count
    monkeypatch.setattr(doctor, "probe_nvcc", lambda: found)
    monkeypatch.setattr(doctor, "cuda_of", lambda library: gpu)
    finding = findings()["GPU"]
    assert finding.ok is ok and finding.detail.endswith(detail)
    assert findings()["nvcc"].detail == (
        "nvcc 13.0 (/bin/nvcc): sm_75 to sm_120; runtime /lib/libcudart.so"
    )


@pytest.mark.slow
def test_no_gpu_is_a_finding(monkeypatch):
    def none(library):
        raise ExecutionError("CUDA: there is no GPU; buy one; or two", "device")

    monkeypatch.setattr(
        doctor,
        "probe_nvcc",
        lambda: SimpleNamespace(version="nvcc", architectures=(80,), library="libcudart.so"),
    )
    monkeypatch.setattr(doctor, "cuda_of", none)
    found = findings()["GPU"]
    assert found.ok is None and found.detail == "there is no GPU"
    assert found.advice == "only for CUDA: buy one; or two"
