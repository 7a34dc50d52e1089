"""Operators that combine elements along axes, and those that normalize by what they combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minitensor.errors import ArgumentError, is_integer, is_real, unexpected
from minitensor.lang import elementwise as functions
from minitensor.lang import reduce as reducers
from minitensor.lang import scalar
from minitensor.lang.ops.elementwise import index_of, stage
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.ops.shape import axes_of, axis_of, gather_elements
from minitensor.lang.tensor import Tensor, reduce_axis

Axes = int | Sequence[int] | None


def _reduced(
    name: str,
    x: Tensor,
    axes: Axes,
    keepdims: bool,
    combine: Callable[..., Any],
    value: Callable[[Any], Any] = lambda v: v,
) -> Tensor:
    """A reduction of values of elements over axes; with `keepdims` their extents become 1."""
    tensor(f"ops.{name}: x", x)
    gone = axes_of(name, axes, x.ndim)
    if not gone:
        raise unexpected("at least one axis", f"ops.{name}: axes", axes)
    along = {
        axis: reduce_axis(x.shape[axis], f"r{n}" if len(gone) > 1 else "k")
        for n, axis in enumerate(gone)
    }
    kept = [axis for axis in range(x.ndim) if keepdims or axis not in gone]

    def element(index: Any) -> Any:
        places = dict(zip(kept, index)) | along
        return combine(
            value(x[tuple(places[axis] for axis in range(x.ndim))]), axis=list(along.values())
        )

    return stage([1 if axis in gone else x.shape[axis] for axis in kept], name, element)


@operator("x")
def reduce_sum(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum along axes; None for all."""
    return _reduced("reduce_sum", x, axes, keepdims, reducers.sum_)


