"""Compilation by nvcc, and the errors where it fails. No test needs a GPU."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.codegen.emit import cuda_names
from minitensor.runtime.cuda import nvcc
from minitensor.runtime.cuda.build import load_cuda
from minitensor.runtime.cuda.resources import Resources
from tests.run.cuda.conftest import ADD, emit

SPILLING = """
#include "device.h"

extern "C" __global__ void __launch_bounds__(1024) add_kernel(
    const float *A, const float *B, float *D) {
    __shared__ float kept[64];
    float own[60];
    for (int i = 0; i < 60; ++i) own[i] = A[i * threadIdx.x];
    for (int i = 0; i < 60; ++i) D[i] = own[i] + own[(int)B[i]];
    kept[threadIdx.x] = own[(int)B[0]];
    __syncthreads();
    D[threadIdx.x] = kept[63 - threadIdx.x];
}

extern "C" int add_launch(
    const float *A, const float *B, float *D, unsigned char *workspace, void *stream) {
    return launch(add_kernel, dim3(1, 1, 1), dim3(64, 1, 1), 0, stream, A, B, D);
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_nvcc_of_this_machine(installed):
    assert installed.release >= nvcc.OLDEST and 80 in installed.architectures
    assert re.search(r"libcudart\.so\.\d+", installed.library)
    assert nvcc.find_nvcc() is installed


@pytest.mark.slow
@pytest.mark.parametrize("device", ["a100", "h100"])
def test_ptx_and_resources_without_a_gpu(faked, device):
    kernel = load_cuda(emit(target=Target("cuda", 1, 0, device)))
    capability = {"a100": 80, "h100": 90}[device]
    assert f".target sm_{capability}" in kernel.ptx and ".entry add_kernel" in kernel.ptx
    assert kernel.assembly() == kernel.ptx
    taken = kernel.resources["add_kernel"]
    assert 0 < taken.registers <= 64
    constant = taken.constant
    assert taken == Resources(taken.registers, 0, 0, 0, constant)
    assert f"-gencode=arch=compute_{capability},code=[sm_{capability},compute_{capability}]" in (
        kernel.command
    )


@pytest.mark.slow
def test_what_does_not_fit_in_registers_is_counted(faked):
    kernel = load_cuda(emit(SPILLING))
    taken = kernel.resources["add_kernel"]
    assert taken.registers == 64  # of 1,024 threads, as the text says
    assert taken.spills > 0 and taken.stack > 240 and taken.shared == 256
    assert f"64 registers, {taken.spills} bytes spilled, {taken.stack} of stack" in str(taken)


@pytest.mark.slow
def test_a_kernel_is_compiled_once(faked, folder, monkeypatch):
    first = load_cuda(emit())
    monkeypatch.setenv("PATH", "")  # a compiler that runs would need it
    again = load_cuda(emit())
    assert again.resources == first.resources and again.command == first.command
    (entry,) = folder.glob("kernel-*.cu")
    assert entry.read_text() == ADD


@pytest.mark.slow
def test_a_damaged_entry_is_compiled_again(faked, folder):
    load_cuda(emit())
    (entry,) = folder.glob("kernel-*.cu")
    entry.write_text(ADD.replace("+ B[i]", "- B[i]"))
    load_cuda(emit())
    assert entry.read_text() == ADD


@pytest.mark.slow
def test_another_device_h_is_another_kernel(faked, folder, monkeypatch):
    load_cuda(emit())
    monkeypatch.setattr(nvcc, "_header", lambda: "another")
    load_cuda(emit())
    assert len(list(folder.glob("kernel-*.so"))) == 2


def test_a_text_that_does_not_compile(faked):
    with pytest.raises(mt.CompileError) as caught:
        load_cuda(emit(ADD.replace("A[i] + B[i]", "nonsense")))
    assert re.search(
        r'nvcc failed with status \d+: kernel.cu\(7\): error: identifier "nonsense" is undefined; '
        "check NVCC and NVCC_CCBIN, and report it if they are not the reason",
        caught.value.message,
    )
    assert caught.value.command[0] == nvcc.find_nvcc().path


def test_a_text_that_takes_too_long(faked):
    with pytest.raises(mt.CompileError, match=r"did not end within 0.1 s and was stopped"):
        load_cuda(emit(ADD + "// anew\n"), time_limit=0.1)


@pytest.mark.slow
def test_without_a_driver_a_kernel_is_built_and_a_call_says_why_it_does_not_run(installed):
    kernel = load_cuda(emit())
    try:
        pytest.skip(f"this machine has {kernel._cuda.count} GPUs")
    except mt.VerifyError as failure:
        expected = failure.message.removeprefix("CUDA: ")
    assert "cuda-emulator" in expected
    with pytest.raises(mt.VerifyError) as caught:
        kernel(np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32))
    assert expected in caught.value.message and caught.value.kind == "device"


@pytest.mark.slow
def test_the_nvcc_of_python_packages_or_any_other_by_name(installed, folder, monkeypatch):
    monkeypatch.setenv("NVCC", installed.path)
    assert nvcc.probe_nvcc().library == installed.library


def test_a_host_compiler_that_nvcc_refuses(installed, folder, tmp_path, monkeypatch):
    new = tmp_path / "g++"
    new.write_text('#!/bin/sh\nexec g++ -U__GNUC__ -D__GNUC__=99 -w "$@"\n')
    new.chmod(0o755)
    monkeypatch.setenv("NVCC_CCBIN", str(new))
    with pytest.raises(mt.CompileError) as caught:
        nvcc.probe_nvcc()
    assert "unsupported GNU version" in caught.value.message
    assert caught.value.message.endswith(nvcc.HOST_ADVICE)


def test_a_host_compiler_that_is_not_there(installed, folder, monkeypatch):
    monkeypatch.setenv("NVCC_CCBIN", "g++-77")
    with pytest.raises(mt.CompileError, match=r"NVCC_CCBIN='g\+\+-77': no such program is found"):
        nvcc.find_nvcc()


def test_no_macro_is_a_name_in_a_text(installed, tmp_path):
    """Macros of the headers that nvcc includes, but for those that look like calls."""
    text = tmp_path / "text.cu"
    text.write_text('#include "device.h"\n')
    folder = Path(cuda_names.__file__).parents[2] / "runtime" / "cuda"
    words = [installed.path, "-std=c++17", f"-I{folder}", "-E", "-Xcompiler", "-dM", str(text)]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    macros = re.findall(r"^#define ([A-Za-z]\w*) ", listed, re.MULTILINE)
    assert len(macros) > 100
    assert [name for name in macros if cuda_names.CudaNames().fresh(name) == name] == []
