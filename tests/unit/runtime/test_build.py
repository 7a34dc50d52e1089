"""What a target leaves open is filled in from the machine."""

import dataclasses
import logging
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.errors import CompileError, ExecutionError
from minitensor.runtime import (
    build,
    native_features,
    native_target,
    shown_target,
    usable_cores,
)
from minitensor.runtime.build import WITHOUT_COMPILER
from minitensor.runtime.cuda import target
from minitensor.runtime.machine import features_in
from minitensor.runtime.toolchain import Toolchain

WITH_OPENMP = Toolchain(
    words=("cc",),
    family="gcc",
    version="cc 1",
    triple="x86_64-linux-gnu",
    flags=("-O2", "-fopenmp"),
    libraries=("-lm",),
    native="",
    openmp=("-fopenmp",),
    vector_bits=256,
    vector_registers=16,
    float16=False,
)
WITHOUT_OPENMP = dataclasses.replace(WITH_OPENMP, openmp=())


@pytest.fixture
def toolchain(monkeypatch):
    def choose(found):
        monkeypatch.setattr(build, "find_toolchain", lambda: found)

    choose(WITH_OPENMP)
    return choose


def test_open_target_takes_what_the_machine_offers(toolchain):
    assert native_target(Target("c")) == Target("c", usable_cores(), 256)


def test_given_values_are_kept(toolchain):
    assert native_target(Target("c", num_cores=3)) == Target("c", 3, 256)
    assert native_target(Target("c", vector_bits=0)) == Target("c", usable_cores(), 0)


def test_complete_target_asks_no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native_target(Target("c", 2, 512)) == Target("c", 2, 512)
    assert native_target(Target("interpreter")) == Target("interpreter", 1, 0)


def test_without_a_compiler_a_common_target_is_shown(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert shown_target(Target("c", num_cores=4)) == Target("c", 4, WITHOUT_COMPILER)
    A = mt.placeholder((8,), name="A")
    program = mt.lower([A, mt.compute((8,), lambda i: A[i] + 1.0, name="B")], name="p")
    assert str(mt.explain(program)).startswith("p for 'c': 1 thread, vectors of 256 bits")


def test_without_openmp_one_core_is_used(toolchain, monkeypatch):
    toolchain(WITHOUT_OPENMP)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert native_target(Target("c")).num_cores == 1


@pytest.mark.parametrize("value, cores", [("3", 3), ("4,2", 4), (" 5 ", 5), ("007", 7)])
def test_number_of_threads_that_the_user_wants(toolchain, monkeypatch, caplog, value, cores):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert native_target(Target("c")).num_cores == cores
    assert caplog.records == []


@pytest.mark.parametrize("value", ["0", "-2", "many", "2.5", ",2", "٣", "99999", "1" * 5000])
def test_number_of_threads_without_sense_is_ignored_with_a_warning(
    toolchain, monkeypatch, caplog, value
):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with caplog.at_level(logging.WARNING, "minitensor"):
        assert native_target(Target("c")).num_cores == usable_cores()
    (record,) = caplog.records
    assert "OMP_NUM_THREADS" in record.getMessage() and "is ignored" in record.getMessage()


@pytest.mark.parametrize("value", ["", "  "])
def test_empty_number_of_threads_is_none(toolchain, monkeypatch, caplog, value):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert native_target(Target("c")).num_cores == usable_cores()
    assert caplog.records == []


def test_a_target_for_a_gpu_names_it(monkeypatch):
    monkeypatch.setattr(target, "find_nvcc", lambda: SimpleNamespace(library="libcudart.so"))
    gpu = SimpleNamespace(name="NVIDIA H200", capability=90)
    monkeypatch.setattr(target, "cuda_of", lambda library: gpu)
    assert native_target(Target("cuda")) == Target("cuda", 1, 0, "h200")
    assert native_target(Target("cuda", device="t4")) == Target("cuda", 1, 0, "t4")
    assert native_target(Target("cuda-emulator")) == Target("cuda-emulator", 1, 0, "a100")
    gpu.capability = 70
    assert native_target(Target("cuda")).device == "a100"


def test_without_nvcc_or_gpu_a_target_names_one_all_the_same(monkeypatch):
    for failure in (CompileError("no nvcc"), ExecutionError("no GPU", "device")):

        def missing(failure=failure):
            raise failure

        monkeypatch.setattr(target, "find_nvcc", missing)
        assert native_target(Target("cuda")) == Target("cuda", 1, 0, "a100")


def test_features_that_the_compiler_may_not_use_are_refused_by_name(monkeypatch):
    known = dataclasses.replace(WITH_OPENMP, features=("avx512_bf16",))
    monkeypatch.setattr(build, "find_toolchain", lambda: known)
    with pytest.raises(mt.CompileError, match="may not use amx_int8, avx512_vnni for this machine"):
        native_target(mt.Target("c", 1, 256, features=("avx512_vnni", "amx_int8", "avx512_bf16")))
    named = mt.Target("c", 1, 256, features=("avx512_bf16",))
    assert native_target(named) == named
    assert native_features(named) == native_features(mt.Target("c")) == ("avx512_bf16",)
    assert native_features(mt.Target("c", features=())) == native_features(mt.Target("cuda")) == ()


def test_features_are_those_of_the_compilers_macros():
    macros = {"__AVX512VNNI__": "1", "__AMX_INT8__": "1", "__AVX2__": "1"}
    assert features_in(macros) == ("amx_int8", "avx512_vnni")
