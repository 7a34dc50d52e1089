"""Operators beside numpy, in the interpreter, on small shapes; and what they refuse."""

import math
from functools import partial

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops

RNG = np.random.default_rng(0)


def small(*shape):
    return RNG.integers(-3, 4, shape).astype("float32")


def run(function, *arrays):
    """The value of an operator on arrays, by the interpreter."""
    inputs = [mt.placeholder(a.shape, str(a.dtype), f"x{n}") for n, a in enumerate(arrays)]
    return mt.interpret(mt.lower([*inputs, function(*inputs)]), *arrays)


ERF = np.vectorize(math.erf, otypes=["float64"])
UNARY = {
    "relu": (ops.relu, lambda v: np.maximum(v, 0)),
    "leaky_relu": (lambda x: ops.leaky_relu(x, alpha=0.5), lambda v: np.where(v > 0, v, v / 2)),
    "clip": (lambda x: ops.clip(x, low=-1, high=2), lambda v: np.clip(v, -1, 2)),
    "clip above": (lambda x: ops.clip(x, high=2.0), lambda v: np.minimum(v, 2)),
    "sigmoid": (ops.sigmoid, lambda v: 1 / (1 + np.exp(-v))),
    "silu": (ops.silu, lambda v: v / (1 + np.exp(-v))),
    "hard_sigmoid": (ops.hard_sigmoid, lambda v: np.clip(v * 0.2 + 0.5, 0, 1)),
    "hard_swish": (ops.hard_swish, lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
    "gelu": (ops.gelu, lambda v: v * 0.5 * (1 + ERF(v / math.sqrt(2)))),
    "gelu by tanh": (
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda v: v * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    ),
    "tanh": (ops.tanh, np.tanh),
    "erf": (ops.erf, ERF),
    "exp": (ops.exp, np.exp),
    "abs": (ops.abs, np.abs),
    "neg": (ops.neg, np.negative),
    "floor": (ops.floor, np.floor),
    "ceil": (ops.ceil, np.ceil),
    "round": (ops.round, np.round),
    "sin": (ops.sin, np.sin),
    "cos": (ops.cos, np.cos),
    "identity": (ops.identity, lambda v: v),
    "cast": (lambda x: ops.cast(x, dtype="int32"), lambda v: v.astype("int32")),
    "sqrt of squares": (lambda x: ops.sqrt(ops.mul(x, x)), np.abs),
    "rsqrt": (lambda x: ops.rsqrt(ops.add(ops.mul(x, x), 1)), lambda v: 1 / np.sqrt(v * v + 1)),
    "log": (lambda x: ops.log(ops.add(ops.abs(x), 1.0)), lambda v: np.log(np.abs(v) + 1)),
    "reciprocal": (lambda x: ops.reciprocal(ops.add(ops.abs(x), 1)), lambda v: 1 / (abs(v) + 1)),
    "square": (lambda x: ops.power(x, 2), lambda v: v**2),
    "cube": (lambda x: ops.power(x, 3.0), lambda v: v**3),
    "reshape": (lambda x: ops.reshape(x, shape=(2, -1, 2)), lambda v: v.reshape(2, -1, 2)),
    "units": (lambda x: ops.reshape(x, shape=(1, 4, 1, 6)), lambda v: v.reshape(1, 4, 1, 6)),
    "transpose": (ops.transpose, np.transpose),
    "slice": (
        lambda x: ops.slice(x, starts=(1, -4), stops=(9, -1), steps=(2, 1)),
        lambda v: v[1:9:2, -4:-1],
    ),
    "backwards": (
        lambda x: ops.slice(x, starts=(5,), stops=(-99,), axes=(1,), steps=(-2,)),
        lambda v: v[:, 5:None:-2],
    ),
    "pad": (
        lambda x: ops.pad(x, before=(1, 0), after=(0, 2), value=7),
        lambda v: np.pad(v, ((1, 0), (0, 2)), constant_values=7),
    ),
    "no pad": (lambda x: ops.pad(x, before=(0, 0), after=(0, 0)), lambda v: v),
    "broadcast_to": (
        lambda x: ops.broadcast_to(x, shape=(2, 4, 6)),
        lambda v: np.broadcast_to(v, (2, 4, 6)),
    ),
    "upsample": (
        lambda x: ops.upsample(x, scales=(2, 1)),
        lambda v: v.repeat(2, axis=0),
    ),
    "split": (
        lambda x: ops.concat(ops.split(x, [1, 5], 1)[::-1], axis=1),
        lambda v: np.roll(v, -1, 1),
    ),
    "reduce_sum": (ops.reduce_sum, np.sum),
    "reduce_mean": (lambda x: ops.reduce_mean(x, axes=-1), lambda v: v.mean(-1)),
    "reduce_max": (
        lambda x: ops.reduce_max(x, axes=0, keepdims=True),
        lambda v: v.max(0, keepdims=True),
    ),
    "reduce_min": (lambda x: ops.reduce_min(x, axes=(0, 1)), np.min),
    "softmax": (ops.softmax, lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True)),
    "softmax of columns": (
        lambda x: ops.softmax(x, axis=0),
        lambda v: np.exp(v) / np.exp(v).sum(0, keepdims=True),
    ),
    "layer_norm": (
        ops.layer_norm,
        lambda v: (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5),
    ),
}


