"""Operators of ONNX as those of `mt.ops`: a function of the node and its operands for each.

Operands are tensors, arrays that are known, and None for what was left out. Source: the ONNX
operator reference, versions 9 to 23.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from minitensor.graph.onnx.context import Context, NotSupportedError, reshape
from minitensor.graph.onnx.einsum import einsum
from minitensor.graph.onnx.quantized import QUANTIZED
from minitensor.graph.onnx.recurrent import recurrent
from minitensor.graph.onnx.windows import WINDOWS
from minitensor.lang import Tensor, ops

__all__ = ["CONVERTERS", "Context", "NotSupportedError"]

Converter = Callable[..., Any]


# ---- element by element


def _unary(function: Callable[[Tensor], Tensor]) -> Converter:
    return lambda c, x: function(c.tensor(x))


def _binary(function: Callable[..., Tensor]) -> Converter:
    def convert(c: Context, a: Any, b: Any) -> Tensor:
        return function(c.scalar(a, b), c.scalar(b, a))

    return convert


def _several(function: Callable[..., Tensor]) -> Converter:
    def convert(c: Context, first: Any, *rest: Any) -> Tensor:
        found = first
        for other in rest:
            found = function(c.scalar(found, other), c.scalar(other, found))
        return c.tensor(found)

    return convert


def _pow(c: Context, x: Any, y: Any) -> Tensor:
    x = c.tensor(x)
    if isinstance(y, Tensor):
        return ops.power(x, y)
    if y.size == 1 and y.item() in (0.5, 2):
        return ops.mul(x, x) if y.item() == 2 else ops.sqrt(x)
    return ops.power(x, c.scalar(y.astype(str(x.dtype)), x))


def _clip(c: Context, x: Any, low: Any = None, high: Any = None) -> Tensor:
    bounds = [_bound(c, name, given) for name, given in (("min", low), ("max", high))]
    x = c.tensor(x)
    if not any(isinstance(bound, Tensor) for bound in bounds):
        return ops.clip(x, low=_finite(bounds[0]), high=_finite(bounds[1]))
    x = x if bounds[0] is None else ops.maximum(x, bounds[0])
    return x if bounds[1] is None else ops.minimum(x, bounds[1])


def _bound(c: Context, name: str, given: Any) -> Any:
    """A bound as a number, if it is known; in older versions it is an attribute."""
    if given is None:
        return c.attribute(name, None)
    return given if isinstance(given, Tensor) else given.reshape(()).item()


def _finite(bound: float | None) -> float | None:
    return bound if bound is None or math.isfinite(bound) else None


def _elu(c: Context, x: Any, alpha: float, gamma: float = 1.0) -> Tensor:
    x = c.tensor(x)
    below = ops.mul(ops.sub(ops.exp(ops.minimum(x, 0.0)), 1.0), gamma * alpha)
    return ops.where(ops.greater(x, 0.0), x if gamma == 1.0 else ops.mul(x, gamma), below)


def _softplus(c: Context, x: Any) -> Tensor:
    x = c.tensor(x)
    return ops.add(ops.maximum(x, 0.0), ops.log(ops.add(ops.exp(ops.neg(ops.abs(x))), 1.0)))


def _prelu(c: Context, x: Any, slope: Any) -> Tensor:
    x = c.tensor(x)
    return ops.where(ops.greater(x, 0.0), x, ops.mul(x, c.scalar(slope, x)))


def _cast(c: Context, x: Any) -> Tensor:
    c.attribute("saturate", None)
    return ops.cast(c.tensor(x), dtype=c.dtype("to"))


# ---- shapes


def _transpose(c: Context, x: Any) -> Tensor:
    return ops.transpose(c.tensor(x), axes=c.integers("perm", None))


def _slice(c: Context, x: Any, *given: Any) -> Tensor:
    starts, stops, axes, steps = c.slices(x.ndim, *given)
    for stop, axis, step in zip(stops, axes, steps):
        if step < 0 and stop < -x.shape[axis]:
            raise NotSupportedError("Slice backwards to the beginning")
    return ops.slice(x, starts=starts, stops=stops, axes=axes, steps=steps)


def _split(c: Context, x: Any, parts: Any = None) -> list[Tensor]:
    return [
        ops.slice(x, starts=(low,), stops=(high,), axes=(c.axis,))
        for low, high in c.parts(x.shape, parts)
    ]


def _expand(c: Context, x: Any, shape: Any) -> Tensor:
    wanted = np.broadcast_shapes(x.shape, c.ints(shape, "shape"))
    return x if wanted == x.shape else ops.broadcast_to(c.tensor(x), shape=wanted)


def _tile(c: Context, x: Any, repeats: Any) -> Tensor:
    x, counts = c.tensor(x), c.ints(repeats, "repeats")
    apart = [extent for n in x.shape for extent in (1, n)]
    wide = [extent for n, count in zip(x.shape, counts) for extent in (count, n)]
    repeated = ops.broadcast_to(ops.reshape(x, shape=tuple(apart)), shape=tuple(wide))
    return ops.reshape(repeated, shape=tuple(n * count for n, count in zip(x.shape, counts)))


def _depth_to_space(c: Context, x: Any) -> Tensor:
    size, mode = c.integer("blocksize"), c.attribute("mode", "DCR")
    n, channels, h, w = x.shape
    left = channels // (size * size)
    apart = (n, size, size, left, h, w) if mode == "DCR" else (n, left, size, size, h, w)
    axes = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    moved = ops.transpose(ops.reshape(c.tensor(x), shape=apart), axes=axes)
    return ops.reshape(moved, shape=(n, left, h * size, w * size))


def _space_to_depth(c: Context, x: Any) -> Tensor:
    size = c.integer("blocksize")
    n, channels, h, w = x.shape
    apart = ops.reshape(c.tensor(x), shape=(n, channels, h // size, size, w // size, size))
    moved = ops.transpose(apart, axes=(0, 3, 5, 1, 2, 4))
    return ops.reshape(moved, shape=(n, channels * size * size, h // size, w // size))


def _gather(c: Context, x: Any, indices: Any) -> Tensor:
    axis = c.integer("axis", 0)
    if not isinstance(indices, Tensor) and indices.ndim == 0:  # one slice
        place = int(indices) % x.shape[axis]
        one = ops.slice(c.tensor(x), starts=(place,), stops=(place + 1,), axes=(axis,))
        axis %= x.ndim
        return reshape(one, one.shape[:axis] + one.shape[axis + 1 :])
    return ops.gather(c.tensor(x), c.tensor(indices, "indices"), axis=axis)


# ---- products


def _matmul(c: Context, a: Any, b: Any) -> Tensor:
    a, b = c.tensor(a), c.tensor(b)
    left, right = a.ndim == 1, b.ndim == 1
    x = ops.reshape(a, shape=(1, *a.shape)) if left else a
    y = ops.reshape(b, shape=(*b.shape, 1)) if right else b
    found = ops.matmul(x, y)
    if not left and not right:
        return found
    front = found.shape[:-2]
    rows, columns = found.shape[-2:]
    kept = (*front, *(() if left else (rows,)), *(() if right else (columns,)))
    return ops.reshape(found, shape=kept)


def _gemm(c: Context, a: Any, b: Any, bias: Any = None) -> Tensor:
    return ops.gemm(
        c.tensor(a),
        c.tensor(b, "weight"),
        None if bias is None else c.tensor(bias, "bias"),
        alpha=c.number("alpha", 1.0),
        beta=c.number("beta", 1.0),
        transpose_a=bool(c.integer("transA", 0)),
        transpose_b=bool(c.integer("transB", 0)),
    )


# ---- reductions and norms


def _reduced(function: Callable[..., Tensor], after: Callable[..., Any] | None = None) -> Converter:
    """A reduction of what `after` makes of the operand."""

    def convert(c: Context, x: Any, axes: Any = None) -> Tensor:
        chosen, keep = c.reduced(x.ndim, axes)
        source = x if after is None else after(x)
        return function(source, axes=chosen, keepdims=keep) if chosen else source

    return convert


def _log_sum_exp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    most = ops.reduce_max(x, axes=axes, keepdims=True)
    total = ops.reduce_sum(ops.exp(ops.sub(x, most)), axes=axes, keepdims=True)
    found = ops.add(most, ops.log(total))
    kept = tuple(extent for n, extent in enumerate(found.shape) if keepdims or n not in axes)
    return reshape(found, kept)


def _softmax(c: Context, x: Any, log: bool = False) -> Tensor:
    rank = x.ndim
    axis = c.integer("axis", 1 if c.opset < 13 else -1) % rank
    flat = c.opset < 13 and axis != rank - 1  # the axes from this one on, together
    y = ops.reshape(x, shape=(math.prod(x.shape[:axis]), -1)) if flat else x
    along = 1 if flat else axis
    found = ops.sub(y, _log_sum_exp(y, (along,), True)) if log else ops.softmax(y, axis=along)
    return reshape(found, x.shape)


def _layer_norm(c: Context, x: Any, scale: Any, shift: Any = None) -> Tensor:
    axis, epsilon = c.integer("axis", -1) % x.ndim, c.number("epsilon", 1e-5)
    c.only("stash_type", 1)
    if len([name for name in c.outputs if name]) > 1:
        raise NotSupportedError("LayerNormalization with its mean as an output")
    shift = np.zeros(scale.shape, str(scale.dtype)) if shift is None else shift
    rest = x.shape[axis:]
    gamma, beta = c.tensor(scale, "scale"), c.tensor(shift, "shift")
    if len(rest) == 1:
        return ops.layer_norm(x, gamma, beta, eps=epsilon)
    flat = ops.reshape(x, shape=(*x.shape[:axis], -1))
    found = ops.layer_norm(
        flat, reshape(gamma, flat.shape[-1:]), reshape(beta, flat.shape[-1:]), eps=epsilon
    )
    return ops.reshape(found, shape=x.shape)


def _normalized(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """x with a mean of 0 and a variance of 1 over some axes."""
    centred = ops.sub(x, ops.reduce_mean(x, axes=axes, keepdims=True))
    variance = ops.reduce_mean(ops.mul(centred, centred), axes=axes, keepdims=True)
    return ops.mul(centred, ops.rsqrt(ops.add(variance, epsilon)))


def _scaled(c: Context, x: Tensor, scale: Any, shift: Any) -> Tensor:
    """x scaled and shifted, with a number for each channel."""
    shape = (scale.shape[0], *(1,) * (x.ndim - 2))
    gamma, beta = c.tensor(scale, "scale"), c.tensor(shift, "shift")
    return ops.add(ops.mul(x, reshape(gamma, shape)), reshape(beta, shape))


def _instance_norm(c: Context, x: Any, scale: Any, shift: Any) -> Tensor:
    axes = tuple(range(2, x.ndim))
    return _scaled(c, _normalized(x, axes, c.number("epsilon", 1e-5)), scale, shift)


def _group_norm(c: Context, x: Any, scale: Any, shift: Any) -> Tensor:
    groups, epsilon = c.integer("num_groups"), c.number("epsilon", 1e-5)
    c.only("stash_type", 1)
    apart = ops.reshape(x, shape=(x.shape[0], groups, -1))
    found = ops.reshape(_normalized(apart, (2,), epsilon), shape=x.shape)
    if scale.shape[0] == x.shape[1]:
        return _scaled(c, found, scale, shift)
    if isinstance(scale, Tensor) or isinstance(shift, Tensor):
        raise NotSupportedError("GroupNormalization whose scale depends on data")
    each = x.shape[1] // groups  # before version 21 a number for each group
    return _scaled(c, found, np.repeat(scale, each), np.repeat(shift, each))


def _batch_norm(c: Context, x: Any, *given: Any) -> Tensor:
    c.only("training_mode", 0)
    c.only("spatial", 1)
    c.attribute("momentum", None)
    names = ("gamma", "beta", "mean", "variance")
    statistics = [c.tensor(one, name) for one, name in zip(given, names)]
    return ops.batch_norm(x, *statistics, eps=c.number("epsilon", 1e-5))


def _dropout(c: Context, x: Any, *_: Any) -> list[Any]:
    c.attribute("ratio", None)
    c.attribute("seed", None)
    return [x, *[np.ones(x.shape, np.bool_)] * (len(c.outputs) - 1)]


def _constant(c: Context) -> np.ndarray:
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        if (found := c.attribute(name, None)) is not None:
            return np.asarray(found, dtype)
    for name, dtype in (("value_floats", np.float32), ("value_ints", np.int64)):
        if (found := c.attribute(name, None)) is not None:
            return np.asarray(found, dtype)
    return c.array("value")


def _extremum(function: Callable[..., Tensor]) -> Converter:
    """The position of an extremum."""

    def convert(c: Context, x: Any) -> Tensor:
        c.only("select_last_index", 0)
        axis, keep = c.integer("axis", 0), bool(c.integer("keepdims", 1))
        return function(c.tensor(x), axis=axis, keepdims=keep)

    return convert


def _top(c: Context, x: Any, k: Any) -> list[Tensor]:
    c.attribute("sorted", 1)  # any order will do where it is 0
    (count,) = c.ints(k, "k")
    return list(ops.top_k(c.tensor(x), count, c.integer("axis", -1), bool(c.integer("largest", 1))))


def _cumulative(c: Context, x: Any, axis: Any) -> Tensor:
    """Sums of prefixes, as a product with a triangle of ones."""
    c.only("exclusive", 0)
    c.only("reverse", 0)
    x = c.tensor(x)
    place = int(c.known(axis, "the axis").item()) % x.ndim
    order = [n for n in range(x.ndim) if n != place] + [place]
    last = ops.transpose(x, axes=order)
    count = x.shape[place]
    ones = c.tensor(np.tril(np.ones((count, count), str(x.dtype))), "triangle")
    rows = reshape(last, (*last.shape[:-1], 1, count))
    sums = ops.reduce_sum(ops.mul(rows, ones), axes=(-1,))
    return ops.transpose(sums, axes=[order.index(n) for n in range(x.ndim)])


CONVERTERS: Final[dict[str, Converter]] = {
    **WINDOWS,
    **QUANTIZED,
    "Abs": _unary(ops.abs),
    "Add": _binary(ops.add),
    "And": _binary(ops.logical_and),
    "ArgMax": _extremum(ops.argmax),
    "ArgMin": _extremum(ops.argmin),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Ceil": _unary(ops.ceil),
    "Clip": _clip,
    "Concat": lambda c, *xs: ops.concat([c.tensor(x) for x in xs], axis=c.integer("axis")),
    "Constant": _constant,
    "Cos": _unary(ops.cos),
    "CumSum": _cumulative,
    "DepthToSpace": _depth_to_space,
    "Div": _binary(ops.div),
    "Dropout": _dropout,
    "Einsum": einsum,
    "Elu": lambda c, x: _elu(c, x, c.number("alpha", 1.0)),
    "Equal": _binary(ops.equal),
    "Erf": _unary(ops.erf),
    "Exp": _unary(ops.exp),
    "Expand": _expand,
    "Flatten": lambda c, x: reshape(c.tensor(x), c.flattened(x.shape)),
    "Floor": _unary(ops.floor),
    "Gather": _gather,
    "GatherElements": lambda c, x, i: ops.gather_elements(
        c.tensor(x), c.tensor(i, "indices"), axis=c.integer("axis", 0)
    ),
    "GRU": recurrent,
    "Gelu": lambda c, x: ops.gelu(x, approximate=c.attribute("approximate", "none")),
    "Gemm": _gemm,
    "Greater": _binary(ops.greater),
    "GreaterOrEqual": _binary(lambda a, b: ops.logical_not(ops.less(a, b))),
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda c, x: ops.hard_sigmoid(
        x, alpha=c.number("alpha", 0.2), beta=c.number("beta", 0.5)
    ),
    "HardSwish": _unary(ops.hard_swish),
    "Identity": lambda c, x: x,
    "InstanceNormalization": _instance_norm,
    "IsNaN": lambda c, x: ops.logical_not(ops.equal(x, x)),
    "LayerNormalization": _layer_norm,
    "LSTM": recurrent,
    "LeakyRelu": lambda c, x: ops.leaky_relu(x, alpha=c.number("alpha", 0.01)),
    "Less": _binary(ops.less),
    "LessOrEqual": _binary(lambda a, b: ops.logical_not(ops.greater(a, b))),
    "Log": _unary(ops.log),
    "LogSoftmax": lambda c, x: _softmax(c, x, log=True),
    "MatMul": _matmul,
    "Max": _several(ops.maximum),
    "Min": _several(ops.minimum),
    "Mish": lambda c, x: ops.mul(x, ops.tanh(_softplus(c, x))),
    "Mul": _binary(ops.mul),
    "Neg": _unary(ops.neg),
    "Not": _unary(ops.logical_not),
    "Or": _binary(ops.logical_or),
    "PRelu": _prelu,
    "Pow": _pow,
    "RNN": recurrent,
    "Reciprocal": _unary(ops.reciprocal),
    "ReduceL1": _reduced(ops.reduce_sum, ops.abs),
    "ReduceL2": _reduced(
        lambda x, **options: ops.sqrt(ops.reduce_sum(x, **options)), lambda x: ops.mul(x, x)
    ),
    "ReduceLogSumExp": _reduced(_log_sum_exp),
    "ReduceMax": _reduced(ops.reduce_max),
    "ReduceMean": _reduced(ops.reduce_mean),
    "ReduceMin": _reduced(ops.reduce_min),
    "ReduceSum": _reduced(ops.reduce_sum),
    "ReduceSumSquare": _reduced(ops.reduce_sum, lambda x: ops.mul(x, x)),
    "Relu": _unary(ops.relu),
    "Reshape": lambda c, x, shape: reshape(c.tensor(x), _whole(c, x, shape)),
    "Round": _unary(ops.round),
    "Selu": lambda c, x: _elu(c, x, c.number("alpha", 1.6732632), c.number("gamma", 1.0507010)),
    "Shape": lambda c, x: c.shape(x.shape),
    "Sigmoid": _unary(ops.sigmoid),
    "Sin": _unary(ops.sin),
    "Size": lambda c, x: np.asarray(math.prod(x.shape), np.int64),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": _softplus,
    "Softsign": lambda c, x: ops.div(x, ops.add(ops.abs(x), 1.0)),
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Sqrt": _unary(ops.sqrt),
    "Squeeze": lambda c, x, axes=None: reshape(x, c.squeezed(x.shape, axes)),
    "Sub": _binary(ops.sub),
    "Tanh": _unary(ops.tanh),
    "Tile": _tile,
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": lambda c, x, axes=None: reshape(x, c.unsqueezed(x.shape, axes)),
    "Where": lambda c, condition, a, b: ops.where(
        c.tensor(condition), c.scalar(a, b), c.scalar(b, a)
    ),
}
"""For each operator a function of the node and its operands."""


def _whole(c: Context, x: Any, shape: Any) -> tuple[int, ...]:
    """The shape of a Reshape, with what -1 stands for."""
    wanted = c.reshaped(x.shape, shape)
    if -1 not in wanted:
        return wanted
    rest = math.prod(extent for extent in wanted if extent != -1)
    return tuple(math.prod(x.shape) // max(rest, 1) if e == -1 else e for e in wanted)
