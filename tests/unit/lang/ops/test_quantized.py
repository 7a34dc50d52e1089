"""Quantised operators against numpy, bit for bit, and their refusals."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops

RNG = np.random.default_rng(0)


def integers(dtype, *shape):
    """Integers of a type, its least and greatest among them"""
    info = np.iinfo(dtype)
    found = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    found.flat[0], found.flat[-1] = info.min, info.max
    return found


def run(function, *arrays):
    """The result of an operator on arrays, by the interpreter"""
    given = [mt.placeholder(a.shape, str(a.dtype), name=f"x{n}") for n, a in enumerate(arrays)]
    return mt.interpret(mt.lower([*given, function(*given)]), *arrays)


def saturated(values, dtype):
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantize_rounds_ties_to_even_and_saturates(dtype):
    x = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 3.25, 1e9, -1e9, np.inf, -np.inf, 0.0])
    wanted = saturated(np.rint(x) + 3, dtype)
    np.testing.assert_array_equal(run(lambda v: ops.quantize(v, 1.0, 3, dtype=dtype), x), wanted)


def test_a_scale_for_each_channel():
    x = RNG.standard_normal((2, 3, 5), np.float32) * 9
    scale, zero = np.float32([0.1, 0.5, 2.0]), np.uint8([0, 128, 255])
    wanted = saturated(np.rint(x / scale[:, None]) + zero[:, None].astype("f"), "uint8")
    got = run(ops.quantize, x, scale, zero)
    np.testing.assert_array_equal(got, wanted)
    back = (got.astype("i4") - zero[:, None]).astype("f") * scale[:, None]
    np.testing.assert_array_equal(run(ops.dequantize, got, scale, zero), back)


ZEROS = [(0, 0), (7, 0), (0, -3), (128, 5)]


@pytest.mark.slow
@pytest.mark.parametrize(("za", "zb"), ZEROS)
def test_products_of_bytes_wrap_nowhere_near_these_sizes(za, zb):
    a, b = integers("uint8", 5, 300), integers("int8", 300, 6)
    wanted = (a.astype("i4") - za) @ (b.astype("i4") - zb)
    np.testing.assert_array_equal(run(lambda x, y: ops.matmul_integer(x, y, za, zb), a, b), wanted)


def test_zero_points_that_are_tensors():
    a, b = integers("int8", 2, 4, 6), integers("uint8", 6, 5)
    za, zb = integers("int8", 4), integers("uint8", 5)
    wanted = (a.astype("i4") - za[:, None].astype("i4")) @ (b.astype("i4") - zb.astype("i4"))
    np.testing.assert_array_equal(run(ops.matmul_integer, a, b, za, zb), wanted)


@pytest.mark.parametrize("zero", [0, -7])
@pytest.mark.parametrize("groups", [1, 2])
def test_padding_is_the_zero_point(zero, groups):
    x, w = integers("uint8", 1, 4, 5, 6), integers("int8", 6, 4 // groups, 3, 3)
    options = {"padding": 1, "groups": groups, "stride": (1, 2)}

    def of_floats(u, v):
        centred = ops.sub(ops.cast(u, dtype="float64"), 9.0)
        return ops.conv2d(centred, ops.sub(ops.cast(v, dtype="float64"), float(zero)), **options)

    got = run(lambda u, v: ops.conv_integer(u, v, zero, x_zero_point=9, **options), x, w)
    np.testing.assert_array_equal(got, run(of_floats, x, w).astype("i4"))


def test_layers_of_bytes():
    a, b = integers("uint8", 5, 40), integers("int8", 40, 6)
    scale = np.float32(0.02) * np.float32(0.01) / np.float32(0.3)
    sums = (a.astype("i4") - 3) @ b.astype("i4")
    wanted = saturated(np.rint(sums.astype("f") * scale) + 100, "uint8")
    scales = {"a_scale": 0.02, "b_scale": 0.01, "y_scale": 0.3}
    got = run(
        lambda x, y: ops.qlinear_matmul(x, y, a_zero_point=3, y_zero_point=100, **scales), a, b
    )
    np.testing.assert_array_equal(got, wanted)
    x, w, bias = integers("uint8", 1, 3, 4, 4), integers("int8", 5, 3, 1, 1), integers("int16", 5)
    bias = bias.astype("i4")
    sums = np.einsum("ncyx,fc->nfyx", x.astype("i4") - 3, w[:, :, 0, 0].astype("i4"))
    sums = sums + bias[:, None, None]
    wanted = saturated(np.rint(sums.astype("f") * scale) - 1, "int8")
    scales = {"x_scale": 0.02, "w_scale": 0.01, "y_scale": 0.3}
    got = run(
        lambda u, v, c: ops.qlinear_conv(
            u, v, c, x_zero_point=3, y_zero_point=-1, dtype="int8", **scales
        ),
        x,
        w,
        bias,
    )
    np.testing.assert_array_equal(got, wanted)


X, BYTES = mt.placeholder((2, 3), name="x"), mt.placeholder((2, 3), "int8", name="b")
REFUSED = {
    "a scale of 0": (lambda: ops.quantize(X, 0.0), "a positive number"),
    "a scale that is NaN": (lambda: ops.quantize(X, float("nan")), "a positive number"),
    "a negative scale": (lambda: ops.dequantize(BYTES, -1.0), "a positive number"),
    "a type with few numbers": (lambda: ops.quantize(X, 1.0, dtype="bool"), "one of uint8, int8"),
    "no floats": (lambda: ops.quantize(BYTES, 1.0), "a tensor of float32"),
    "floats": (lambda: ops.dequantize(X, 1.0), "a tensor of integers"),
    "floats to multiply": (lambda: ops.matmul_integer(X, BYTES), "a tensor of uint8 or int8"),
    "extents that differ": (lambda: ops.matmul_integer(BYTES, BYTES), "the last extent of a"),
    "scales for no axis": (
        lambda: ops.dequantize(BYTES, mt.placeholder((3,), name="s"), axis=2), "an axis of x",
    ),
    "scales of another length": (
        lambda: ops.dequantize(BYTES, mt.placeholder((4,), name="s")), r"a tensor of shape \(3,\)",
    ),
    "a zero point between numbers": (lambda: ops.dequantize(BYTES, 1.0, 0.5), "an integer"),
    "a scale in words": (lambda: ops.quantize(X, "a"), "a positive number"),
    "an array of scales": (lambda: ops.quantize(X, np.ones(3, "f")), "a positive number"),
    "a scale that is True": (lambda: ops.quantize(X, True), "a positive number"),
    "scales of bytes": (lambda: ops.quantize(X, BYTES), "a tensor of float32"),
    "an axis in words": (lambda: ops.quantize(X, 1.0, axis="c"), "an integer"),
    "a zero point beyond the type": (lambda: ops.quantize(X, 1.0, 300), "from 0 to 255"),
    "zero points in words": (lambda: ops.matmul_integer(BYTES, BYTES, "z"), "from -128 to 127"),
    "zero points of floats": (lambda: ops.matmul_integer(BYTES, BYTES, X), "a tensor of integers"),
    "a layer with a scale of 0": (
        lambda: ops.qlinear_matmul(BYTES, BYTES, a_scale=1, b_scale=1, y_scale=0), "y_scale=0",
    ),
    "a layer with a scale in words": (
        lambda: ops.qlinear_matmul(BYTES, BYTES, a_scale="a", b_scale=1, y_scale=1), "a_scale='a'",
    ),
    "a zero point of x that is half": (
        lambda: ops.conv_integer(
            mt.placeholder((1, 1, 3, 3), "uint8", name="x"),
            mt.placeholder((1, 1, 3, 3), "int8", name="w"),
            x_zero_point=1.5,
        ),
        "an integer from 0 to 255",
    ),
    "a zero point that no byte is": (
        lambda: ops.conv_integer(
            mt.placeholder((1, 1, 3, 3), "uint8", name="x"),
            mt.placeholder((1, 1, 3, 3), "int8", name="w"),
            x_zero_point=256,
        ),
        "an integer from 0 to 255",
    ),
    "sums that are no sums": (lambda: ops.requantize(BYTES, 1.0), "a tensor of int32"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises(mt.ArgumentError, match=text):
        call()
