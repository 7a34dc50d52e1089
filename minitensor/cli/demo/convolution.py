"""A 3 x 3 convolution with bias and relu: its definition.

Its schedule by hand is `ladders.convolution.by_channels`.
"""

from __future__ import annotations

from typing import Any

import minitensor as mt


def define(c: int, f: int, h: int, w: int) -> mt.Program:
    """relu[n, f, y, x] = max(sum of weight[f, rc, ry, rx] * pad[n, rc, y+ry, x+rx] + bias[f], 0)

    over rc, ry and rx, for one image with a border of zeros.
    """
    data = mt.placeholder((1, c, h, w), "float32", name="data")
    weight = mt.placeholder((f, c, 3, 3), "float32", name="weight")
    bias = mt.placeholder((f,), "float32", name="bias")
    rc, ry, rx = (mt.reduce_axis(n, name=a) for n, a in ((c, "rc"), (3, "ry"), (3, "rx")))

    def padded(n: Any, c: Any, y: Any, x: Any) -> Any:
        inside = mt.logical_and(y >= 1, y < h + 1, x >= 1, x < w + 1)
        return mt.if_then_else(inside, data[n, c, y - 1, x - 1], 0.0)

    def convolved(n: Any, f: Any, y: Any, x: Any) -> Any:
        return mt.sum(pad[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx])

    def rectified(n: Any, f: Any, y: Any, x: Any) -> Any:
        return mt.maximum(conv[n, f, y, x] + bias[f], 0)

    pad = mt.compute((1, c, h + 2, w + 2), padded, name="pad")
    conv = mt.compute((1, f, h, w), convolved, name="conv")
    relu = mt.compute((1, f, h, w), rectified, name="relu")
    return mt.lower([data, weight, bias, relu], name="convolution")
