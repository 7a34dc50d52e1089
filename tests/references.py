"""What the named operators compute, written a second time with numpy and scipy.

    arrays = inputs(program, seed=0)
    expected = REFERENCES["conv2d"](*arrays, **WORKLOADS["conv2d"].small)

Each reference takes the input arrays in call order and the keyword arguments of the operator; it
ignores those that the shapes of the arrays say already. Inputs are small integers, so that sums are
exact in any order: all but the operators in `TOLERANCE` must agree to the last bit.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import ndimage, special

from minitensor.ir import Program, numpy_dtype

LARGEST = 4


def inputs(program: Program, seed: int = 0) -> list[np.ndarray]:
    """Small integers (|x| <= 4, from 0 if unsigned) for the inputs of a program."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in program.inputs:
        low = 0 if buffer.dtype.kind in ("uint", "bool") else -LARGEST
        values = rng.integers(low, LARGEST + 1, buffer.shape)
        arrays.append(np.asarray(values, numpy_dtype(buffer.dtype)))
    return arrays


TOLERANCE = {
    "conv2d_winograd": {"rtol": 1e-5, "atol": 2e-4},
    "layer_norm": {"rtol": 1e-5, "atol": 1e-5},
    "matrix_norm": {"rtol": 1e-5, "atol": 0.0},
    "softmax": {"rtol": 1e-5, "atol": 1e-7},
    "stencil2d": {"rtol": 1e-5, "atol": 1e-6},
    "transpose_batch_matmul_softmax": {"rtol": 1e-5, "atol": 1e-7},
}
"""The operators that round, with the arguments of numpy.testing.assert_allclose for float32.

The absolute tolerances are for results near 0 that are differences of larger numbers.
"""


def assert_matches(name: str, actual: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless an output of the operator `name` is what the reference says."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if name in TOLERANCE and actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, **TOLERANCE[name])
    else:
        np.testing.assert_array_equal(actual, expected)


# ---- products


def matmul(a, b, /, out_dtype=None, **_):
    wide = out_dtype or a.dtype
    return a.astype(wide) @ b.astype(wide)


def matmul_bias_relu(a, b, bias, /, out_dtype=None, **_):
    return np.maximum(matmul(a, b, out_dtype) + bias, bias.dtype.type(0))


def transpose_batch_matmul(query, key, **_):
    return np.einsum("bihk,bjhk->bhij", query, key)


def transpose_batch_matmul_softmax(query, key, **_):
    scores = transpose_batch_matmul(query.astype("float64"), key.astype("float64"))
    return special.softmax(scores / np.sqrt(query.shape[-1]), axis=-1).astype(query.dtype)


# ---- convolutions


def pair(value, count):
    return (value,) * count if np.isscalar(value) else tuple(value)


def channels_first(layout):
    return layout is None or layout[1] == "C"


def windows(image, kernel, stride, padding, dilation):
    """Of an image (n, c, spatial), an array (n, c, outputs, kernel)."""
    rank = len(kernel)
    around = [(0, 0), (0, 0)] + [(p, p) for p in pair(padding, rank)]
    padded = np.pad(image, around)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, pair(dilation, rank))]
    views = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=range(2, 2 + rank))
    starts = tuple(slice(None, None, s) for s in pair(stride, rank))
    taps = tuple(slice(None, None, d) for d in pair(dilation, rank))
    return views[(slice(None), slice(None), *starts, *taps)]


def conv(
    data,
    weight,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    layout=None,
    out_dtype=None,
    **_,
):
    rank = data.ndim - 2
    if not channels_first(layout):
        data = np.moveaxis(data, -1, 1)
        weight = np.moveaxis(weight, (-1, -2), (0, 1))
    wide = out_dtype or data.dtype
    seen = windows(data.astype(wide), weight.shape[2:], stride, padding, dilation)
    axes = [1, *range(2 + rank, 2 + 2 * rank)]
    parts = [
        np.tensordot(part, filters.astype(wide), (axes, range(1, 2 + rank)))
        for part, filters in zip(np.split(seen, groups, axis=1), np.split(weight, groups, axis=0))
    ]
    out = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
    return out if channels_first(layout) else np.moveaxis(out, 1, -1)


def depthwise_conv2d(data, weight, layout=None, **options):
    options["groups"] = data.shape[1 if channels_first(layout) else -1]
    return conv(data, weight, layout=layout, **options)


def per_channel(vector, layout):
    return vector[:, None, None] if channels_first(layout) else vector


def conv2d_bias_relu(data, weight, bias, layout=None, **options):
    total = conv(data, weight, layout=layout, **options) + per_channel(bias, layout)
    return np.maximum(total, bias.dtype.type(0))


def conv2d_bias_bn_relu(data, weight, bias, scale, offset, layout=None, **options):
    total = conv(data, weight, layout=layout, **options) + per_channel(bias, layout)
    total = total * per_channel(scale, layout) + per_channel(offset, layout)
    return np.maximum(total, bias.dtype.type(0))


def conv2d_transpose(
    data, weight, stride=1, padding=0, output_padding=0, layout=None, out_dtype=None, **_
):
    """As a scatter: each element of the data adds a multiple of the window to the output."""
    if not channels_first(layout):
        data, weight = np.moveaxis(data, -1, 1), np.moveaxis(weight, (-2, -1), (0, 1))
    wide = out_dtype or data.dtype
    data, weight = data.astype(wide), weight.astype(wide)
    (n, _, h, w), (_, f, kh, kw) = data.shape, weight.shape
    (sy, sx), (py, px), (ey, ex) = pair(stride, 2), pair(padding, 2), pair(output_padding, 2)
    out = np.zeros((n, f, (h - 1) * sy + kh + ey, (w - 1) * sx + kw + ex), wide)
    for y, x in itertools.product(range(h), range(w)):
        out[:, :, y * sy : y * sy + kh, x * sx : x * sx + kw] += np.einsum(
            "nc,cfyx->nfyx", data[:, :, y, x], weight
        )
    out = out[:, :, py : out.shape[2] - py, px : out.shape[3] - px]
    return out if channels_first(layout) else np.moveaxis(out, 1, -1)


