"""Pooling: one number for each window of an image."""

from __future__ import annotations

from typing import Any

from minitensor import ir
from minitensor.errors import ArgumentError
from minitensor.ir import DType
from minitensor.lang.reduce import max_, sum_
from minitensor.lang.scalar import Scalar, maximum, minimum
from minitensor.lang.tensor import Tensor, compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis, Tensors, check_sizes, number_dtype
from minitensor.lang.workloads.window import Layout, Windows, compute_image


def max_pool2d(
    n: int,
    c: int,
    h: int,
    w: int,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Tensors:
    """The maximum of each window.

        max_pool[n, c, y, x] = max over ry, rx of pad[n, c, y*stride + ry, x*stride + rx]

    data (n, c, h, w) and max_pool (n, c, oh, ow), or channels last, of one dtype, with
    oh = (h + 2*padding - kernel) // stride + 1. The stride is the kernel if it is None. Padding
    (at most half the kernel) holds -inf, or the least integer: it never is the maximum.
    """
    windows = _windows(layout, {"h": h, "w": w}, kernel, stride, padding)
    data, taps = _data(windows, n, c, dtype), windows.taps()
    source = windows.padded(data, ir.lowest(data.dtype))

    def element(n: Any, c: Any, at: Any) -> Any:
        return max_(windows.read(source, n, c, at, taps), axis=taps)

    shape = (n, c, windows.outputs)
    return data, compute_image(windows.layout, shape, element, "max_pool", "c")


def avg_pool2d(
    n: int,
    c: int,
    h: int,
    w: int,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    *,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Tensors:
    """The mean of each window, over what of it lies in the image.

        avg_pool[n, c, y, x] = (sum over ry, rx of pad[n, c, y*stride + ry, x*stride + rx])
                               / (the number of these that are not padding)

    data (n, c, h, w) and avg_pool (n, c, oh, ow), or channels last, of one dtype, with
    oh = (h + 2*padding - kernel) // stride + 1. The stride is the kernel if it is None. Padding (at
    most half the kernel) does not count: PyTorch's count_include_pad=False. Types narrower than 32
    bits are summed in 32; the mean of integers is rounded down.
    """
    windows = _windows(layout, {"h": h, "w": w}, kernel, stride, padding)
    data, taps, placed = _data(windows, n, c, dtype), windows.taps(), windows.layout
    source, wide = windows.padded(data), _wide(data.dtype)

    def window_sum(n: Any, c: Any, at: Any) -> Any:
        return sum_(windows.read(source, n, c, at, taps).astype(wide), axis=taps)

    def mean(n: Any, c: Any, at: Any) -> Any:
        count = _elements_inside(windows, at)
        return _mean(total[placed.image(n, c, at)], count).astype(data.dtype)

    shape = (n, c, windows.outputs)
    total = compute_image(placed, shape, window_sum, "pool_sum", "c")
    return data, compute_image(placed, shape, mean, "avg_pool", "c")


def global_avg_pool2d(
    n: int, c: int, h: int, w: int, *, layout: str = "NCHW", dtype: str = "float32"
) -> Tensors:
    """The mean of each channel of each image.

        avg_pool[n, c] = (sum over ry, rx of data[n, c, ry, rx]) / (h * w)

    data (n, c, h, w), or channels last, and avg_pool (n, c) of one dtype. Types narrower than 32
    bits are summed in 32; the mean of integers is rounded down.
    """
    check_sizes(n=n, c=c, h=h, w=w)
    placed, element = Layout.of(layout, 2), number_dtype(dtype)
    data = placeholder(placed.image(n, c, (h, w)), element, name="data")
    ry, rx = reduce_axis(h, name="ry"), reduce_axis(w, name="rx")
    total = compute(
        (n, c),
        lambda n, c: sum_(data[placed.image(n, c, (ry, rx))].astype(_wide(element)), [ry, rx]),
        name="pool_sum",
    )
    mean = compute((n, c), lambda n, c: _mean(total[n, c], h * w).astype(element), name="avg_pool")
    return data, mean


def _windows(
    layout: str, sizes: dict[str, int], kernel: PerAxis, stride: PerAxis | None, padding: PerAxis
) -> Windows:
    windows = Windows.over(layout, sizes, kernel, kernel if stride is None else stride, padding)
    if any(2 * p > k for p, k in zip(windows.padding, windows.kernel)):
        raise ArgumentError(
            f"expected padding of at most half the kernel, so that no window is all padding, but "
            f"got padding={padding} and kernel={kernel}"
        )
    return windows


def _data(windows: Windows, n: int, c: int, dtype: str) -> Tensor:
    check_sizes(n=n, c=c)
    return windows.data(n, c, number_dtype(dtype))


def _wide(dtype: DType) -> DType:
    """The type in which elements of a narrow type are summed."""
    if dtype.bits >= 32:
        return dtype
    return DType.of("float32" if dtype.is_float else "int32")


def _mean(total: Scalar, count: Any) -> Scalar:
    divisor = count.astype(total.dtype) if isinstance(count, Scalar) else count
    return total / divisor if total.dtype.is_float else total // divisor


def _elements_inside(windows: Windows, at: tuple[Any, ...]) -> Any:
    """The number of elements of the window of the output at `at` are not padding."""
    count: Any = 1
    for i, size, kernel, stride, padding in zip(
        at, windows.sizes, windows.kernel, windows.stride, windows.padding
    ):
        if padding:
            start = i * stride - padding
            count = count * (minimum(start + kernel, size) - maximum(start, 0))
        else:
            count = count * kernel
    return count
