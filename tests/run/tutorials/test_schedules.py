"""The schedules by hand: right at every step, at sizes that do not fit their tiles."""

import numpy as np
import pytest

import minitensor as mt
from benchmarks.steps import timed_steps
from minitensor.testing import assert_equivalent
from tests.parts import of_each_kind, some
from tests.run.together import built_together
from tutorials.schedules import (
    HAND_SCHEDULES,
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


def by_channels(s, target):
    *_, h, w = s.program.outputs[0].shape
    return convolution.by_channels(s, convolution.Tiles.of(target, h, w))


def column_sums(m, n):
    A, k = mt.placeholder((m, n), name="A"), mt.reduce_axis(m, name="k")
    return [A, mt.compute((n,), lambda j: mt.sum(A[k, j], axis=k), name="B")]


CASES = {
    "matmul": (packed, lambda: W.matmul(m=16, n=64, k=6)),
    "matmul, prime": (packed, lambda: W.matmul(m=13, n=37, k=7)),
    "matmul, 1": (packed, lambda: W.matmul(m=1, n=1, k=1)),
    "dense": (packed, lambda: W.matmul_bias_relu(m=17, n=41, k=5)),
    "skinny": (matmul.direct, lambda: W.matmul(m=3, n=70, k=5)),
    "batch": (matmul.direct, lambda: W.batch_matmul(b=2, m=9, n=33, k=4)),
    "conv": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 3, 9, 33, 3, 1, 1)),
    "conv, channels": (by_channels, lambda: W.conv2d_bias_relu(1, 9, 2, 3, 5, 3, 1, 1)),
    "conv, tile": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 4, 8, 32, 3, 1, 1)),
    "conv, strided": (by_channels, lambda: W.conv2d_bias_relu(1, 3, 9, 9, 5, 5, 2, 2)),
    "conv, no border": (by_channels, lambda: W.conv2d_bias_relu(1, 2, 6, 7, 4, 3)),
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
    "row sum": (rows.row_sum, lambda: W.row_sum(m=3, n=150)),
    "row sum, short": (rows.row_sum, lambda: W.row_sum(m=2, n=3)),
    "full sum": (rows.full_sum, lambda: W.full_sum(m=3, n=131)),
    "chain": (streams.elementwise, lambda: W.elementwise_chain(shape=131)),
    "transpose": (streams.transpose_add, lambda: W.transpose_add(m=67, n=19)),
}


@pytest.mark.parametrize("target", range(len(TARGETS)), ids=lambda n: str(TARGETS[n]))
def test_every_target_has_cases(target):
    assert sum(target in targets_for(case) for case in CASES) >= 7


def targets_for(case):
    """Two of five for each case, others for the next."""
    number = list(CASES).index(case)
    return {number % len(TARGETS), (number + 2) % len(TARGETS)}


@pytest.mark.parametrize(
    "case, targets",
    [
        *((case, targets_for(case)) for case in CASES),
        *(
            pytest.param(
                case, set(range(len(TARGETS))) - targets_for(case), marks=pytest.mark.whole
            )
            for case in CASES
        ),
    ],
    ids=str,
)
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


@pytest.mark.parametrize("shape", [(3, 150), (2, 64), (1, 1), (2, 7)], ids=str)
@pytest.mark.parametrize("kind", ["softmax", "layer_norm"])
def test_normalisations_are_right(kind, shape):
    """To a few roundings: sums are taken in another order, functions are not numpy's."""
    m, n = shape
    program = mt.lower(W.WORKLOADS[kind].function(m=m, n=n))
    schedules = {target: mt.Schedule(program) for target in TARGETS}
    for target, s in schedules.items():
        for _ in getattr(rows, kind)(s, target):
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
        s = scheduled(hand, target)
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


@pytest.mark.parametrize("number", some(range(len(TARGETS)), lambda n: n in (1, 2)))
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
