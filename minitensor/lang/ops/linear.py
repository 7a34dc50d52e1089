"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor.errors import ArgumentError
from minitensor.lang.ops.elementwise import add, at, broadcast_shape, index_of, mul, stage
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import Tensor, reduce_axis
from minitensor.lang.workloads.arguments import number_dtype


def product_in(out_dtype: str | None) -> Callable[[Any, Any], Any]:
    """The product of two elements in a dtype; None for their own."""
    if out_dtype is None:
        return lambda u, v: u * v
    wide = number_dtype(out_dtype, "out_dtype")
    return lambda u, v: u.astype(wide) * v.astype(wide)


@operator("a", "b")
def matmul(a: Tensor, b: Tensor, *, out_dtype: str | None = None) -> Tensor:
    """The product of matrices in the last two axes, those in front broadcast: numpy.matmul.

        result[..., i, j] = sum over k of a[..., i, k] * b[..., k, j]

    Both have at least 2 axes and one dtype; with out_dtype, products and their sum are of that one.
    Raises ArgumentError where extents do not fit.
    """
    for name, one in (("a", a), ("b", b)):
        tensor(f"ops.matmul: {name}", one)
    if a.dtype != b.dtype:
        raise ArgumentError(f"ops.matmul: a is {a.dtype} and b is {b.dtype}: ops.cast converts one")
    return product("matmul", a, b, product_in(out_dtype))


def product(name: str, a: Tensor, b: Tensor, multiply: Callable[[Any, Any], Any]) -> Tensor:
    """The sums of products of `matmul`, of what `multiply` makes of two elements."""
    if a.ndim < 2 or b.ndim < 2:
        raise ArgumentError(
            f"ops.{name}: expected two tensors of at least 2 axes, but got {a.shape} and "
            f"{b.shape}; ops.reshape gives a vector a second one"
        )
    if a.shape[-1] != b.shape[-2]:
        raise ArgumentError(
            f"ops.{name}: a is {a.dtype}{list(a.shape)} and b is {b.dtype}{list(b.shape)}: the "
            "last extent of a must be the one before the last of b"
        )
    lead = broadcast_shape(name, a.shape[:-2], b.shape[:-2]) if a.ndim + b.ndim > 4 else ()
    k = reduce_axis(a.shape[-1], "k")

    def front(operand: Tensor, index: Any) -> tuple[Any, ...]:
        own = lead[len(lead) - operand.ndim + 2 :]
        places = index[len(lead) - operand.ndim + 2 : len(lead)]
        return tuple(0 if n == 1 != m else i for n, m, i in zip(operand.shape, own, places))

    def element(index: Any) -> Any:
        row = a[index_of(*front(a, index), index[-2], k)]
        return sum_(multiply(row, b[index_of(*front(b, index), k, index[-1])]), axis=k)

    return stage((*lead, a.shape[-2], b.shape[-1]), name, element)


@operator("a", "b", "c")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
) -> Tensor:
    """alpha * a @ b + beta * c of matrices, both transposed first if asked; c broadcasts. With
    out_dtype, products and their sum are of that dtype, as c is.

    Raises ArgumentError where extents do not fit.
    """
    for name, one in (("a", a), ("b", b)):
        if tensor(f"ops.gemm: {name}", one).ndim != 2:
            raise ArgumentError(f"ops.gemm: expected {name} with 2 axes, but got {one.shape}")
    (m, depth), (other, n) = (
        a.shape[:: -1 if transpose_a else 1],
        b.shape[:: -1 if transpose_b else 1],
    )
    if depth != other or a.dtype != b.dtype:
        raise ArgumentError(
            f"ops.gemm: a is {a.dtype}{list(a.shape)} and b is {b.dtype}{list(b.shape)}, with "
            f"transpose_a={transpose_a} and transpose_b={transpose_b}: {depth} and {other} differ"
        )
    k, times = reduce_axis(depth, "k"), product_in(out_dtype)

    def element(index: Any) -> Any:
        i, j = index
        u, v = a[k, i] if transpose_a else a[i, k], b[j, k] if transpose_b else b[k, j]
        return sum_(times(u, v), axis=k)

    result = stage((m, n), "products", element)
    if alpha != 1.0:
        result = mul(result, alpha)
    if c is None:
        return result
    if broadcast_shape("gemm", c.shape, (m, n)) != (m, n):
        raise ArgumentError(f"ops.gemm: c of shape {c.shape} does not broadcast to {(m, n)}")
    if beta != 1.0:
        return add(result, mul(c, beta))
    return stage((m, n), "bias", lambda i: result[i] + at(c, (m, n), i))
