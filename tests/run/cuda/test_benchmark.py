"""benchmarks/gpu.py on a GPU that is the host, and on none."""

import json

import numpy as np
import pytest

import minitensor as mt
from benchmarks import gpu
from minitensor.errors import ExecutionError
from minitensor.runtime.cuda import build
from tutorials.schedules import HandSchedule

SIZE = 1024


def define():
    A, B = (mt.placeholder((SIZE,), name=name) for name in "AB")
    return mt.lower([A, B, mt.compute((SIZE,), lambda i: A[i] + B[i], name="D")], name="add")


def steps(s, target):
    block, thread = s.split("i", (None, 256))
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    yield "threads", "all of them"


def refused(s, target):
    s.bind("i", "no such thread")
    yield "none", "none"


GOOD = HandSchedule("add 1024", define, steps, (), 0, 3 * 4 * SIZE, "sum of two", {})
BAD = HandSchedule("refused", define, refused, (), 0, 1, "sum of two", {})


@pytest.fixture
def there(faked, monkeypatch):
    """The benchmark's GPU is the host, and the kind of workload is known."""
    for name in ("find_nvcc", "cuda_of"):
        monkeypatch.setattr(gpu, name, getattr(build, name))
    monkeypatch.setattr(gpu, "expect", lambda kind, x, sizes: (x[0].astype(float) + x[1], 1e-6))
    monkeypatch.setattr(gpu, "COPIED", 1 << 20)
    monkeypatch.setattr(gpu, "ROUND_SECONDS", 0.002)
    monkeypatch.setattr(gpu, "GPU_SCHEDULES", {"add": GOOD, "refused": BAD})
    monkeypatch.setattr(gpu, "_torch", lambda: None)
    return faked


@pytest.mark.slow
def test_built_checked_and_timed(there, tmp_path, capsys):
    assert gpu.main(["add", "--save", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("gpu-h100-*.json")
    report = json.loads(path.read_text())
    assert report["gpu"] == "NVIDIA H100 80GB HBM3"
    (outcome,) = report["outcomes"]
    assert outcome["ours"] == pytest.approx([0.0005] * gpu.ROUNDS) and outcome["torch"] == []
    (kernel,) = outcome["kernels"]
    assert kernel["grid"] == [4, 1, 1] and kernel["block"] == [256, 1, 1]
    assert kernel["spills"] == kernel["stack"] == 0 < kernel["registers"]
    assert "| add 1024 | 1 |" in capsys.readouterr().out


@pytest.mark.slow
def test_a_wrong_result_is_named_and_not_timed(there, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "expect", lambda kind, x, sizes: (x[0] - x[1], 1e-6))
    assert gpu.main(["add", "--json"]) == 1
    (outcome,) = json.loads(capsys.readouterr().out)["outcomes"]
    assert "where 1e-06 is allowed" in outcome["wrong"] and outcome["ours"] == []


@pytest.mark.slow
def test_one_that_cannot_be_built_leaves_the_others(there, capsys):
    assert gpu.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("refused" in line and "no such thread" in line for line in lines)
    assert any("add 1024" in line and "500.0" in line for line in lines)


def test_time_that_is_over(there, capsys):
    assert gpu.main(["add", "--limit", "-1"]) == 1
    assert "not run: -1 s were over" in capsys.readouterr().out


@pytest.mark.slow
def test_without_a_gpu_kernels_are_built_and_nothing_is_timed(there, monkeypatch, capsys):
    def none(library):
        raise ExecutionError("CUDA: there is no GPU", "device")

    monkeypatch.setattr(gpu, "cuda_of", none)
    assert gpu.main(["add", "--device", "a100"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was timed: there is no GPU" in printed and "for a100" in printed
    assert "| add 1024 | 1 | 1" in printed


def test_names_of_nothing(there, capsys):
    with pytest.raises(SystemExit):
        gpu.main(["conv-*"])
    assert "no schedule is called so; there are add, refused" in capsys.readouterr().err


def test_narrow_numbers_as_bits():
    buffer = mt.lower(
        [A := mt.placeholder((4,), "bfloat16", name="A"), mt.compute((4,), lambda i: A[i])]
    ).params[0]
    values = np.array([1.0, -2.5, 3.1415927, 1e-3], np.float32)
    bits = gpu._stored(values, buffer)
    assert bits.dtype == np.uint16
    assert gpu._loaded(bits, buffer) == pytest.approx(values, rel=2**-8)
    assert list(gpu._loaded(bits, buffer)[:2]) == [1.0, -2.5]
