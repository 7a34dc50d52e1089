"""The schedules by hand: right at every step, at sizes that do not fit their tiles."""

from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from benchmarks.steps import timed_steps
from minitensor.testing import assert_equivalent
from tests.parts import of_each_kind, some
from tests.run.together import built_together
from tutorials.schedules import (
    HAND_SCHEDULES,
    attention,
    convolution,
    matmul,
    rows,
    scheduled,
    streams,
    winograd,
)

pytestmark = pytest.mark.slow  # make quick leaves it out

TARGETS = [
    mt.Target("c", num_cores=cores, vector_bits=bits)
    for cores, bits in ((1, 512), (2, 512), (2, 256), (16, 128), (1, 0))
]
W = mt.workloads


def packed(s, target):
    return matmul.packed(s, matmul.Tiles.of(target, 16))


def packed_in_parts(s, target):
    return matmul.packed(s, replace(matmul.Tiles.of(target, 16), depth=4))


def by_channels(s, target):
    tiles = convolution.Tiles.of(target, *s.program.outputs[0].shape)
    return convolution.by_channels(s, tiles)


def product(m, n, k, turned=""):
    """A product of matrices, each of which may be given transposed."""
    A = mt.placeholder((k, m) if "A" in turned else (m, k), name="A")
    B = mt.placeholder((n, k) if "B" in turned else (k, n), name="B")
    r = mt.reduce_axis(k, name="k")

    def element(i, j):
        row = A[r, i] if "A" in turned else A[i, r]
        return mt.sum(row * (B[j, r] if "B" in turned else B[r, j]), axis=r)

    return [A, B, mt.compute((m, n), element, name="C")]


def dilated(*sizes):
    """A convolution with holes in its window, bias and relu."""
    data, weight, conv = W.conv2d(*sizes)
    bias = mt.placeholder((conv.shape[1],), name="bias")
    relu = lambda n, f, y, x: mt.maximum(conv[n, f, y, x] + bias[f], 0)
    return [data, weight, bias, mt.compute(conv.shape, relu, name="relu")]


def matvec(m, k, turned=False):
    """A matrix times a vector; the matrix may be given transposed."""
    A = mt.placeholder((k, m) if turned else (m, k), name="A")
    x, r = mt.placeholder((k,), name="x"), mt.reduce_axis(k, name="k")
    read = (lambda i: A[r, i]) if turned else (lambda i: A[i, r])
    return [A, x, mt.compute((m,), lambda i: mt.sum(read(i) * x[r], axis=r), name="B")]


def column_sums(m, n):
    A, k = mt.placeholder((m, n), name="A"), mt.reduce_axis(m, name="k")
    return [A, mt.compute((n,), lambda j: mt.sum(A[k, j], axis=k), name="B")]