@pytest.mark.parametrize("name", UNARY)
def test_of_one_tensor(name):
    function, wanted = UNARY[name]
    array = small(4, 6)
    np.testing.assert_allclose(
        run(function, array), wanted(array.astype("float64")), rtol=2e-6, atol=2e-6
    )


BINARY = {
    "add": (ops.add, np.add),
    "sub": (ops.sub, np.subtract),
    "mul": (ops.mul, np.multiply),
    "maximum": (ops.maximum, np.maximum),
    "minimum": (ops.minimum, np.minimum),
    "equal": (ops.equal, np.equal),
    "less": (ops.less, np.less),
    "greater": (ops.greater, np.greater),
    "div": (lambda a, b: ops.div(a, ops.add(ops.abs(b), 1)), lambda a, b: a / (abs(b) + 1)),
    "logical": (
        lambda a, b: ops.logical_or(
            ops.logical_and(ops.less(a, b), ops.less(a, 1)), ops.equal(a, b)
        ),
        lambda a, b: ((a < b) & (a < 1)) | (a == b),
    ),
    "where": (
        lambda a, b: ops.where(ops.logical_not(ops.less(a, b)), a, 0.5),
        lambda a, b: np.where(a < b, 0.5, a),
    ),
}


@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((1,), (2, 3)), ((), (2,))]
)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_that_broadcast(name, shapes):
    function, wanted = BINARY[name]
    a, b = (small(*shape) for shape in shapes)
    np.testing.assert_allclose(run(function, a, b), wanted(a, b), rtol=2e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((3, 4), (2, 4, 1)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul(shapes):
    a, b = (small(*shape) for shape in shapes)
    np.testing.assert_array_equal(run(ops.matmul, a, b), a @ b)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("c", [(), (5,), (3, 1)])
def test_gemm(transpose_a, transpose_b, c):
    a, b, more = small(3, 4), small(4, 5), small(*c)
    given = (a.T.copy() if transpose_a else a, b.T.copy() if transpose_b else b, more)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    got = run(lambda x, y, z: ops.gemm(x, y, z, alpha=2.0, beta=0.5, **flags), *given)
    np.testing.assert_array_equal(got, 2 * (a @ b) + 0.5 * more)


def convolved(x, w, stride, pads, dilation, groups):
    """A convolution over any number of axes by loops over the result."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation)]
    sizes = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, stride)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    each = w.shape[1]
    for f in range(w.shape[0]):
        group = f // (w.shape[0] // groups)
        channels = x[:, group * each : (group + 1) * each]
        for at in np.ndindex(*sizes):
            window = tuple(
                slice(i * s, i * s + span, d) for i, s, span, d in zip(at, stride, spans, dilation)
            )
            axes = tuple(range(1, rank + 2))
            result[(slice(None), f, *at)] = (
                channels[(slice(None), slice(None), *window)] * w[f]
            ).sum(axes)
    return result


@pytest.mark.parametrize(
    ("function", "x", "w", "stride", "pads", "dilation", "groups"),
    [
        (ops.conv1d, (2, 3, 9), (4, 3, 3), (2,), ((1, 1),), (1,), 1),
        (ops.conv2d, (1, 3, 6, 5), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
        (ops.conv2d, (1, 4, 7, 6), (6, 2, 3, 2), (2, 1), ((0, 1), (2, 0)), (1, 2), 2),
        (ops.conv2d, (2, 3, 5, 5), (3, 1, 3, 3), (1, 2), ((1, 1), (1, 1)), (1, 1), 3),
        (ops.conv2d, (1, 2, 4, 4), (4, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 2),
        (
            ops.conv3d,
            (1, 2, 3, 4, 5),
            (2, 2, 2, 3, 3),
            (1, 1, 2),
            ((0, 1), (1, 1), (1, 1)),
            (1,) * 3,
            1,
        ),
    ],
)
def test_convolutions(function, x, w, stride, pads, dilation, groups):
    image, weight, bias = small(*x), small(*w), small(w[0])
    got = run(
        lambda x, w, b: function(
            x, w, b, stride=stride, padding=pads, dilation=dilation, groups=groups
        ),
        image,
        weight,
        bias,
    )
    wanted = convolved(image, weight, stride, pads, dilation, groups)
    np.testing.assert_array_equal(got, wanted + bias.reshape(-1, *(1,) * (len(x) - 2)))


def scattered(x, w, stride, pads, extra, dilation, groups):
    """The transposed convolution: each element of x adds its multiple of a window."""
    n, c, *sizes = x.shape
    over, *kernel = w.shape[1:]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    full = np.zeros((n, groups, over, *((m - 1) * s + span + e
                    for m, s, span, e in zip(sizes, stride, spans, extra))))  # fmt: skip
    windows = w.reshape(groups, c // groups, *w.shape[1:])
    for at in np.ndindex(*sizes):
        part = x[(..., *at)].reshape(n, groups, -1)
        place = tuple(
            slice(i * s, i * s + span, d) for i, s, span, d in zip(at, stride, spans, dilation)
        )
        full[(..., *place)] += np.einsum("ngc,gcf...->ngf...", part, windows)
    cut = tuple(slice(low, m - high) for m, (low, high) in zip(full.shape[3:], pads))
    return full.reshape(n, groups * over, *full.shape[3:])[(..., *cut)]


@pytest.mark.parametrize(
    ("x", "w", "given"),
    [
        ((1, 2, 3, 4), (2, 3, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 2, 3, 4), (2, 3, 3, 2), {"stride": (1, 2), "padding": (1, 0)}),
        ((1, 2, 3, 4), (2, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 2, 3, 4), (2, 3, 2, 2), {"stride": 3}),
        ((1, 2, 3, 4), (2, 3, 3, 2), {"dilation": (2, 3), "padding": ((3, 1), (0, 2))}),
        ((1, 2, 3, 4), (2, 3, 3, 3), {"dilation": 3, "stride": 2, "output_padding": 2}),
        ((2, 6, 3, 2), (6, 2, 3, 3), {"groups": 3, "stride": 2}),
        ((2, 4, 3, 2), (4, 1, 2, 3), {"groups": 2}),
        ((1, 4, 3, 3), (4, 1, 3, 3), {"groups": 4, "stride": 2, "padding": 1}),
        ((1, 2, 3, 3), (2, 3, 2, 2), {"groups": 2, "dilation": 2}),
        ((1, 2, 5), (2, 3, 4), {"stride": 3, "padding": 2}),
        ((2, 4, 4), (4, 2, 3), {"groups": 2, "dilation": 2, "stride": 2, "output_padding": 1}),
        ((1, 2, 2, 3, 2), (2, 2, 3, 2, 2), {"stride": (2, 1, 3), "padding": (1, 0, 0)}),
        ((2, 3, 1, 1), (3, 2, 4, 3), {}),
        ((1, 3, 1, 1), (3, 2, 4, 4), {"stride": 3, "padding": 1, "output_padding": 2}),
        ((1, 3, 1, 1), (3, 2, 3, 2), {"dilation": (3, 2), "output_padding": (2, 0)}),
        ((2, 4, 1), (4, 2, 3), {"groups": 2, "padding": ((0, 1),), "stride": 2}),
        ((2, 4, 1, 1), (4, 1, 3, 3), {"groups": 4, "dilation": 2, "padding": ((1, 2), (3, 0))}),
    ],
)  # fmt: skip
def test_transposed_convolution(x, w, given):
    x, w = small(*x), small(*w)
    rank, groups = x.ndim - 2, given.get("groups", 1)
    bias = small(w.shape[1] * groups)

    def each(name, value):
        found = given.get(name, value)
        return found if isinstance(found, tuple) else (found,) * rank

    pads = [p if isinstance(p, tuple) else (p, p) for p in each("padding", 0)]
    wanted = scattered(
        x, w, each("stride", 1), pads, each("output_padding", 0), each("dilation", 1), groups
    )
    function = getattr(ops, f"conv_transpose{rank}d")
    got = run(lambda x, w, bias: function(x, w, bias, **given), x, w, bias)
    np.testing.assert_array_equal(got, wanted + bias.reshape(-1, *(1,) * rank))


@pytest.mark.parametrize(
    ("x", "w", "given", "message"),
    [
        ((1, 4, 3), (4, 2, 3), {"groups": 3}, "divisible by 3 groups"),
        ((1, 4, 3), (2, 2, 3), {"groups": 2}, "must be equal"),
        ((1, 4, 3), (4, 2, 3), {"groups": 0}, "groups"),
        ((1, 4, 3), (4, 2, 3), {"dilation": 0}, "dilation"),
        ((1, 4, 3), (4, 2, 3), {"padding": 3}, r"padding below what the window spans, \[3\]"),
        ((1, 4, 3), (4, 2, 3), {"output_padding": 1}, "output_padding below the stride"),
        ((1, 4, 3, 3), (4, 2, 3), {}, "expected x with 3 axes"),
        ((1, 4, 1), (4, 2, 3), {"padding": 2}, r"the result would have the extents \[-1\]"),
    ],
)  # fmt: skip
def test_transposed_convolutions_that_do_not_fit(x, w, given, message):
    with pytest.raises(mt.ArgumentError, match=message):
        ops.conv_transpose1d(mt.placeholder(x, name="x"), mt.placeholder(w, name="w"), **given)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0))]
)
def test_pools(kernel, stride, padding):
    x = small(1, 2, 6, 7)
    k = (kernel, kernel) if isinstance(kernel, int) else kernel
    s = k if stride is None else (stride, stride) if isinstance(stride, int) else stride
    p = (padding, padding) if isinstance(padding, int) else padding
    widths = [(0, 0), (0, 0), (p[0], p[0]), (p[1], p[1])]
    for operator, combine, fill in ((ops.max_pool, np.max, -np.inf), (ops.avg_pool, np.mean, 0)):
        padded = np.pad(x.astype("float64"), widths, constant_values=fill)
        windows = np.lib.stride_tricks.sliding_window_view(padded, k, (2, 3))[
            :, :, :: s[0], :: s[1]
        ]
        got = run(lambda x, op=operator: op(x, kernel=kernel, stride=stride, padding=padding), x)
        np.testing.assert_allclose(got, combine(windows, (-2, -1)), rtol=1e-6)


def test_global_average():
    x = small(2, 3, 4, 5)
    np.testing.assert_allclose(
        run(ops.global_avg_pool, x), x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6
    )


def test_batch_norm():
    x, gamma, beta, mean, variance = small(2, 3, 4), small(3), small(3), small(3), abs(small(3)) + 1
    wanted = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * gamma[:, None] + beta[
        :, None
    ]
    got = run(ops.batch_norm, x, gamma, beta, mean, variance)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_gather():
    x, indices = small(3, 4, 2), np.array([[0, -1], [3, 1]], "int64")
    np.testing.assert_array_equal(
        run(lambda x, i: ops.gather(x, i, axis=1), x, indices), x.take(indices, 1)
    )


@pytest.mark.parametrize(("shape", "axis"), [((3, 2, 2), 1), ((1, 4, 2), 0), ((2, 4, 5), -1)])
def test_gather_elements(shape, axis):
    x = small(3, 4, 2)
    extent = x.shape[axis]
    indices = np.random.default_rng(0).integers(-extent, extent, shape)
    part = x[tuple(slice(n) if a != axis % 3 else slice(None) for a, n in enumerate(shape))]
    np.testing.assert_array_equal(
        run(lambda x, i: ops.gather_elements(x, i, axis=axis), x, indices),
        np.take_along_axis(part, indices % extent, axis),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_places_of_extrema(axis, keepdims):
    x = np.random.default_rng(0).integers(0, 3, (3, 4, 5)).astype("f")
    for array in (x, np.where(x == 1, np.float32(np.nan), x)):
        for name, function in (("argmax", ops.argmax), ("argmin", ops.argmin)):
            found = run(partial(function, axis=axis, keepdims=keepdims), array)
            wanted = getattr(np, name)(array, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("k", "axis"), [(1, 0), (3, 0), (2, 1), (4, -1)])
def test_top_k_of_equal_numbers_infinities_and_nans(k, axis, largest):
    rng = np.random.default_rng(0)
    x = rng.choice([1, 2, 3, np.inf, -np.inf, np.nan], (3, 4, 6)).astype("f")
    order = np.argsort(
        np.where(np.isnan(x), 9, np.clip(x, -5, 5)) * (-1) ** largest, axis, kind="stable"
    )
    wanted = order.take(range(k), axis)
    indices = run(lambda x: ops.top_k_indices(x, k=k, axis=axis, largest=largest), x)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(
        run(lambda x: ops.top_k(x, k, axis, largest)[0], x), np.take_along_axis(x, wanted, axis)
    )


def of(*shape, dtype="float32"):
    return mt.placeholder(shape, dtype, "t")


REFUSED = {
    "ops.add: the shapes .* do not broadcast": lambda: ops.add(of(3), of(4)),
    "ops.add: a is float32 and b is int32": lambda: ops.add(of(3), of(3, dtype="int32")),
    "expected a tensor, or a number beside a tensor": lambda: ops.add(1, 2),
    r"ops.relu: x=\[1": lambda: ops.relu([1, 2]),
    "ops.matmul: expected two tensors of at least 2 axes": lambda: ops.matmul(of(3), of(3, 4)),
    "ops.matmul: a is .* the last extent of a": lambda: ops.matmul(of(3, 4), of(5, 6)),
    "ops.gemm: .*4 and 5 differ": lambda: ops.gemm(of(3, 4), of(5, 6)),
    "ops.conv2d: expected x with 4 axes": lambda: ops.conv2d(of(3, 4), of(1, 1, 1, 1)),
    "ops.conv2d: x has 3 channels": lambda: ops.conv2d(of(1, 3, 4, 4), of(2, 2, 1, 1)),
    "ops.conv2d: the window spans 5": lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 5, 5)),
    "ops.conv2d: expected bias of shape": lambda: ops.conv2d(of(1, 1, 4, 4), of(2, 1, 1, 1), of(3)),
    "ops.max_pool: expected padding of at most half": lambda: ops.max_pool(
        of(1, 1, 4, 4), kernel=2, padding=2
    ),
    "ops.reshape: .*has 6 elements": lambda: ops.reshape(of(2, 3), shape=(4, 2)),
    "ops.transpose: axes": lambda: ops.transpose(of(2, 3), axes=(0, 0)),
    "ops.slice: nothing is left": lambda: ops.slice(of(4), starts=(3,), stops=(1,)),
    "ops.concat: .* does not fit behind": lambda: ops.concat([of(2, 3), of(2, 4)], axis=0),
    "ops.softmax: axis": lambda: ops.softmax(of(2, 3), axis=2),
    "ops.reduce_sum: axes": lambda: ops.reduce_sum(of(2, 3), axes=(0, 0)),
    "ops.gather: expected integers": lambda: ops.gather(of(3), of(2)),
    "ops.gather_elements: expected integers": lambda: ops.gather_elements(of(3), of(2)),
    "ops.gather_elements: expected indices with 2 axes": lambda: ops.gather_elements(
        of(3, 2), of(2, dtype="int64")
    ),
    "ops.gather_elements: .* but for axis 0, but got": lambda: ops.gather_elements(
        of(3, 2), of(2, 3, dtype="int64")
    ),
    "ops.top_k_indices: k=5": lambda: ops.top_k(of(4), 5),
    "ops.top_k_indices: k=0": lambda: ops.top_k_indices(of(4), k=0),
    "ops.top_k_indices: largest='no'": lambda: ops.top_k(of(4), 1, largest="no"),
    "a tensor with an axis": lambda: ops.softmax(of()),
    "ops.argmax: axis": lambda: ops.argmax(of(4), axis=1),
    "ops.where: expected a condition": lambda: ops.where(of(2), of(2), of(2)),
    "ops.div: expected floats": lambda: ops.div(of(2, dtype="int32"), 2),
    "ops.layer_norm: expected gamma": lambda: ops.layer_norm(of(2, 3), of(2)),
    "ops.split: parts=.* do not add up": lambda: ops.split(of(5), 2),
    "ops.gelu: approximate": lambda: ops.gelu(of(2), approximate="fast"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(mt.ArgumentError, match=message):
        REFUSED[message]()
