"""Products of numbers of a few bits: bits side by side in words, multiplied by "and", summed by a
count of bits.

A code a of A bits is the sum over i < A of 2^i a_i, a code w of W bits the sum over j < W of
2^j w_j. So the sum over k of a[k] * w[k] is that over i and j of 2^(i+j) times the bits set in
(a_i and w_j), where a_i and w_j are words with a bit for each k. Codes that stand for numbers with
signs differ from that by sums over one operand, as zero points do (`quantized`).

Source: Chen et al., "TVM", OSDI 2018, section 6.2; Zhou et al., "DoReFa-Net", 2016, section 2.1;
Umuroglu and Jahre, "Streamlined Deployment for Quantized Neural Networks", 2017.
"""

from __future__ import annotations

import math
from typing import Any, Final

from minitensor.errors import ArgumentError, unexpected, whole
from minitensor.lang.ops.conv import Padding, convolution, pairs_of
from minitensor.lang.ops.elementwise import index_of, stage
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.reduce import sum_
from minitensor.lang.scalar import const, if_then_else, popcount
from minitensor.lang.tensor import Tensor, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis

MOST_BITS: Final = 4
ENCODINGS: Final = ("unipolar", "bipolar")
_WORDS: Final = (8, 16, 32)
"""The widths of words, in bits."""


@operator("x", "w")
def bitserial_dense(
    x: Tensor,
    w: Tensor,
    *,
    activation_bits: int = 2,
    weight_bits: int = 1,
    activations: str = "unipolar",
    weights: str = "unipolar",
) -> Tensor:
    """The products of rows with rows, of codes of a few bits: int32 (m, n).

        result[i, j] = sum over k of number(x[i, k]) * number(w[j, k])

    x, w             (m, k) and (n, k), codes of any integer type: their lowest bits count
    activation_bits  bits of a code in x, 1 to 4
    weight_bits      the same of w
    activations      what a code c of b bits in x stands for: "unipolar" c itself, "bipolar"
                     2 c - (2^b - 1), so that a single bit is -1 or 1
    weights          the same of w

    Raises ArgumentError for shapes and arguments that do not fit.
    """
    name = "bitserial_dense"
    _checked(name, x, w, 2)
    depth = x.shape[1]
    codes = _Codes(name, activation_bits, weight_bits, activations, weights, depth)
    left, right = codes.planes(x, "x"), codes.planes(w, "w")
    k = reduce_axis(left.shape[1], "k")
    counts = stage(
        (x.shape[0], w.shape[0]),
        "counts",
        lambda i: sum_(codes.term(left[i[0], k], right[i[1], k], k), axis=k),
    )
    rows, columns = codes.sums(x, "x"), codes.sums(w, "w")

    def element(i: Any) -> Any:
        of_row = None if rows is None else rows[i[0]]
        of_column = None if columns is None else columns[i[1]]
        return codes.number(counts[i], of_row, of_column, depth)

    return counts if codes.plain else stage(counts.shape, name, element)


@operator("x", "w")
def bitserial_conv2d(
    x: Tensor,
    w: Tensor,
    *,
    activation_bits: int = 2,
    weight_bits: int = 1,
    activations: str = "unipolar",
    weights: str = "unipolar",
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
) -> Tensor:
    """The convolution of codes of a few bits, in int32: x (n, c, h, w), w (f, c, kh, kw).

    The rest is as for `bitserial_dense` and `conv2d`. Bits of channels are packed, so few channels
    leave words half empty. Padding is the number 0, which bipolar activations do not have: they
    take none.
    """
    name = "bitserial_conv2d"
    _checked(name, x, w, 4)
    codes = _Codes(name, activation_bits, weight_bits, activations, weights, x.shape[1])
    if activations == "bipolar" and any(map(any, pairs_of(name, padding, 2))):
        raise ArgumentError(
            f"ops.{name}: bipolar activations have no 0 to pad with, and padding={padding!r}: "
            "pad x before with the code that you mean, by ops.pad"
        )
    given = (None, stride, padding, dilation, 1)
    left, right = codes.planes(x, "x"), codes.planes(w, "w")
    counts = convolution(
        "conv2d", left, right, *given, multiply=lambda u, v, f, rc: codes.term(u, v, rc)
    )
    filters, windows = codes.sums(w, "w"), codes.sums(x, "x")
    if windows is not None:
        ones = stage((1, 1, *w.shape[2:]), "ones", lambda i: const(1, "int32"))
        windows = convolution("conv2d", windows, ones, *given)

    def element(i: Any) -> Any:
        of_window = None if windows is None else windows[i[0], 0, i[2], i[3]]
        of_filter = None if filters is None else filters[i[1]]
        return codes.number(counts[i], of_window, of_filter, math.prod(w.shape[1:]))

    return counts if codes.plain else stage(counts.shape, name, element)


