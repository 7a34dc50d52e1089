"""Errors of the CUDA runtime as sentences, and the names of GPUs."""

import pytest

from minitensor.errors import CompileError, ExecutionError
from minitensor.runtime.cuda import failures
from minitensor.runtime.cuda.device import Cuda
from minitensor.runtime.cuda.target import nearest_device


@pytest.mark.parametrize("error", failures._SENTENCES)
def test_each_error_is_a_sentence_with_a_remedy(error):
    found = failures.failure_of(error, "cudaErrorX", "text", "matmul", "the driver knows CUDA 12.4")
    assert isinstance(found, ExecutionError)
    assert found.kind == ("memory" if error == 2 else "device")
    assert found.message.startswith("matmul: ") and f"(CUDA error {error}, cudaErrorX); " in str(
        found
    )
    assert "{" not in found.message
    assert ("start Python anew" in found.message) == (error in failures._LATE)


def test_an_error_without_a_sentence_is_what_the_runtime_says():
    found = failures.failure_of(77, "cudaErrorY", "some\ntext", "CUDA", "")
    assert found.message == (
        "CUDA: the CUDA runtime says 'some text' (CUDA error 77, cudaErrorY); "
        "see NVIDIA's CUDA Runtime API"
    )


def test_no_driver_names_the_versions_and_what_works_without():
    found = failures.failure_of(35, "n", "t", "add", "the driver knows CUDA 12.4, and this runtime")
    assert "missing, or too old: the driver knows CUDA 12.4, and this" in found.message
    assert 'target="cuda-emulator" runs kernels on the CPU' in found.message


def test_a_runtime_that_does_not_load(tmp_path):
    (tmp_path / "libcudart.so.13").write_text("none")
    with pytest.raises(CompileError, match=r"cannot load the CUDA runtime .*; install it again"):
        Cuda(str(tmp_path / "libcudart.so.13"))


@pytest.mark.parametrize(
    ("name", "capability", "device"),
    [
        ("NVIDIA H100 80GB HBM3", 90, "h100"),
        ("NVIDIA H200", 90, "h200"),
        ("NVIDIA GH200 480GB", 90, "h200"),
        ("NVIDIA A100-SXM4-40GB", 80, "a100"),
        ("NVIDIA GeForce RTX 4090", 89, "rtx4090"),
        ("NVIDIA L4", 89, "rtx4090"),
        ("Tesla T4", 75, "t4"),
        ("NVIDIA B200", 100, "h100"),
        ("Tesla V100-SXM2-16GB", 70, None),
    ],
)
def test_the_gpu_of_the_table_that_is_nearest(name, capability, device):
    assert nearest_device(name, capability) == device
