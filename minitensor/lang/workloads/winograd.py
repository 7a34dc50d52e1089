"""Convolution with 3 x 3 windows by Winograd's minimal filtering.

Tiles of m x m outputs are computed with (m + 2)**2 products for each pair of channels instead of
9 * m**2: 2.25 times fewer for m = 2, 4 times fewer for m = 4, at the price of cheap transforms
before and after. In floating point the result differs from the direct one by rounding, more so for
m = 4.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from minitensor.errors import unexpected
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import Scalar, if_then_else
from minitensor.lang.tensor import Tensor, compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis, Tensors, check_sizes, float_dtype
from minitensor.lang.workloads.window import Windows, pad

Matrix: TypeAlias = tuple[tuple[float, ...], ...]

TRANSFORMS: Final[dict[int, tuple[Matrix, Matrix, Matrix]]] = {
    2: (
        ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
        ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ((1, 1, 1, 0), (0, 1, -1, -1)),
    ),
    4: (
        (
            (1 / 4, 0, 0),
            (-1 / 6, -1 / 6, -1 / 6),
            (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6),
            (1 / 24, -1 / 12, 1 / 6),
            (0, 0, 1),
        ),
        (
            (4, 0, -5, 0, 1, 0),
            (0, -4, -4, 1, 1, 0),
            (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0),
            (0, 2, -1, -2, 1, 0),
            (0, 4, 0, -5, 0, 1),
        ),
        ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
    ),
}
"""For each tile size G, B^T and A^T, such that g * d = A^T ((G g) . (B^T d)) in one dimension."""


def conv2d_winograd(
    n: int,
    c: int,
    h: int,
    w: int,
    f: int,
    padding: PerAxis = 0,
    tile: int = 4,
    *,
    dtype: str = "float32",
) -> Tensors:
    """Convolution with 3 x 3 windows, one product of matrices for each element of a tile.

        U = G g G^T       the kernel transform, for each pair of channels     weight_rows, U
        V = B^T d B       the input transform, for each tile and channel      pad, data_rows, V
        M[xi, nu] = sum over rc of U[xi, nu, rc] * V[xi, nu, rc]              M
        conv = A^T M A    the output transform                                tile_rows, tiles, conv

    data (n, c, h, w), weight (f, c, 3, 3), conv (n, f, h + 2*padding - 2, w + 2*padding - 2), of
    one float dtype. `tile` is the m of F(m x m, 3 x 3): 2 or 4. Where m does not divide the output,
    the image is padded to whole tiles and the excess is dropped. Tiles of all images are numbered
    along one axis, p.

    A transform is a choice among a few sums by the position in the tile: once the loops over it are
    unrolled no choice, and no multiplication by 0 or 1, is left.

    Source: Lavin & Gray, Fast Algorithms for Convolutional Neural Networks, 2016, §4.
    """
    check_sizes(n=n, c=c, f=f)
    if not isinstance(tile, numbers.Integral) or tile not in TRANSFORMS:
        raise unexpected("2 or 4", "tile", tile)
    windows = Windows.over("NCHW", {"h": h, "w": w}, 3, padding=padding)
    element = float_dtype(dtype)
    data = placeholder((n, c, h, w), element, name="data")
    weight = placeholder((f, c, 3, 3), element, name="weight")
    oh, ow = windows.outputs
    down, across = -(-oh // tile), -(-ow // tile)
    product = _product(_kernel(weight, tile), _input(data, windows, tile, down, across))
    tiles = _output(product, tile)

    def pixel(n: Any, f: Any, y: Any, x: Any) -> Any:
        return tiles[y % tile, x % tile, f, (n * down + y // tile) * across + x // tile]

    return data, weight, compute((n, f, oh, ow), pixel, name="conv")


def _kernel(weight: Tensor, tile: int) -> Tensor:
    """U[xi, nu, c, f]."""
    f, c, _, _ = weight.shape
    g, side = TRANSFORMS[tile][0], tile + 2
    rows = compute(
        (side, 3, c, f),
        lambda xi, rx, c, f: _transformed(g, xi, lambda ry: weight[f, c, ry, rx]),
        name="weight_rows",
    )
    transformed: Tensor = compute(
        (side, side, c, f),
        lambda xi, nu, c, f: _transformed(g, nu, lambda rx: rows[xi, rx, c, f]),
        name="U",
    )
    return transformed


def _input(data: Tensor, windows: Windows, tile: int, down: int, across: int) -> Tensor:
    """V[xi, nu, c, p]."""
    n, c, h, w = data.shape
    (top, left), side = windows.padding, tile + 2
    after = (0, 0, down * tile + 2 - top - h, across * tile + 2 - left - w)
    source = pad(data, (0, 0, top, left), after, ("n", "c", "y", "x"))
    b = TRANSFORMS[tile][1]

    def read(c: Any, p: Any, y: Any, x: Any) -> Scalar:
        image, rest = p // (down * across), p % (down * across)
        return source[image, c, rest // across * tile + y, rest % across * tile + x]

    rows = compute(
        (side, side, c, n * down * across),
        lambda xi, x, c, p: _transformed(b, xi, lambda y: read(c, p, y, x)),
        name="data_rows",
    )
    transformed: Tensor = compute(
        rows.shape,
        lambda xi, nu, c, p: _transformed(b, nu, lambda x: rows[xi, x, c, p]),
        name="V",
    )
    return transformed


def _product(u: Tensor, v: Tensor) -> Tensor:
    """M[xi, nu, f, p]."""
    side, _, c, f = u.shape
    rc = reduce_axis(c, name="rc")
    product: Tensor = compute(
        (side, side, f, v.shape[-1]),
        lambda xi, nu, f, p: sum_(u[xi, nu, rc, f] * v[xi, nu, rc, p], axis=rc),
        name="M",
    )
    return product


def _output(product: Tensor, tile: int) -> Tensor:
    """tiles[y, x, f, p], with y and x inside of the tile."""
    side, _, f, count = product.shape
    a = TRANSFORMS[tile][2]
    rows = compute(
        (tile, side, f, count),
        lambda y, nu, f, p: _transformed(a, y, lambda xi: product[xi, nu, f, p]),
        name="tile_rows",
    )
    tiles: Tensor = compute(
        (tile, tile, f, count),
        lambda y, x, f, p: _transformed(a, x, lambda nu: rows[y, nu, f, p]),
        name="tiles",
    )
    return tiles


def _transformed(matrix: Matrix, row: Any, vector: Callable[[int], Scalar]) -> Any:
    """Element `row` of the matrix times the vector."""
    *others, result = [_combination(coefficients, vector) for coefficients in matrix]
    for number in reversed(range(len(others))):
        result = if_then_else(row == number, others[number], result)
    return result


def _combination(coefficients: Sequence[float], vector: Callable[[int], Scalar]) -> Any:
    """The sum of coefficient times element, without the terms and factors that do nothing."""
    total: Any = None
    for number, coefficient in enumerate(coefficients):
        if coefficient == 0:
            continue
        size = abs(coefficient)
        term = vector(number) if size == 1 else vector(number) * size
        if total is None:
            total = term if coefficient > 0 else -term
        else:
            total = total + term if coefficient > 0 else total - term
    return total
