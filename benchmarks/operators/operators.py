"""What is compared: the ten operators and two subgraphs of Ansor's evaluation, at batch 1.

Source: Zheng et al., Ansor, OSDI 2020, sections 7.1 and 7.2; the shapes are of common networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import minitensor as mt
from benchmarks.compare.work import normal_arrays
from minitensor.ir import Program

Arrays = Sequence[np.ndarray]
w = mt.workloads


@dataclass(frozen=True)
class Operator:
    """An operator on arrays of a certain shape.

    key    Ansor's abbreviation
    about  what it is, with its shape
    flop   operations of a call
    numpy  computes it as one would with numpy
    torch  the same with torch; is given the module
    """

    key: str
    about: str
    flop: int
    define: Callable[[], Any]
    numpy: Callable[[Arrays], np.ndarray]
    torch: Callable[[Any, Sequence[Any]], Any]

    def program(self) -> Program:
        """The definition."""
        return mt.lower(self.define())

    def inputs(self) -> tuple[np.ndarray, ...]:
        """Standard normal numbers, the same at each call."""
        return normal_arrays([b.shape for b in self.program().inputs])


def _windows(
    data: np.ndarray, kernel: Sequence[int], stride: int, padding: int, dilation: int = 1
) -> np.ndarray:
    """A view of (c, *sizes) as (c, *outputs, *kernel)."""
    axes = tuple(range(1, 1 + len(kernel)))
    padded = np.pad(data, ((0, 0), *[(padding, padding)] * len(axes)))
    whole = [dilation * (k - 1) + 1 for k in kernel]
    view = np.lib.stride_tricks.sliding_window_view(padded, whole, axis=axes)
    every = [slice(None, None, stride)] * len(axes) + [slice(None, None, dilation)] * len(axes)
    chosen = (slice(None), *every)
    found: np.ndarray = view[chosen]
    return found


def _conv(stride: int, padding: int, dilation: int = 1, groups: int = 1) -> Callable[..., Any]:
    """A convolution over any number of axes as a product of matrices, group by group."""

    def call(inputs: Arrays) -> np.ndarray:
        data, weight = inputs[:2]
        view = _windows(data[0], weight.shape[2:], stride, padding, dilation)
        axes = weight.ndim - 2
        summed: Any = [[1, *range(2, 2 + axes)], [0, *range(1 + axes, 1 + 2 * axes)]]
        depth, parts = weight.shape[1], np.split(weight, groups)
        made = [
            np.tensordot(part, view[n * depth : (n + 1) * depth], axes=summed)
            for n, part in enumerate(parts)
        ]
        return np.concatenate(made)[None]

    return call


def _transposed(inputs: Arrays) -> np.ndarray:
    """Stride 2, padding 1, kernel 4: a convolution of the data with zeros between its elements."""
    data, weight = inputs
    _, c, h, width = data.shape
    spread = np.zeros((1, c, 2 * h - 1, 2 * width - 1), data.dtype)
    spread[:, :, ::2, ::2] = data
    flipped = weight.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    found: np.ndarray = _conv(1, 2)((spread, flipped))
    return found


def _depthwise(inputs: Arrays) -> np.ndarray:
    data, weight = inputs
    view = _windows(data[0], (3, 3), 1, 1)
    found: np.ndarray = np.einsum("cyxhw,chw->cyx", view, weight[:, 0])[None]
    return found


def _capsule(inputs: Arrays) -> np.ndarray:
    data, weight = inputs
    padded = np.pad(data[0], ((1, 1), (1, 1), (0, 0), (0, 0), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))[::2, ::2]
    summed: Any = [[5, 6, 3, 4], [0, 1, 2, 4]]
    found: np.ndarray = np.tensordot(view, weight, axes=summed)[None]
    return found


def _capsule_torch(torch: Any, inputs: Sequence[Any]) -> Any:
    data, weight = inputs
    padded = torch.nn.functional.pad(data[0], (0, 0, 0, 0, 0, 0, 1, 1, 1, 1))
    view = padded.unfold(0, 3, 2).unfold(1, 3, 2)
    return torch.tensordot(view, weight, dims=([5, 6, 3, 4], [0, 1, 2, 4]))[None]


def _layer(inputs: Arrays) -> np.ndarray:
    data, weight, bias, scale, offset = inputs
    conv = _conv(2, 3)((data, weight))
    bias, scale, offset = (x[:, None, None] for x in (bias, scale, offset))
    found: np.ndarray = np.maximum((conv + bias) * scale + offset, 0)
    return found


def _layer_torch(torch: Any, inputs: Sequence[Any]) -> Any:
    data, weight, bias, scale, offset = inputs
    conv = torch.nn.functional.conv2d(data, weight, bias, 2, 3)
    zero, one = torch.zeros_like(bias), torch.ones_like(bias)
    normal = torch.nn.functional.batch_norm(conv, zero, one, scale, offset, eps=0.0)
    return torch.relu_(normal)


def _scores(inputs: Arrays) -> np.ndarray:
    query, key = (x.transpose(0, 2, 1, 3) for x in inputs)
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1], dtype=query.dtype)
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    found: np.ndarray = exps / exps.sum(-1, keepdims=True)
    return found


def _scores_torch(torch: Any, inputs: Sequence[Any]) -> Any:
    query, key = (x.transpose(1, 2) for x in inputs)
    return torch.softmax(query @ key.transpose(2, 3) / query.shape[-1] ** 0.5, -1)


def _conv_torch(stride: int, padding: int, dilation: int = 1, groups: int = 1) -> Any:
    def call(torch: Any, inputs: Sequence[Any]) -> Any:
        data, weight = inputs
        convolve = getattr(torch.nn.functional, f"conv{data.ndim - 2}d")
        return convolve(data, weight, None, stride, padding, dilation, groups)

    return call


OPERATORS: Final = {
    operator.key: operator
    for operator in (
        Operator(
            "C1D",
            "conv1d 64 to 128, 256, kernel 3, stride 2",
            2 * 128 * 128 * 64 * 3,
            lambda: w.conv1d(1, 64, 256, 128, 3, 2, 1),
            _conv(2, 1),
            _conv_torch(2, 1),
        ),
        Operator(
            "C2D",
            "conv2d 3 to 64, 224 x 224, kernel 7, stride 2",
            2 * 64 * 112 * 112 * 3 * 49,
            lambda: w.conv2d(1, 3, 224, 224, 64, 7, 2, 3),
            _conv(2, 3),
            _conv_torch(2, 3),
        ),
        Operator(
            "C3D",
            "conv3d 3 to 64, 16 x 112 x 112, kernel 7, stride 2",
            2 * 64 * 8 * 56 * 56 * 3 * 343,
            lambda: w.conv3d(1, 3, 16, 112, 112, 64, 7, 2, 3),
            _conv(2, 3),
            _conv_torch(2, 3),
        ),
        Operator(
            "GMM",
            "matmul 128 x 3072 x 768",
            2 * 128 * 3072 * 768,
            lambda: w.matmul(128, 3072, 768),
            lambda x: x[0] @ x[1],
            lambda torch, x: x[0] @ x[1],
        ),
        Operator(
            "GRP",
            "conv2d in 4 groups, 64 to 128, 56 x 56, kernel 3, stride 2",
            2 * 128 * 28 * 28 * 16 * 9,
            lambda: w.conv2d(1, 64, 56, 56, 128, 3, 2, 1, groups=4),
            _conv(2, 1, 1, 4),
            _conv_torch(2, 1, 1, 4),
        ),
        Operator(
            "DIL",
            "conv2d 3 to 64, 224 x 224, kernel 7, stride 2, dilation 2",
            2 * 64 * 109 * 109 * 3 * 49,
            lambda: w.conv2d(1, 3, 224, 224, 64, 7, 2, 3, 2),
            _conv(2, 3, 2),
            _conv_torch(2, 3, 2),
        ),
        Operator(
            "DEP",
            "depthwise conv2d 32, 112 x 112, kernel 3",
            2 * 32 * 112 * 112 * 9,
            lambda: w.depthwise_conv2d(1, 32, 112, 112, 3, 1, 1),
            _depthwise,
            _conv_torch(1, 1, 1, 32),
        ),
        Operator(
            "T2D",
            "transposed conv2d 512 to 256, 4 x 4, kernel 4, stride 2",
            2 * 512 * 256 * 4 * 4 * 16,
            lambda: w.conv2d_transpose(1, 512, 4, 4, 256, 4, 2, 1),
            _transposed,
            lambda torch, x: torch.nn.functional.conv_transpose2d(x[0], x[1], None, 2, 1),
        ),
        Operator(
            "CAP",
            "capsule conv2d 32 to 32, 16 x 16, kernel 3, stride 2, 4 x 4 matrices",
            2 * 8 * 8 * 16 * 32 * 9 * 4 * 32,
            lambda: w.capsule_conv2d(1, 32, 16, 16, 32, 3, 2, 1),
            _capsule,
            _capsule_torch,
        ),
        Operator(
            "NRM",
            "norm of a 256 x 256 matrix",
            2 * 256 * 256,
            lambda: w.matrix_norm(1, 256, 256),
            lambda x: np.sqrt(np.einsum("bij,bij->b", x[0], x[0])),
            lambda torch, x: torch.linalg.vector_norm(x[0], dim=(1, 2)),
        ),
        Operator(
            "CBR",
            "conv2d 3 to 64, 224 x 224, kernel 7, stride 2, batch norm, relu",
            2 * 64 * 112 * 112 * 3 * 49,
            lambda: w.conv2d_bias_bn_relu(1, 3, 224, 224, 64, 7, 2, 3),
            _layer,
            _layer_torch,
        ),
        Operator(
            "TBS",
            "attention scores, 128 positions, 12 heads of 64: transposition, matmul, softmax",
            2 * 12 * 128 * 128 * 64,
            lambda: w.transpose_batch_matmul_softmax(1, 128, 12, 64),
            _scores,
            _scores_torch,
        ),
    )
}
