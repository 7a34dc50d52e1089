"""The hand schedules by name: what `python -m benchmarks.compare` measures."""

from __future__ import annotations

from typing import Any, Final

from minitensor.codegen import Target
from minitensor.ir import Program
from minitensor.lang import compute, lower, maximum, placeholder, reduce_axis, sum_, workloads
from minitensor.schedule import Schedule

from . import attention, convolution, matmul, rows, streams, winograd
from .hand import HandSchedule, Steps

_FLOAT: Final = 4
"""Bytes of a number."""
FEW_ROWS: Final = 64
"""Of A, below which a number of B is used too seldom to be copied first."""


def product(m: int, n: int, k: int, bias_relu: bool = False) -> HandSchedule:
    """A product of matrices, or a dense layer."""
    kind = "matmul_bias_relu" if bias_relu else "matmul"

    def define() -> Program:
        return lower(workloads.WORKLOADS[kind].function(m=m, n=n, k=k), name=kind)

    def steps(s: Schedule, target: Target) -> Steps:
        if m < FEW_ROWS:
            return matmul.direct(s, target)
        if k <= 16:
            return matmul.short(s, target)
        return matmul.packed(s, matmul.Tiles.of(target, m))

    size = str(m) if m == n == k else f"{m}x{n}x{k}"
    moved = _FLOAT * (m * k + k * n + m * n + (n if bias_relu else 0))
    name = f"{'matmul+bias+relu' if bias_relu else 'matmul'} {size}"
    sizes = {"m": m, "n": n, "k": k}
    bound = matmul.in_panels if m < FEW_ROWS else None
    return HandSchedule(name, define, steps, ("B",), 2 * m * n * k, moved, kind, sizes, bound)


def _batch_matmul(b: int, m: int, n: int, k: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.batch_matmul(b=b, m=m, n=n, k=k), name="batch_matmul")

    return HandSchedule(
        f"batch matmul {b}x({m}x{n}x{k})",
        define,
        matmul.direct,
        (),
        2 * b * m * n * k,
        _FLOAT * b * (m * k + k * n + m * n),
        "batch_matmul",
        {"b": b, "m": m, "n": n, "k": k},
    )


def _conv(
    c: int, f: int, h: int, kernel: int, stride: int = 1, padding: int = 0, images: int = 1
) -> HandSchedule:
    out = (h + 2 * padding - kernel) // stride + 1
    sizes = {
        "n": images,
        "c": c,
        "h": h,
        "w": h,
        "f": f,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
    }

    def define() -> Program:
        tensors = workloads.conv2d_bias_relu(images, c, h, h, f, kernel, stride, padding)
        return lower(tensors, name="conv2d_bias_relu")

    def steps(s: Schedule, target: Target) -> Steps:
        if kernel == 1 and stride == 1:
            return convolution.by_pixels(s, target)
        return convolution.by_channels(s, convolution.Tiles.of(target, images, f, out, out))

    window = f"{kernel}x{kernel}" + (f"/{stride}" if stride > 1 else "")
    return HandSchedule(
        f"conv {window} {c}->{f} {h}x{h}" + (f" x {images}" if images > 1 else ""),
        define,
        steps,
        ("weight", "bias"),
        2 * images * f * c * out * out * kernel * kernel,
        _FLOAT * (images * (c * h * h + f * out * out) + f * c * kernel * kernel + f),
        "conv",
        sizes,
    )


def _winograd(c: int, f: int, h: int) -> HandSchedule:
    sizes = {"c": c, "h": h, "w": h, "f": f, "kernel": 3, "stride": 1, "padding": 1}

    def define() -> Program:
        data, weight, conv = workloads.conv2d_winograd(1, c, h, h, f, padding=1, tile=winograd.TILE)
        bias = placeholder((f,), "float32", name="bias")

        def rectified(n: Any, f: Any, y: Any, x: Any) -> Any:
            return maximum(conv[n, f, y, x] + bias[f], 0)

        relu = compute((1, f, h, h), rectified, name="relu")
        return lower([data, weight, bias, relu], name="conv2d_winograd")

    return HandSchedule(
        f"Winograd 3x3 {c}->{f} {h}x{h}",
        define,
        winograd.winograd,
        ("weight", "bias"),
        2 * 9 * f * c * h * h,
        _FLOAT * (c * h * h + 9 * f * c + f + f * h * h),
        "conv",
        sizes,
    )


def _depthwise(c: int, h: int) -> HandSchedule:
    sizes = {"c": c, "h": h, "w": h, "kernel": 3, "stride": 1, "padding": 1}

    def define() -> Program:
        tensors = workloads.depthwise_conv2d(1, c, h, h, kernel=3, padding=1)
        return lower(tensors, name="depthwise_conv2d")

    return HandSchedule(
        f"depthwise 3x3 {c} {h}x{h}",
        define,
        convolution.depthwise,
        ("weight",),
        2 * 9 * c * h * h,
        _FLOAT * (2 * c * h * h + 9 * c),
        "depthwise",
        sizes,
    )


def _transposed(c: int, f: int, h: int, kernel: int, stride: int, padding: int) -> HandSchedule:
    sizes = {"c": c, "h": h, "w": h, "f": f, "kernel": kernel, "stride": stride, "padding": padding}
    out = (h - 1) * stride - 2 * padding + kernel

    def define() -> Program:
        tensors = workloads.conv2d_transpose(1, c, h, h, f, kernel, stride, padding)
        return lower(tensors, name="conv2d_transpose")

    return HandSchedule(
        f"transposed {kernel}x{kernel}/{stride} {c}->{f} {h}x{h}",
        define,
        convolution.transposed,
        ("weight",),
        2 * f * c * h * h * kernel * kernel,
        _FLOAT * (c * h * h + f * c * kernel * kernel + f * out * out),
        "transposed",
        sizes,
    )


