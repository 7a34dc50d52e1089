"""The programs, each beside torch's words for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import minitensor as mt

Element: TypeAlias = "Callable[..., Any]"
Made: TypeAlias = "tuple[list[Any], Callable[..., Any]]"
"""The tensors of a program, inputs first, and the same as a function of torch's tensors."""
PROGRAMS: Final[dict[str, Callable[[], Made]]] = {}


def torch() -> Any:
    """torch, which is no dependency: it is imported where a program is compared."""
    import torch as found  # noqa: PLC0415

    return found


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    """Enter a program under the name of its function."""
    PROGRAMS[make.__name__] = make
    return make


def arrays(*shapes: Sequence[int], dtype: str = "float32") -> list[Any]:
    """Inputs of a type, called x, w, z and v."""
    return [mt.placeholder(tuple(shape), dtype, name=name) for name, shape in zip("xwzv", shapes)]


def over(*extents: int) -> list[Any]:
    """Axes to reduce over."""
    return [mt.reduce_axis(extent, name=f"k{n}") for n, extent in enumerate(extents)]


# ---- products


@program
def gram() -> Made:
    """Rows of a matrix with each other."""
    (x,), (k,) = arrays((512, 2048)), over(2048)
    y = mt.compute((512, 512), lambda i, j: mt.sum(x[i, k] * x[j, k], axis=k))
    return [x, y], lambda x: x @ x.T


@program
def gram_of_columns() -> Made:
    """Columns of a matrix with each other."""
    (x,), (k,) = arrays((2048, 512)), over(2048)
    y = mt.compute((512, 512), lambda i, j: mt.sum(x[k, i] * x[k, j], axis=k))
    return [x, y], lambda x: x.T @ x


@program
def squared_distances() -> Made:
    """Of rows of one matrix."""
    (x,), (k,) = arrays((700, 64)), over(64)
    apart: Element = lambda i, j: x[i, k] - x[j, k]
    y = mt.compute((700, 700), lambda i, j: mt.sum(apart(i, j) * apart(i, j), axis=k))
    return [x, y], lambda x: torch().cdist(x, x) ** 2


@program
def absolute_distances() -> Made:
    """Sums of absolute differences of rows of two matrices."""
    (x, w), (k,) = arrays((600, 64), (700, 64)), over(64)
    y = mt.compute((600, 700), lambda i, j: mt.sum(mt.abs(x[i, k] - w[j, k]), axis=k))
    return [x, w, y], lambda x, w: torch().cdist(x, w, p=1)


@program
def complex_product() -> Made:
    """The real part of a product of two complex matrices."""
    (x, w, z, v), (k,) = arrays(*[(192, 192)] * 4), over(192)
    term: Element = lambda i, j: x[i, k] * z[k, j] - w[i, k] * v[k, j]
    y = mt.compute((192, 192), lambda i, j: mt.sum(term(i, j), axis=k))
    return [x, w, z, v, y], lambda x, w, z, v: x @ z - w @ v


@program
def bilinear_form() -> Made:
    """x W z for many pairs x, z."""
    (x, w, z), (k, m) = arrays((256, 128), (128, 128), (256, 128)), over(128, 128)
    t = mt.compute((256, 128), lambda i, j: mt.sum(x[i, k] * w[k, j], axis=k))
    y = mt.compute((256,), lambda i: mt.sum(t[i, m] * z[i, m], axis=m))
    return [x, w, z, y], lambda x, w, z: ((x @ w) * z).sum(1)


@program
def contraction() -> Made:
    """Over two axes in another order."""
    (x, w), (k, m) = arrays((24, 32, 48), (48, 32, 40)), over(48, 32)
    y = mt.compute((24, 40), lambda i, j: mt.sum(x[i, m, k] * w[k, m, j], axis=[k, m]))
    return [x, w, y], lambda x, w: torch().einsum("ilk,klj->ij", x, w)


@program
def three_factors() -> Made:
    """A tensor times two matrices, as decompositions of tensors do (MTTKRP)."""
    (x, w, z), (k, m) = arrays((60, 50, 40), (50, 32), (40, 32)), over(50, 40)
    y = mt.compute((60, 32), lambda i, r: mt.sum(x[i, k, m] * w[k, r] * z[m, r], axis=[k, m]))
    return [x, w, z, y], lambda x, w, z: torch().einsum("ikl,kr,lr->ir", x, w, z)


@program
def matrix_times_vector() -> Made:
    """Of 64 MB, by rows."""
    (x, w), (k,) = arrays((4096, 4096), (4096,)), over(4096)
    return [x, w, mt.compute((4096,), lambda i: mt.sum(x[i, k] * w[k], axis=k))], lambda x, w: x @ w


