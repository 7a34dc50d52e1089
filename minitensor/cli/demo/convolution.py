"""A 3 x 3 convolution with bias and relu: its definition, its numpy rival, a schedule by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import minitensor as mt
from minitensor.codegen import Target


def define(c: int, f: int, h: int, w: int) -> mt.Program:
    """relu[f, y, x] = max(bias[f] + sum of weight[f, rc, ry, rx] * pad[rc, y+ry, x+rx], 0)."""
    data = mt.placeholder((c, h, w), "float32", name="data")
    weight = mt.placeholder((f, c, 3, 3), "float32", name="weight")
    bias = mt.placeholder((f,), "float32", name="bias")
    rc, ry, rx = (mt.reduce_axis(n, name=a) for n, a in ((c, "rc"), (3, "ry"), (3, "rx")))

    def padded(c: Any, y: Any, x: Any) -> Any:
        inside = mt.logical_and(y >= 1, y < h + 1, x >= 1, x < w + 1)
        return mt.if_then_else(inside, data[c, y - 1, x - 1], 0.0)

    def convolved(f: Any, y: Any, x: Any) -> Any:
        return mt.sum(pad[rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx])

    pad = mt.compute((c, h + 2, w + 2), padded, name="pad")
    conv = mt.compute((f, h, w), convolved, name="conv")
    relu = mt.compute((f, h, w), lambda f, y, x: mt.maximum(conv[f, y, x] + bias[f], 0), "relu")
    return mt.lower([data, weight, bias, relu], name="convolution")


def numpy_rival(data: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Callable[[], np.ndarray]:
    """A function that computes the convolution with numpy, as one matrix product.

    The windows of the padded image become the columns of a matrix (im2col): a view made with
    strides, copied once. All arrays are allocated beforehand.
    """
    c, h, w = data.shape
    f = weight.shape[0]
    pad = np.zeros((c, h + 2, w + 2), data.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(pad, (3, 3), axis=(1, 2))
    in_order = windows.transpose(0, 3, 4, 1, 2)
    columns = np.empty(in_order.shape, data.dtype)
    result = np.empty((f, h * w), data.dtype)

    def call() -> np.ndarray:
        pad[:, 1:-1, 1:-1] = data
        columns[...] = in_order
        np.matmul(weight.reshape(f, c * 9), columns.reshape(c * 9, h * w), out=result)
        np.add(result, bias[:, None], out=result)
        return np.maximum(result, 0, out=result).reshape(f, h, w)

    return call


@dataclass(frozen=True, slots=True)
class Tiles:
    """What of the schedule depends on the machine.

    pixels    side by side in a register tile
    channels  in a register tile: two vectors
    rows      of the image that one iteration of the parallel loop computes
    """

    pixels: int
    channels: int
    rows: int

    @staticmethod
    def of(target: Target, h: int) -> Tiles:
        """16 vectors of the 32 that AVX-512 has, 8 of 16 otherwise; two strips for each thread."""
        bits, threads = target.vector_bits or 128, target.num_cores or 1
        rows = next((n for n in (14, 7, 4, 2) if h % n == 0 and h // n >= 2 * threads), 1)
        return Tiles(8 if bits >= 512 else 4, 2 * bits // 32, rows)


def schedule(s: mt.Schedule, tiles: Tiles) -> Iterator[tuple[str, str]]:
    """Schedule the convolution; yields after each group of steps its title, and why it is done."""
    pixels, channels = tiles.pixels, tiles.channels
    f, y, x, rc, ry, rx = s.get_loops("conv")
    f_0, f_1 = s.split(f, [None, channels])
    y_0, y_1 = s.split(y, [None, tiles.rows])
    x_0, x_1 = s.split(x, [None, pixels])
    s.reorder(y_0, f_0, y_1, x_0, rc, ry, rx, x_1, f_1)
    yield (
        "Tiles",
        f"A tile is {pixels} pixels of a row in {channels} output channels. The sums over window "
        "and input channels run outside it.",
    )
    packed = s.cache_read("conv", "weight", "global")
    s.transform_layout(packed, lambda f, rc, ry, rx: (f // channels, rc, ry, rx, f % channels))
    s.vectorize(f_1)
    s.unroll(x_1)
    s.unroll(rx)
    yield (
        "Vectors",
        "Lanes are output channels, so the weights are packed with these side by side. Storing a "
        "vector still scatters it over as many images.",
    )
    *_, x_r = s.reverse_compute_at("relu", x_0)
    s.unroll(x_r)
    s.transform_layout("conv", lambda f, y, x: (y, x, f))
    yield (
        "Fusion",
        "Bias and relu follow as soon as a tile is done; what is kept of conv is one tile, its "
        "channels side by side: registers. It is turned around as it is written out.",
    )
    s.compute_inline("pad")
    yield (
        "Padding",
        "No padded copy of the image is needed: a tile takes 0 for what lies beyond the border. "
        "Most tests for that fall away when the code is written.",
    )
    s.parallel(s.get_loops(packed)[0])
    s.parallel(y_0)
    yield "Threads", "Strips are independent of each other."