def _softmax(m: int, n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.softmax(m=m, n=n), name="softmax")

    moved = 2 * _FLOAT * m * n
    return HandSchedule(
        f"softmax {m}x{n}", define, rows.softmax, (), 0, moved, "softmax", {"m": m, "n": n}
    )


def _attention(b: int, m: int, n: int, dim: int) -> HandSchedule:
    def define() -> Program:
        return lower(attention.defined(b, m, n, dim), name="attention")

    return HandSchedule(
        f"attention {b}x({m}x{n}x{dim})",
        define,
        attention.attention,
        (),
        4 * b * m * n * dim,
        2 * _FLOAT * b * (m + n) * dim,
        "attention",
        {"b": b, "m": m, "n": n, "dim": dim},
    )


def _layer_norm(m: int, n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.layer_norm(m=m, n=n), name="layer_norm")

    return HandSchedule(
        f"layer norm {m}x{n}",
        define,
        rows.layer_norm,
        (),
        0,
        _FLOAT * (2 * m * n + 2 * n),
        "layer_norm",
        {"m": m, "n": n},
    )


def _row_sum(m: int, n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.row_sum(m=m, n=n), name="row_sum")

    moved = _FLOAT * (m * n + m)
    return HandSchedule(
        f"row sum {m}x{n}", define, rows.row_sum, (), 0, moved, "row_sum", {"m": m, "n": n}
    )


def _matvec(m: int, k: int) -> HandSchedule:
    def define() -> Program:
        A, x, r = placeholder((m, k), name="A"), placeholder((k,), name="x"), reduce_axis(k)
        B = compute((m,), lambda i: sum_(A[i, r] * x[r], axis=r), name="B")
        return lower([A, x, B], name="matvec")

    moved = _FLOAT * (m * k + k + m)
    return HandSchedule(
        f"matrix x vector {m}x{k}", define, rows.row_sum, (), 0, moved, "matvec", {"m": m, "k": k}
    )


def _column_sum(m: int, n: int) -> HandSchedule:
    def define() -> Program:
        A, k = placeholder((m, n), "float32", name="A"), reduce_axis(m, name="k")
        return lower(
            [A, compute((n,), lambda j: sum_(A[k, j], axis=k), name="B")], name="column_sum"
        )

    moved = _FLOAT * (m * n + n)
    sizes = {"m": m, "n": n}
    return HandSchedule(
        f"column sum {m}x{n}", define, rows.column_sum, (), 0, moved, "column_sum", sizes
    )


def _full_sum(m: int, n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.full_sum(m=m, n=n), name="full_sum")

    moved = _FLOAT * (m * n + 1)
    return HandSchedule(
        f"full sum {m}x{n}", define, rows.full_sum, (), 0, moved, "full_sum", {"m": m, "n": n}
    )


def _elementwise(n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.elementwise_chain(shape=n), name="elementwise_chain")

    return HandSchedule(
        f"5 elementwise {n >> 20}M",
        define,
        streams.elementwise,
        (),
        0,
        2 * _FLOAT * n,
        "elementwise",
        {"shape": n},
    )


def _transpose_add(n: int) -> HandSchedule:
    def define() -> Program:
        return lower(workloads.transpose_add(m=n, n=n), name="transpose_add")

    return HandSchedule(
        f"transpose+add {n}x{n}",
        define,
        streams.transpose_add,
        (),
        0,
        3 * _FLOAT * n * n,
        "transpose_add",
        {"m": n, "n": n},
    )


HAND_SCHEDULES: Final[dict[str, HandSchedule]] = {
    "matmul-512": product(512, 512, 512),
    "matmul-1024": product(1024, 1024, 1024),
    "matmul-2048": product(2048, 2048, 2048),
    "matmul-odd": product(997, 1009, 1013),
    "matmul-16": product(16, 1024, 1024),
    "matmul-long": product(512, 512, 8192),
    "batch-matmul": _batch_matmul(12, 128, 128, 64),
    "dense-1024": product(1024, 1024, 1024, bias_relu=True),
    "conv-64-56": _conv(64, 64, 56, 3, padding=1),
    "conv-128-28": _conv(128, 128, 28, 3, padding=1),
    "conv-256-14": _conv(256, 256, 14, 3, padding=1),
    "conv-512-7": _conv(512, 512, 7, 3, padding=1),
    "conv-batch": _conv(48, 48, 19, 3, padding=1, images=8),
    "conv-1x1": _conv(64, 256, 56, 1),
    "conv-7x7": _conv(3, 64, 224, 7, stride=2, padding=3),
    "winograd-64-56": _winograd(64, 64, 56),
    "winograd-128-28": _winograd(128, 128, 28),
    "winograd-256-14": _winograd(256, 256, 14),
    "depthwise": _depthwise(128, 56),
    "transposed": _transposed(64, 64, 28, 4, 2, 1),
    "softmax": _softmax(4096, 1024),
    "attention": _attention(12, 512, 512, 64),
    "layer-norm": _layer_norm(4096, 1024),
    "row-sum": _row_sum(4096, 4096),
    "matvec": _matvec(4096, 4096),
    "column-sum": _column_sum(4096, 1000),
    "full-sum": _full_sum(4096, 4096),
    "elementwise": _elementwise(1 << 24),
    "transpose-add": _transpose_add(4096),
}
"""Every workload that is measured, by a short name."""