@program
def vectors_times_matrices() -> Made:
    """One query of each head with its keys, transposed."""
    (x, w), (k,) = arrays((32, 1024), (32, 1024, 128)), over(1024)
    y = mt.compute((32, 128), lambda h, j: mt.sum(x[h, k] * w[h, k, j], axis=k))
    return [x, w, y], lambda x, w: torch().einsum("hk,hkj->hj", x, w)


@program
def outer_product() -> Made:
    """A column times a row."""
    x, w = arrays((3000,), (2000,))
    return [x, w, mt.compute((3000, 2000), lambda i, j: x[i] * w[j])], lambda x, w: torch().outer(
        x, w
    )


@program
def kronecker() -> Made:
    """Each element times a matrix."""
    x, w = arrays((40, 40), (30, 30))
    y = mt.compute((1200, 1200), lambda i, j: x[i // 30, j // 30] * w[i % 30, j % 30])
    return [x, w, y], lambda x, w: torch().kron(x, w)


# ---- masks


@program
def tril() -> Made:
    """The lower triangle of a matrix."""
    (x,) = arrays((2000, 1000))
    y = mt.compute((2000, 1000), lambda i, j: mt.if_then_else(j <= i, x[i, j], 0.0))
    return [x, y], lambda x: x.tril()


@program
def masked_fill() -> Made:
    """By a mask in memory."""
    x, w = arrays((2000, 1000), (2000, 1000))
    y = mt.compute((2000, 1000), lambda i, j: mt.if_then_else(w[i, j] > 0.0, x[i, j], -1e9))
    return [x, w, y], lambda x, w: torch().where(w > 0, x, -1e9)


@program
def causal_scores() -> Made:
    """Queries times keys that are not later."""
    (x, w), (k,) = arrays((8, 256, 64), (8, 256, 64)), over(64)
    term: Element = lambda h, i, j: mt.if_then_else(j <= i, x[h, i, k] * w[h, j, k], 0.0)
    y = mt.compute((8, 256, 256), lambda h, i, j: mt.sum(term(h, i, j), axis=k))
    return [x, w, y], lambda x, w: (x @ w.transpose(1, 2)).tril()


@program
def causal_softmax() -> Made:
    """A softmax of what is not later."""
    (x,), (a, b), rows = arrays((12, 256, 256)), over(256, 256), (12, 256)
    s = mt.compute((*rows, 256), lambda h, i, j: mt.if_then_else(j <= i, x[h, i, j], -1e30))
    m = mt.compute(rows, lambda h, i: mt.max(s[h, i, a], axis=a))
    e = mt.compute((*rows, 256), lambda h, i, j: mt.exp(s[h, i, j] - m[h, i]))
    z = mt.compute(rows, lambda h, i: mt.sum(e[h, i, b], axis=b))
    y = mt.compute((*rows, 256), lambda h, i, j: e[h, i, j] / z[h, i])
    mask: Element = lambda x: torch().ones(256, 256).tril() == 0
    return [x, y], lambda x: torch().softmax(x.masked_fill(mask(x), -1e30), -1)


@program
def triangular_product() -> Made:
    """A lower triangle times a matrix."""
    (x, w), (k,) = arrays((384, 384), (384, 384)), over(384)
    term: Element = lambda i, j: mt.if_then_else(k <= i, x[i, k] * w[k, j], 0.0)
    y = mt.compute((384, 384), lambda i, j: mt.sum(term(i, j), axis=k))
    return [x, w, y], lambda x, w: x.tril() @ w


# ---- sums


@program
def dot() -> Made:
    """Of two vectors of 16 MB."""
    (x, w), (k,) = arrays((4_000_000,), (4_000_000,)), over(4_000_000)
    y = mt.compute((1,), lambda i: mt.sum(x[k] * w[k], axis=k))
    return [x, w, y], lambda x, w: (x @ w)[None]


def pixels(*shape: int, axes: Sequence[int], combine: Callable[..., Any] = mt.sum) -> Any:
    """A reduction of an input over some of its axes: the input and the result."""
    (x,), found = arrays(shape), over(*[shape[n] for n in axes])
    kept = [n for n in range(len(shape)) if n not in axes]

    def element(*at: Any) -> Any:
        places = dict(zip([*axes, *kept], [*found, *at], strict=True))
        return combine(x[tuple(places[n] for n in range(len(shape)))], axis=found)

    return [x, mt.compute([shape[n] for n in kept], element)]


@program
def sum_of_small_images() -> Made:
    """14 x 14 pixels of each channel."""
    return pixels(8, 512, 14, 14, axes=(2, 3)), lambda x: x.sum((2, 3))


@program
def sum_of_tiny_images() -> Made:
    """7 x 7 pixels."""
    return pixels(30000, 7, 7, axes=(1, 2)), lambda x: x.sum((1, 2))


@program
def max_of_short_rows() -> Made:
    """24 rows of 20."""
    return pixels(4096, 24, 20, axes=(1, 2), combine=mt.max), lambda x: x.amax((1, 2))


@program
def columns_of_two_axes() -> Made:
    """60 x 9 rows."""
    return pixels(60, 9, 3000, axes=(0, 1)), lambda x: x.sum((0, 1))


@program
def middle_axis() -> Made:
    """Neither the first nor the last."""
    return pixels(100, 150, 120, axes=(1,)), lambda x: x.sum(1)


@program
def instance_norm() -> Made:
    """Of images of 14 x 14 pixels."""
    (x,), (a, b, c, d), n = arrays((8, 128, 14, 14)), over(14, 14, 14, 14), 196
    m = mt.compute((8, 128), lambda i, g: mt.sum(x[i, g, a, b], axis=[a, b]))
    off: Element = lambda i, g, p, q: x[i, g, p, q] - m[i, g] * (1 / n)
    v = mt.compute((8, 128), lambda i, g: mt.sum(off(i, g, c, d) * off(i, g, c, d), axis=[c, d]))
    element: Element = lambda i, g, p, q: off(i, g, p, q) * mt.rsqrt(v[i, g] * (1 / n) + 1e-5)
    y = mt.compute((8, 128, 14, 14), element)
    return [x, y], lambda x: torch().nn.functional.instance_norm(x, eps=1e-5)


@program
def softmax_of_columns() -> Made:
    """Along the first axis."""
    (x,), (a, b) = arrays((1024, 512)), over(1024, 1024)
    m = mt.compute((512,), lambda j: mt.max(x[a, j], axis=a))
    e = mt.compute((1024, 512), lambda i, j: mt.exp(x[i, j] - m[j]))
    z = mt.compute((512,), lambda j: mt.sum(e[b, j], axis=b))
    y = mt.compute((1024, 512), lambda i, j: e[i, j] / z[j])
    return [x, y], lambda x: torch().softmax(x, 0)


# ---- elements that are moved


@program
def roll() -> Made:
    """Around the end of a row."""
    (x,) = arrays((2000, 1500))
    y = mt.compute((2000, 1500), lambda i, j: x[i, (j + 100) % 1500])
    return [x, y], lambda x: torch().roll(x, -100, 1)


@program
def tile() -> Made:
    """A row, thirty times."""
    (x,) = arrays((2000, 24))
    return [x, mt.compute((2000, 720), lambda i, j: x[i, j % 24])], lambda x: x.repeat(1, 30)


@program
def scale_of_groups() -> Made:
    """A number for each 64 elements, as weights of few bits have."""
    x, w = arrays((512, 4096), (512, 64))
    y = mt.compute((512, 4096), lambda i, j: x[i, j] * w[i, j // 64])
    return [x, w, y], lambda x, w: (x.reshape(512, 64, 64) * w[:, :, None]).reshape(512, 4096)


@program
def flip() -> Made:
    """Rows from their end."""
    (x,) = arrays((2000, 1500))
    return [x, mt.compute((2000, 1500), lambda i, j: x[i, 1499 - j])], lambda x: x.flip(1)


@program
def channels_last() -> Made:
    """An image with its channels side by side."""
    (x,) = arrays((4, 64, 56, 56))
    y = mt.compute((4, 56, 56, 64), lambda n, i, j, c: x[n, c, i, j])
    return [x, y], lambda x: x.permute(0, 2, 3, 1).contiguous()


@program
def windows_as_columns() -> Made:
    """The windows of a convolution as columns of a matrix (im2col)."""
    (x,) = arrays((1, 32, 56, 56))
    element: Element = lambda n, c, p: x[n, c // 9, p // 54 + (c % 9) // 3, p % 54 + c % 3]
    y = mt.compute((1, 288, 2916), element)
    return [x, y], lambda x: torch().nn.functional.unfold(x, 3)


@program
def rotary_embedding() -> Made:
    """Pairs of numbers turned by an angle for each position."""
    x, w, z = arrays((16, 512, 64), (512, 32), (512, 32))
    other: Element = lambda h, t, d: x[h, t, (d + 32) % 64] * z[t, d % 32]
    turned: Element = lambda h, t, d: x[h, t, d] * w[t, d % 32]
    element: Element = lambda h, t, d: mt.if_then_else(
        d < 32, turned(h, t, d) - other(h, t, d), turned(h, t, d) + other(h, t, d)
    )

    def expected(x: Any, w: Any, z: Any) -> Any:
        a, b = x[..., :32], x[..., 32:]
        return torch().cat([a * w - b * z, b * w + a * z], -1)

    return [x, w, z, mt.compute((16, 512, 64), element)], expected


@program
def enlarged() -> Made:
    """Images of twice the height and width, each pixel four times."""
    (x,) = arrays((64, 64, 64))
    y = mt.compute((64, 128, 128), lambda n, i, j: x[n, i // 2, j // 2])
    return [x, y], lambda x: x.repeat_interleave(2, 1).repeat_interleave(2, 2)


@program
def interleaved() -> Made:
    """Elements of two arrays in turn."""
    x, w = arrays((1_000_000,), (1_000_000,))
    element: Element = lambda i: mt.if_then_else(i % 2 == 0, x[i // 2], w[i // 2])
    return [x, w, mt.compute((2_000_000,), element)], lambda x, w: torch().stack([x, w], 1).ravel()


@program
def gated_channels() -> Made:
    """Images times the sigmoid of a number for each channel."""
    x, w = arrays((8, 128, 28, 28), (8, 128))
    y = mt.compute((8, 128, 28, 28), lambda n, c, i, j: x[n, c, i, j] * mt.sigmoid(w[n, c]))
    return [x, w, y], lambda x, w: x * w.sigmoid()[:, :, None, None]


@program
def last_axis_of_one() -> Made:
    """The exponential of an array whose last axis has one element."""
    (x,) = arrays((1000, 1000, 1))
    y = mt.compute((1000, 1000, 1), lambda i, j, k: mt.exp(x[i, j, k]))
    return [x, y], lambda x: x.exp()


# ---- other types


@program
def quantized() -> Made:
    """Rounded to bytes."""
    (x,) = arrays((1000, 3000))
    clamped: Element = lambda v: mt.minimum(mt.maximum(v, -128.0), 127.0)
    y = mt.compute((1000, 3000), lambda i, j: clamped(mt.round(x[i, j] * 20.0)).astype("int8"))
    return [x, y], lambda x: (x * 20).round().clamp(-128, 127).to(torch().int8)


@program
def dequantized() -> Made:
    """Bytes as floats, scaled."""
    (x,) = arrays((1000, 3000), dtype="int8")
    y = mt.compute((1000, 3000), lambda i, j: x[i, j].astype("float32") * 0.05)
    return [x, y], lambda x: x.float() * 0.05


@program
def rows_of_bytes() -> Made:
    """Sums along rows of bytes."""
    (x,), (k,) = arrays((1000, 3000), dtype="int8"), over(3000)
    y = mt.compute((1000,), lambda i: mt.sum(x[i, k].astype("int32"), axis=k))
    return [x, y], lambda x: x.sum(1, dtype=torch().int32)


@program
def half_precision() -> Made:
    """The sum of two arrays of float16."""
    x, w = arrays((1000, 3000), (1000, 3000), dtype="float16")
    return [x, w, mt.compute((1000, 3000), lambda i, j: x[i, j] + w[i, j])], lambda x, w: x + w


@program
def quotients() -> Made:
    """Integers divided by ten."""
    (x,) = arrays((1000, 1000), dtype="int32")
    y = mt.compute((1000, 1000), lambda i, j: x[i, j] // 10)
    return [x, y], lambda x: torch().div(x, 10, rounding_mode="floor")


# ---- stencils


@program
def periodic_stencil() -> Made:
    """Four neighbours, of those at the border on the other side."""
    (x,), n = arrays((1024, 1024)), 1024
    around: Element = lambda i, j: x[(i + 1) % n, j] + x[(i + n - 1) % n, j]
    beside: Element = lambda i, j: x[i, (j + 1) % n] + x[i, (j + n - 1) % n]
    element: Element = lambda i, j: x[i, j] * 0.5 + 0.125 * (around(i, j) + beside(i, j))

    def expected(x: Any) -> Any:
        rolled = [torch().roll(x, by, axis) for axis in (0, 1) for by in (1, -1)]
        return x * 0.5 + 0.125 * sum(rolled)

    return [x, mt.compute((n, n), element)], expected


@program
def blur() -> Made:
    """Three columns, and three rows of that."""
    (x,) = arrays((2048, 2048))
    h = mt.compute((2048, 2046), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) * (1 / 3))
    y = mt.compute((2046, 2046), lambda i, j: (h[i, j] + h[i + 1, j] + h[i + 2, j]) * (1 / 3))
    return [x, y], lambda x: torch().nn.functional.avg_pool2d(x[None, None], 3, 1)[0, 0]