CASES = {
    "matmul": (packed, lambda: W.matmul(m=16, n=64, k=6)),
    "matmul, prime": (packed, lambda: W.matmul(m=13, n=37, k=7)),
    "matmul, 1": (packed, lambda: W.matmul(m=1, n=1, k=1)),
    "dense": (packed, lambda: W.matmul_bias_relu(m=17, n=41, k=5)),
    "matmul, A^T": (packed, lambda: product(13, 37, 7, "A")),
    "matmul, B^T": (packed, lambda: product(13, 37, 7, "B")),
    "matmul, A^T B^T": (packed, lambda: product(13, 37, 7, "AB")),
    "matmul, long sum": (packed_in_parts, lambda: W.matmul(m=17, n=37, k=6)),
    "dense, long sum": (packed_in_parts, lambda: W.matmul_bias_relu(m=13, n=41, k=9)),
    "short sum": (matmul.short, lambda: W.matmul(m=13, n=70, k=5)),
    "skinny": (matmul.direct, lambda: W.matmul(m=3, n=70, k=5)),
    "skinny, bound": (matmul.in_panels, lambda: W.matmul(m=3, n=70, k=5)),
    "batch": (matmul.direct, lambda: W.batch_matmul(b=2, m=9, n=33, k=4)),
    "conv": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 3, 9, 33, 3, 1, 1)),
    "conv, channels": (by_channels, lambda: W.conv2d_bias_relu(1, 9, 2, 3, 5, 3, 1, 1)),
    "conv, tile": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 4, 8, 32, 3, 1, 1)),
    "conv, strided": (by_channels, lambda: W.conv2d_bias_relu(1, 3, 9, 9, 5, 5, 2, 2)),
    "conv, no border": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 6, 7, 4, 3)),
    "conv, images": (by_channels, lambda: W.conv2d_bias_relu(3, 2, 4, 9, 13, 3, 1, 1)),
    "conv, panels": (by_channels, lambda: W.conv2d_bias_relu(2, 1, 3, 5, 70, 3, 1, 1)),
    "conv, 5x5": (by_channels, lambda: W.conv2d_bias_relu(1, 1, 5, 9, 5, 5, 1, 2)),
    "conv, dilated": (by_channels, lambda: dilated(1, 2, 7, 9, 13, 3, 1, 2, 2)),
    "conv 1x1": (convolution.by_pixels, lambda: W.conv2d_bias_relu(1, 3, 2, 19, 7, 1)),
    "depthwise": (convolution.depthwise, lambda: W.depthwise_conv2d(1, 3, 5, 19, 3, 1, 1)),
    "depthwise, no border": (convolution.depthwise, lambda: W.depthwise_conv2d(1, 2, 6, 7, 3)),
    "grouped": (convolution.grouped, lambda: W.conv2d(2, 6, 5, 9, 9, 3, 1, 1, groups=3)),
    "grouped, no border": (convolution.grouped, lambda: W.conv2d(1, 4, 3, 7, 8, 1, groups=2)),
    "transposed": (convolution.transposed, lambda: W.conv2d_transpose(1, 2, 3, 5, 9, 4, 2, 1)),
    "transposed, odd": (convolution.transposed, lambda: W.conv2d_transpose(1, 2, 4, 3, 3, 3, 2)),
    "argmax": (rows.argmax, lambda: W.argmax(m=3, n=150)),
    "running sums": (rows.running_sums, lambda: W.cumsum(m=3, n=19)),
    "column sum": (rows.column_sum, lambda: column_sums(7, 139)),
    "column sum, wide": (rows.column_sum, lambda: column_sums(9, 1031)),
    "matrix times vector": (rows.row_sum, lambda: matvec(3, 150)),
    "vector times matrix": (rows.column_sum, lambda: matvec(139, 7, turned=True)),
    "row sum": (rows.row_sum, lambda: W.row_sum(m=3, n=150)),
    "row sum, short": (rows.row_sum, lambda: W.row_sum(m=2, n=3)),
    "full sum": (rows.full_sum, lambda: W.full_sum(m=3, n=131)),
    "chain": (streams.elementwise, lambda: W.elementwise_chain(shape=131)),
    "transpose": (streams.transpose_add, lambda: W.transpose_add(m=67, n=19)),
}


@pytest.mark.parametrize("target", range(len(TARGETS)), ids=lambda n: str(TARGETS[n]))
def test_every_target_has_cases(target):
    assert sum(target in targets_for(case, CASES) for case in CASES) >= 7
    assert sum(target in targets_for(case, NORMALISATIONS) for case in NORMALISATIONS) >= 2


def targets_for(case, cases):
    """One of five for each case, another for the next."""
    return {list(cases).index(case) % len(TARGETS)}


def with_targets(cases):
    """Each case with some of the targets, and for `make whole` with the others."""
    every = set(range(len(TARGETS)))
    chosen = [(case, targets_for(case, cases)) for case in cases]
    others = [pytest.param(c, every - those, marks=pytest.mark.whole) for c, those in chosen]
    return pytest.mark.parametrize("case, targets", [*chosen, *others], ids=str)


@pytest.mark.many
@with_targets(CASES)
def test_every_step_is_right(case, targets):
    steps, tensors = CASES[case]
    program = mt.lower(tensors())
    schedules = {TARGETS[n]: mt.Schedule(program) for n in sorted(targets)}
    for target, s in schedules.items():
        for title, why in steps(s, target):
            assert title and why.endswith(".")
            mt.verify(s.program)
        assert_equivalent(program, s, targets=("interpreter",))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in program.inputs]
    expected = mt.interpret(program, *arrays)
    for target, kernel in built_together({t: (s, t) for t, s in schedules.items()}).items():
        np.testing.assert_array_equal(kernel(*arrays), expected, err_msg=str(target))


def log_softmax(m, n):
    """The logarithm of a softmax, without a quotient."""
    A, k, l = mt.placeholder((m, n), name="A"), mt.reduce_axis(n, "k"), mt.reduce_axis(n, "l")
    top = mt.compute((m,), lambda i: mt.max(A[i, k], axis=k), name="row_max")
    exps = mt.compute((m, n), lambda i, j: mt.exp(A[i, j] - top[i]), name="exps")
    total = mt.compute((m,), lambda i: mt.sum(exps[i, l], axis=l), name="row_sum")
    logs = mt.compute((m,), lambda i: mt.log(total[i]) + top[i], name="logs")
    return [A, mt.compute((m, n), lambda i, j: A[i, j] - logs[i], name="log_softmax")]


