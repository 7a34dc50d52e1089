"""numpy: the baseline that is always there. Every result goes to an array that is kept.

A convolution is im2col by stride tricks and one product of matrices, for numpy has none.
`dense` and `convolution` take arrays, and serve the demonstration too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work, pad_of, spread, stride_of, turned, windows
from minitensor.runtime import BLAS_SPIN_SECONDS, SPIN_SECONDS

PRODUCTS: Final = (
    "matmul",
    "batch_matmul",
    "matmul_bias_relu",
    "conv",
    "transposed",
    "attention",
)
"""Kinds in which the time goes into a product of matrices."""

Product = Callable[[np.ndarray, np.ndarray, np.ndarray], object]
"""Writes the product of its first two operands to the third."""
Call = Callable[[], Any]
"""Returns the result; some stubs of numpy know no more about it."""


def numpy_product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> object:
    """numpy's own product of matrices."""
    return np.matmul(a, b, out=out)


def implementations(
    name: str, work: Work, threads: int, options: Mapping[str, Any]
) -> Iterator[Implementation]:
    """The one that computes the work with numpy."""
    yield with_product(name, work, numpy_product)


def with_product(name: str, work: Work, product: Product, note: str = "") -> Implementation:
    """The same with another product of matrices."""
    spin = BLAS_SPIN_SECONDS if work.kind in (*PRODUCTS, "matvec") else SPIN_SECONDS
    call = _CALLS[work.kind](work, product)
    return Implementation(name, call, np.asarray, spin=spin, note=note)


def _matmul(work: Work, product: Product) -> Call:
    a, b = work.inputs
    out = work.output()

    def call() -> Any:
        product(a, b, out)
        return out

    return call


def _matvec(work: Work, product: Product) -> Call:
    a, x = work.inputs
    out = work.output()
    return lambda: np.matmul(a, x, out=out)


def dense(a: np.ndarray, b: np.ndarray, bias: np.ndarray, product: Product = numpy_product) -> Call:
    """A function that computes relu(a b + bias): a (m, k), b (k, n), bias (n,), all of a dtype."""
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)

    def call() -> Any:
        product(a, b, out)
        np.add(out, bias, out=out)
        return np.maximum(out, 0, out=out)

    return call


