"""The schedules for GPUs: right in the interpreter, after each pass, in the emulator; compiled."""

import shutil

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import generate_together
from minitensor.codegen.pipeline import passes_of
from minitensor.codegen.remarks import recording
from minitensor.ir import interpret
from minitensor.runtime import find_toolchain, load_cuda_together, load_emulated, native_target
from minitensor.testing import assert_equivalent
from tests.parts import some
from tests.run.tutorials.test_schedules import column_sums, log_softmax, matvec, product
from tutorials.schedules import (
    GPU_SCHEDULES,
    attention,
    gpu,
    gpu_attention,
    gpu_conv,
    gpu_matmul,
    gpu_rows,
    gpu_tensor_cores,
    scheduled,
)
from tutorials.schedules.gpu_registry import OF_OPERATORS

TARGET = native_target(mt.Target("cuda", device="a100"))
W = mt.workloads
SQUARES = gpu_matmul.Tiles(8, 8, 4, 2, 2, 2)
PIECES = gpu_conv.Tiles((2, 2), (2, 2), 4, 2)


def tiled(s, target):
    return gpu_matmul.tiled(s, SQUARES)


def pieces(s, target):
    return gpu_conv.tiled(s, PIECES)


def of_channels(s, target):
    return gpu_conv.of_channels(s, PIECES)


def separate(s, target):
    return gpu_attention.separate(s, SQUARES, SQUARES)


def rms_norm(m, n):
    A, gamma = mt.placeholder((m, n), name="A"), mt.placeholder((n,), name="gamma")
    k = mt.reduce_axis(n, name="k")
    squares = mt.compute((m,), lambda i: mt.sum(A[i, k] * A[i, k], axis=k), name="squares")
    scale = mt.compute((m,), lambda i: mt.rsqrt(squares[i] / n + 1e-5), name="scale")
    D = mt.compute((m, n), lambda i, j: A[i, j] * scale[i] * gamma[j], name="D")
    return [A, gamma, D]


