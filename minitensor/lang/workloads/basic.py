"""Operators of a line or two: reductions, a chain of stages, a transposition, a stencil, a scan."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from minitensor.errors import ArgumentError, unexpected
from minitensor.lang.reduce import argmax as arg_max
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import if_then_else, maximum
from minitensor.lang.tensor import compute, placeholder, reduce_axis
from minitensor.lang.update import update
from minitensor.lang.workloads.arguments import (
    Tensors,
    check_sizes,
    float_dtype,
    labelled,
    number_dtype,
)


def row_sum(m: int, n: int, dtype: str = "float32") -> Tensors:
    """The sum of each row.

        B[i] = sum over k of A[i, k]

    A (m, n) and B (m,) of one dtype.
    """
    check_sizes(m=m, n=n)
    A = placeholder((m, n), number_dtype(dtype), name="A")
    k = reduce_axis(n, name="k")
    return A, compute((m,), lambda i: sum_(A[i, k], axis=k), name="B")


def full_sum(m: int, n: int, dtype: str = "float32") -> Tensors:
    """The sum of all elements.

        B = sum over i, j of A[i, j]

    A (m, n) and B () of one dtype.
    """
    check_sizes(m=m, n=n)
    A = placeholder((m, n), number_dtype(dtype), name="A")
    i, j = reduce_axis(m, name="i"), reduce_axis(n, name="j")
    return A, compute((), lambda: sum_(A[i, j], axis=[i, j]), name="B")


def argmax(m: int, n: int, dtype: str = "float32") -> Tensors:
    """The position of the maximum of each row.

        B[i] = the least k such that A[i, k] is max over k of A[i, k]

    A (m, n) of `dtype`; B (m,) of int64. The first NaN counts as the maximum, as in numpy.
    """
    check_sizes(m=m, n=n)
    A = placeholder((m, n), number_dtype(dtype), name="A")
    k = reduce_axis(n, name="k")
    return A, compute((m,), lambda i: arg_max(A[i, k], axis=k), name="B")


def elementwise_chain(shape: int | Sequence[int], dtype: str = "float32") -> Tensors:
    """Five operations on each element, one stage each: what fusion is for.

        F = max((A * 1.5 + 0.5) * A - 2, 0)

    A and F of the given shape (an integer or several) and of one float dtype. The stages are
    called scaled, shifted, product, lowered and F.
    """
    extents = (shape,) if isinstance(shape, numbers.Integral) else shape
    if not isinstance(extents, (tuple, list)) or not extents:
        raise unexpected("an integer >= 1, or several", "shape", shape)
    check_sizes(**{f"shape[{axis}]": extent for axis, extent in enumerate(extents)})
    labels = ["i"] if len(extents) == 1 else [f"i{axis}" for axis in range(len(extents))]
    A = placeholder(tuple(extents), float_dtype(dtype), name="A")

    def stage(name: str, function: Any) -> Any:
        return compute(A.shape, labelled(labels, lambda *i: function(i)), name=name)

    scaled = stage("scaled", lambda i: A[i] * 1.5)
    shifted = stage("shifted", lambda i: scaled[i] + 0.5)
    product = stage("product", lambda i: shifted[i] * A[i])
    lowered = stage("lowered", lambda i: product[i] - 2.0)
    return A, stage("F", lambda i: maximum(lowered[i], 0.0))


def transpose_add(m: int, n: int, dtype: str = "float32") -> Tensors:
    """A transposition and a sum: one of the two operands is read down its columns.

        C[i, j] = A[j, i] + B[i, j]

    A (n, m), B and C (m, n) of one dtype.
    """
    check_sizes(m=m, n=n)
    A = placeholder((n, m), number_dtype(dtype), name="A")
    B = placeholder((m, n), number_dtype(dtype), name="B")
    return A, B, compute((m, n), lambda i, j: A[j, i] + B[i, j], name="C")


def stencil2d(h: int, w: int, dtype: str = "float32") -> Tensors:
    """A 3 x 3 box blur in two stages, 3 x 1 and 1 x 3: what fusion with a halo is for.

        blur_y[y, x] = (data[y, x] + data[y+1, x] + data[y+2, x]) / 3
        blur_x[y, x] = (blur_y[y, x] + blur_y[y, x+1] + blur_y[y, x+2]) / 3

    data (h, w) and blur_x (h - 2, w - 2) of one dtype; blur_y (h - 2, w) in between. Integers are
    divided rounding down.

    Source: Ragan-Kelley et al., Halide, PLDI'13.
    """
    check_sizes(h=h, w=w)
    for name, size in (("h", h), ("w", w)):
        if size < 3:
            raise ArgumentError(
                f"expected an output of at least 1 along {name}, but the blur takes off 2 and "
                f"{name}={size}: make {name} at least 3"
            )
    data = placeholder((h, w), number_dtype(dtype), name="data")

    def third(total: Any) -> Any:
        return total / 3 if data.dtype.is_float else total // 3

    blur_y = compute(
        (h - 2, w), lambda y, x: third(data[y, x] + data[y + 1, x] + data[y + 2, x]), name="blur_y"
    )
    blur_x = compute(
        (h - 2, w - 2),
        lambda y, x: third(blur_y[y, x] + blur_y[y, x + 1] + blur_y[y, x + 2]),
        name="blur_x",
    )
    return data, blur_x


def cumsum(m: int, n: int, dtype: str = "float32") -> Tensors:
    """Running sums along each row: an ordered update, not a reduction.

        B[i, j] = B[i, j-1] + A[i, j]

    A and B (m, n) of one dtype. Rows are independent; the loop over j keeps its order.
    """
    check_sizes(m=m, n=n)
    A = placeholder((m, n), number_dtype(dtype), name="A")
    B = update(
        (m, n),
        lambda B, i, j: if_then_else(j > 0, B[i, j - 1], 0) + A[i, j],
        dtype=dtype,
        name="B",
    )
    return A, B
