"""Convolutions and pools over any number of spatial axes, channels first: (n, c, spatial…).

Padding is one integer, one for each spatial axis, or a pair (before, after) for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from minitensor import ir
from minitensor.errors import ArgumentError, is_integer, unexpected, whole
from minitensor.lang.ops.elementwise import index_of
from minitensor.lang.ops.linear import product_in
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.ops.shape import pad
from minitensor.lang.reduce import max_, sum_
from minitensor.lang.scalar import if_then_else, logical_and
from minitensor.lang.tensor import Tensor, compute, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis, labelled, per_axis

Padding: TypeAlias = PerAxis | Sequence[Sequence[int]]


def pairs_of(name: str, padding: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """The padding before and after each spatial axis."""
    if isinstance(padding, (tuple, list)) and padding and isinstance(padding[0], (tuple, list)):
        pairs = tuple(tuple(pair) for pair in padding)
        if len(pairs) != rank or any(
            len(p) != 2 or not all(is_integer(w, 0) for w in p) for p in pairs
        ):
            raise unexpected(f"{rank} pairs of integers >= 0", f"ops.{name}: padding", padding)
        return pairs
    return tuple((w, w) for w in per_axis(f"ops.{name}: padding", padding, rank, 0))


def _image(shape: Sequence[int], name: str, channel: str, element: Callable[..., Any]) -> Tensor:
    """A stage over images whose loops are called n, the channel, and z, y, x."""
    labels = ["n", channel, *(("z", "y", "x")[-(len(shape) - 2) :])]
    made: Tensor = compute(tuple(shape), labelled(labels, element), name=name)
    return made


def _taps(kernel: Sequence[int]) -> list[Any]:
    """A reduction axis for each axis of the window: rz, ry, rx."""
    return [reduce_axis(k, f"r{a}") for k, a in zip(kernel, ("z", "y", "x")[-len(kernel) :])]


def _outputs(
    name: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> list[int]:
    """The extents of the result. Raises ArgumentError for a window larger than its image."""
    found = []
    for size, k, s, (low, high), d in zip(sizes, kernel, stride, pads, dilation):
        span, room = d * (k - 1) + 1, low + size + high
        if span > room:
            raise ArgumentError(
                f"ops.{name}: the window spans {span} (kernel {k}, dilation {d}), and the padded "
                f"input has {room}: make the padding larger, or the window smaller"
            )
        found.append((room - span) // s + 1)
    return found


def _around(x: Tensor, pads: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """x with padding; x itself where there is none."""
    if not any(map(any, pads)):
        return x
    before, after = zip(*pads)
    return pad(x, before=(0, 0, *before), after=(0, 0, *after), value=value)


def _checked(
    name: str,
    rank: int,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    channels: int,
    alike: bool = True,
) -> None:
    for label, one in (("x", x), ("w", w)):
        if tensor(f"ops.{name}: {label}", one).ndim != rank + 2:
            raise ArgumentError(
                f"ops.{name}: expected {label} with {rank + 2} axes, but got {one.shape}"
            )
    if alike and x.dtype != w.dtype:
        raise ArgumentError(f"ops.{name}: x is {x.dtype} and w is {w.dtype}; ops.cast converts one")
    if bias is not None and tensor(f"ops.{name}: bias", bias).shape != (channels,):
        raise ArgumentError(
            f"ops.{name}: expected bias of shape ({channels},), but got {bias.shape}"
        )


def _plus(result: Tensor, bias: Tensor | None) -> Tensor:
    """The result, with a number added for each channel."""
    if bias is None:
        return result
    return _image(
        result.shape, "bias", "f", lambda n, f, *at: result[index_of(n, f, *at)] + bias[f]
    )


def convolution(
    name: str,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    groups: int,
    multiply: Callable[[Any, Any, Any, Any], Any] | None = None,
    outside: int = 0,
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution called "conv1d", "conv2d" or "conv3d".

    multiply   gives a term from an element of x, one of w, the filter, and the channel of w; None
               for the product
    outside    the value with which x is padded
    out_dtype  of the products and their sum; None for that of x
    """
    rank = int(name[4])
    channels = w.shape[0] if isinstance(w, Tensor) and w.ndim else 0
    _checked(name, rank, x, w, bias, channels, alike=multiply is None)
    whole(f"ops.{name}: groups", groups, 1)
    filters, channels = w.shape[:2]
    if x.shape[1] != channels * groups or filters % groups:
        raise ArgumentError(
            f"ops.{name}: x has {x.shape[1]} channels and w {list(w.shape)} takes {channels} in "
            f"each of {groups} groups, which must divide {filters} filters"
        )
    strides = per_axis(f"ops.{name}: stride", stride, rank, 1)
    dilations = per_axis(f"ops.{name}: dilation", dilation, rank, 1)
    pads = pairs_of(name, padding, rank)
    kernel, sizes = w.shape[2:], x.shape[2:]
    outputs = _outputs(name, sizes, kernel, strides, pads, dilations)
    source, taps = _around(x, pads, outside), _taps(kernel)
    depthwise = channels == 1 and groups > 1
    rc = 0 if depthwise else reduce_axis(channels, "rc")
    over = filters // groups
    times = product_in(out_dtype)

    def element(n: Any, f: Any, *at: Any) -> Any:
        group = f if over == 1 else f // over
        channel = rc if groups == 1 else group if depthwise else group * channels + rc
        place = [i * s + r * d for i, s, r, d in zip(at, strides, taps, dilations)]
        along = taps if depthwise else [rc, *taps]
        u, v = source[index_of(n, channel, *place)], w[index_of(f, rc, *taps)]
        return sum_(times(u, v) if multiply is None else multiply(u, v, f, rc), axis=along)

    return _plus(_image((x.shape[0], filters, *outputs), "products", "f", element), bias)


