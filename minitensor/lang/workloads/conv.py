"""Convolutions, in the sense of neural networks (no flip), over any number of spatial axes.

Sizes are named n (images), c (channels in), f (channels out), d, h, w (depth, height, width). The
kernel, stride, padding and dilation are one integer for all spatial axes, or one for each.
Where nothing is padded there is no padding stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor.errors import unexpected
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import maximum
from minitensor.lang.tensor import Tensor, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import (
    PerAxis,
    Tensors,
    check_sizes,
    result_dtype,
)
from minitensor.lang.workloads.window import Layout, Windows, compute_image, pad_image


def conv1d(
    n: int,
    c: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution over one axis (C1D).

        conv[n, f, x] = sum over rc, rx of pad[n, rc, x*stride + rx*dilation] * weight[f, rc, rx]

    data (n, c, w), weight (f, c/groups, kernel), conv (n, f, ow) for layout "NCW", and
    data (n, w, c), weight (kernel, c/groups, f), conv (n, ow, f) for "NWC". See conv2d for the
    output's extent, groups and types.

    Source: Ansor, OSDI'20, §7.1.
    """
    windows = Windows.over({"w": w}, kernel, stride, padding, dilation)
    return _convolution(n, c, f, windows, groups, Layout.of(layout, 1), dtype, out_dtype)


def conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution over images; grouped and dilated too (C2D, GRP, DIL).

        conv[n, f, y, x] = sum over rc, ry, rx of weight[f, rc, ry, rx]
                           * pad[n, rc, y*stride + ry*dilation, x*stride + rx*dilation]

    layout "NCHW"  data (n, c, h, w), weight (f, c/groups, kh, kw), conv (n, f, oh, ow)
    layout "NHWC"  data (n, h, w, c), weight (kh, kw, c/groups, f), conv (n, oh, ow, f)

    with oh = (h + 2*padding - dilation*(kernel - 1) - 1) // stride + 1. With groups, which divide
    c and f, the output channels of a group read the input channels of that group only. data and
    weight are of `dtype`; conv is of `out_dtype` (default: `dtype`), in which products are summed.

    Source: Ansor, OSDI'20, §7.1; the arguments are those of PyTorch.
    """
    windows = Windows.over({"h": h, "w": w}, kernel, stride, padding, dilation)
    return _convolution(n, c, f, windows, groups, Layout.of(layout, 2), dtype, out_dtype)


def conv3d(
    n: int,
    c: int,
    d: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCDHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution over volumes (C3D).

        conv[n, f, z, y, x] = sum over rc, rz, ry, rx of weight[f, rc, rz, ry, rx]
            * pad[n, rc, z*stride + rz*dilation, y*stride + ry*dilation, x*stride + rx*dilation]

    data (n, c, d, h, w), weight (f, c/groups, kd, kh, kw), conv (n, f, od, oh, ow) for layout
    "NCDHW", and data (n, d, h, w, c), weight (kd, kh, kw, c/groups, f), conv (n, od, oh, ow, f)
    for "NDHWC". See conv2d for the output's extents, groups and types.

    Source: Ansor, OSDI'20, §7.1.
    """
    windows = Windows.over({"d": d, "h": h, "w": w}, kernel, stride, padding, dilation)
    return _convolution(n, c, f, windows, groups, Layout.of(layout, 3), dtype, out_dtype)


