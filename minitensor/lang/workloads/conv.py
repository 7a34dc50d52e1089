"""Convolutions, in the sense of neural networks (no flip), over any number of spatial axes.

Sizes are named n (images), c (channels in), f (channels out), d, h, w (depth, height, width). The
kernel, stride, padding and dilation are one integer for all spatial axes, or one for each.
Where nothing is padded there is no padding stage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, cast

from minitensor.errors import unexpected
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import maximum
from minitensor.lang.tensor import Tensor, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis, Tensors, check_sizes, result_dtype
from minitensor.lang.workloads.window import Layout, Windows, compute_image

P = ParamSpec("P")


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
    windows = Windows.over(layout, {"w": w}, kernel, stride, padding, dilation)
    return _convolution(windows, n, c, f, groups, dtype, out_dtype)


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
    windows = Windows.over(layout, {"h": h, "w": w}, kernel, stride, padding, dilation)
    return _convolution(windows, n, c, f, groups, dtype, out_dtype)


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
    windows = Windows.over(layout, {"d": d, "h": h, "w": w}, kernel, stride, padding, dilation)
    return _convolution(windows, n, c, f, groups, dtype, out_dtype)


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
    windows = Windows.over(layout, {"h": h, "w": w}, kernel, stride, padding, dilation)
    check_sizes(c=c)
    return _convolution(windows, n, c, c, c, dtype, out_dtype, depthwise=True)


def _convolution(
    windows: Windows,
    n: int,
    c: int,
    f: int,
    groups: int,
    dtype: str,
    out_dtype: str | None,
    depthwise: bool = False,
) -> Tensors:
    """Data, weight and their convolution; `depthwise`: without a loop over input channels."""
    check_sizes(n=n, c=c, f=f, groups=groups)
    if c % groups or f % groups:
        raise unexpected(f"a number of groups that divides c={c} and f={f}", "groups", groups)
    operand, result = result_dtype(dtype, out_dtype)
    layout, inputs, outputs = windows.layout, c // groups, f // groups
    data = windows.data(n, c, operand)
    weight = placeholder(layout.weight(f, inputs, windows.kernel), operand, name="weight")
    source, taps = windows.padded(data), windows.taps()
    rc = reduce_axis(inputs, name="rc")
    axes = taps if depthwise else layout.reduced(rc, taps)

    def element(n: Any, f: Any, at: Any) -> Any:
        channel = f if depthwise else rc if groups == 1 else f // outputs * inputs + rc
        read = windows.read(source, n, channel, at, taps)
        factor = weight[layout.weight(f, 0 if depthwise else rc, taps)]
        return sum_(read.astype(result) * factor.astype(result), axis=axes)

    shape = (n, f, windows.outputs)
    return data, weight, compute_image(layout, shape, element, "conv", "c" if depthwise else "f")


def _takes(model: Callable[P, Tensors]) -> Callable[[Callable[..., Tensors]], Callable[P, Tensors]]:
    """A function that passes its arguments on to `model`, with the signature of that."""

    def signed(function: Callable[..., Tensors]) -> Callable[P, Tensors]:
        function.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]
        return cast("Callable[P, Tensors]", function)

    return signed


@_takes(conv2d)
def conv2d_bias_relu(*sizes: Any, layout: str = "NCHW", **options: Any) -> Tensors:
    """Convolution, bias for each channel, and rectifier.

        relu[n, f, y, x] = max(conv[n, f, y, x] + bias[f], 0)

    data, weight and conv as in conv2d; bias (f,) and relu, of the shape of conv, of `out_dtype`.
    """
    data, weight, conv = conv2d(*sizes, layout=layout, **options)
    bias = _of_channels(conv, layout, "bias")
    relu = _stage(conv, layout, lambda x, f: maximum(x + bias[f], 0), "relu")
    return data, weight, bias, relu


@_takes(conv2d)
def conv2d_bias_bn_relu(*sizes: Any, layout: str = "NCHW", **options: Any) -> Tensors:
    """Convolution, bias, batch normalisation and rectifier, as separate stages (ConvLayer, CBR).

        relu[n, f, y, x] = max((conv[n, f, y, x] + bias[f]) * scale[f] + offset[f], 0)

    data, weight and conv as in conv2d; bias, scale, offset (f,) and relu, of the shape of conv, of
    `out_dtype`. The normalisation is as it stands at inference, when its statistics are constants:
    scale = gamma / sqrt(variance + eps), offset = beta - mean * scale.

    Source: Ansor, OSDI'20, §7.2 (ConvLayer); Ioffe & Szegedy, 2015, algorithm 2.
    """
    data, weight, conv = conv2d(*sizes, layout=layout, **options)
    bias, scale, offset = (_of_channels(conv, layout, n) for n in ("bias", "scale", "offset"))
    biased = _stage(conv, layout, lambda x, f: x + bias[f], "bias_add")
    normal = _stage(biased, layout, lambda x, f: x * scale[f] + offset[f], "batch_norm")
    relu = _stage(normal, layout, lambda x, _: maximum(x, 0), "relu")
    return data, weight, bias, scale, offset, relu


def _of_channels(image: Tensor, layout: str, name: str) -> Tensor:
    """An input with a number for each channel of an image."""
    return placeholder((Layout.of(layout, 2).parts(image.shape)[1],), image.dtype, name=name)


def _stage(source: Tensor, layout: str, function: Callable[[Any, Any], Any], name: str) -> Tensor:
    """A stage that computes each element from that of another image and its channel."""
    placed = Layout.of(layout, 2)

    def element(n: Any, f: Any, at: Any) -> Any:
        return function(source[placed.image(n, f, at)], f)

    return compute_image(placed, placed.parts(source.shape), element, name)