@operator("x")
def reduce_max(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The maximum along axes; None for all. NaN if one is."""
    return _reduced("reduce_max", x, axes, keepdims, reducers.max_)


@operator("x")
def reduce_min(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The minimum along axes; None for all. NaN if one is."""
    return _reduced("reduce_min", x, axes, keepdims, reducers.min_)


@operator("x")
def reduce_mean(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean along axes, of floats; None for all."""
    _float("reduce_mean", x)
    count = math.prod(x.shape[axis] for axis in axes_of("reduce_mean", axes, x.ndim))
    total = _reduced("reduce_sum", x, axes, keepdims, reducers.sum_)
    return stage(total.shape, "reduce_mean", lambda i: total[i] * (1 / count))


@operator("x")
def argmax(x: Tensor, *, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The position of the maximum along an axis, int64: the first, or that of the first NaN."""
    return _reduced("argmax", x, (axis,), keepdims, reducers.argmax)


@operator("x")
def argmin(x: Tensor, *, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The position of the minimum along an axis, int64: the first, or that of the first NaN."""
    return _reduced("argmin", x, (axis,), keepdims, reducers.argmin)


@operator("x")
def top_k_indices(x: Tensor, *, k: int, axis: int = -1, largest: bool = True) -> Tensor:
    """The positions of the k largest along an axis, or of the k smallest, the first of them first:
    int64, in the shape of x but for the axis, which has k. Of equal ones the first counts as
    larger, or as smaller; NaN is larger than any number.

    Each element is compared with all others along the axis: the time grows with its square.
    """
    tensor("ops.top_k_indices: x", x)
    place = axis_of("top_k_indices", axis, x.ndim)
    extent = x.shape[place]
    if not is_integer(k, 1) or k > extent:
        raise unexpected(f"an integer from 1 to {extent}", "ops.top_k_indices: k", k)
    if not isinstance(largest, bool):
        raise unexpected("True or False", "ops.top_k_indices: largest", largest)

    def before(index: Any) -> Any:
        """The number of elements that come before the one at an index."""
        j = reduce_axis(extent, "j")
        one, other = x[tuple(index)], x[index_of(*index[:place], j, *index[place + 1 :])]
        is_nan, other_is_nan = one != one, other != other
        wins = other > one if largest else other < one
        ahead, behind = (other_is_nan, is_nan) if largest else (is_nan, other_is_nan)
        wins = scalar.logical_or(wins, scalar.logical_and(ahead, scalar.logical_not(behind)))
        level = scalar.logical_or(one == other, scalar.logical_and(is_nan, other_is_nan))
        wins = scalar.logical_or(wins, scalar.logical_and(level, j < index[place]))
        return reducers.sum_(wins.astype("int32"), axis=j)

    rank = stage(x.shape, "rank", before)

    def position(index: Any) -> Any:
        i = reduce_axis(extent, "i")
        found = rank[index_of(*index[:place], i, *index[place + 1 :])] == index[place]
        return reducers.sum_(scalar.if_then_else(found, i, 0).astype("int64"), axis=i)

    return stage((*x.shape[:place], k, *x.shape[place + 1 :]), "top_k_indices", position)


def top_k(x: Tensor, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest along an axis, or the k smallest, in order, and their positions: see
    `top_k_indices`. No operator of its own: the values are gathered.
    """
    indices = top_k_indices(x, k=k, axis=axis, largest=largest)
    return gather_elements(x, indices, axis=axis), indices


@operator("x")
def global_avg_pool(x: Tensor) -> Tensor:
    """The mean of each channel: x (n, c, spatial…) to (n, c, 1, …)."""
    tensor("ops.global_avg_pool: x", x)
    if x.ndim < 3:
        raise unexpected(
            "a tensor of at least 3 axes (n, c, spatial…)", "ops.global_avg_pool: x", x
        )
    return reduce_mean(x, axes=tuple(range(2, x.ndim)), keepdims=True)


# ---- normalisation along the last axes


def _float(name: str, x: object) -> None:
    if not tensor(f"ops.{name}: x", x).dtype.is_float:
        raise unexpected("a tensor of floats", f"ops.{name}: x", x)


def _eps(name: str, eps: object) -> None:
    if not is_real(eps, 0):
        raise unexpected("a finite number >= 0", f"ops.{name}: eps", eps)


@operator("x")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x - m) / sum of these along an axis, with m the maximum along it: no overflow.

    Stages: row_max, exps, row_sum, softmax. x of a float dtype.
    """
    _float("softmax", x)
    place = axis_of("softmax", axis, x.ndim)
    top = _reduced("row_max", x, place, False, reducers.max_)

    def row(index: Any) -> Any:
        return (*index[:place], *index[place + 1 :])

    exps = stage(x.shape, "exps", lambda i: functions.exp(x[i] - top[row(i)]))
    total = _reduced("row_sum", exps, place, False, reducers.sum_)
    return stage(x.shape, "softmax", lambda i: exps[i] / total[row(i)])


@operator("x", "gamma", "beta")
def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Rows along the last axis brought to mean 0 and variance 1, then scaled and shifted.

        (x - mean) / sqrt(variance + eps) * gamma + beta

    gamma and beta have the last extent of x; all of one float dtype.

    Source: Ba, Kiros, Hinton, Layer Normalization, 2016, §3.
    """
    _float("layer_norm", x)
    _eps("layer_norm", eps)
    for name, one in (("gamma", gamma), ("beta", beta)):
        if one is not None and tensor(f"ops.layer_norm: {name}", one).shape != x.shape[-1:]:
            raise ArgumentError(
                f"ops.layer_norm: expected {name} of shape {x.shape[-1:]}, but got {one.shape}"
            )
    count = x.shape[-1]
    total = _reduced("row_sum", x, -1, False, reducers.sum_)
    mean = stage(total.shape, "mean", lambda i: total[i] * (1 / count))
    k = reduce_axis(count, "k")

    def squared(row: Any) -> Any:
        off = x[index_of(*row, k)] - mean[row]
        return reducers.sum_(off * off, axis=k)

    squares = stage(x.shape[:-1], "squares", squared)
    scale = stage(x.shape[:-1], "scale", lambda i: functions.rsqrt(squares[i] * (1 / count) + eps))

    def element(index: Any) -> Any:
        value = (x[index] - mean[index[:-1]]) * scale[index[:-1]]
        value = value if gamma is None else value * gamma[index[-1]]
        return value if beta is None else value + beta[index[-1]]

    return stage(x.shape, "layer_norm", element)


@operator("x", "gamma", "beta", "mean", "variance")
def batch_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, *, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel: axis 1 of x.

    Statistics are given, as in inference; all of shape (c,) and of the float dtype of x.
    """
    _float("batch_norm", x)
    _eps("batch_norm", eps)
    if x.ndim < 2:
        raise unexpected("a tensor of at least 2 axes (n, c, …)", "ops.batch_norm: x", x)
    for name, one in (("gamma", gamma), ("beta", beta), ("mean", mean), ("variance", variance)):
        if tensor(f"ops.batch_norm: {name}", one).shape != x.shape[1:2]:
            raise ArgumentError(
                f"ops.batch_norm: expected {name} of shape {x.shape[1:2]}, but got {one.shape}"
            )

    def element(index: Any) -> Any:
        c = index[1]
        scale = functions.rsqrt(variance[c] + eps) * gamma[c]
        return (x[index] - mean[c]) * scale + beta[c]

    return stage(x.shape, "batch_norm", element)
