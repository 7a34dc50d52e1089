"""Networks that say where they are quantised: their products become products of bytes."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.graph import trace

RNG = np.random.default_rng(0)


def weights(*shape):
    return RNG.integers(-128, 128, shape, "int8")


def bytes_of(x, scale=0.03, zero=7):
    """x as a network says that it is quantised here"""
    return ops.dequantize(ops.quantize(x, scale, zero), scale, zero)


IMAGE = ((1, 6, 6, 6), "float32")
W, B = weights(10, 6, 3, 3), RNG.standard_normal(10).astype("f")
SCALES = RNG.uniform(0.01, 0.02, 10).astype("f")


def convolution(x, w, s, b):
    floats = ops.conv2d(bytes_of(x), ops.dequantize(w, s, axis=0), b, padding=1)
    return bytes_of(ops.relu(floats), 0.5, 3)


def dense(x, w):
    return ops.matmul(bytes_of(x), ops.dequantize(w, 0.01, 2))


def gemm(x, w, s, b):
    return ops.gemm(bytes_of(x), ops.dequantize(w, s, axis=0), b, transpose_b=True)


def reshaped(x, w):
    return ops.matmul(ops.reshape(bytes_of(x), shape=(1, -1)), ops.dequantize(w, 0.01))


CASES = {
    "a convolution with its bias": (
        convolution,
        {"x": IMAGE, "w": W, "s": SCALES, "b": B},
        "conv_integer",
    ),
    "a product": (dense, {"x": ((4, 9), "float32"), "w": weights(9, 5)}, "matmul_integer"),
    "a dense layer": (
        gemm,
        {"x": ((4, 6), "float32"), "w": weights(10, 6), "s": SCALES, "b": B},
        "matmul_integer",
    ),
    "what was reshaped": (reshaped, {"x": IMAGE, "w": weights(216, 3)}, "matmul_integer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_products_become_products_of_bytes(name):
    function, examples, operator = CASES[name]
    graph = trace(function, **examples)
    after = graph.optimize()
    after.verify()
    kinds = [node.operator for node in after.nodes]
    assert operator in kinds
    assert not {"conv2d", "matmul", "gemm"} & {*kinds}
    x = RNG.standard_normal(graph.inputs[0].shape, np.float32)
    wanted, got = mt.interpret(graph, x), mt.interpret(after, x)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


LEFT = {
    "floats on one side": (
        lambda x, w: ops.matmul(x, ops.dequantize(w, 0.01)),
        {"x": ((4, 9), "float32"), "w": weights(9, 5)},
    ),
    "a scale for each row": (
        lambda x, w, s: ops.matmul(bytes_of(x), ops.dequantize(w, s, axis=0)),
        {"x": ((4, 6), "float32"), "w": weights(6, 5), "s": SCALES[:6]},
    ),
    "a scaled product": (
        lambda x, w: ops.gemm(bytes_of(x), ops.dequantize(w, 0.01), alpha=2.0),
        {"x": ((4, 6), "float32"), "w": weights(6, 5)},
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name):
    function, examples = LEFT[name]
    graph = trace(function, **examples)
    after = graph.optimize()
    assert not any("integer" in node.operator for node in after.nodes)
    x = RNG.standard_normal(graph.inputs[0].shape, np.float32)
    np.testing.assert_allclose(mt.interpret(after, x), mt.interpret(graph, x), rtol=1e-5)


def test_bytes_that_become_floats_and_bytes_again_stay():
    def same(x):
        return ops.quantize(ops.dequantize(x, 0.1, 3), 0.1, 3, dtype="uint8")

    def another(x):
        return ops.quantize(ops.dequantize(x, 0.1, 3), 0.2, 3, dtype="uint8")

    example = {"x": ((256,), "uint8")}
    assert len(trace(lambda x: ops.maximum(same(x), x), **example).optimize().nodes) == 1
    assert len(trace(another, **example).optimize().nodes) == 2
    x = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(mt.interpret(trace(same, **example), x), x)


@pytest.mark.slow
def test_a_layer_is_one_kernel_and_gives_what_its_meaning_does():
    graph = trace(convolution, x=IMAGE, w=W, s=SCALES, b=B)
    model = mt.build(graph)
    x = RNG.standard_normal(IMAGE[0], np.float32)
    wanted = mt.interpret(graph, x)
    got = model(x)
    assert (np.abs(got - wanted) <= 0.5).all()  # a step, where a tie is broken by rounding
    assert (got != wanted).mean() < 0.01
    assert len(model.kernels) == 2  # the image becomes bytes; all that follows


def test_layers_of_bytes_have_their_channels_last():
    """Also where no window over floats, such as a pool, says that these are images."""

    def two_layers(x, v, w):
        inner = bytes_of(ops.conv2d(bytes_of(x), ops.dequantize(v, 0.01), padding=1))
        return bytes_of(ops.conv2d(inner, ops.dequantize(w, 0.01)))

    graph = trace(two_layers, x=IMAGE, v=weights(16, 6, 3, 3), w=weights(4, 16, 1, 1)).optimize()
    fused = graph.fuse()
    (between,) = (name for name in mt.graph.images(fused) if fused.values[name].shape[1] == 16)
    assert mt.graph.default_layouts(fused) == {between: 16}


@pytest.mark.slow
def test_the_other_side_of_an_add_is_read_as_bytes():
    """No kernel of its own makes floats of what a layer skips."""

    def block(x, w):
        inner = bytes_of(x)
        layer = bytes_of(ops.conv2d(inner, ops.dequantize(w, 0.01), padding=1), 0.5, 3)
        return bytes_of(ops.add(layer, inner), 0.5, 3)

    graph = trace(block, x=IMAGE, w=weights(6, 6, 3, 3)).optimize().fuse()
    assert len(graph.kernels) == 2 and len(graph.kernels[0]) == 1
    x = RNG.standard_normal(IMAGE[0], np.float32)
    wanted = mt.interpret(graph, x)
    assert (np.abs(mt.build(graph)(x) - wanted) <= 0.5).all()