CASES = {
    "matmul": (tiled, lambda: W.matmul(m=19, n=21, k=7)),
    "matmul, whole tiles": (tiled, lambda: W.matmul(m=16, n=16, k=8)),
    "matmul, small": (tiled, lambda: W.matmul(m=3, n=5, k=2)),
    "dense": (tiled, lambda: W.matmul_bias_relu(m=17, n=9, k=5)),
    "batch": (tiled, lambda: W.batch_matmul(b=2, m=9, n=11, k=6)),
    "matmul, A^T": (tiled, lambda: product(9, 11, 6, "A")),
    "matmul, B^T": (tiled, lambda: product(9, 11, 6, "B")),
    "matmul, A^T B^T": (tiled, lambda: product(9, 11, 6, "AB")),
    "few rows": (gpu_matmul.product, lambda: W.matmul(m=1, n=70, k=5)),
    "row sum": (gpu_rows.row_sums, lambda: W.row_sum(m=3, n=150)),
    "row sum, vectors": (gpu_rows.row_sums, lambda: W.row_sum(m=5, n=132)),
    "row sum, a block": (gpu_rows.row_sums, lambda: W.row_sum(m=2, n=1204)),
    "argmax": (gpu_rows.row_sums, lambda: W.argmax(m=5, n=37)),
    "matrix times vector": (gpu_rows.row_sums, lambda: matvec(3, 260)),
    "column sum": (gpu_rows.column_sums, lambda: column_sums(7, 39)),
    "column sum, parts": (gpu_rows.column_sums, lambda: column_sums(133, 35)),
    "vector times matrix": (gpu_rows.column_sums, lambda: matvec(139, 7, turned=True)),
    "chain": (gpu_rows.elementwise, lambda: W.elementwise_chain(shape=13)),
    "chain, vectors": (gpu_rows.elementwise, lambda: W.elementwise_chain(shape=[3, 5, 28])),
    "chain, cut off": (gpu_rows.elementwise, lambda: W.elementwise_chain(shape=[33, 37])),
    "transpose": (gpu_rows.transpose_add, lambda: W.transpose_add(m=35, n=33)),
    "conv": (pieces, lambda: W.conv2d(1, 3, 7, 6, 5, 3, 1, 1)),
    "conv 1x1": (pieces, lambda: W.conv2d(2, 3, 5, 6, 4, 1)),
    "conv, strided": (pieces, lambda: W.conv2d_bias_relu(1, 3, 9, 5, 5, 3, 2, 1)),
    "conv, normalised": (pieces, lambda: W.conv2d_bias_bn_relu(1, 2, 5, 5, 3, 3, 1, 1)),
    "conv, dilated": (pieces, lambda: W.conv2d(1, 3, 7, 6, 5, 3, 1, 2, 2)),
    "grouped": (pieces, lambda: W.conv2d(1, 4, 7, 6, 6, 3, 1, 1, 1, 2)),
    "depthwise": (of_channels, lambda: W.depthwise_conv2d(1, 3, 7, 6, 3, 1, 1)),
    "depthwise, no border": (of_channels, lambda: W.depthwise_conv2d(2, 2, 9, 5, 3)),
    "transposed": (gpu_conv.transposed, lambda: W.conv2d_transpose(1, 3, 3, 4, 2, 4, 2, 1)),
    "sum by blocks": (gpu.by_default, lambda: W.full_sum(m=67, n=129)),
}
ROUNDED = {
    "softmax": (gpu_rows.rows, lambda: W.softmax(m=5, n=7)),
    "softmax, vectors": (gpu_rows.rows, lambda: W.softmax(m=5, n=132)),
    "softmax, a block": (gpu_rows.rows, lambda: W.softmax(m=2, n=1204)),
    "log softmax": (gpu_rows.rows, lambda: log_softmax(3, 37)),
    "layer norm": (gpu_rows.rows, lambda: W.layer_norm(m=5, n=37)),
    "layer norm, vectors": (gpu_rows.rows, lambda: W.layer_norm(m=5, n=132)),
    "rms norm": (gpu_rows.rows, lambda: rms_norm(3, 256)),
    "attention": (separate, lambda: attention.defined(2, 9, 35, 5)),
    "attention, one tile": (separate, lambda: attention.defined(2, 3, 64, 6)),
}
"""Those whose functions or sums are not exact."""
CLOSE = {"rtol": 3e-5, "atol": 3e-6}


def whole(s, steps):
    """The schedule after all steps, each of which tells its reason and leaves a valid program."""
    for title, why in steps(s, TARGET):
        assert title and why.endswith(".")
        mt.verify(s.program)
    return s


def after_passes(program):
    for _, step in passes_of(TARGET):
        program = step(program, TARGET)
        mt.verify(program)
    return program


def some_arrays(program, rng):
    return [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in program.inputs]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_exact_results(case):
    steps, tensors = CASES[case]
    program = mt.lower(tensors())
    s = whole(mt.Schedule(program), steps)
    assert_equivalent(program, s, targets=("interpreter",))
    assert_equivalent(program, after_passes(s.program), targets=("interpreter",))


@pytest.mark.slow
@pytest.mark.parametrize("case", ROUNDED)
def test_rounded_results(case):
    steps, tensors = ROUNDED[case]
    program = mt.lower(tensors())
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(b.shape, dtype=np.float32) for b in program.inputs]
    s = whole(mt.Schedule(program), steps)
    expected = mt.interpret(program, *arrays)
    names = [b.name for b in program.outputs]
    for after in (s.program, after_passes(s.program)):
        (found,), _ = interpret(after, arrays, names)
        np.testing.assert_allclose(found, expected, **CLOSE)


