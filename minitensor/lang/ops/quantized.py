"""Quantised operators: bytes in the place of floats, each standing for (byte - zero_point) * scale.

Rounding and saturation are those of ONNX: to the nearest integer, ties to even, then into the range
of the type. Products are summed in int32, which wraps. A zero point that is a number other than 0
costs a sum over the other operand, computed beside the products: so these stay products of bytes,
which instructions sum.

Source: the ONNX operator reference (QuantizeLinear, QLinearConv, MatMulInteger, …); Jacob et al.,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
CVPR 2018, section 2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError, is_integer, is_real, unexpected
from minitensor.ir import FLOAT32, DType
from minitensor.lang import scalar
from minitensor.lang.elementwise import round_
from minitensor.lang.ops.conv import Padding, convolution
from minitensor.lang.ops.elementwise import Operand, index_of, stage
from minitensor.lang.ops.linear import product
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import Tensor, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis

QUANTIZED: Final = ("uint8", "int8", "uint16", "int16")
"""The types of quantised numbers."""


@operator("x", "scale", "zero_point")
def quantize(
    x: Tensor, scale: Operand, zero_point: Operand = 0, *, axis: int = 1, dtype: str = "uint8"
) -> Tensor:
    """saturate(round(x / scale) + zero_point), as `dtype`: x float32.

    scale, zero_point  numbers, or tensors with one element, or one for each index of `axis`

    A NaN becomes 0. Raises ArgumentError for shapes that do not fit, and scales that are no
    positive number.
    """
    wanted = _quantized("quantize", dtype)
    if tensor("ops.quantize: x", x).dtype != "float32":
        raise unexpected("a tensor of float32", "ops.quantize: x", x.dtype)
    axis = _checked("quantize", x, scale, zero_point, axis, wanted)

    def element(i: Any) -> Any:
        return _saturated(round_(x[i] / _at(scale, i, axis)), _at(zero_point, i, axis), wanted)

    return stage(x.shape, "quantize", element)


@operator("x", "scale", "zero_point")
def dequantize(x: Tensor, scale: Operand, zero_point: Operand = 0, *, axis: int = 1) -> Tensor:
    """(x - zero_point) * scale, in float32: x of integers, the rest as for `quantize`."""
    if not tensor("ops.dequantize: x", x).dtype.is_integer:
        raise unexpected("a tensor of integers", "ops.dequantize: x", x.dtype)
    axis = _checked("dequantize", x, scale, zero_point, axis, x.dtype)

    def element(i: Any) -> Any:
        whole = x[i].astype("int32")
        if not _is_zero(zero_point):
            whole = whole - _whole(_at(zero_point, i, axis))
        return whole.astype("float32") * _at(scale, i, axis)

    return stage(x.shape, "dequantize", element)


@operator("x", "scale", "zero_point")
def requantize(
    x: Tensor, scale: Operand, zero_point: Operand = 0, *, axis: int = 1, dtype: str = "uint8"
) -> Tensor:
    """saturate(round(x * scale) + zero_point), as `dtype`: x int32, sums of products.

    scale  what the product of the operands' scales is, divided by that of the result
    """
    wanted = _quantized("requantize", dtype)
    if tensor("ops.requantize: x", x).dtype != "int32":
        raise unexpected("a tensor of int32", "ops.requantize: x", x.dtype)
    axis = _checked("requantize", x, scale, zero_point, axis, wanted)

    def element(i: Any) -> Any:
        value = round_(x[i].astype("float32") * _at(scale, i, axis))
        return _saturated(value, _at(zero_point, i, axis), wanted)

    return stage(x.shape, "requantize", element)


@operator("a", "b", "a_zero_point", "b_zero_point")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Operand = 0, b_zero_point: Operand = 0
) -> Tensor:
    """(a - a_zero_point) @ (b - b_zero_point) in int32, of matrices of bytes as in `matmul`.

    a_zero_point  a number, or a tensor with one element, or one for each row of a
    b_zero_point  the same, or one for each column of b
    """
    for name, one, zero in (("a", a, a_zero_point), ("b", b, b_zero_point)):
        _bytes("matmul_integer", name, one)
        _zero_of("matmul_integer", f"{name}_zero_point", zero, one.dtype)
    sums = product("matmul_integer", a, b, _wide_product)
    left, right = _is_zero(a_zero_point), _is_zero(b_zero_point)
    if left and right:
        return sums
    _one_or_each("matmul_integer: a_zero_point", a_zero_point, a.shape[-2])
    _one_or_each("matmul_integer: b_zero_point", b_zero_point, b.shape[-1])
    depth = a.shape[-1]
    rows = None if right else _summed(a, -1)
    columns = None if left else _summed(b, -2)

    def element(i: Any) -> Any:
        za, zb = _whole(_at(a_zero_point, i, -2)), _whole(_at(b_zero_point, i, -1))
        moved = []  # what is read first is computed first: the products last, for they are fused
        if columns is not None:
            moved.append(za * columns[_own(columns, (*i[:-2], i[-1]))])
        if rows is not None:
            moved.append(zb * rows[_own(rows, i[:-1])])
        if len(moved) == 2:
            return moved[0] * -1 - moved[1] + za * zb * depth + sums[i]
        return moved[0] * -1 + sums[i]

    return stage(sums.shape, "matmul_integer", element)


@operator("x", "w", "w_zero_point")
def conv_integer(
    x: Tensor,
    w: Tensor,
    w_zero_point: Operand = 0,
    *,
    x_zero_point: int = 0,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of x - x_zero_point with w - w_zero_point in int32, of bytes; x is padded
    with its zero point.

    x, w          as in `conv2d`, over 1 to 3 spatial axes
    w_zero_point  a number, or a tensor with one element, or one for each filter
    """
    for name, one in (("x", x), ("w", w)):
        _bytes("conv_integer", name, one)
    if not 3 <= x.ndim <= 5:
        raise ArgumentError(f"ops.conv_integer: expected x with 3 to 5 axes, but got {x.shape}")
    if isinstance(x_zero_point, Tensor):
        raise unexpected("an integer", "ops.conv_integer: x_zero_point", x_zero_point)
    _zero_of("conv_integer", "x_zero_point", x_zero_point, x.dtype)
    _zero_of("conv_integer", "w_zero_point", w_zero_point, w.dtype)
    plain = _is_zero(w_zero_point)
    if not plain:
        _one_or_each("conv_integer: w_zero_point", w_zero_point, w.shape[0])

    def terms(u: Any, v: Any, f: Any, rc: Any) -> Any:
        if plain:
            return _wide_product(u, v)
        moved = _whole(_at(w_zero_point, (f,), 0))
        return (u.astype("int32") - x_zero_point) * (v.astype("int32") - moved)

    name = f"conv{x.ndim - 2}d"
    sums = convolution(name, x, w, None, stride, padding, dilation, groups, terms, x_zero_point)
    if not plain or x_zero_point == 0:
        return sums
    taps = [reduce_axis(n, name) for n, name in zip(w.shape[1:], ("rc", "rx", "ry", "rz"))]
    filters = stage(
        w.shape[:1], "filters", lambda i: sum_(w[index_of(i[0], *taps)].astype("int32"), axis=taps)
    )
    return stage(sums.shape, "conv_integer", lambda i: filters[i[1]] * -x_zero_point + sums[i])


