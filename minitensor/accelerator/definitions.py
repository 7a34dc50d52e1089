"""Operators as an accelerator computes them: int8 in, int32 sums, int8 out, padded to its array.

Where an extent does not divide the array, operands are padded with zeros, which add nothing; the
copies that pad become loads that pad. The results have the extents that were asked for.
"""

from __future__ import annotations

from minitensor import ir
from minitensor.accelerator.machine import machine_of
from minitensor.answers import answered
from minitensor.errors import unexpected, whole
from minitensor.lang import (
    Tensor,
    compute,
    if_then_else,
    logical_and,
    lower,
    maximum,
    minimum,
    placeholder,
    reduce_axis,
    sum_,
)  # fmt: skip

LARGEST = 1 << 20


@answered
def matmul(m: int, n: int, k: int, *, shift: int = 8, machine: object = None) -> ir.Program:
    """A product of int8 matrices, quantised again to int8.

        D[i, j] = clip(sum over k of A[i, k] * B[j, k] >> shift)

    A (m, k), B (n, k): rows of both are dot products' operands; D (m, n).

    Raises ArgumentError for extents that are not whole numbers from 1, and a shift not in 0..31.
    """
    m, n, k = (whole(name, value, 1, LARGEST) for name, value in zip("mnk", (m, n, k)))
    found = machine_of(machine)
    wide_n, wide_k = _padded(n, found.rows), _padded(k, found.columns)
    a = placeholder((m, k), "int8", name="A")
    b = placeholder((n, k), "int8", name="B")
    left = _zero_padded(a, (m, wide_k), (0, 0), "A_padded")
    right = _zero_padded(b, (wide_n, wide_k), (0, 0), "B_padded")
    axis = reduce_axis(wide_k, name="k")
    c = compute(
        (m, wide_n),
        lambda i, j: sum_(
            left[i, axis].astype("int32") * right[j, axis].astype("int32"), axis=axis
        ),
        name="C",
    )
    d = _quantised(c, (m, n), shift)
    return lower([a, b, d], name="matmul")


@answered
def conv2d(
    height: int,
    width: int,
    channels: int,
    outputs: int,
    kernel: int = 3,
    *,
    stride: int = 1,
    padding: int = 0,
    shift: int = 8,
    machine: object = None,
) -> ir.Program:
    """A convolution of an int8 image with int8 weights, quantised again to int8.

        D[y, x, o] = clip(sum of A[y*stride + r - padding, x*stride + q - padding, c]
                          * B[r, q, o, c] >> shift)

    A (height, width, channels), zeros around it; B (kernel, kernel, outputs, channels); D (rows,
    columns, outputs) with rows = (height + 2*padding - kernel) // stride + 1.

    Raises ArgumentError for extents that are not whole numbers from 1, and a kernel that is larger
    than the padded image.
    """
    height, width = whole("height", height, 1, LARGEST), whole("width", width, 1, LARGEST)
    channels, outputs = (
        whole("channels", channels, 1, LARGEST),
        whole("outputs", outputs, 1, LARGEST),
    )
    kernel, stride = whole("kernel", kernel, 1, LARGEST), whole("stride", stride, 1, LARGEST)
    padding = whole("padding", padding, 0, LARGEST)
    tall, broad = height + 2 * padding, width + 2 * padding
    if kernel > min(tall, broad):
        raise unexpected(f"at most the padded image, {tall} x {broad}", "kernel", kernel)
    found = machine_of(machine)
    wide_o, wide_c = _padded(outputs, found.rows), _padded(channels, found.columns)
    rows, columns = (tall - kernel) // stride + 1, (broad - kernel) // stride + 1
    a = placeholder((height, width, channels), "int8", name="A")
    b = placeholder((kernel, kernel, outputs, channels), "int8", name="B")
    image = _zero_padded(a, (tall, broad, wide_c), (padding, padding, 0), "A_padded")
    weights = _zero_padded(b, (kernel, kernel, wide_o, wide_c), (0, 0, 0, 0), "B_padded")
    r, q = reduce_axis(kernel, name="r"), reduce_axis(kernel, name="q")
    c = reduce_axis(wide_c, name="c")
    sums = compute(
        (rows, columns, wide_o),
        lambda y, x, o: sum_(
            image[y * stride + r, x * stride + q, c].astype("int32")
            * weights[r, q, o, c].astype("int32"),
            axis=(r, q, c),
        ),
        name="C",
    )
    d = _quantised(sums, (rows, columns, outputs), shift)
    return lower([a, b, d], name="conv2d")


def _padded(extent: int, multiple: int) -> int:
    return -(-extent // multiple) * multiple


def _zero_padded(
    tensor: Tensor, shape: tuple[int, ...], before: tuple[int, ...], name: str
) -> Tensor:
    """A tensor with zeros around it; itself if there are none."""
    if tuple(tensor.shape) == shape:
        return tensor
    odd = [axis for axis, n in enumerate(tensor.shape) if n != shape[axis]]

    def element(*index):  # type: ignore[no-untyped-def]
        place = [i - start if start else i for i, start in zip(index, before)]
        inside = [place[axis] < tensor.shape[axis] for axis in odd]
        inside += [place[axis] >= 0 for axis in odd if before[axis]]
        condition = inside[0]
        for other in inside[1:]:
            condition = logical_and(condition, other)
        return if_then_else(condition, tensor[tuple(place)], 0)

    padded: Tensor = compute(shape, element, name=name)
    return padded


def _quantised(sums: Tensor, shape: tuple[int, ...], shift: int) -> Tensor:
    shift = whole("shift", shift, 0, 31)
    found: Tensor = compute(
        shape,
        lambda *at: maximum(minimum(sums[at] >> shift, 127), -128).astype("int8"),
        name="D",
    )
    return found
