"""Products with weights of 4 bits, as language models have them: two in a byte, a scale for each
group of neighbours.

A product of a vector and a matrix takes as long as the matrix takes to arrive from memory, so an
eighth of the bytes is the point; the weights become floats in registers. The order is that of
onnxruntime's MatMulNBits.

Source: Frantar et al., "GPTQ", ICLR 2023, and Dettmers and Zettlemoyer, "The case for 4-bit
precision", ICML 2023: groups with scales of their own; the documentation of MatMulNBits.
"""

from __future__ import annotations

from typing import Any, Final

from minitensor.errors import ArgumentError, unexpected, whole
from minitensor.lang.ops.elementwise import stage
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import Tensor, reduce_axis

ZERO: Final = 8
"""The code that stands for 0."""


@operator("x", "w", "scale")
def matmul_int4(x: Tensor, w: Tensor, scale: Tensor, *, group: int = 32) -> Tensor:
    """The product of rows of x with rows of weights of 4 bits: float32 (m, n).

        result[i, j] = sum over k of x[i, k] * (code[j, k] - 8) * scale[j, k // group]

    x      (m, k) float32
    w      (n, k / 2) uint8: code[j, 2 p] is the lower half of w[j, p], code[j, 2 p + 1] the upper
    scale  (n, k / group) float32
    group  how many neighbours have one scale, an even number that divides k

    Raises ArgumentError for shapes and types that do not fit.
    """
    name = "matmul_int4"
    for label, one, dtype in (("x", x, "float32"), ("w", w, "uint8"), ("scale", scale, "float32")):
        if tensor(f"ops.{name}: {label}", one).ndim != 2 or one.dtype != dtype:
            raise ArgumentError(
                f"ops.{name}: expected {label} of {dtype} with 2 axes, but got "
                f"{one.dtype}{list(one.shape)}"
            )
    (rows, depth), half = x.shape, whole(f"ops.{name}: group", group, 2) // 2
    if group % 2 or depth % group:
        raise unexpected(f"an even number that divides k = {depth}", f"ops.{name}: group", group)
    wanted = {"w": (w.shape[0], depth // 2), "scale": (w.shape[0], depth // group)}
    for label, one in (("w", w), ("scale", scale)):
        if one.shape != wanted[label]:
            raise ArgumentError(
                f"ops.{name}: expected {label} of shape {wanted[label]}, for x {list(x.shape)}, "
                f"groups of {group} and {w.shape[0]} rows of w, but got {one.shape}"
            )
    parts = stage((rows, 2, depth // 2), "parts", lambda i: x[i[0], i[2] * 2 + i[1]])
    groups, within = reduce_axis(depth // group, "g"), reduce_axis(half, "t")

    def element(i: Any) -> Any:
        at = groups * half + within
        byte = w[i[1], at]
        low, high = (
            code.astype("int32").astype("float32") - float(ZERO) for code in (byte & 15, byte >> 4)
        )
        terms = parts[i[0], 0, at] * low + parts[i[0], 1, at] * high
        return sum_(scale[i[1], groups] * terms, axis=[groups, within])

    return stage((rows, w.shape[0]), name, element)
