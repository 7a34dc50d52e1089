"""Every kind of workload: what it must compute, and numpy computing it."""

import numpy as np
import pytest

import minitensor as mt
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import of_kernel
from benchmarks.compare.work import KINDS, Work, expect, normal_arrays
from tutorials.schedules import HAND_SCHEDULES, attention

IMAGE = {"n": 1, "c": 3, "h": 7, "w": 6, "kernel": 3, "stride": 2, "padding": 1}
SIZES = {"stride": 2, "padding": 1}
MATMUL = {"m": 4, "n": 5, "k": 6}
COLUMNS, K = mt.placeholder((4, 5), name="A"), mt.reduce_axis(4, name="k")
ROWS, X, L = COLUMNS, mt.placeholder((5,), name="x"), mt.reduce_axis(5, name="l")
TENSORS = {
    "matmul": mt.workloads.matmul(**MATMUL),
    "matmul_bias_relu": mt.workloads.matmul_bias_relu(**MATMUL),
    "batch_matmul": mt.workloads.batch_matmul(b=2, **MATMUL),
    "matvec": [ROWS, X, mt.compute((4,), lambda i: mt.sum(ROWS[i, L] * X[L], axis=L), name="B")],
    "conv": mt.workloads.conv2d_bias_relu(f=4, **{**IMAGE, "n": 2}),
    "attention": attention.defined(2, 3, 4, 5),
    "depthwise": mt.workloads.depthwise_conv2d(**IMAGE),
    "softmax": mt.workloads.softmax(4, 5),
    "layer_norm": mt.workloads.layer_norm(4, 5),
    "transposed": mt.workloads.conv2d_transpose(f=4, **IMAGE),
    "column_sum": [COLUMNS, mt.compute((5,), lambda j: mt.sum(COLUMNS[K, j], axis=K), name="B")],
    "row_sum": mt.workloads.row_sum(4, 5),
    "full_sum": mt.workloads.full_sum(4, 5),
    "elementwise": mt.workloads.elementwise_chain(7),
    "transpose_add": mt.workloads.transpose_add(5, 5),
}


def work(kind, program):
    inputs = normal_arrays([b.shape for b in program.inputs])
    expected, allowed = expect(kind, inputs, SIZES)
    names = tuple(b.name for b in program.inputs)
    return Work(kind, kind, kind, SIZES, 0, 0, names, inputs, (), expected, allowed, None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_expected_result_is_that_of_the_operator(kind):
    program = mt.lower(TENSORS[kind], name=kind)
    made = work(kind, program)
    assert made.difference(mt.interpret(program, *made.inputs)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_computes_it_again_and_again(kind):
    made = work(kind, mt.lower(TENSORS[kind], name=kind))
    (implementation,) = BASELINES["numpy"].enter("numpy", made, 1, {})
    for _ in range(2):
        assert made.difference(implementation.array(implementation.call())) == ""


def test_a_convolution_may_have_no_bias_and_a_depthwise_one_may_have_one():
    made = work("conv", mt.lower(mt.workloads.conv2d(f=4, **IMAGE), name="conv"))
    (implementation,) = BASELINES["numpy"].enter("numpy", made, 1, {})
    assert made.difference(implementation.array(implementation.call())) == ""
    assert made.expected.min() < 0
    inputs = normal_arrays([(1, 3, 7, 6), (3, 1, 3, 3), (3,)])
    expected, allowed = expect("depthwise", inputs, SIZES)
    made = Work(
        "", "", "depthwise", SIZES, 0, 0, ("a", "b", "c"), inputs, (), expected, allowed, None
    )
    (implementation,) = BASELINES["numpy"].enter("numpy", made, 1, {})
    assert made.difference(implementation.array(implementation.call())) == ""
    assert made.expected.min() == 0


def test_a_wrong_result_is_told_from_a_rounded_one():
    made = work("matmul", mt.lower(TENSORS["matmul"], name="matmul"))
    right = made.expected.astype(np.float32)
    assert made.difference(right) == ""
    assert made.difference(right.reshape(-1)) == ""  # another shape with as many elements
    wrong = right.copy()
    wrong[1, 2] += 0.01
    assert "it is off by 0.01" in made.difference(wrong)
    wrong[1, 2] = np.nan
    assert "it is off by nan" in made.difference(wrong)
    assert "3 elements instead of 20" in made.difference(right.reshape(-1)[:3])
    assert made.difference(made.output()) != ""


def test_arrays_are_aligned_and_the_same_each_time():
    one, two = normal_arrays([(3, 5), (7,)]), normal_arrays([(3, 5), (7,)])
    for a, b in zip(one, two):
        assert a.ctypes.data % 64 == 0
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("key", HAND_SCHEDULES)
def test_every_hand_schedule_is_of_a_known_kind_and_names_its_weights(key):
    hand = HAND_SCHEDULES[key]
    assert hand.kind in KINDS
    program = hand.define()
    assert set(hand.constants) <= {b.name for b in program.inputs}
    assert len(program.outputs) == 1
    assert {str(b.dtype) for b in program.params} == {"float32"}
    assert hand.bytes > 0


def test_kernels_of_ours_store_to_one_array_and_are_checked_one_by_one():
    class Idle:
        def prepare(self, *arrays):
            return lambda: None

    program = mt.lower(TENSORS["matmul"], name="matmul")
    made = work("matmul", program)
    kernel = of_kernel("kernel", mt.build(program, mt.Target("c", num_cores=1)), made)
    assert made.difference(kernel.array(kernel.call())) == ""
    idle = of_kernel("idle", Idle(), made)
    assert made.difference(idle.array(idle.call())) != ""
    assert idle.array(None) is kernel.array(None)
