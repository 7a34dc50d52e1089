"""Operators of ONNX with windows: convolutions, pools, padding and resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor.graph.onnx.context import Context, NotSupportedError
from minitensor.lang import Tensor, ops

Pads = list[tuple[int, int]]


def pads_of(
    c: Context,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Pads:
    """The padding before and after each spatial axis."""
    rank, mode = len(sizes), c.attribute("auto_pad", "NOTSET")
    given = c.integers("pads", (0,) * (2 * rank))
    if mode in ("NOTSET", ""):
        return list(zip(given[:rank], given[rank:]))
    if mode == "VALID":
        return [(0, 0)] * rank
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations):
        total = max(0, (-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        found.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return found


def _conv(c: Context, x: Any, w: Any, bias: Any = None) -> Tensor:
    rank = x.ndim - 2
    strides = c.integers("strides", (1,) * rank)
    dilations = c.integers("dilations", (1,) * rank)
    c.only("kernel_shape", list(w.shape[2:]))
    if rank not in (1, 2, 3):
        raise NotSupportedError(f"Conv over {rank} axes")
    function = (ops.conv1d, ops.conv2d, ops.conv3d)[rank - 1]
    return function(
        c.tensor(x),
        c.tensor(w, "weight"),
        None if bias is None else c.tensor(bias, "bias"),
        stride=strides,
        padding=tuple(pads_of(c, x.shape[2:], w.shape[2:], strides, dilations)),
        dilation=dilations,
        groups=c.integer("group", 1),
    )


def _conv_transpose(c: Context, x: Any, w: Any, bias: Any = None) -> Tensor:
    rank = x.ndim - 2
    c.only("kernel_shape", list(w.shape[2:]))
    if rank not in (1, 2, 3):
        raise NotSupportedError(f"ConvTranspose over {rank} axes")
    strides = c.integers("strides", (1,) * rank)
    dilations = c.integers("dilations", (1,) * rank)
    extra = c.integers("output_padding", (0,) * rank)
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilations)]
    function = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)[rank - 1]
    return function(
        c.tensor(x),
        c.tensor(w, "weight"),
        None if bias is None else c.tensor(bias, "bias"),
        stride=strides,
        padding=tuple(_cropped(c, x.shape[2:], spans, strides, extra)),
        output_padding=extra,
        dilation=dilations,
        groups=c.integer("group", 1),
    )


def _cropped(
    c: Context,
    sizes: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    extra: Sequence[int],
) -> Pads:
    """The rows that a transposed convolution cuts off before and after each spatial axis."""
    rank, mode = len(sizes), c.attribute("auto_pad", "NOTSET")
    given = c.integers("pads", (0,) * (2 * rank))
    if c.attribute("output_shape", None) is not None:
        wanted = c.integers("output_shape", ())[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, strides))
    elif mode == "VALID":
        return [(0, 0)] * rank
    elif mode not in ("NOTSET", ""):
        raise NotSupportedError(f"ConvTranspose with auto_pad={mode!r}")
    else:
        return list(zip(given[:rank], given[rank:]))
    found = []
    for size, span, stride, more, result in zip(sizes, spans, strides, extra, wanted):
        total = (size - 1) * stride + more + span - result
        if total < 0:
            raise NotSupportedError(
                f"ConvTranspose whose result, {result}, is larger than what its windows reach, "
                f"{result + total}"
            )
        small, large = total // 2, total - total // 2
        found.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return found


def _surrounded(x: Tensor, pads: Pads, value: float) -> Tensor:
    before, after = zip(*pads)
    return ops.pad(x, before=(0, 0, *before), after=(0, 0, *after), value=value)


def _ceiled(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Pads
) -> Pads:
    """The padding with which the last window, which begins inside, is whole."""
    found = []
    for size, k, stride, (low, high) in zip(sizes, kernel, strides, pads):
        count = -(-(low + size + high - k) // stride) + 1
        if (count - 1) * stride >= size + low:
            count -= 1
        found.append((low, max(high, (count - 1) * stride + k - size - low)))
    return found


def _max_pool(c: Context, x: Any) -> Tensor:
    kernel, strides, pads = _windows(c, x)
    c.only("storage_order", 0)
    c.only("dilations", [1] * len(kernel))
    if len([name for name in c.outputs if name]) > 1:
        raise NotSupportedError("MaxPool with the places of the maxima")
    whole = pads
    if c.integer("ceil_mode", 0):
        whole = _ceiled(x.shape[2:], kernel, strides, pads)
    if whole == pads and all(2 * max(pair) <= k for pair, k in zip(pads, kernel)):
        return ops.max_pool(x, kernel=kernel, stride=strides, padding=tuple(pads))
    return ops.max_pool(_surrounded(x, whole, -math.inf), kernel=kernel, stride=strides)


def _average_pool(c: Context, x: Any) -> Tensor:
    kernel, strides, pads = _windows(c, x)
    c.only("dilations", [1] * len(kernel))
    counted = bool(c.integer("count_include_pad", 0))
    sizes, whole = x.shape[2:], pads
    if c.integer("ceil_mode", 0):
        whole = _ceiled(sizes, kernel, strides, pads)
    if not any(map(any, whole)):
        return ops.avg_pool(x, kernel=kernel, stride=strides)
    found = ops.avg_pool(_surrounded(x, whole, 0), kernel=kernel, stride=strides)
    if counted and whole == pads:
        return found
    factor = np.ones((), "float64")
    for size, k, stride, (low, high), (own, end) in zip(sizes, kernel, strides, pads, whole):
        elements = np.zeros(own + size + end)
        elements[0 if counted else low : low + size + (high if counted else 0)] = 1
        count = (len(elements) - k) // stride + 1
        inside = [elements[n * stride : n * stride + k].sum() for n in range(count)]
        factor = np.multiply.outer(factor, k / np.array(inside))
    return ops.mul(found, c.tensor(factor.astype(str(x.dtype)), "scale"))


def _windows(c: Context, x: Any) -> tuple[tuple[int, ...], tuple[int, ...], Pads]:
    kernel = c.integers("kernel_shape")
    strides = c.integers("strides", (1,) * len(kernel))
    return kernel, strides, pads_of(c, x.shape[2:], kernel, strides, (1,) * len(kernel))


def _global(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda c, x: function(x, axes=tuple(range(2, x.ndim)), keepdims=True)


def _pad(c: Context, x: Any, widths: Any = None, value: Any = None, axes: Any = None) -> Tensor:
    c.only("mode", "constant")
    given = c.integers("pads") if widths is None else c.ints(widths, "pads")
    chosen = range(x.ndim) if axes is None else [a % x.ndim for a in c.ints(axes, "axes")]
    number = c.attribute("value", 0.0) if value is None else c.known(value, "value").item()
    before, after = [0] * x.ndim, [0] * x.ndim
    for n, axis in enumerate(chosen):
        before[axis], after[axis] = given[n], given[n + len(given) // 2]
    if min(*before, *after) < 0:
        starts = tuple(max(0, -low) for low in before)
        stops = tuple(extent + min(0, high) for extent, high in zip(x.shape, after))
        x = ops.slice(x, starts=starts, stops=stops)
    return ops.pad(
        c.tensor(x),
        before=tuple(max(0, low) for low in before),
        after=tuple(max(0, high) for high in after),
        value=number,
    )


def _resize(c: Context, x: Any, *given: Any) -> Tensor:
    mode, where = c.attribute("mode", "nearest"), "asymmetric"
    roi_scales = given[1:] if c.kind == "Resize" and c.opset >= 11 else given
    if c.kind == "Resize":
        where = c.attribute("coordinate_transformation_mode", "half_pixel")
        c.attribute("nearest_mode", "round_prefer_floor")
        for name in ("cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"):
            c.attribute(name, None)
    c.only("keep_aspect_ratio_policy", "stretch")
    axes = c.integers("axes", tuple(range(x.ndim)))
    scales = roi_scales[0] if roi_scales else None
    sizes = roi_scales[1] if len(roi_scales) > 1 else None
    wanted = list(x.shape)
    if scales is not None and c.known(scales, "scales").size:
        for axis, factor in zip(axes, c.known(scales, "scales")):
            wanted[axis] = math.floor(x.shape[axis] * float(factor))
    elif sizes is not None:
        for axis, extent in zip(axes, c.ints(sizes, "sizes")):
            wanted[axis] = extent
    else:
        for axis, factor in zip(axes, c.attribute("scales")):
            wanted[axis] = math.floor(x.shape[axis] * factor)
    whole = all(new % old == 0 for new, old in zip(wanted, x.shape))
    if mode == "nearest" and whole and where in ("asymmetric", "half_pixel", "pytorch_half_pixel"):
        return ops.upsample(x, scales=tuple(new // old for new, old in zip(wanted, x.shape)))
    if mode in ("linear", "bilinear"):
        return _linear(c, x, wanted, where)
    raise NotSupportedError(f"{c.kind} by {mode} with {where} from {x.shape} to {tuple(wanted)}")


def _linear(c: Context, x: Tensor, wanted: Sequence[int], where: str) -> Tensor:
    """Linear interpolation: a product with a matrix along each axis that changes."""
    for axis, (old, new) in enumerate(zip(x.shape, wanted)):
        if old == new:
            continue
        at = np.arange(new, dtype="float64")
        if where == "align_corners":
            at = at * (old - 1) / max(new - 1, 1)
        elif where in ("half_pixel", "pytorch_half_pixel"):
            single = new == 1 and where == "pytorch_half_pixel"
            at = np.zeros(1) if single else (at + 0.5) * old / new - 0.5
        elif where == "asymmetric":
            at = at * old / new
        else:
            raise NotSupportedError(f"{c.kind} with {where}")
        at = np.clip(at, 0, old - 1)
        low = np.minimum(np.floor(at).astype(int), old - 1)
        matrix = np.zeros((old, new))
        np.add.at(matrix, (low, np.arange(new)), 1 - (at - low))
        np.add.at(matrix, (np.minimum(low + 1, old - 1), np.arange(new)), at - low)
        weights = c.tensor(matrix.astype(str(x.dtype)), "interpolation")
        last = x.ndim - 1
        order = [*(n for n in range(x.ndim) if n != axis), axis]
        moved = x if axis == last else ops.transpose(x, axes=tuple(order))
        made = ops.matmul(moved, weights)
        back = tuple(order.index(n) for n in range(x.ndim))
        x = made if axis == last else ops.transpose(made, axes=back)
    return x


WINDOWS: Final[dict[str, Callable[..., Any]]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global(ops.reduce_mean),
    "GlobalMaxPool": _global(ops.reduce_max),
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
}
"""For each operator a function of the node and its operands."""
