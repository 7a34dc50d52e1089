"""The workloads as TVM programs, of the structure that tuning records are found by.

`tvm` and `te` are handed in: the packages are imported in one place, `tvm_baseline`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.compare.work import Work, pad_of, stride_of


def program(tvm: Any, te: Any, work: Work) -> Any:
    """The workload as a PrimFunc, its parameters those of the work and then the result."""
    x = [te.placeholder(a.shape, "float32", n) for n, a in zip(work.names, work.inputs)]
    topi = tvm.topi
    match work.kind:
        case "matmul" | "batch_matmul" | "matmul_bias_relu":
            result = _matmul(tvm, te, *x)
        case "matvec":
            k = te.reduce_axis((0, x[0].shape[1]), name="k")
            shape = tuple(work.expected.shape)
            result = te.compute(shape, lambda i: te.sum(x[0][i, k] * x[1][k], axis=k), name="C")
        case "attention":
            result = _attention(tvm, te, *x)
        case "conv" | "depthwise":
            result = _convolution(tvm, te, work, *x)
        case "softmax":
            result = topi.nn.softmax(x[0], axis=1)
        case "layer_norm":
            result = topi.nn.layer_norm(*x, axis=[1], epsilon=1e-5)
        case "row_sum":
            result = topi.sum(x[0], axis=1)
        case "transposed":
            stride, pad = stride_of(work.parameters), pad_of(work.parameters)
            sizes = (stride, stride), (pad, pad), "float32", (0, 0)
            result = topi.nn.conv2d_transpose_nchw(*x, *sizes)
        case "column_sum":
            result = topi.sum(x[0], axis=0)
        case "full_sum":
            result = topi.sum(x[0], axis=None)
        case "elementwise":
            result = _elementwise(tvm, te, x[0])
        case "transpose_add":
            turned = te.compute(x[0].shape, lambda i, j: x[0][j, i], name="T")
            result = te.compute(x[0].shape, lambda i, j: turned[i, j] + x[1][i, j], name="S")
    return te.create_prim_func([*x, result])


def _relu(tvm: Any, value: Any) -> Any:
    return tvm.tirx.max(value, tvm.tirx.const(0.0, "float32"))


def _matmul(tvm: Any, te: Any, a: Any, b: Any, bias: Any = None) -> Any:
    k = te.reduce_axis((0, a.shape[-1]), name="k")
    if len(a.shape) == 3:
        return te.compute(
            (a.shape[0], a.shape[1], b.shape[2]),
            lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k),
            name="C",
        )
    shape = (a.shape[0], b.shape[1])
    c = te.compute(shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    if bias is None:
        return c
    return te.compute(shape, lambda i, j: _relu(tvm, c[i, j] + bias[j]), name="D")


def _attention(tvm: Any, te: Any, query: Any, key: Any, value: Any) -> Any:
    heads, rows, dim = query.shape
    k = te.reduce_axis((0, dim), name="k")
    scores = te.compute(
        (heads, rows, key.shape[1]),
        lambda b, i, j: te.sum(query[b, i, k] * key[b, j, k], axis=k),
        name="S",
    )
    scale = tvm.tirx.const(float(dim) ** -0.5, "float32")
    scaled = te.compute(scores.shape, lambda *index: scores[index] * scale, name="scores")
    return _matmul(tvm, te, tvm.topi.nn.softmax(scaled, axis=2), value)


def _convolution(tvm: Any, te: Any, work: Work, data: Any, weight: Any, bias: Any = None) -> Any:
    images, channels, h, w = work.inputs[0].shape
    _, depth, kernel, _ = work.inputs[1].shape
    pad, stride = pad_of(work.parameters), stride_of(work.parameters)
    zero = tvm.tirx.const(0.0, "float32")

    def element(n: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tvm.tirx.all(y >= pad, y < h + pad, x >= pad, x < w + pad)
        return tvm.tirx.if_then_else(inside, data[n, c, y - pad, x - pad], zero)

    padded = data
    if pad:
        padded = te.compute((images, channels, h + 2 * pad, w + 2 * pad), element, name="pad")
    ry, rx = (te.reduce_axis((0, kernel), name=name) for name in ("ry", "rx"))
    shape = tuple(work.expected.shape)
    if work.kind == "depthwise":
        conv = te.compute(
            shape,
            lambda n, f, y, x: te.sum(
                padded[n, f, y * stride + ry, x * stride + rx] * weight[f, 0, ry, rx],
                axis=[ry, rx],
            ),
            name="dw",
        )
    else:
        rc = te.reduce_axis((0, depth), name="rc")
        conv = te.compute(
            shape,
            lambda n, f, y, x: te.sum(
                padded[n, rc, y * stride + ry, x * stride + rx] * weight[f, rc, ry, rx],
                axis=[rc, ry, rx],
            ),
            name="conv",
        )
    if bias is None:
        return conv
    return te.compute(shape, lambda n, f, y, x: _relu(tvm, conv[n, f, y, x] + bias[f]), name="relu")


def _elementwise(tvm: Any, te: Any, a: Any) -> Any:
    def number(value: float) -> Any:
        return tvm.tirx.const(value, "float32")

    scaled = te.compute(a.shape, lambda i: a[i] * number(1.5), name="e0")
    shifted = te.compute(a.shape, lambda i: scaled[i] + number(0.5), name="e1")
    product = te.compute(a.shape, lambda i: shifted[i] * a[i], name="e2")
    lowered = te.compute(a.shape, lambda i: product[i] - number(2.0), name="e3")
    return te.compute(a.shape, lambda i: _relu(tvm, lowered[i]), name="e4")