def _windows(data: np.ndarray, kernel: int, pad: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for an image (c, h, w) of some within its border of zeros, and a view of its windows."""
    _, c, h, w = data.shape
    padded = np.zeros((c, h + 2 * pad, w + 2 * pad), data.dtype)
    return padded[:, pad : pad + h, pad : pad + w], windows(padded, kernel, stride)


def convolution(
    data: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    pad: int,
    stride: int = 1,
    product: Product = numpy_product,
) -> Call:
    """A function that computes a convolution as one product of matrices; with bias and relu.

    data (n, c, h, w), weight (f, c, k, k), bias (f,) or None for neither bias nor relu, result
    (n, f, oh, ow), all of a dtype. The windows of an image become the columns of a matrix
    (im2col): a view made with strides, copied.
    """
    inner, view = _windows(data, weight.shape[2], pad, stride)
    columns = np.empty(view.shape, data.dtype)
    flat = weight.reshape(weight.shape[0], -1)
    matrix = columns.reshape(flat.shape[1], -1)
    out = np.empty((len(data), len(flat), *view.shape[3:]), data.dtype)
    results = out.reshape(len(data), len(flat), -1)

    def call() -> Any:
        for image, result in zip(data, results):
            inner[...] = image
            columns[...] = view
            product(flat, matrix, result)
            if bias is not None:
                np.add(result, bias[:, None], out=result)
                np.maximum(result, 0, out=result)
        return out

    return call


def _dense(work: Work, product: Product) -> Call:
    a, b, bias = work.inputs
    return dense(a, b, bias, product)


def _convolution(work: Work, product: Product) -> Call:
    data, weight, *rest = work.inputs
    pad, stride = pad_of(work.parameters), stride_of(work.parameters)
    return convolution(data, weight, rest[0] if rest else None, pad, stride, product)


def _transposed(work: Work, product: Product) -> Call:
    data, weight = work.inputs
    kernel = weight.shape[2]
    wide = spread(data[0], kernel, work.parameters)[None]
    convolved = convolution(wide, turned(weight), None, 0, 1, product)

    def call() -> Any:
        wide[0] = spread(data[0], kernel, work.parameters)
        return convolved()

    return call


def _depthwise(work: Work, product: Product) -> Call:
    data, weight, *rest = work.inputs
    kernel = weight.shape[2]
    inner, view = _windows(data, kernel, pad_of(work.parameters), stride_of(work.parameters))
    out, term = (np.empty((len(inner), *view.shape[3:]), np.float32) for _ in range(2))

    def call() -> Any:
        inner[...] = data[0]
        out[...] = rest[0][:, None, None] if rest else 0
        for y in range(kernel):
            for x in range(kernel):
                np.multiply(view[:, y, x], weight[:, :, y, x, None], out=term)
                np.add(out, term, out=out)
        return np.maximum(out, 0, out=out) if rest else out

    return call


def _softmax(work: Work, product: Product) -> Call:
    (x,) = work.inputs
    out = work.output()
    row = np.empty((x.shape[0], 1), np.float32)

    def call() -> Any:
        np.max(x, axis=1, keepdims=True, out=row)
        np.subtract(x, row, out=out)
        np.exp(out, out=out)
        np.sum(out, axis=1, keepdims=True, out=row)
        return np.divide(out, row, out=out)

    return call


def _attention(work: Work, product: Product) -> Call:
    query, key, value = work.inputs
    heads, rows, dim = query.shape
    out, keys = work.output(), np.empty((heads, dim, key.shape[1]), np.float32)
    scores = np.empty((heads, rows, key.shape[1]), np.float32)
    row, scale = np.empty((heads, rows, 1), np.float32), np.float32(1 / np.sqrt(dim))

    def call() -> Any:
        keys[...] = key.transpose(0, 2, 1)
        product(query, keys, scores)
        np.multiply(scores, scale, out=scores)
        np.max(scores, axis=2, keepdims=True, out=row)
        np.subtract(scores, row, out=scores)
        np.exp(scores, out=scores)
        np.sum(scores, axis=2, keepdims=True, out=row)
        np.divide(scores, row, out=scores)
        product(scores, value, out)
        return out

    return call


def _layer_norm(work: Work, product: Product) -> Call:
    x, gamma, beta = work.inputs
    out, squares = work.output(), work.output()
    row = np.empty((x.shape[0], 1), np.float32)

    def call() -> Any:
        np.mean(x, axis=1, keepdims=True, out=row)
        np.subtract(x, row, out=out)
        np.multiply(out, out, out=squares)
        np.mean(squares, axis=1, keepdims=True, out=row)
        np.add(row, np.float32(1e-5), out=row)
        np.sqrt(row, out=row)
        np.divide(out, row, out=out)
        np.multiply(out, gamma, out=out)
        return np.add(out, beta, out=out)

    return call


def _row_sum(work: Work, product: Product) -> Call:
    out = work.output()
    return lambda: np.sum(work.inputs[0], axis=1, out=out)


def _column_sum(work: Work, product: Product) -> Call:
    out = work.output()
    return lambda: np.sum(work.inputs[0], axis=0, out=out)


def _full_sum(work: Work, product: Product) -> Call:
    out = work.output()
    return lambda: np.sum(work.inputs[0], out=out)


def _elementwise(work: Work, product: Product) -> Call:
    (x,) = work.inputs
    out = work.output()

    def call() -> Any:
        np.multiply(x, np.float32(1.5), out=out)
        np.add(out, np.float32(0.5), out=out)
        np.multiply(out, x, out=out)
        np.subtract(out, np.float32(2), out=out)
        return np.maximum(out, 0, out=out)

    return call


def _transpose_add(work: Work, product: Product) -> Call:
    a, b = work.inputs
    out = work.output()
    return lambda: np.add(a.T, b, out=out)


_CALLS: Final[Mapping[str, Callable[[Work, Product], Call]]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "matvec": _matvec,
    "matmul_bias_relu": _dense,
    "conv": _convolution,
    "depthwise": _depthwise,
    "softmax": _softmax,
    "attention": _attention,
    "layer_norm": _layer_norm,
    "transposed": _transposed,
    "row_sum": _row_sum,
    "column_sum": _column_sum,
    "full_sum": _full_sum,
    "elementwise": _elementwise,
    "transpose_add": _transpose_add,
}
