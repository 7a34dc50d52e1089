"""A 3 x 3 convolution as products of transformed tiles: fewer multiplications, more of the rest.

F(4 x 4, 3 x 3) needs 36 multiplications where the direct sum needs 144 (Lavin & Gray, Fast
Algorithms for Convolutional Neural Networks, 2016, §4). What it takes to gain from that: the
transforms run in registers, channels are the lanes of all of them, and one strip of tiles goes
through all stages while it is in the L2 cache.
"""

from __future__ import annotations

from typing import Final

from minitensor.codegen import Target
from minitensor.schedule import Schedule

from .hand import Steps, lanes_of, largest_divisor

TILE: Final = 4
"""Pixels of the result along a side of a tile."""


def winograd(s: Schedule, target: Target) -> Steps:
    """Schedule `mt.workloads.conv2d_winograd` with tiles of 4 x 4, and relu behind it if there is.

    Tiles are numbered by p; a strip is as many rows of tiles as a register tile of the products
    needs.
    """
    lanes, most = lanes_of(target), 8 if (target.vector_bits or 128) >= 512 else 4
    across = -(-s.program.outputs[0].shape[3] // TILE)
    strip = next((n for n in (1, 2) if n * across >= most), 2)
    if "relu" in s.get_blocks():
        s.compute_inline("conv")
    n, f, y, x = s.get_loops(s.get_blocks()[-1])
    y_0, y_1, y_2 = s.split(y, [None, strip, TILE])
    x_0, x_1 = s.split(x, [None, TILE])
    f_0, f_1 = s.split(f, [None, lanes])
    s.reorder(n, y_0, y_1, x_0, f_0, y_2, x_1, f_1)
    in_lanes(s, f_1, [y_2, x_1])
    for block in ("tiles", "tile_rows"):
        a, b, f, p = s.compute_at(block, f_0)[-4:]
        s.reorder(a, b, p, f)
        in_lanes(s, f, [a, b])
        s.transform_layout(block, lambda a, b, f, p: (a, b, p, f))
    yield (
        "Output transform",
        "A tile of the result is summed up in registers, its channels in lanes, and scattered "
        "over the images. Which sum belongs to which place is decided when it is written out.",
    )
    xi, nu, f, p, rc = s.compute_at("M", y_0)[-5:]
    s.transform_layout("M", lambda xi, nu, f, p: (xi, nu, p, f))
    f_0, f_1 = s.split(f, [None, 2 * lanes])
    p_0, p_1 = s.split(p, [None, largest_divisor(strip * across, most)])
    s.reorder(xi, nu, f_0, p_0, rc, p_1, f_1)
    in_lanes(s, f_1, [p_1])
    yield (
        "Products",
        "Each of the 36 places in a tile is a product of matrices of its own: register tiles of "
        "some p in two vectors of channels, for one strip of tiles at a time.",
    )
    xi, nu, c, p = s.compute_at("V", y_0)[-4:]
    s.transform_layout("V", lambda xi, nu, c, p: (xi, nu, p, c))
    c_0, c_1 = s.split(c, [None, lanes])
    s.reorder(p, c_0, xi, nu, c_1)
    in_lanes(s, c_1, [xi, nu])
    xi, x, c, p = s.compute_at("data_rows", c_0)[-4:]
    s.transform_layout("data_rows", lambda xi, x, c, p: (xi, x, p, c))
    s.reorder(xi, x, p, c)
    in_lanes(s, c, [xi, x])
    if "pad" in s.get_blocks():
        _, c, y, x = s.compute_at("pad", y_0)[-4:]
        s.transform_layout("pad", lambda n, c, y, x: (n, y, x, c))
        c_0, c_1 = s.split(c, [None, lanes])
        s.reorder(c_0, y, x, c_1)
        in_lanes(s, c_1, [])
    yield (
        "Input transform",
        "The strip of the image gets its border and has its channels brought side by side; then "
        "the transform is sums of vectors.",
    )
    xi, nu, c, f = s.get_loops("U")
    f_0, f_1 = s.split(f, [None, lanes])
    s.reorder(c, f_0, xi, nu, f_1)
    in_lanes(s, f_1, [xi, nu])
    xi, rx, _, f = s.compute_at("weight_rows", f_0)[-4:]
    in_lanes(s, f, [xi, rx])
    yield "Kernel transform", "Once for each pair of channels; if weights are bound, once."
    s.parallel(y_0)
    s.parallel(c)
    yield "Threads", "Strips are independent of each other."


def in_lanes(s: Schedule, lanes: str, written_out: list[str]) -> None:
    """Vectorize one loop and unroll others."""
    s.vectorize(lanes)
    for loop in written_out:
        s.unroll(loop)