def capsule_conv2d(data, weight, stride=1, padding=0, out_dtype=None, **_):
    """One product of capsules at a time, as the paper on capsules writes it."""
    wide = out_dtype or data.dtype
    kh, kw, capsule, _, c, f = weight.shape
    (py, px), (sy, sx) = pair(padding, 2), pair(stride, 2)
    padded = np.pad(data.astype(wide), [(0, 0), (py, py), (px, px), (0, 0), (0, 0), (0, 0)])
    oh, ow = (padded.shape[1] - kh) // sy + 1, (padded.shape[2] - kw) // sx + 1
    out = np.zeros((data.shape[0], oh, ow, capsule, capsule, f), wide)
    for n, y, x, into in itertools.product(*(range(e) for e in out.shape[:3]), range(f)):
        for ry, rx, channel in itertools.product(range(kh), range(kw), range(c)):
            pose = padded[n, y * sy + ry, x * sx + rx, :, :, channel]
            out[n, y, x, :, :, into] += pose @ weight[ry, rx, :, :, channel, into].astype(wide)
    return out


# ---- pooling


def pooled(data, reduce, kernel, stride=None, padding=0, layout=None, **_):
    """`reduce` of the part of each window that lies in the image."""
    image = data if channels_first(layout) else np.moveaxis(data, -1, 1)
    size = pair(kernel, 2)
    steps = size if stride is None else pair(stride, 2)
    columns = []
    for extent, k, s, p in zip(image.shape[2:], size, steps, pair(padding, 2)):
        starts = range(-p, extent + p - k + 1, s)
        columns.append([slice(max(at, 0), min(at + k, extent)) for at in starts])
    rows = [np.stack([reduce(image[:, :, y, x]) for x in columns[1]], axis=-1) for y in columns[0]]
    out = np.stack(rows, axis=-2)
    return out if channels_first(layout) else np.moveaxis(out, 1, -1)


def mean(values, axis):
    """The mean, rounded down for integers."""
    wide = np.promote_types(values.dtype, "float32") if values.dtype.kind == "f" else np.int64
    total, count = values.sum(axis, dtype=wide), math.prod(values.shape[a] for a in axis)
    result = total // count if wide is np.int64 else total / total.dtype.type(count)
    return result.astype(values.dtype)


def max_pool2d(data, **options):
    return pooled(data, lambda part: part.max(axis=(2, 3)), **options)


def avg_pool2d(data, **options):
    return pooled(data, lambda part: mean(part, (2, 3)), **options)


def global_avg_pool2d(data, layout=None, **_):
    return mean(data, (2, 3) if channels_first(layout) else (1, 2))


# ---- rows


def matrix_norm(a, **_):
    return np.linalg.norm(a.astype("float64"), axis=(1, 2)).astype(a.dtype)


def softmax(a, **_):
    return special.softmax(a.astype("float64"), axis=1).astype(a.dtype)


def layer_norm(a, gamma, beta, eps=1e-5, **_):
    wide = a.astype("float64")
    centred = wide - wide.mean(axis=1, keepdims=True)
    result = centred / np.sqrt(wide.var(axis=1, keepdims=True) + eps)
    return (result * gamma + beta).astype(a.dtype)


def elementwise_chain(a, **_):
    number = a.dtype.type
    return np.maximum((a * number(1.5) + number(0.5)) * a - number(2), number(0))


def stencil2d(data, **_):
    if data.dtype.kind != "f":
        column = (data[:-2] + data[1:-1] + data[2:]) // 3
        return ((column[:, :-2] + column[:, 1:-1] + column[:, 2:]) // 3).astype(data.dtype)
    blurred = ndimage.uniform_filter(data.astype("float64"), size=3)
    return blurred[1:-1, 1:-1].astype(data.dtype)


REFERENCES = {
    "argmax": lambda a, **_: np.argmax(a, axis=1),
    "avg_pool2d": avg_pool2d,
    "batch_matmul": matmul,
    "capsule_conv2d": capsule_conv2d,
    "conv1d": conv,
    "conv2d": conv,
    "conv2d_bias_bn_relu": conv2d_bias_bn_relu,
    "conv2d_bias_relu": conv2d_bias_relu,
    "conv2d_nhwc": conv,
    "conv2d_transpose": conv2d_transpose,
    "conv2d_winograd": conv,
    "conv3d": conv,
    "cumsum": lambda a, **_: np.cumsum(a, axis=1, dtype=a.dtype),
    "depthwise_conv2d": depthwise_conv2d,
    "dilated_conv2d": conv,
    "elementwise_chain": elementwise_chain,
    "full_sum": lambda a, **_: np.sum(a, dtype=a.dtype).reshape(()),
    "global_avg_pool2d": global_avg_pool2d,
    "grouped_conv2d": conv,
    "layer_norm": layer_norm,
    "matmul": matmul,
    "matmul_bias_relu": matmul_bias_relu,
    "matrix_norm": matrix_norm,
    "max_pool2d": max_pool2d,
    "row_sum": lambda a, **_: np.sum(a, axis=1, dtype=a.dtype),
    "softmax": softmax,
    "stencil2d": stencil2d,
    "transpose_add": lambda a, b, /, **_: a.T + b,
    "transpose_batch_matmul": transpose_batch_matmul,
    "transpose_batch_matmul_softmax": transpose_batch_matmul_softmax,
}
"""By the names in WORKLOADS."""
