"""A template for the dense layer of the demonstration: a schedule with decisions in it."""

from __future__ import annotations

import minitensor as mt


def template(s: mt.Schedule) -> None:
    """Tiles, vectors, fusion, packed B and threads as before; which tiles is left open."""
    rows = s.sample_categorical([2, 4, 6, 8, 12])
    columns = s.sample_categorical([8, 16, 32, 48, 64])
    block = s.sample_categorical([1, 4, 16, 32])
    i, j, k = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, block, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(i_0, j_0, i_1, k, i_2, j_1)
    s.vectorize(j_1)
    s.unroll(i_2)
    *_, j_d = s.reverse_compute_at("D", i_1)
    s.vectorize(j_d)
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (j // columns, k, j % columns))
    k_b, j_b = s.get_loops(packed)
    j_b0, j_b1 = s.split(j_b, [None, columns])
    s.reorder(j_b0, k_b, j_b1)
    s.vectorize(j_b1)
    s.parallel(j_b0)
    s.parallel(i_0)
