import math

import numpy as np


def traffic(m, n, k, bm, bn):
    return m * k * -(-n // bn), n * k * -(-m // bm)


def traffic_by_math(m, n, k, bm, bn):
    return [m * k * math.ceil(n / bn), k * n * math.ceil(m / bm)]


def traffic_block_by_block(m, n, k, bm, bn):
    of_a = of_b = 0
    for i in range(0, m, bm):
        for j in range(0, n, bn):
            of_a += min(bm, m - i) * k
            of_b += min(bn, n - j) * k
    return of_a, of_b


def traffic_of_whole_tiles(m, n, k, bm, bn):
    blocks = -(-m // bm) * -(-n // bn)
    return blocks * bm * k, blocks * bn * k


def traffic_swapped(m, n, k, bm, bn):
    return traffic(m, n, k, bm, bn)[::-1]


def traffic_rounded_down(m, n, k, bm, bn):
    return m * k * max(1, n // bn), n * k * max(1, m // bm)


def softmax_block(t, x, y):
    rows, columns = 8 * t.place[0] + np.arange(8), np.arange(x.shape[1])
    tile = t.load("x", x, rows, columns)
    e = np.exp(tile - tile.max(axis=1, keepdims=True))
    t.store(y, rows, columns, e / e.sum(axis=1, keepdims=True))


def softmax_block_row_by_row(t, x, y):
    columns = np.arange(x.shape[1])
    for row in range(8 * t.place[0], min(8 * t.place[0] + 8, len(x))):
        values = t.load("x", x, np.array([row]), columns)[0].astype("float64")
        values = np.exp(values - values.max())
        t.store(y, np.array([row]), columns, values[None] / values.sum())


def softmax_block_online(t, x, y):
    (block,) = t.place
    rows = np.arange(8 * block, 8 * block + 8)
    m, z, parts = np.full((8, 1), -np.inf), np.zeros((8, 1)), []
    for column in range(x.shape[1]):
        part = t.load("x", x, rows, np.array([column])).astype("float64")
        larger = np.maximum(m, part)
        z, m = z * np.exp(m - larger) + np.exp(part - larger), larger
        parts.append(part)
    t.store(y, rows, np.arange(x.shape[1]), np.exp(np.hstack(parts) - m) / z)


def softmax_block_that_overflows(t, x, y):
    rows, columns = 8 * t.place[0] + np.arange(8), np.arange(x.shape[1])
    with np.errstate(all="ignore"):
        e = np.exp(t.load("x", x, rows, columns))
        t.store(y, rows, columns, e / e.sum(axis=1, keepdims=True))


def softmax_block_loading_twice(t, x, y):
    rows, columns = 8 * t.place[0] + np.arange(8), np.arange(x.shape[1])
    top = t.load("x", x, rows, columns).max(axis=1, keepdims=True)
    e = np.exp(t.load("x", x, rows, columns) - top)
    t.store(y, rows, columns, e / e.sum(axis=1, keepdims=True))


def softmax_block_of_columns(t, x, y):
    rows, columns = 8 * t.place[0] + np.arange(8), np.arange(x.shape[1])
    tile = t.load("x", x, rows, columns)
    e = np.exp(tile - tile.max(axis=0))
    t.store(y, rows, columns, e / e.sum(axis=0))


def softmax_block_with_masked_columns(t, x, y):
    rows, columns = 8 * t.place[0] + np.arange(8), np.arange(16)
    tile = t.load("x", x, rows, columns)  # zeros behind the row count as numbers
    e = np.exp(tile - tile.max(axis=1, keepdims=True))
    t.store(y, rows, columns, e / e.sum(axis=1, keepdims=True))


def _cut(s, bm, bn, bk):
    i, j, k = s.get_loops("C")
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = (
        s.split(loop, [None, size]) for loop, size in ((i, bm), (j, bn), (k, bk))
    )
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    return i_0, j_0, k_0


def blocks(s, bm, bn, bk):
    i_0, j_0, k_0 = _cut(s, bm, bn, bk)
    s.parallel(s.fuse(i_0, j_0))
    for name in "AB":
        s.compute_at(s.cache_read("C", name, "global"), k_0)


def blocks_by_columns(s, bm, bn, bk):
    i_0, j_0, k_0 = _cut(s, bm, bn, bk)
    s.reorder(j_0, i_0)
    block = s.fuse(j_0, i_0)
    for name in "BA":
        s.compute_at(s.cache_read("C", name, "global"), k_0)
    s.parallel(block)


def blocks_with_lanes(s, bm, bn, bk):
    blocks(s, bm, bn, bk)
    *_, i_1, j_1, k_1 = s.get_loops("C")
    s.reorder(k_1, i_1, j_1)
    s.vectorize(j_1)


def blocks_without_tiles(s, bm, bn, bk):
    i_0, j_0, _ = _cut(s, bm, bn, bk)
    s.parallel(s.fuse(i_0, j_0))


def blocks_that_load_all_of_k(s, bm, bn, bk):
    i_0, j_0, _ = _cut(s, bm, bn, bk)
    block = s.fuse(i_0, j_0)
    s.parallel(block)
    for name in "AB":
        s.compute_at(s.cache_read("C", name, "global"), block)


def blocks_in_rows(s, bm, bn, bk):
    i_0, _, k_0 = _cut(s, bm, bn, bk)
    s.parallel(i_0)
    for name in "AB":
        s.compute_at(s.cache_read("C", name, "global"), k_0)


def blocks_in_turn(s, bm, bn, bk):
    _, _, k_0 = _cut(s, bm, bn, bk)
    for name in "AB":
        s.compute_at(s.cache_read("C", name, "global"), k_0)


RIGHT = {
    "traffic": [traffic, traffic_by_math, traffic_block_by_block],
    "softmax_block": [softmax_block, softmax_block_row_by_row, softmax_block_online],
    "blocks": [blocks, blocks_by_columns, blocks_with_lanes],
}
WRONG = {
    "traffic": [
        (traffic_of_whole_tiles, "right is"),
        (traffic_swapped, "right is"),
        (traffic_rounded_down, "right is"),
    ],
    "softmax_block": [
        (softmax_block_that_overflows, "the result is wrong"),
        (softmax_block_loading_twice, "is loaded 2 times"),
        (softmax_block_of_columns, "the result is wrong"),
        (softmax_block_with_masked_columns, "the result is wrong"),
    ],
    "blocks": [
        (blocks_without_tiles, "loads of A"),
        (blocks_that_load_all_of_k, "temporaries take at most"),
        (blocks_in_rows, "one parallel loop has"),
        (blocks_in_turn, "one parallel loop has"),
    ],
}
