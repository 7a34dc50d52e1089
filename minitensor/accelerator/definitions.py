"""The product of the array, as an intrinsic, and operators as it computes them: int8 in and out,
int32 sums.

Where an extent does not divide the array, operands are padded with zeros, which add nothing; the
copies that pad become loads that pad. The results have the extents that were asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from minitensor.accelerator.machine import machine_of
from minitensor.answers import answered
from minitensor.errors import whole
from minitensor.ir import Intrinsic, Program
from minitensor.lang import (
    Tensor,
    Windows,
    check_sizes,
    compute,
    intrinsic,
    lower,
    maximum,
    minimum,
    ops,
    placeholder,
    reduce_axis,
    sum_,
)  # fmt: skip

_PLAIN: Final = """
    for (int j = 0; j < {rows}; ++j) {{
        for (int k = 0; k < {columns}; ++k) {{
            c[j] += (int32_t)a[k] * (int32_t)b[k * b_stride0 + j];
        }}
    }}
"""


@answered
def product(machine: object = None) -> Intrinsic:
    """The work of an accelerator's array in a cycle: what `tensorize` puts in the place of two
    loops.

        c[j] += sum over k < columns of a[k] * b[k, j]               for j < rows

    a (columns,) int8 in "acc.input", b (columns, rows) int8 in "acc.weight", c (rows,) int32 in
    "acc.accumulator". Rows of b may be apart. On a CPU it is plain C.

    machine  an mt.accelerator.Machine; the usual one if None
    """
    found = machine_of(machine)
    a = placeholder((found.columns,), "int8", name="a")
    b = placeholder((found.columns, found.rows), "int8", name="b")
    k = reduce_axis(found.columns, name="k")
    c = compute((found.rows,), lambda j: sum_(_wide(a[k]) * _wide(b[k, j]), axis=k), name="c")
    text = _PLAIN.format(rows=found.rows, columns=found.columns)
    strides: dict[str, list[int | None]] = {"a": [1], "b": [None, 1], "c": [1]}
    return intrinsic("accelerator_product", [a, b, c], text, strides=strides)


@answered
def matmul(m: int, n: int, k: int, *, shift: int = 8, machine: object = None) -> Program:
    """A product of int8 matrices, quantised again to int8.

        D[i, j] = clip(sum over k of A[i, k] * B[k, j] >> shift, -128, 127)

    A (m, k), B (k, n), D (m, n).

    Raises ArgumentError for extents that are not whole numbers from 1, and a shift not in 0..31.
    """
    check_sizes(m=m, n=n, k=k)
    found = machine_of(machine)
    columns, terms = _multiple(n, found.rows), _multiple(k, found.columns)
    a, b = placeholder((m, k), "int8", name="A"), placeholder((k, n), "int8", name="B")
    left, right = _padded(a, (m, terms)), _padded(b, (terms, columns))
    r = reduce_axis(terms, name="k")
    c = compute(
        (m, columns), lambda i, j: sum_(_wide(left[i, r]) * _wide(right[r, j]), axis=r), name="C"
    )
    return lower([a, b, _quantised(c, (m, n), shift)], name="matmul")


@answered
def conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    *,
    shift: int = 8,
    machine: object = None,
) -> Program:
    """A convolution of int8 images with int8 weights, quantised again to int8.

        D[n, y, x, f] = clip(sum over ry, rx, c of A[n, y*stride + ry - padding, x*stride + rx
                             - padding, c] * B[ry, rx, c, f] >> shift, -128, 127)

    A (n, h, w, c), zeros around it; B (kernel, kernel, c, f); D (n, oh, ow, f). The arguments are
    those of `mt.workloads.conv2d` in layout "NHWC".

    Raises ArgumentError for sizes that are not whole numbers from 1, and a kernel that is larger
    than the padded image.
    """
    check_sizes(n=n, c=c, f=f)
    windows = Windows.over("NHWC", {"h": h, "w": w}, kernel, stride, padding)
    found = machine_of(machine)
    inputs, outputs = _multiple(c, found.columns), _multiple(f, found.rows)
    around = windows.layout.image(0, 0, windows.padding)
    a = placeholder((n, h, w, c), "int8", name="A")
    b = placeholder((*windows.kernel, c, f), "int8", name="B")
    extents = (side + 2 * more for side, more in zip((h, w), windows.padding))
    image = _padded(a, (n, *extents, inputs), around)
    weights = _padded(b, (*windows.kernel, inputs, outputs))
    taps, rc = windows.taps(), reduce_axis(inputs, name="rc")
    sums = compute(
        (n, *windows.outputs, outputs),
        lambda n, y, x, f: sum_(
            _wide(windows.read(image, n, rc, (y, x), taps))
            * _wide(weights[windows.layout.weight(f, rc, taps)]),
            axis=(*taps, rc),
        ),
        name="C",
    )
    return lower([a, b, _quantised(sums, (n, *windows.outputs, f), shift)], name="conv2d")


def _wide(value: Any) -> Any:
    return value.astype("int32")


def _multiple(extent: int, of: int) -> int:
    return -(-extent // of) * of


def _padded(tensor: Tensor, shape: Sequence[int], before: Sequence[int] | None = None) -> Tensor:
    """A tensor with zeros around it; itself if there are none."""
    before = [0] * len(shape) if before is None else before
    after = [w - n - low for w, n, low in zip(shape, tensor.shape, before)]
    return ops.pad(tensor, before=before, after=after) if any((*before, *after)) else tensor


def _quantised(sums: Tensor, shape: Sequence[int], shift: int) -> Tensor:
    shift = whole("shift", shift, 0, 31)
    made: Tensor = compute(
        tuple(shape),
        lambda *at: maximum(minimum(sums[at] >> shift, 127), -128).astype("int8"),
        name="D",
    )
    return made