NORMALISATIONS = {
    f"{kind} {m} {n}": (getattr(rows, kind), getattr(W, kind)(m=m, n=n))
    for kind in ("softmax", "layer_norm")
    for m, n in ((3, 150), (2, 64), (1, 1), (2, 7))
}
NORMALISATIONS["log_softmax"] = rows.softmax, log_softmax(3, 37)
for sizes in ((1, 1, 1, 1), (2, 9, 35, 5), (5, 3, 70, 33)):
    NORMALISATIONS[f"attention {sizes}"] = attention.attention, attention.defined(*sizes)


@pytest.mark.many
@with_targets(NORMALISATIONS)
def test_normalisations_are_right(case, targets):
    """To a few roundings: sums are taken in another order, functions are not numpy's."""
    steps, tensors = NORMALISATIONS[case]
    program = mt.lower(tensors)
    schedules = {TARGETS[n]: mt.Schedule(program) for n in sorted(targets)}
    for target, s in schedules.items():
        for title, why in steps(s, target):
            assert title and why.endswith(".")
            mt.verify(s.program)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(b.shape, dtype=np.float32) for b in program.inputs]
    expected = mt.interpret(program, *arrays)
    for kernel in built_together({t: (s, t) for t, s in schedules.items()}).values():
        np.testing.assert_allclose(kernel(*arrays), expected, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", of_each_kind(HAND_SCHEDULES))
def test_every_hand_schedule_is_accepted_on_every_machine(name):
    hand = HAND_SCHEDULES[name]
    program = hand.define()
    assert set(hand.constants) <= {b.name for b in program.inputs}
    moved = sum(b.dtype.bits // 8 * int(np.prod(b.shape)) for b in program.params)
    assert hand.bytes == moved
    for target in TARGETS:
        for bound in {False, hand.bound is not None}:
            s = scheduled(hand, target, bound=bound)
            mt.verify(s.program)
            assert s.program != program


def test_the_schedule_of_a_matmul_has_at_most_25_lines():
    s = scheduled(HAND_SCHEDULES["matmul-1024"], TARGETS[0])
    assert len(s.trace.as_python().splitlines()) <= 25


def test_some_of_the_steps_can_be_taken():
    hand = HAND_SCHEDULES["dense-1024"]
    assert len(scheduled(hand, TARGETS[0], 0).trace.steps) == 0
    some = [len(scheduled(hand, TARGETS[0], n).trace.steps) for n in range(7)]
    assert some == sorted(some)
    assert some[-1] == len(scheduled(hand, TARGETS[0]).trace.steps)


@pytest.mark.parametrize("number", some(range(len(TARGETS)), lambda n: n == 2))
def test_winograd_is_right(number):
    """Its transforms multiply by thirds: to a few roundings."""
    target, (c, h, w, f) = TARGETS[number], ((3, 5, 7, 5), (1, 8, 8, 17))[number % 2]
    program = mt.lower(W.conv2d_winograd(1, c, h, w, f, padding=1, tile=4))
    s = mt.Schedule(program)
    for _ in winograd.winograd(s, target):
        mt.verify(s.program)
    rng = np.random.default_rng(0)
    data = rng.integers(-4, 5, (1, c, h, w)).astype(np.float32)
    weight = rng.integers(-4, 5, (f, c, 3, 3)).astype(np.float32)
    pad = np.pad(data[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(pad, (3, 3), axis=(1, 2))
    expected = np.einsum("cyxij,fcij->fyx", windows, weight)[None]
    kernel = mt.build(s, target)
    np.testing.assert_allclose(kernel(data, weight), expected, rtol=1e-4, atol=1e-3)
    if number in (1, 2):  # each size once: binding builds two more kernels
        bound = kernel.bind(weight=weight)
        np.testing.assert_allclose(bound(data), expected, rtol=1e-4, atol=1e-3)


def test_each_rung_is_timed():
    found = list(timed_steps(HAND_SCHEDULES["matmul-16"], TARGETS[0]))
    assert [title for title, _ in found] == ["as written", "Tiles", "Vectors", "Threads"]
    assert all(seconds > 0 for _, seconds in found)