@operator("a", "b")
def qlinear_matmul(
    a: Tensor,
    b: Tensor,
    *,
    a_scale: float,
    b_scale: float,
    y_scale: float,
    a_zero_point: int = 0,
    b_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
) -> Tensor:
    """The product of two matrices of quantised numbers, quantised as `dtype`: QLinearMatMul."""
    _scales_of("qlinear_matmul", a_scale=a_scale, b_scale=b_scale, y_scale=y_scale)
    sums = matmul_integer(a, b, a_zero_point, b_zero_point)
    return requantize(sums, _ratio(a_scale, b_scale, y_scale), y_zero_point, dtype=dtype)


@operator("x", "w", "bias")
def qlinear_conv(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    x_scale: float,
    w_scale: float,
    y_scale: float,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution of quantised numbers, quantised as `dtype`: QLinearConv.

    bias  (f,) int32, in units of x_scale * w_scale
    """
    _scales_of("qlinear_conv", x_scale=x_scale, w_scale=w_scale, y_scale=y_scale)
    sums = conv_integer(
        x,
        w,
        w_zero_point,
        x_zero_point=x_zero_point,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    if bias is not None:
        if tensor("ops.qlinear_conv: bias", bias).shape != w.shape[:1] or bias.dtype != "int32":
            expected = f"a tensor int32[{w.shape[0]}]"
            raise unexpected(expected, "ops.qlinear_conv: bias", f"{bias.dtype}{list(bias.shape)}")
        products = sums
        sums = stage(products.shape, "biased", lambda i: products[i] + bias[i[1]])
    return requantize(sums, _ratio(x_scale, w_scale, y_scale), y_zero_point, dtype=dtype)


# ---- parts


def _ratio(first: float, second: float, result: float) -> float:
    """The scale of a requantisation, in float32."""
    return float(np.float32(first) * np.float32(second) / np.float32(result))


def _wide_product(u: Any, v: Any, *_: Any) -> Any:
    return u.astype("int32") * v.astype("int32")


def _saturated(value: Any, zero_point: Any, dtype: DType) -> Any:
    """A rounded float, moved, and then into the range of a type."""
    if isinstance(zero_point, int):
        value = value + float(zero_point) if zero_point else value
    else:
        value = value + zero_point.astype("float32")
    low, high = float(dtype.min_value), float(dtype.max_value)
    return scalar.minimum(scalar.maximum(value, low), high).astype(str(dtype))


def _summed(x: Tensor, axis: int) -> Tensor:
    """Sums over the last axis, or the one before it, in int32."""
    k = reduce_axis(x.shape[axis], "k")
    shape = x.shape[:-1] if axis == -1 else (*x.shape[:-2], x.shape[-1])

    def element(i: Any) -> Any:
        place = (*i, k) if axis == -1 else (*i[:-1], k, i[-1])
        return sum_(x[place].astype("int32"), axis=k)

    return stage(shape, "sums", element)


def _own(operand: Tensor, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place in an operand that is broadcast along its leading axes."""
    tail = index[len(index) - operand.ndim :]
    return tuple(0 if n == 1 else i for n, i in zip(operand.shape, tail))


def _at(value: Operand, index: tuple[Any, ...], axis: int) -> Any:
    """A number, or the element of a tensor that belongs to an index along an axis."""
    if not isinstance(value, Tensor):
        return int(value) if is_integer(value) else float(value)
    if value.ndim == 0:
        return value[()]
    return value[0] if value.shape == (1,) else value[index[axis]]


def _whole(value: Any) -> Any:
    return value if isinstance(value, int) else value.astype("int32")


def _is_zero(value: Operand) -> bool:
    return not isinstance(value, Tensor) and value == 0


def _bytes(name: str, label: str, value: Tensor) -> None:
    if tensor(f"ops.{name}: {label}", value).dtype not in ("uint8", "int8"):
        raise unexpected("a tensor of uint8 or int8", f"ops.{name}: {label}", value.dtype)


def _quantized(name: str, dtype: str) -> DType:
    if dtype not in QUANTIZED:
        raise unexpected("one of " + ", ".join(QUANTIZED), f"ops.{name}: dtype", dtype)
    return DType.of(dtype)


def _one_or_each(label: str, value: Operand, extent: int) -> None:
    """Require a number, a tensor with one element, or with one for each index of an axis."""
    if isinstance(value, Tensor) and value.shape not in ((), (1,), (extent,)):
        raise unexpected(f"a number, or a tensor of shape ({extent},)", f"ops.{label}", value.shape)


def _scales_of(name: str, **scales: Operand) -> None:
    """Require positive numbers, or tensors of float32."""
    for label, scale in scales.items():
        if isinstance(scale, Tensor):
            fits = scale.dtype == FLOAT32
        else:
            fits = is_real(scale, 0.0) and scale > 0
        if not fits:
            expected = "a positive number, or a tensor of float32"
            raise unexpected(expected, f"ops.{name}: {label}", scale)


def _zero_of(name: str, label: str, value: Operand, dtype: DType) -> None:
    """Require an integer that a type has, or a tensor of integers."""
    low, high = dtype.min_value, dtype.max_value
    fits = value.dtype.is_integer if isinstance(value, Tensor) else is_integer(value, low, high)
    if not fits:
        expected = f"an integer from {low} to {high}, or a tensor of integers"
        raise unexpected(expected, f"ops.{name}: {label}", value)


def _checked(
    name: str, x: Tensor, scale: Operand, zero_point: Operand, axis: int, dtype: DType
) -> int:
    """The axis, counted from the first; scale and zero point fit x."""
    _scales_of(name, scale=scale)
    _zero_of(name, "zero_point", zero_point, dtype)
    if not is_integer(axis):
        raise unexpected("an integer", f"ops.{name}: axis", axis)
    given = [one for one in (scale, zero_point) if isinstance(one, Tensor) and one.ndim]
    if any(one.shape != (1,) for one in given) and not -x.ndim <= axis < x.ndim:
        raise unexpected(f"an axis of x, which has {x.ndim}", f"ops.{name}: axis", axis)
    axis = axis % x.ndim if x.ndim else 0
    for label, one in (("scale", scale), ("zero_point", zero_point)):
        _one_or_each(f"{name}: {label}", one, x.shape[axis] if x.ndim else 1)
    return axis
