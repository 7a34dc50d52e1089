"""What the doctor finds, above all where there is nothing to find."""

import importlib.util

import pytest

from minitensor.runtime import diagnose

NAMES = [
    "python", "numpy", "cffi", "C compiler", "OpenMP", "vector registers", "caches", "cores",
    "cache folder", "nvcc", "rich", "matplotlib",
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
    for name in ("OpenMP", "vector registers", "nvcc", "rich", "matplotlib"):
        assert found[name].ok is None
    assert found["rich"].advice == "python -m pip install rich"
    assert "CUDA_HOME" in found["nvcc"].advice
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


@pytest.mark.parametrize("variable", ["NVCC", "CUDA_HOME", "PATH"])
def test_nvcc_is_found_by_each_way(bare, tmp_path, monkeypatch, variable):
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    value = {"NVCC": nvcc, "CUDA_HOME": tmp_path / "cuda", "PATH": nvcc.parent}[variable]
    monkeypatch.setenv(variable, str(value))
    found = findings()["nvcc"]
    assert found.ok is True and found.detail == str(nvcc)
