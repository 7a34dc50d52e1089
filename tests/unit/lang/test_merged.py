"""Tensors with merged axes: which axes are one, and what is computed stays the same, bit by bit."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir, ops
from minitensor.lang import merged


def given(*shapes, dtype="float32"):
    return [mt.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]


def pointwise_convolution(stride):
    x, w, b = given((2, 3, 6, 8), (5, 3, 1, 1), (5,))
    return [x, w, b, ops.relu(ops.conv2d(x, w, b, stride=stride))]


def padded_convolution():
    x, w = given((1, 3, 6, 8), (5, 3, 3, 3))
    return [x, w, ops.conv2d(x, w, padding=1)]


def of_one(operator, shape):
    (x,) = given(shape)
    return [x, operator(x)]


def heads():
    q, k = given((1, 4, 6, 5), (1, 4, 7, 5))
    return [q, k, ops.matmul(q, ops.transpose(k, axes=(0, 1, 3, 2)))]


def with_a_part_of_the_rows():
    (x,) = given((4, 6, 5))
    return [x, mt.compute((4, 3, 5), lambda i, j, k: x[i, j, k] + 1.0)]


def with_a_number_of_an_axis():
    (x,) = given((4, 6, 5))
    index = "float32"
    return [x, mt.compute((4, 6, 5), lambda i, j, k: x[i, j, k] + j.astype(index))]


def read_twice():
    (x,) = given((4, 4, 5))
    return [x, mt.compute((4, 4, 5), lambda i, j, k: x[i, j, k] + x[j, i, k])]


def looked_up():
    x, i = mt.placeholder((7, 2, 3), name="x"), mt.placeholder((2, 2), "int64", name="i")
    return [x, i, ops.gather(x, i, axis=0)]


def in_order():
    (x,) = given((1, 5, 2, 3))
    total = mt.update(
        (1, 5, 2, 3),
        lambda s, n, i, j, k: x[n, i, j, k] + mt.if_then_else(i > 0, s[n, i - 1, j, k], 0.0),
    )
    return [x, ops.mul(total, 2.0)]


def first_of_the_greatest():
    (x,), k = given((2, 3, 4)), mt.reduce_axis(4)
    return [x, mt.compute((2, 3), lambda i, j: mt.argmax(x[i, j, k], axis=k))]


def place_of_the_greatest():
    (x,), j, k = given((2, 3, 4)), mt.reduce_axis(3), mt.reduce_axis(4)
    return [x, mt.compute((2,), lambda i: mt.argmax(x[i, j, k], axis=(j, k)))]


DEFINITIONS = {
    "1x1": (pointwise_convolution(1), [(2, 3, 48), (5, 3), (5,), (2, 5, 48)]),
    "1x1, stride 2": (pointwise_convolution(2), [(2, 3, 6, 8), (5, 3), (5,), (2, 5, 3, 4)]),
    "3x3": (padded_convolution(), [(3, 6, 8), (5, 3, 3, 3), (5, 6, 8)]),
    "softmax": (of_one(ops.softmax, (2, 3, 4, 5)), [(24, 5), (24, 5)]),
    "elementwise": (of_one(ops.relu, (2, 1, 4, 5)), [(40,), (40,)]),
    "pool": (of_one(ops.global_avg_pool, (2, 3, 4, 5)), [(6, 20), (6,)]),
    "extent 1": (of_one(ops.relu, (1, 1, 1)), [(1,), (1,)]),
    "sum over 1": (of_one(lambda x: ops.reduce_sum(x, axes=(0,)), (1, 3, 2)), [(6,), (6,)]),
    "argmax": (first_of_the_greatest(), [(6, 4), (6,)]),
    "argmax of two": (place_of_the_greatest(), [(2, 3, 4), (2,)]),
    "heads": (heads(), [(4, 6, 5), (4, 7, 5), (4, 6, 7)]),
    "a part": (with_a_part_of_the_rows(), [(4, 30), (4, 15)]),
    "a number": (with_a_number_of_an_axis(), [(4, 6, 5), (4, 6, 5)]),
    "read twice": (read_twice(), [(4, 4, 5), (4, 4, 5)]),
    "looked up": (looked_up(), [(7, 6), (2, 2), (2, 2, 6)]),
    "in order": (in_order(), [(1, 5, 2, 3), (5, 2, 3)]),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_axes_that_come_together_are_one(name):
    tensors, shapes = DEFINITIONS[name]
    assert [tensor.shape for tensor in merged(tensors)] == shapes


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_elements_are_the_same(name):
    tensors, _ = DEFINITIONS[name]
    draw = np.random.default_rng(0)
    programs = [mt.lower(tensors), mt.lower(merged(tensors))]
    results = []
    arrays = [draw.standard_normal(b.shape).astype(b.dtype) for b in programs[0].inputs]
    if name == "looked up":
        arrays[1] = draw.integers(0, 7, arrays[1].shape)
    for program in programs:
        fit = [a.reshape(b.shape) for a, b in zip(arrays, program.inputs, strict=True)]
        results.append(ir.interpret(program, fit)[0][0])
    assert results[0].tobytes() == results[1].tobytes()


def test_the_users_tensors_stay_as_they_are():
    tensors, _ = DEFINITIONS["1x1"]
    before = str(mt.lower(tensors))
    merged(tensors)
    assert str(mt.lower(tensors)) == before