SIZES = {
    "softmax": {"m": 5, "n": 130},
    "layer_norm": {"m": 3, "n": 260},
    "matmul": {"m": 37, "n": 33, "k": 19},
    "matmul_bias_relu": {"m": 33, "n": 36, "k": 21},
    "batch_matmul": {"b": 2, "m": 33, "n": 17, "k": 9},
    "row_sum": {"m": 5, "n": 1300},
    "full_sum": {"m": 65, "n": 67},
    "argmax": {"m": 5, "n": 260},
    "elementwise_chain": {"shape": 1031},
    "transpose_add": {"m": 35, "n": 67},
    "cumsum": {"m": 67, "n": 9},
    "matrix_norm": {"b": 2, "m": 33, "n": 17},
}
"""Odd sizes beside the small ones, where those do not reach what a schedule does."""


def programs():
    """Every operator, at one or two odd sizes."""
    for name, workload in W.WORKLOADS.items():
        for sizes in (workload.small, SIZES.get(name)):
            if sizes is not None:
                yield f"{name} {sizes}", name, mt.lower(workload.function(**sizes), name=name)


@pytest.mark.slow
def test_every_operator_passes_the_checked_emulator():
    assert OF_OPERATORS.keys() == W.WORKLOADS.keys()
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    known = {label: (name, program) for label, name, program in programs()}
    wanted = [
        (whole(mt.Schedule(program), OF_OPERATORS[name]).program, TARGET)
        for name, program in known.values()
    ]
    kernels = load_emulated(generate_together(wanted), find_toolchain(), check=True)
    rng = np.random.default_rng(0)
    for (label, (_, program)), kernel in zip(known.items(), kernels, strict=True):
        arrays = some_arrays(program, rng)
        found, expected = kernel(*arrays), mt.interpret(program, *arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=label)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_by_tensor_cores(dtype):
    """In tiles that cover C; where there are none, another schedule is right too."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    wanted, given = [], []
    rng = np.random.default_rng(0)
    for m, n, k in ((48, 80, 48), (32, 16, 16), (33, 19, 7)):
        s = mt.Schedule(mt.lower(W.matmul(m=m, n=n, k=k, dtype=dtype, out_dtype="float32")))
        wanted.append((whole(s, gpu_tensor_cores.product).program, TARGET))
        given.append([rng.integers(-4, 5, x).astype(np.float32) for x in ((m, k), (k, n))])
    texts = generate_together(wanted)
    assert texts[0].source.count("mma_m16n8k16") >= 2
    for kernel, (a, b) in zip(load_emulated(texts, find_toolchain(), check=True), given):
        narrow = [x.astype(np.float16) for x in (a, b)]
        if dtype == "bfloat16":
            narrow = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        np.testing.assert_array_equal(kernel(*narrow), a @ b)


OF_ROWS = {"row_max", "row_sum", "squares"}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", GPU_SCHEDULES)
def test_sums_stay_with_their_threads(name):
    """All that threads pass to each other by themselves is what is computed once for a row."""
    with recording() as recorder:
        after_passes(scheduled(GPU_SCHEDULES[name], TARGET).program)
    assert {r.where for r in recorder.remarks if r.kind == "owner"} <= OF_ROWS
    assert not [r for r in recorder.remarks if r.kind in ("pipeline", "unroll")]


@pytest.mark.slow
@pytest.mark.parametrize("device", some(["a100", "h100"], lambda number: number == 0))
def test_no_schedule_spills(device):
    """Nor has it a stack: all that a thread holds is in registers."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is missing")
    target = native_target(mt.Target("cuda", device=device))
    schedules = [(scheduled(hand, target).program, target) for hand in GPU_SCHEDULES.values()]
    for name, kernel in zip(GPU_SCHEDULES, load_cuda_together(generate_together(schedules))):
        for shape in kernel.emitted.kernels:
            taken = kernel.resources[shape.name]
            assert (taken.spills, taken.stack) == (0, 0), f"{name}: {shape.name}"
