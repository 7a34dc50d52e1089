"""The emulator's kernels are those of texts.py, compiled once; with g++ missing, what needs it is
skipped. Others are built from CUDA written by hand, with nvcc: unless a test asks
for the true runtime, they are linked to one whose memory is the host's (fake_runtime.c).
"""

import ctypes
import dataclasses
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from minitensor.codegen import Emitted, KernelShape, Target
from minitensor.errors import CompileError
from minitensor.ir import Buffer, DType
from minitensor.runtime import find_toolchain, load_emulated
from minitensor.runtime.cuda import arrays, build, device, nvcc, target
from tests.run.cuda.texts import CORRECT, together

FAKE = Path(__file__).with_name("fake_runtime.c")

ADD = """
#include "device.h"

extern "C" __global__ void __launch_bounds__(4) add_kernel(
    const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ D) {
    const int i = blockIdx.x * 4 + threadIdx.x;
    D[i] = A[i] + B[i];
}

extern "C" int add_launch(
    const float *A, const float *B, float *D, unsigned char *workspace, void *stream) {
    int error = launch(add_kernel, dim3(2, 1, 1), dim3(4, 1, 1), 0, stream, A, B, D);
    return error;
}
"""
TWICE = (
    ADD.replace("add_", "twice_")
    .replace("const float *__restrict__ B, ", "")
    .replace("const float *B, ", "")
    .replace(" A, B, D)", " A, D)")
    .replace("A[i] + B[i]", "2 * A[i]")
)


def emit(source=ADD, name="add", names="ABD", shape=(2, 4), dtype="float32", **facts):
    """An Emitted of CUDA, by default of a kernel that adds two arrays."""
    params = tuple(Buffer(letter, shape, DType.of(dtype)) for letter in names)
    gpu = facts.pop("target", Target("cuda", 1, 0, "h100"))
    shapes = (KernelShape(f"{name}_kernel", (2, 1, 1), (4, 1, 1)),)
    made = {"checks": (), "workspace": 0, "target": gpu, "name": name, "kernels": shapes}
    return Emitted(source, f"{name}_launch", params, frozenset("D"), **made | facts)


@pytest.fixture(scope="session")
def installed():
    """The nvcc of the machine; tests that need it are skipped where there is none."""
    try:
        return nvcc.find_nvcc()
    except CompileError as failure:
        pytest.skip(failure.message)


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory):
    """The path of the runtime for tests."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc, which the runtime for tests is compiled with")
    path = tmp_path_factory.mktemp("fake") / "libfake_runtime.so"
    words = [gcc, "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{path.name}", "-o", path, FAKE]
    subprocess.run(words, check=True)
    return str(path)


@pytest.fixture
def cuda(fake_library):
    """The runtime for tests, as it is at first; `cuda.state` has its variables."""
    made = device.Cuda(fake_library)
    made.state = State(fake_library)
    yield made
    made.state.reset()


class State:
    """The variables of the runtime for tests."""

    def __init__(self, library):
        self.__dict__["library"] = ctypes.CDLL(library)
        self.__dict__["types"] = {
            **dict.fromkeys(("devices", "current", "driver", "capability"), ctypes.c_int),
            **dict.fromkeys(("planned", "late"), ctypes.c_int),
            **dict.fromkeys(("room", "live", "copied", "launches", "waited"), ctypes.c_int64),
            **dict.fromkeys(("stream", "shared"), ctypes.c_int64),
            **dict.fromkeys(("grid", "block"), ctypes.c_int * 3),
            "waits": ctypes.c_int64 * 8,
        }

    def __getattr__(self, name):
        found = self.types[name].in_dll(self.library, f"fake_{name}")
        return found.value if hasattr(found, "value") else list(found)

    def __setattr__(self, name, value):
        self.types[name].in_dll(self.library, f"fake_{name}").value = value

    def reset(self):
        self.devices, self.current, self.driver, self.capability = 1, 0, 13000, 90
        self.planned, self.late, self.room, self.copied, self.launches = 0, 0, 1 << 30, 0, 0
        self.waited = 0

    def move(self, address, where):
        """Pretend that the memory at an address is another GPU's."""
        self.library.fake_belongs(ctypes.c_void_p(address), where)


@pytest.fixture
def faked(installed, fake_library, cuda, monkeypatch):
    """Kernels that are loaded are linked to the runtime for tests, which is returned."""
    found = dataclasses.replace(installed, library=fake_library)
    for module in (arrays, build, target):
        monkeypatch.setattr(module, "find_nvcc", lambda: found)
        monkeypatch.setattr(module, "cuda_of", lambda library: cuda)
    return cuda


@pytest.fixture(scope="session")
def loaded():
    """Loads the kernels of texts that are compiled together, by name."""

    def load(texts, **how):
        emitted = together(texts)
        try:
            made = load_emulated(list(emitted.values()), find_toolchain(), **how)
        except CompileError as failure:
            if "compiles no C++" in failure.message:
                pytest.skip(failure.message)
            raise
        return dict(zip(emitted, made))

    return load


@pytest.fixture(scope="session")
def plain(loaded):
    return loaded(CORRECT)


@pytest.fixture(scope="session")
def checked(loaded):
    return loaded(CORRECT, check=True)


def random(kernel, seed=0):
    """Arrays of small integers for the inputs of a kernel."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in kernel.params:
        if buffer.name in kernel.emitted.outputs:
            continue
        values = rng.integers(0, 9, buffer.shape)
        if buffer.dtype == "bfloat16":
            bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            arrays.append(bits)
        else:
            arrays.append(values.astype(str(buffer.dtype)))
    return arrays
