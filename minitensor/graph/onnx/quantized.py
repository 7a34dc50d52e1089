"""Quantised operators of ONNX: those between floats and bytes, and those of bytes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from minitensor.graph.onnx.context import Context, NotSupportedError
from minitensor.graph.onnx.windows import pads_of
from minitensor.lang import Tensor, ops


def _scale(c: Context, value: Any) -> Any:
    """A scale: a number where it is known and the only one, with the digits that float32 holds."""
    if isinstance(value, Tensor) or value.size != 1 or not 0 < value.item() < np.inf:
        return c.tensor(value, "scale")
    return float(np.format_float_positional(np.float32(value.item())))


def _zero_point(c: Context, value: Any) -> Any:
    """A zero point: a number where it is known and the only one, or all are 0."""
    if value is None:
        return 0
    if isinstance(value, Tensor) or (value.size != 1 and np.any(value)):
        return c.tensor(value, "zero_point")
    return int(value.reshape(-1)[0])


def _type_of(value: Any, otherwise: str) -> str:
    return otherwise if value is None else str(value.dtype)


def _quantize(c: Context, x: Any, scale: Any, zero_point: Any = None) -> Tensor:
    c.only("saturate", 1)
    c.only("block_size", 0)
    c.only("precision", 0)
    given = c.integer("output_dtype", 0)
    dtype = c.dtype("output_dtype") if given else _type_of(zero_point, "uint8")
    return ops.quantize(
        c.tensor(x),
        _scale(c, scale),
        _zero_point(c, zero_point),
        axis=c.integer("axis", 1),
        dtype=dtype,
    )


def _dequantize(c: Context, x: Any, scale: Any, zero_point: Any = None) -> Tensor:
    c.only("block_size", 0)
    c.only("output_dtype", 0)
    return ops.dequantize(
        c.tensor(x, "quantized"),
        _scale(c, scale),
        _zero_point(c, zero_point),
        axis=c.integer("axis", 1),
    )


def _dynamic(c: Context, x: Any) -> list[Tensor]:
    """The least and the greatest of x, and 0, become 0 and 255."""
    x = c.tensor(x)
    axes = tuple(range(x.ndim))
    low = ops.minimum(ops.reduce_min(x, axes=axes, keepdims=False), 0.0)
    high = ops.maximum(ops.reduce_max(x, axes=axes, keepdims=False), 0.0)
    scale = ops.div(ops.sub(high, low), 255.0)
    moved = ops.clip(ops.round(ops.div(ops.neg(low), scale)), low=0.0, high=255.0)
    zero_point = ops.cast(moved, dtype="uint8")
    return [ops.quantize(x, scale, zero_point), scale, zero_point]


def _matmul_integer(c: Context, a: Any, b: Any, za: Any = None, zb: Any = None) -> Tensor:
    return ops.matmul_integer(
        c.tensor(a), c.tensor(b, "weight"), _zero_point(c, za), _zero_point(c, zb)
    )


def _qlinear_matmul(
    c: Context, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any
) -> Tensor:
    sums = ops.matmul_integer(
        c.tensor(a), c.tensor(b, "weight"), _zero_point(c, za), _zero_point(c, zb)
    )
    scale = _ratio(c, sa, sb, sy)
    return ops.requantize(sums, scale, _zero_point(c, zy), axis=-1, dtype=_type_of(zy, "uint8"))


def _ratio(c: Context, first: Any, second: Any, result: Any) -> Any:
    """The scale of a requantisation, in float32."""
    known = [c.known(one, "scale").astype(np.float32) for one in (first, second, result)]
    return _scale(c, (known[0].reshape(-1) * known[1].reshape(-1)) / known[2].reshape(-1))


def _convolution(c: Context, x: Any, w: Any, zx: Any, zw: Any) -> Tensor:
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        raise NotSupportedError(f"{c.kind} over {rank} axes")
    strides = c.integers("strides", (1,) * rank)
    dilations = c.integers("dilations", (1,) * rank)
    c.only("kernel_shape", list(w.shape[2:]))
    moved = _zero_point(c, zx)
    if isinstance(moved, Tensor):
        raise NotSupportedError(f"{c.kind} whose zero point of x depends on data")
    return ops.conv_integer(
        c.tensor(x),
        c.tensor(w, "weight"),
        _zero_point(c, zw),
        x_zero_point=moved,
        stride=strides,
        padding=tuple(pads_of(c, x.shape[2:], w.shape[2:], strides, dilations)),
        dilation=dilations,
        groups=c.integer("group", 1),
    )


def _qlinear_conv(
    c: Context,
    x: Any,
    sx: Any,
    zx: Any,
    w: Any,
    sw: Any,
    zw: Any,
    sy: Any,
    zy: Any,
    bias: Any = None,
) -> Tensor:
    sums = _convolution(c, x, w, zx, zw)
    if bias is not None:
        shape = (-1, *(1,) * (x.ndim - 2))
        sums = ops.add(sums, ops.reshape(c.tensor(bias, "bias"), shape=shape))
    scale = _ratio(c, sx, sw, sy)
    return ops.requantize(sums, scale, _zero_point(c, zy), dtype=_type_of(zy, "uint8"))


QUANTIZED: Final[dict[str, Callable[..., Any]]] = {
    "ConvInteger": lambda c, x, w, zx=None, zw=None: _convolution(c, x, w, zx, zw),
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
"""For each operator a function of the node and its operands."""
