"""What a real compiler is found to do."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from minitensor import errors
from minitensor.codegen import Target
from minitensor.runtime import (
    Toolchain,
    diagnose,
    find_toolchain,
    load,
    native_target,
    probe_toolchain,
    toolchain,
)
from minitensor.runtime.width import faster_width


def about_cpu():
    """The instructions that the processor has, as Linux names them."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").split() if path.exists() else []


CLANG = next((n for n in ("clang", "clang-14") if shutil.which(n)), None)


@pytest.fixture
def forget(monkeypatch):
    """As in a new process: what compilers said is known from the disk only."""

    def make():
        monkeypatch.setattr(toolchain, "_known", {})

    make()
    return make


def test_answers(cache):
    found = find_toolchain()
    assert isinstance(found, Toolchain)
    assert os.path.isabs(found.words[0])
    assert found.family in ("gcc", "clang")
    assert found.version and found.triple
    assert found.vector_bits in (0, 64, 128, 256, 512, 1024, 2048)
    assert found.num_cores >= 1
    for flag in ("-std=gnu11", "-O2", "-fwrapv", "-fno-math-errno"):
        assert flag in found.flags
    contraction = {"gcc": "-ffp-contract=fast", "clang": "-ffp-contract=on"}[found.family]
    assert contraction in found.flags


@pytest.mark.skipif("avx512f" not in about_cpu(), reason="the processor has no AVX-512")
def test_the_width_is_measured(cache, monkeypatch):
    found = find_toolchain()
    assert len(found.rates) == 2 and min(found.rates) > 0
    assert found.vector_bits == faster_width(found.rates)
    assert f"-mprefer-vector-width={found.vector_bits}" in found.flags
    monkeypatch.setenv("CFLAGS", "-march=x86-64-v3")
    found = find_toolchain()
    assert (found.vector_bits, found.vector_registers, found.rates) == (256, 16, ())


@pytest.mark.slow
def test_answers_are_kept_on_disk(cache, forget, monkeypatch):
    first = find_toolchain()
    assert len(list(cache.glob("toolchain-*.json"))) == 1
    forget()
    with monkeypatch.context() as context:
        context.setattr(subprocess, "Popen", None)
        assert find_toolchain() == first
    for record in cache.glob("toolchain-*.json"):
        record.write_text("damaged")
    forget()
    assert find_toolchain() == first


@pytest.mark.slow
def test_asking_anew_starts_the_compiler(cache, logging_compiler):
    started = logging_compiler()
    found = find_toolchain()
    before = started()
    assert before > 0
    assert find_toolchain() == found and started() == before
    assert probe_toolchain() == found and started() > before


def test_user_flags_come_last_and_count(cache, monkeypatch):
    usual = find_toolchain()
    if not usual.triple.startswith("x86_64"):
        pytest.skip("the flag is for x86-64")
    monkeypatch.setenv("CFLAGS", "-march=x86-64")
    found = find_toolchain()
    assert found.flags[-1] == "-march=x86-64"
    assert found.vector_bits == 128


def test_unknown_flag_says_that_cflags_may_be_wrong(cache, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-fno-such-flag")
    with pytest.raises(errors.CompileError, match="are CC and CFLAGS right") as caught:
        find_toolchain()
    assert "no-such-flag" in caught.value.stderr
    assert "CFLAGS='-fno-such-flag'; correct or unset them" in caught.value.message
    assert "apt install" not in str(caught.value)


@pytest.mark.slow
def test_compiler_without_openmp(cache, tmp_path, monkeypatch):
    usual = find_toolchain()
    script = tmp_path / "cc"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *-fopenmp*) echo "no omp" >&2; exit 1;; esac\n'
        f'exec {" ".join(usual.words)} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    found = find_toolchain()
    assert found.openmp == () and found.num_cores == 1
    assert "-fopenmp" not in found.flags
    assert native_target(Target("c")).num_cores == 1
    (finding,) = (f for f in diagnose() if f.name == "OpenMP")
    assert finding.ok is False and "OpenMP library" in finding.advice


def test_openmp_library_that_does_not_load_counts_as_none(cache, monkeypatch, forget):
    def refuse(*args, **kwargs):
        raise errors.CompileError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(toolchain, "load_function", refuse)
    assert probe_toolchain().openmp == ()


def test_target_of_this_machine(cache):
    found = find_toolchain()
    target = native_target(Target("c"))
    assert target == Target("c", found.num_cores, found.vector_bits)


@pytest.mark.slow
def test_doctor_finds_the_compiler(cache):
    found = {finding.name: finding for finding in diagnose()}
    assert found["C compiler"].ok is True
    assert find_toolchain().version in found["C compiler"].detail
    assert found["cache folder"].ok is True


@pytest.mark.skipif(CLANG is None, reason="clang is not installed")
def test_clang(cache, monkeypatch, emit):
    monkeypatch.setenv("CC", CLANG)
    found = find_toolchain()
    assert found.family == "clang"
    assert "-fbracket-depth=4096" in found.flags
    kernel = load(emit(), found)
    a = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(kernel(a, a), a * 2)
    assert "add:" in kernel.assembly()
    with pytest.raises(errors.CompileError, match="failed with status 1"):
        load(emit("int add( {"), found)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_compiler_with_a_wrapper(cache, tmp_path, monkeypatch, emit):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrapper} gcc")
    found = find_toolchain()
    assert found.words == (str(wrapper), "gcc")
    a = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(load(emit(), found)(a, a), a * 2)


def test_loading_kernels_leaves_tiny_numbers_alone(emit, toolchain):
    load(emit(), toolchain)
    tiny = np.array([1e-40], "float32")
    assert (tiny * np.float32(0.5))[0] != 0