@operator("x", "w", "bias")
def conv1d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution over one axis: x (n, c, w), w (f, c/groups, k); see conv2d."""
    given = stride, padding, dilation, groups
    return convolution("conv1d", x, w, bias, *given, out_dtype=out_dtype)


@operator("x", "w", "bias")
def conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution over images, in the sense of networks (no flip).

        result[n, f, y, x] = bias[f] + sum over rc, ry, rx of w[f, rc, ry, rx]
                             * padded[n, rc, y*stride + ry*dilation, x*stride + rx*dilation]

    x (n, c, h, w), w (f, c/groups, kh, kw), bias (f,), of one dtype; groups divide c and f, and the
    filters of a group read its channels only. With out_dtype, products and their sum are of that
    one, as bias is. Raises ArgumentError for shapes that do not fit.
    """
    given = stride, padding, dilation, groups
    return convolution("conv2d", x, w, bias, *given, out_dtype=out_dtype)


@operator("x", "w", "bias")
def conv3d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution over volumes: x (n, c, d, h, w), w (f, c/groups, kd, kh, kw); see conv2d."""
    given = stride, padding, dilation, groups
    return convolution("conv3d", x, w, bias, *given, out_dtype=out_dtype)


def _scattered(
    name: str,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: PerAxis,
    padding: Padding,
    output_padding: PerAxis,
    dilation: PerAxis,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    """The transposed convolution called "conv_transpose1d", "conv_transpose2d" or
    "conv_transpose3d", written as a gather: each output reads a window of x spread out by the
    stride, and the zeros in between are never read.
    """
    rank = int(name[-2])
    whole(f"ops.{name}: groups", groups, 1)
    over = w.shape[1] if isinstance(w, Tensor) and w.ndim > 1 else 0
    _checked(name, rank, x, w, bias, over * groups)
    if x.shape[1] != w.shape[0] or x.shape[1] % groups:
        raise ArgumentError(
            f"ops.{name}: x has {x.shape[1]} channels and w {list(w.shape)} takes {w.shape[0]}; "
            f"they must be equal, and divisible by {groups} groups"
        )
    strides = per_axis(f"ops.{name}: stride", stride, rank, 1)
    dilations = per_axis(f"ops.{name}: dilation", dilation, rank, 1)
    extra = per_axis(f"ops.{name}: output_padding", output_padding, rank, 0)
    pads, kernel = pairs_of(name, padding, rank), w.shape[2:]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    if any(max(p) >= span for p, span in zip(pads, spans)) or any(
        e >= max(s, d) for e, s, d in zip(extra, strides, dilations)
    ):
        raise ArgumentError(
            f"ops.{name}: expected padding below what the window spans, {spans}, and "
            f"output_padding below the stride {list(strides)} or the dilation {list(dilations)}, "
            f"but got {padding} and {output_padding}"
        )
    before, skipped, after = [], [], []
    for span, s, (low, high), more in zip(spans, strides, pads, extra):
        reach = span - 1 - low
        before.append(-(-reach // s))
        skipped.append(before[-1] * s - reach)
        after.append((span - 1 - high + more) // s)
    source, times = _around(x, list(zip(before, after))), product_in(out_dtype)
    channels = x.shape[1] // groups
    depthwise = channels == 1 and groups > 1
    rc, taps = 0 if depthwise else reduce_axis(channels, "rc"), _taps(kernel)
    outputs = [
        (n - 1) * s - low - high + span + more
        for n, s, (low, high), span, more in zip(x.shape[2:], strides, pads, spans, extra)
    ]
    if min(outputs) < 1:
        raise ArgumentError(f"ops.{name}: the result would have the extents {outputs}")

    def element(n: Any, f: Any, *at: Any) -> Any:
        group = f if over == 1 else f // over
        channel = rc if groups == 1 else group if depthwise else group * channels + rc
        own = f if groups == 1 else 0 if over == 1 else f % over
        if set(x.shape[2:]) == {1}:  # a multiple of one window
            place = [i + low for i, (low, _) in zip(at, pads)]
            tap = [p // d for p, d in zip(place, dilations)]
            hits = [p % d == 0 for p, d in zip(place, dilations) if d > 1]
            hits += [t < k for t, k, p, e in zip(tap, kernel, pads, extra) if e > p[1]]
            product = times(x[index_of(n, channel, *[0] * rank)], w[index_of(channel, own, *tap)])
            product = if_then_else(logical_and(*hits), product, 0) if hits else product
            return product if depthwise else sum_(product, axis=rc)
        place = [i + r * d + skip for i, r, d, skip in zip(at, taps, dilations, skipped)]
        flipped = [k - 1 - r for k, r in zip(kernel, taps)]
        u = source[index_of(n, channel, *[p // s for p, s in zip(place, strides)])]
        product = times(u, w[index_of(channel, own, *flipped)])
        hits = [p % s == 0 for p, s in zip(place, strides) if s > 1]
        if hits:
            product = if_then_else(logical_and(*hits), product, 0)
        return sum_(product, axis=taps if depthwise else [rc, *taps])

    return _plus(_image((x.shape[0], over * groups, *outputs), "products", "f", element), bias)


@operator("x", "w", "bias")
def conv_transpose1d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Transposed convolution over one axis: x (n, c, w), w (c, f/groups, k); see
    conv_transpose2d.
    """
    given = stride, padding, output_padding, dilation, groups, out_dtype
    return _scattered("conv_transpose1d", x, w, bias, *given)