def depthwise_conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution of each channel with its own window (DEP).

        conv[n, c, y, x] = sum over ry, rx of weight[c, 0, ry, rx]
                           * pad[n, c, y*stride + ry*dilation, x*stride + rx*dilation]

    The operands are those of conv2d with f = groups = c: weight (c, 1, kh, kw), or (kh, kw, 1, c)
    for layout "NHWC"; but there is no loop over input channels.

    Source: Ansor, OSDI'20, §7.1; Howard et al., MobileNets, 2017.
    """
    check_sizes(c=c)
    windows = Windows.over({"h": h, "w": w}, kernel, stride, padding, dilation)
    placed = Layout.of(layout, 2)
    data, weight = _operands(n, c, c, windows, c, placed, dtype, out_dtype)
    taps = windows.taps(placed.axes)
    result = result_dtype(dtype, out_dtype)[1]
    source = pad_image(data, windows, placed)

    def element(n: Any, c: Any, at: Any) -> Any:
        read = source[placed.image(n, c, windows.positions(at, taps))]
        factor = weight[placed.weight(c, 0, taps)]
        return sum_(read.astype(result) * factor.astype(result), axis=taps)

    conv = compute_image(placed, (n, c, windows.outputs), element, "conv", "c")
    return data, weight, conv


def conv2d_bias_relu(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution, bias for each channel, and rectifier.

        relu[n, f, y, x] = max(conv[n, f, y, x] + bias[f], 0)

    data, weight and conv as in conv2d; bias (f,) and relu, of the shape of conv, of `out_dtype`.
    """
    windows = Windows.over({"h": h, "w": w}, kernel, stride, padding, dilation)
    placed = Layout.of(layout, 2)
    data, weight, conv = _convolution(n, c, f, windows, groups, placed, dtype, out_dtype)
    bias = placeholder((f,), conv.dtype, name="bias")

    def element(n: Any, f: Any, at: Any) -> Any:
        return maximum(conv[placed.image(n, f, at)] + bias[f], 0)

    relu = compute_image(placed, (n, f, windows.outputs), element, "relu")
    return data, weight, bias, relu


def conv2d_bias_bn_relu(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution, bias, batch normalisation and rectifier, as separate stages (ConvLayer, CBR).

        relu[n, f, y, x] = max((conv[n, f, y, x] + bias[f]) * scale[f] + offset[f], 0)

    data, weight and conv as in conv2d; bias, scale, offset (f,) and relu, of the shape of conv, of
    `out_dtype`. The normalisation is as it stands at inference, when its statistics are constants:
    scale = gamma / sqrt(variance + eps), offset = beta - mean * scale.

    Source: Ansor, OSDI'20, §7.2 (ConvLayer); Ioffe & Szegedy, 2015, algorithm 2.
    """
    windows = Windows.over({"h": h, "w": w}, kernel, stride, padding, dilation)
    placed = Layout.of(layout, 2)
    data, weight, conv = _convolution(n, c, f, windows, groups, placed, dtype, out_dtype)
    bias, scale, offset = (
        placeholder((f,), conv.dtype, name=name) for name in ("bias", "scale", "offset")
    )

    def stage(name: str, function: Callable[[Any, Any], Any], source: Tensor) -> Tensor:
        def element(n: Any, f: Any, at: Any) -> Any:
            return function(source[placed.image(n, f, at)], f)

        return compute_image(placed, (n, f, windows.outputs), element, name)

    biased = stage("bias_add", lambda x, f: x + bias[f], conv)
    normalised = stage("batch_norm", lambda x, f: x * scale[f] + offset[f], biased)
    relu = stage("relu", lambda x, _: maximum(x, 0), normalised)
    return data, weight, bias, scale, offset, relu


def _convolution(
    n: int,
    c: int,
    f: int,
    windows: Windows,
    groups: int,
    layout: Layout,
    dtype: str,
    out_dtype: str | None,
) -> Tensors:
    data, weight = _operands(n, c, f, windows, groups, layout, dtype, out_dtype)
    result = result_dtype(dtype, out_dtype)[1]
    source = pad_image(data, windows, layout)
    inputs, outputs = c // groups, f // groups
    rc, taps = reduce_axis(inputs, name="rc"), windows.taps(layout.axes)

    def element(n: Any, f: Any, at: Any) -> Any:
        channel = rc if groups == 1 else f // outputs * inputs + rc
        read = source[layout.image(n, channel, windows.positions(at, taps))]
        factor = weight[layout.weight(f, rc, taps)]
        return sum_(read.astype(result) * factor.astype(result), axis=layout.reduced(rc, taps))

    conv = compute_image(layout, (n, f, windows.outputs), element, "conv")
    return data, weight, conv


def _operands(
    n: int,
    c: int,
    f: int,
    windows: Windows,
    groups: int,
    layout: Layout,
    dtype: str,
    out_dtype: str | None,
) -> tuple[Tensor, Tensor]:
    check_sizes(n=n, c=c, f=f, groups=groups)
    if c % groups or f % groups:
        raise unexpected(f"a number of groups that divides c={c} and f={f}", "groups", groups)
    operand, _ = result_dtype(dtype, out_dtype)
    data = placeholder(layout.image(n, c, windows.sizes), operand, name="data")
    weight = placeholder(layout.weight(f, c // groups, windows.kernel), operand, name="weight")
    return data, weight
