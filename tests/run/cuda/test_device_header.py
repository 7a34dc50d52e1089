"""device.h for nvcc: the texts that the emulator runs compile, to the instructions they name."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import minitensor
from tests.run.cuda.test_emulator import CONVERSIONS
from tests.run.cuda.texts import CORRECT, together

HEADERS = Path(minitensor.__file__).parent / "runtime" / "cuda"

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is missing")


@pytest.fixture(scope="module", params=["sm_80", "sm_90"])
def kernels(request, tmp_path_factory):
    """The PTX of each kernel, by its name; and what ptxas says of registers."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "kernel.cu").write_text(next(iter(together([*CORRECT, CONVERSIONS]).values())).source)
    words = ["nvcc", f"-arch={request.param}", f"-I{HEADERS}", "-cubin", "--keep", "-Xptxas", "-v"]
    done = subprocess.run(
        [*words, "kernel.cu"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    ptx = next(folder.glob("*.ptx")).read_text()
    parts = re.split(r"\.entry (\w+)_kernel\(", ptx)
    return dict(zip(parts[1::2], parts[2::2])), done.stderr


@pytest.mark.slow
def test_tensor_cores(kernels):
    ptx, _ = kernels
    assert ptx["mma"].count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 1
    assert ptx["mma_columns"].count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 1
    for name in ("mma", "mma_columns"):
        assert ptx[name].count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 1
    assert ptx["mma"].count("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16") == 1
    assert ptx["mma_columns"].count("ldmatrix.sync.aligned.m8n8.x2.shared.b16") == 1


@pytest.mark.slow
def test_copies_vectors_and_conversions(kernels):
    ptx, _ = kernels
    assert ptx["copies"].count("cp.async.cg.shared.global") >= 2
    assert "cp.async.wait_group 1;" in ptx["copies"]
    assert "ld.global.nc.v4" in ptx["vectors"] and "st.shared.v4" in ptx["vectors"]
    for kind in ("f16.f32", "f16.f64", "bf16.f32"):
        assert f"cvt.rn.{kind}" in ptx["conversions"]
    assert "cvt.f32.f16" in ptx["conversions"]


def test_a_gpu_that_converts_no_bfloat16_rounds_its_bits(tmp_path):
    """sm_75, a T4."""
    (tmp_path / "kernel.cu").write_text(next(iter(together([CONVERSIONS]).values())).source)
    words = ["nvcc", "-arch=sm_75", f"-I{HEADERS}", "-cubin", "--keep", "kernel.cu"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    ptx = next(tmp_path.glob("*.ptx")).read_text()
    assert "bf16" not in ptx and "cvt.rn.f16.f32" in ptx


def test_threads_together(kernels):
    ptx, _ = kernels
    assert ptx["shuffles"].count("shfl.sync.bfly.b32") == 5
    assert ptx["tree"].count("bar.sync") >= 2
    assert "atom.shared.add.u32" in ptx["histogram_2"] or "red.shared" in ptx["histogram_2"]


def test_nothing_spills(kernels):
    _, said = kernels
    assert set(re.findall(r"(\d+) bytes stack frame", said)) == {"0"}
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