# ---- parts


def _checked(name: str, x: Tensor, w: Tensor, rank: int) -> None:
    """Require tensors of integers with so many axes, of which the second have one extent."""
    for label, one in (("x", x), ("w", w)):
        if tensor(f"ops.{name}: {label}", one).ndim != rank or not one.dtype.is_integer:
            raise ArgumentError(
                f"ops.{name}: expected {label} of integers with {rank} axes, but got "
                f"{one.dtype}{list(one.shape)}"
            )
    if x.shape[1] != w.shape[1]:
        raise ArgumentError(
            f"ops.{name}: x is {x.dtype}{list(x.shape)} and w {w.dtype}{list(w.shape)}: their "
            "second extents, along which is summed, must be equal"
        )


class _Codes:
    """Codes in x and w of one operator, which are multiplied along an axis of some extent.

    plain  both stand for themselves
    """

    def __init__(
        self, name: str, x_bits: int, w_bits: int, x_means: str, w_means: str, depth: int
    ) -> None:
        self.bits = {
            "x": whole(f"ops.{name}: activation_bits", x_bits, 1, MOST_BITS),
            "w": whole(f"ops.{name}: weight_bits", w_bits, 1, MOST_BITS),
        }
        for label, means in (("activations", x_means), ("weights", w_means)):
            if means not in ENCODINGS:
                raise unexpected('"unipolar" or "bipolar"', f"ops.{name}: {label}", means)
        self.means = {"x": x_means, "w": w_means}
        self.plain = "bipolar" not in self.means.values()
        self.depth = depth
        self.width = next((n for n in _WORDS if n >= depth), _WORDS[-1])
        self.words = -(-depth // self.width)

    def _pair(self, which: Any) -> tuple[Any, Any]:
        """The plane of x and that of w of a pair."""
        return which // self.bits["w"], which % self.bits["w"]

    def planes(self, codes: Tensor, operand: str) -> Tensor:
        """The bits of codes packed along axis 1: words for each pair of planes, of which bit b of
        word c is of index b * words + c, so that neighbours in memory go to neighbouring words.
        """
        bit = reduce_axis(self.width, "bit")
        shape = (codes.shape[0], self.bits["x"] * self.bits["w"] * self.words, *codes.shape[2:])
        dtype = f"uint{self.width}"

        def element(i: Any) -> Any:
            pair, word = (i[1] // self.words, i[1] % self.words)
            plane = self._pair(pair)[operand == "w"]
            at = bit * self.words + word
            code = codes[index_of(i[0], at, *i[2:])].astype(dtype)
            if self.width * self.words != self.depth:
                code = if_then_else(at < self.depth, code, const(0, dtype))
            return sum_((code >> plane.astype(dtype) & 1) << bit.astype(dtype), axis=bit)

        return stage(shape, f"{operand}_planes", element)

    def term(self, u: Any, v: Any, along: Any) -> Any:
        """The part of the words of x and w at one place of the packed axis in a sum."""
        count = popcount(u & v).astype("int32")
        if self.bits == {"x": 1, "w": 1}:
            return count
        i, j = self._pair(along // self.words)
        return count << (i + j).astype("int32")

    def sums(self, codes: Tensor, operand: str) -> Tensor | None:
        """Sums of the codes of each row or filter, of an image those of its channels; None where
        the numbers of the other operand are codes, for which none are needed.
        """
        if self.means["w" if operand == "x" else "x"] == "unipolar":
            return None
        image = operand == "x" and codes.ndim == 4
        summed = codes.shape[1:2] if image else codes.shape[1:]
        axes = [reduce_axis(n, f"r{axis}") for axis, n in enumerate(summed)]
        shape = (codes.shape[0], 1, *codes.shape[2:]) if image else codes.shape[:1]
        mask = (1 << self.bits[operand]) - 1

        def element(i: Any) -> Any:
            code = codes[index_of(i[0], *axes, *i[2:])]
            return sum_((code & mask).astype("int32"), axis=axes)

        return stage(shape, f"{operand}_sums", element)

    def number(self, count: Any, of_x: Any, of_w: Any, depth: int) -> Any:
        """The sum of products of numbers, from that of codes, and sums over either operand."""
        top = {operand: (1 << bits) - 1 for operand, bits in self.bits.items()}
        if of_x is not None and of_w is not None:
            constant = depth * top["x"] * top["w"]
            return count * 4 - of_x * (2 * top["w"]) - of_w * (2 * top["x"]) + constant
        if of_x is not None:
            return count * 2 - of_x * top["w"]
        return count * 2 - of_w * top["x"]