@operator("x", "w", "bias")
def conv_transpose2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """The gradient of a convolution: x (n, c, h, w), w (c, f/groups, kh, kw) to

        (h - 1)*stride - padding before and after + dilation*(kh - 1) + 1 + output_padding

    rows, and columns alike. Each element of x adds its multiple of the window at `stride` times its
    place, to the filters of its group. Raises ArgumentError for shapes that do not fit, and for
    padding as large as the window.
    """
    given = stride, padding, output_padding, dilation, groups, out_dtype
    return _scattered("conv_transpose2d", x, w, bias, *given)


@operator("x", "w", "bias")
def conv_transpose3d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Transposed convolution over volumes: x (n, c, d, h, w), w (c, f/groups, kd, kh, kw); see
    conv_transpose2d.
    """
    given = stride, padding, output_padding, dilation, groups, out_dtype
    return _scattered("conv_transpose3d", x, w, bias, *given)


# ---- pools


def _windows(
    name: str, x: Tensor, kernel: PerAxis, stride: PerAxis | None, padding: Padding
) -> Any:
    rank = tensor(f"ops.{name}: x", x).ndim - 2
    if rank not in (1, 2, 3):
        raise unexpected("a tensor of 3 to 5 axes (n, c, spatial…)", f"ops.{name}: x", x)
    window = per_axis(f"ops.{name}: kernel", kernel, rank, 1)
    strides = window if stride is None else per_axis(f"ops.{name}: stride", stride, rank, 1)
    pads = pairs_of(name, padding, rank)
    if any(2 * max(p) > k for p, k in zip(pads, window)):
        raise ArgumentError(
            f"ops.{name}: expected padding of at most half the kernel, but got padding={padding} "
            f"and kernel={kernel}"
        )
    outputs = _outputs(name, x.shape[2:], window, strides, pads, (1,) * rank)
    return window, strides, pads, outputs


@operator("x")
def max_pool(
    x: Tensor, *, kernel: PerAxis, stride: PerAxis | None = None, padding: Padding = 0
) -> Tensor:
    """The maximum of each window of x (n, c, spatial…); padding is never the maximum.

    The stride is the kernel if it is None. Raises ArgumentError for windows that do not fit.
    """
    window, strides, pads, outputs = _windows("max_pool", x, kernel, stride, padding)
    source, taps = _around(x, pads, ir.lowest(x.dtype)), _taps(window)

    def element(n: Any, c: Any, *at: Any) -> Any:
        return max_(
            source[index_of(n, c, *[i * s + r for i, s, r in zip(at, strides, taps)])], axis=taps
        )

    return _image((*x.shape[:2], *outputs), "max_pool", "c", element)


@operator("x")
def avg_pool(
    x: Tensor, *, kernel: PerAxis, stride: PerAxis | None = None, padding: Padding = 0
) -> Tensor:
    """The mean of each window of x (n, c, spatial…), of floats; padding counts as zeros.

    The stride is the kernel if it is None. Raises ArgumentError for windows that do not fit.
    """
    window, strides, pads, outputs = _windows("avg_pool", x, kernel, stride, padding)
    if not x.dtype.is_float:
        raise unexpected("a tensor of floats", "ops.avg_pool: x", x)
    source, taps = _around(x, pads), _taps(window)

    def element(n: Any, c: Any, *at: Any) -> Any:
        return sum_(
            source[index_of(n, c, *[i * s + r for i, s, r in zip(at, strides, taps)])], axis=taps
        )

    total = _image((*x.shape[:2], *outputs), "pool_sum", "c", element)
    scale = 1 / math.prod(window)
    return _image(total.shape, "avg_pool", "c", lambda *i: total[i] * scale)
