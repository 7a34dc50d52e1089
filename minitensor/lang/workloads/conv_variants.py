"""Convolutions whose index arithmetic is of another kind: transposed, and of capsules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitensor.errors import ArgumentError
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import if_then_else, logical_and
from minitensor.lang.tensor import compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import (
    PerAxis,
    Tensors,
    check_sizes,
    per_axis,
    result_dtype,
)
from minitensor.lang.workloads.window import Layout, Windows, compute_image, pad


def conv2d_transpose(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Transposed convolution: the gradient of conv2d with respect to its data (T2D).

        conv[n, f, iy*stride + ry - padding, ix*stride + rx - padding]
            = sum over rc, and all iy, ix, ry, rx that lead there, of
              data[n, rc, iy, ix] * weight[rc, f, ry, rx]

    layout "NCHW"  data (n, c, h, w), weight (c, f, kh, kw), conv (n, f, oh, ow)
    layout "NHWC"  data (n, h, w, c), weight (kh, kw, c, f), conv (n, oh, ow, f)

    with oh = (h - 1)*stride - 2*padding + kernel + output_padding; padding < kernel and
    output_padding < stride. data and weight of `dtype`, conv of `out_dtype` (default: `dtype`).
    It is written as a gather: each output reads a window of the data spread out by the stride, of
    which the positions in between are zeros that are never read.

    Source: Ansor, OSDI'20, §7.1 (T2D); Radford et al., DCGAN, 2016.
    """
    check_sizes(n=n, c=c, h=h, w=w, f=f)
    placed = Layout.of(layout, 2)
    axes = _spread_axes((h, w), kernel, stride, padding, output_padding)
    operand, result = result_dtype(dtype, out_dtype)
    data = placeholder(placed.image(n, c, (h, w)), operand, name="data")

    def at_weight(c: Any, f: Any, spatial: Sequence[Any]) -> tuple[Any, ...]:
        return (*spatial, c, f) if placed.channels_last else (c, f, *spatial)

    weight = placeholder(at_weight(c, f, [a.kernel for a in axes]), operand, name="weight")
    source = pad(
        data,
        placed.image(0, 0, [a.before for a in axes]),
        placed.image(0, 0, [a.after for a in axes]),
        placed.image("n", "c", placed.axes),
    )
    rc = reduce_axis(c, name="rc")
    taps = [reduce_axis(a.kernel, f"r{label}") for a, label in zip(axes, placed.axes)]

    def element(n: Any, f: Any, at: Any) -> Any:
        positions = [i + r + a.skipped for i, r, a in zip(at, taps, axes)]
        factor = weight[at_weight(rc, f, [a.kernel - 1 - r for a, r in zip(axes, taps)])]
        read = source[placed.image(n, rc, [p // a.stride for p, a in zip(positions, axes)])]
        product = read.astype(result) * factor.astype(result)
        hits = [p % a.stride == 0 for p, a in zip(positions, axes) if a.stride > 1]
        if hits:
            product = if_then_else(hits[0] if len(hits) == 1 else logical_and(*hits), product, 0)
        return sum_(product, axis=placed.reduced(rc, taps))

    conv = compute_image(placed, (n, f, [a.output for a in axes]), element, "conv")
    return data, weight, conv


@dataclass(frozen=True, slots=True)
class _Spread:
    """One spatial axis of the data, spread out: stride - 1 zeros between any two elements.

    The window starts kernel - 1 - padding before the data. This margin is taken from whole
    padded elements, so the first window starts `skipped` positions inside of the padded data.
    """

    size: int
    kernel: int
    stride: int
    padding: int
    extra: int

    @property
    def output(self) -> int:
        return (self.size - 1) * self.stride - 2 * self.padding + self.kernel + self.extra

    @property
    def margin(self) -> int:
        return self.kernel - 1 - self.padding

    @property
    def before(self) -> int:
        return -(-self.margin // self.stride)

    @property
    def after(self) -> int:
        return (self.margin + self.extra) // self.stride

    @property
    def skipped(self) -> int:
        return self.before * self.stride - self.margin


def _spread_axes(
    sizes: tuple[int, int],
    kernel: PerAxis,
    stride: PerAxis,
    padding: PerAxis,
    output_padding: PerAxis,
) -> list[_Spread]:
    arguments = (
        sizes,
        per_axis("kernel", kernel, 2, least=1),
        per_axis("stride", stride, 2, least=1),
        per_axis("padding", padding, 2, least=0),
        per_axis("output_padding", output_padding, 2, least=0),
    )
    axes = [_Spread(*along) for along in zip(*arguments)]
    for name, a in zip("hw", axes):
        if a.padding >= a.kernel:
            raise ArgumentError(
                f"expected padding smaller than the kernel, but got padding {a.padding} and "
                f"kernel {a.kernel} along {name}"
            )
        if a.extra >= a.stride:
            raise ArgumentError(
                f"expected output_padding smaller than the stride, but got output_padding "
                f"{a.extra} and stride {a.stride} along {name}"
            )
        if a.output < 1:
            raise ArgumentError(
                f"expected an output of at least 1 along {name}, but it would be {a.output}: make "
                f"{name}, kernel or output_padding larger, or padding smaller"
            )
    return axes


def capsule_conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    capsule: int = 4,
    *,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> Tensors:
    """Convolution whose elements are small matrices, multiplied as matrices (CAP).

        conv[n, y, x, i, j, f] = sum over ry, rx, rk, rc of
            pad[n, y*stride + ry, x*stride + rx, i, rk, rc] * weight[ry, rx, rk, j, rc, f]

    data (n, h, w, capsule, capsule, c), weight (kh, kw, capsule, capsule, c, f) of `dtype`;
    conv (n, oh, ow, capsule, capsule, f) of `out_dtype` (default: `dtype`), with
    oh = (h + 2*padding - kernel) // stride + 1.

    Source: Ansor, OSDI'20, §7.1 (CAP); Hinton et al., Matrix Capsules with EM Routing, 2018.
    """
    check_sizes(n=n, c=c, f=f, capsule=capsule)
    windows = Windows.over("NHWC", {"h": h, "w": w}, kernel, stride, padding)
    operand, result = result_dtype(dtype, out_dtype)
    square = (capsule, capsule)
    data = placeholder((n, h, w, *square, c), operand, name="data")
    weight = placeholder((*windows.kernel, *square, c, f), operand, name="weight")
    around = (0, *windows.padding, 0, 0, 0)
    source = pad(data, around, around, ("n", "y", "x", "i", "j", "c"))
    ry, rx = windows.taps()
    rk, rc = reduce_axis(capsule, name="rk"), reduce_axis(c, name="rc")

    def element(n: Any, y: Any, x: Any, i: Any, j: Any, f: Any) -> Any:
        at_y, at_x = windows.positions((y, x), (ry, rx))
        read = source[n, at_y, at_x, i, rk, rc]
        factor = weight[ry, rx, rk, j, rc, f]
        return sum_(read.astype(result) * factor.astype(result), axis=[ry, rx, rk, rc])

    conv = compute((n, *windows.outputs, *square, f), element, name="conv")
    return data, weight, conv
