"""Einsum: products of one or two operands, as transposes around a matrix product."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from minitensor.graph.onnx.context import Context, NotSupportedError, reshape
from minitensor.lang import Tensor, ops

_EQUATION: Final = re.compile(r"([A-Za-z]+)(?:,([A-Za-z]+))?->([A-Za-z]*)")


def einsum(c: Context, x: Any, y: Any = None, *more: Any) -> Tensor:
    """A product of one or two operands, each axis once in each: transposes around a MatMul."""
    text = c.attribute("equation").replace(" ", "")
    found = _EQUATION.fullmatch(text)
    parts = found.groups() if found else ()
    if more or not found or any(p and len(set(p)) < len(p) for p in parts):
        raise NotSupportedError(f"equation={text!r}")
    left, right, result = found[1], found[2] or "", found[3]
    x, extents = c.tensor(x), dict(zip(left, x.shape))
    if y is None:
        return _ordered(*_summed(x, left, result), result)
    y = c.tensor(y)
    extents.update(zip(right, y.shape))
    (x, left), (y, right) = _summed(x, left, result + right), _summed(y, right, result + left)
    batch = [a for a in left if a in right and a in result]
    inner = [a for a in left if a in right and a not in result]
    rows = [a for a in left if a not in right]
    columns = [a for a in right if a not in left]

    def size(axes: list[str]) -> int:
        return math.prod(extents[axis] for axis in axes)

    outer = tuple(extents[axis] for axis in batch)
    one = reshape(_ordered(x, left, batch + rows + inner), (*outer, size(rows), size(inner)))
    two = reshape(_ordered(y, right, batch + inner + columns), (*outer, size(inner), size(columns)))
    order = batch + rows + columns
    product = reshape(ops.matmul(one, two), tuple(extents[axis] for axis in order))
    return _ordered(product, order, result)


def _summed(x: Tensor, axes: str, kept: str) -> tuple[Tensor, str]:
    """A tensor without the axes that nothing else has."""
    gone = tuple(n for n, axis in enumerate(axes) if axis not in kept)
    left = "".join(axis for axis in axes if axis in kept)
    return (ops.reduce_sum(x, axes=gone) if gone else x), left


def _ordered(x: Tensor, axes: Sequence[str], wanted: Sequence[str]) -> Tensor:
    order = [list(axes).index(axis) for axis in wanted]
    return x if order == list(range(len(order))) else ops.transpose(x, axes=order)
