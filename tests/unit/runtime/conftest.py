"""Every test has a cache folder of its own, and none of the developer's variables."""

import pytest

from minitensor.codegen import Target
from minitensor.ir import (
    INDEX,
    Binary,
    Block,
    Buffer,
    DType,
    For,
    Iter,
    IterKind,
    Load,
    Program,
    Seq,
    Store,
    Var,
    verify,
)
from minitensor.runtime import InterpreterKernel


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(folder))
    for variable in ("CC", "CFLAGS", "OMP_NUM_THREADS", "NVCC", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def elementwise(name, shape, outputs):
    """A program whose parameters are A, B and the outputs, each output computed elementwise.

    outputs  (name, function of the loads of A and B) pairs
    """

    def make(dtype):
        dtype = DType.of(dtype)
        params = tuple(Buffer(n, shape, dtype) for n in ("A", "B", *(n for n, _ in outputs)))
        nests = []
        for output, value in outputs:
            axes = [f"{output}_{n}" for n in range(len(shape))]
            index = tuple(Var(f"v{axis}", INDEX) for axis in axes)
            loads = [Load(n, index, dtype) for n in ("A", "B")]
            iters = tuple(
                Iter(f"v{axis}", extent, IterKind.SPATIAL, Var(axis, INDEX))
                for axis, extent in zip(axes, shape)
            )
            nest = Block(output, iters, Store(output, index, value(*loads)))
            for axis, extent in reversed(list(zip(axes, shape))):
                nest = For(axis, extent, nest)
            nests.append(nest)
        return Program(name, params, (), nests[0] if len(nests) == 1 else Seq(tuple(nests)))

    return make


@pytest.fixture
def adder():
    """Makes an interpreter kernel D = A + B of a given shape and dtype."""

    def make(shape=(2, 3), dtype="float32"):
        program = elementwise("add", shape, [("D", lambda a, b: Binary("+", a, b))])(dtype)
        verify(program)
        return InterpreterKernel(program, Target("interpreter", 1, 0))

    return make


@pytest.fixture
def two_outputs():
    """An interpreter kernel D = A + B, E = A - B on float32 of shape (4,)."""
    program = elementwise(
        "both",
        (4,),
        [("D", lambda a, b: Binary("+", a, b)), ("E", lambda a, b: Binary("-", a, b))],
    )("float32")
    verify(program)
    return InterpreterKernel(program, Target("interpreter", 1, 0))
