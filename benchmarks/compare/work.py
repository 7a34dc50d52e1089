"""A workload with its arrays, and the result that every implementation must compute.

The expected result is computed with numpy in float64. Not here: fast implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from minitensor.runtime import aligned_empty
from minitensor.schedule import Schedule
from tutorials.schedules import HAND_SCHEDULES, HandSchedule, scheduled

Arrays = Sequence[np.ndarray]
Sizes = Mapping[str, int]

TOLERANCE: Final = 1e-4
"""How far an element may be off, as a fraction of the largest expected magnitude."""
SUM_TOLERANCE: Final = 1e-6
"""The same for sums of many numbers of both signs, as a fraction of the sum of magnitudes."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A workload that can be run.

    key         its name on the command line
    name        its name in tables
    kind        what is computed, such as "matmul"
    parameters  the sizes that the arrays do not show, such as stride and padding
    flop        operations of a call, 0 if memory sets the pace
    bytes       bytes that must be moved at least
    names       of the inputs
    inputs      an array for each, 64-byte aligned, of standard normal numbers
    constants   names of inputs that are weights
    expected    the result, in float64
    allowed     how far an element of a result may be off
    schedule    ours, for a target; with bound=True, where the constants are bound
    own         the array that every kernel of ours stores to: where an array lies in memory can
                count for more than the schedule
    """

    key: str
    name: str
    kind: str
    parameters: Sizes
    flop: int
    bytes: int
    names: tuple[str, ...]
    inputs: tuple[np.ndarray, ...]
    constants: tuple[str, ...]
    expected: np.ndarray
    allowed: float
    schedule: Callable[..., Schedule]
    own: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own", self.output())

    @staticmethod
    def of(key: str) -> Work:
        """The work of a hand schedule by its key."""
        return Work.of_hand(key, HAND_SCHEDULES[key])

    @staticmethod
    def of_hand(key: str, hand: HandSchedule) -> Work:
        """The work of a hand schedule."""
        buffers = hand.define().inputs
        inputs = normal_arrays([b.shape for b in buffers])
        expected, allowed = expect(hand.kind, inputs, hand.parameters)
        return Work(
            key,
            hand.name,
            hand.kind,
            hand.parameters,
            hand.flop,
            hand.bytes,
            tuple(b.name for b in buffers),
            inputs,
            tuple(hand.constants),
            expected,
            allowed,
            partial(scheduled, hand),
        )

    def output(self) -> np.ndarray:
        """A new array for a result, 64-byte aligned, full of NaN."""
        array = aligned_empty(self.expected.shape, np.dtype(np.float32))
        array[...] = np.nan
        return array

    def difference(self, result: np.ndarray) -> str:
        """What is wrong with a result; "" if nothing is. Its shape may have other units in it."""
        if result.size != self.expected.size:
            return f"it has {result.size} elements instead of {self.expected.size}"
        off = float(np.abs(result.reshape(self.expected.shape) - self.expected).max())
        if off <= self.allowed:  # False for NaN
            return ""
        return f"it is off by {off:.3g}, where {self.allowed:.3g} is allowed"


def normal_arrays(shapes: Sequence[Sequence[int]]) -> tuple[np.ndarray, ...]:
    """Aligned float32 arrays of standard normal numbers, the same at each call."""
    rng = np.random.default_rng(0)
    arrays = []
    for shape in shapes:
        array = aligned_empty(shape, np.dtype(np.float32))
        rng.standard_normal(dtype=np.float32, out=array)
        arrays.append(array)
    return tuple(arrays)


def expect(kind: str, inputs: Arrays, sizes: Sizes) -> tuple[np.ndarray, float]:
    """The result of a workload in float64, and how far an element may be off.

    Raises KeyError for a kind that is not known.
    """
    exact = [array.astype(np.float64) for array in inputs]
    expected = np.asarray(_EXPECTED[kind](exact, sizes))
    if kind in ("row_sum", "column_sum", "full_sum"):
        magnitudes = _EXPECTED[kind]([np.abs(exact[0])], sizes)
        return expected, SUM_TOLERANCE * float(np.max(magnitudes))
    return expected, TOLERANCE * float(np.abs(expected).max())


def pad_of(sizes: Sizes) -> int:
    """Zeros on each side of an image."""
    return sizes.get("padding", 0)


def stride_of(sizes: Sizes) -> int:
    """Pixels between neighbouring windows."""
    return sizes.get("stride", 1)


def windows(padded: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    """A view of a (c, h, w) image as (c, kernel, kernel, oh, ow)."""
    view = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))
    taken: np.ndarray = view[:, ::stride, ::stride].transpose(0, 3, 4, 1, 2)
    return taken


def _padded(image: np.ndarray, sizes: Sizes) -> np.ndarray:
    pad = pad_of(sizes)
    return np.pad(image, ((0, 0), (pad, pad), (pad, pad)))


def _finished(conv: np.ndarray, rest: Arrays) -> np.ndarray:
    """Bias and relu, if there is a bias; with a batch axis."""
    if rest:
        conv = np.maximum(conv + rest[0][:, None, None], 0)
    return conv[None]


def _conv(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    data, weight, *rest = inputs
    kernel, stride = weight.shape[2], stride_of(sizes)
    views = [windows(_padded(image, sizes), kernel, stride) for image in data]
    return np.concatenate([_finished(np.tensordot(weight, v, axes=3), rest) for v in views])


def spread(image: np.ndarray, kernel: int, sizes: Sizes) -> np.ndarray:
    """An image (c, h, w) with zeros between its pixels and around, whose convolution with stride 1
    is the transposed one.
    """
    stride, border = stride_of(sizes), kernel - 1 - pad_of(sizes)
    c, h, w = image.shape
    wide = np.zeros((c, *((n - 1) * stride + 1 + 2 * border for n in (h, w))), image.dtype)
    ends = [slice(border, wide.shape[axis] - border, stride) for axis in (1, 2)]
    wide[:, ends[0], ends[1]] = image
    return wide


def turned(weight: np.ndarray) -> np.ndarray:
    """The weights (f, c, k, k) of that convolution; of a transposed one they are (c, f, k, k)."""
    return np.ascontiguousarray(weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))


def _transposed(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    kernel = inputs[1].shape[2]
    view = windows(spread(inputs[0][0], kernel, sizes), kernel, 1)
    return _finished(np.tensordot(turned(inputs[1]), view, axes=3), [])


def _depthwise(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    data, weight, *rest = inputs
    view = windows(_padded(data[0], sizes), weight.shape[2], stride_of(sizes))
    return _finished(np.einsum("cyxhw,cyx->chw", view, weight[:, 0]), rest)


def _softmax(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    exps = np.exp(inputs[0] - inputs[0].max(1, keepdims=True))
    result: np.ndarray = exps / exps.sum(1, keepdims=True)
    return result


def _attention(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    query, key, value = inputs
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    result: np.ndarray = exps / exps.sum(-1, keepdims=True) @ value
    return result


def _layer_norm(inputs: Arrays, sizes: Sizes) -> np.ndarray:
    x, gamma, beta = inputs
    centred = x - x.mean(1, keepdims=True)
    variance = (centred * centred).mean(1, keepdims=True)
    result: np.ndarray = centred / np.sqrt(variance + 1e-5) * gamma + beta
    return result


_EXPECTED: Final[Mapping[str, Callable[[Arrays, Sizes], Any]]] = {
    "matmul": lambda x, _: x[0] @ x[1],
    "batch_matmul": lambda x, _: x[0] @ x[1],
    "matvec": lambda x, _: x[0] @ x[1],
    "matmul_bias_relu": lambda x, _: np.maximum(x[0] @ x[1] + x[2], 0),
    "conv": _conv,
    "depthwise": _depthwise,
    "softmax": _softmax,
    "attention": _attention,
    "layer_norm": _layer_norm,
    "transposed": _transposed,
    "row_sum": lambda x, _: x[0].sum(1),
    "column_sum": lambda x, _: x[0].sum(0),
    "full_sum": lambda x, _: x[0].sum(),
    "elementwise": lambda x, _: np.maximum((x[0] * 1.5 + 0.5) * x[0] - 2, 0),
    "transpose_add": lambda x, _: x[0].T + x[1],
}
KINDS: Final = tuple(_EXPECTED)
