import numpy as np

import minitensor as mt


def halo_stores(n, m, tile, radius):
    return (n + 2 * radius * -(-n // tile)) * (m + 2 * radius * -(-m // tile))


def halo_stores_of_whole_and_last_tiles(n, m, tile, radius):
    def along(extent):
        whole, rest = divmod(extent, tile)
        return whole * (tile + 2 * radius) + (rest + 2 * radius if rest else 0)

    return along(n) * along(m)


def halo_stores_by_numpy(n, m, tile, radius):
    found = 1
    for extent in (n, m):
        starts = np.arange(0, extent, tile)
        ends = np.minimum(starts + tile, extent)
        found *= int((ends - starts + 2 * radius).sum())
    return found


def halo_stores_of_whole_tiles(n, m, tile, radius):
    return (n // tile) * (m // tile) * (tile + 2 * radius) ** 2


def halo_stores_as_if_it_divided(n, m, tile, radius):
    return -(-n // tile) * -(-m // tile) * (tile + 2 * radius) ** 2


def halo_stores_on_one_side(n, m, tile, radius):
    return (n + radius * -(-n // tile)) * (m + radius * -(-m // tile))


def halo_stores_once_each(n, m, tile, radius):
    return (n + 2 * radius) * (m + 2 * radius)


def facts(s):
    n, m = s.program.buffers["Q"].shape
    p = s.program.buffers["P"]
    return n, m, (p.shape[0] - n) // 2, p.dtype.bits // 8


def tiled(s, rows, columns):
    i, j = s.get_loops("Q")[:2]
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(i_0, j_0, i_1, j_1)
    s.compute_at("P", j_0)


def within(s, loads, size):
    n, m, radius, itemsize = facts(s)
    fit = [t for t in range(1, max(n, m) + 1) if (t + 2 * radius) ** 2 * itemsize <= size]
    best = min(fit, key=lambda t: halo_stores(n, m, t, radius))
    tiled(s, best, best)


def within_in_rectangles(s, loads, size):
    n, m, radius, itemsize = facts(s)

    def work(shape):
        rows, columns = shape
        return (n + 2 * radius * -(-n // rows)) * (m + 2 * radius * -(-m // columns))

    shapes = [
        (rows, columns)
        for rows in range(1, n + 1)
        for columns in range(1, m + 1)
        if (rows + 2 * radius) * (columns + 2 * radius) * itemsize <= size
    ]
    tiled(s, *min(shapes, key=work))


def within_by_trying(s, loads, size):
    a = np.zeros(s.program.inputs[0].shape, str(s.program.inputs[0].dtype))
    itemsize = facts(s)[-1]
    for tile in range(max(a.shape), 0, -1):
        copy = s.copy()
        tiled(copy, tile, tile)
        _, counts = mt.interpret(copy, a, counts=True)
        alive = (tile + 2 * facts(s)[2]) ** 2 * itemsize
        if counts.loads["A"] <= loads and alive <= size:
            copy.parallel(copy.get_loops("Q")[0])
            return copy
    return s


def within_nothing_done(s, loads, size):
    pass


def within_inlined(s, loads, size):
    s.compute_inline("P")


def within_one_tile_for_all(s, loads, size):
    tiled(s, 4, 4)


def within_the_tile_without_halo(s, loads, size):
    itemsize = facts(s)[-1]
    tile = max(t for t in range(1, 20) if t * t * itemsize <= size)
    tiled(s, tile, tile)


def within_four_bytes_each(s, loads, size):
    _, _, radius, _ = facts(s)
    tile = max(t for t in range(20) if t == 0 or (t + 2 * radius) ** 2 * 4 <= size)
    tiled(s, max(tile, 1), max(tile, 1))


def bytes_at(s, depth):
    shape = s.program.buffers["Q"].shape
    region = [2] * depth + [n + 1 for n in shape[depth:]]
    return int(np.prod(region)) * s.program.buffers["P"].dtype.bits // 8


def fitting(s, size):
    loops = s.get_loops("Q")
    depth = next(d for d in range(len(loops) + 1) if bytes_at(s, d) <= size)
    if depth:
        s.compute_at("P", loops[depth - 1])


def fitting_by_footprints(s, size):
    tried = []
    for loop in [None, *s.get_loops("Q")]:
        copy = s.copy()
        if loop:
            copy.compute_at("P", loop)
        home = mt.ir.lifetimes(copy.program)["P"]
        for one in mt.pictures.footprints(copy.program, "Q"):
            if (one.loop.var if one.loop else None) == home and one.bytes["P"] <= size:
                tried.append(copy)
    return tried[0]


def fitting_inlined_where_it_is_the_same(s, size):
    loops = s.get_loops("Q")
    depth = next(d for d in range(len(loops) + 1) if bytes_at(s, d) <= size)
    if depth == len(loops):
        s.compute_inline("P")
    elif depth:
        s.parallel(loops[0])
        s.compute_at("P", loops[depth - 1])


def fitting_innermost(s, size):
    s.compute_at("P", s.get_loops("Q")[-1])


def fitting_outermost(s, size):
    s.compute_at("P", s.get_loops("Q")[0])


def fitting_never_left_alone(s, size):
    loops = s.get_loops("Q")
    s.compute_at("P", loops[next(d for d in range(len(loops)) if bytes_at(s, d + 1) <= size)])


def fitting_four_bytes_each(s, size):
    loops = s.get_loops("Q")
    scale = s.program.buffers["P"].dtype.bits // 8 / 4
    fit = [d for d in range(len(loops) + 1) if bytes_at(s, d) / scale <= size]
    depth = fit[0] if fit else len(loops)
    if depth:
        s.compute_at("P", loops[depth - 1])


def fitting_without_the_next_row(s, size):
    loops, shape = s.get_loops("Q"), s.program.buffers["Q"].shape
    item = s.program.buffers["P"].dtype.bits // 8
    alive = [int(np.prod(shape[d:])) * item for d in range(len(loops) + 1)]
    depth = next(d for d, n in enumerate(alive) if n <= size)
    if depth:
        s.compute_at("P", loops[depth - 1])


RIGHT = {
    "halo_stores": [halo_stores, halo_stores_of_whole_and_last_tiles, halo_stores_by_numpy],
    "within": [within, within_in_rectangles, within_by_trying],
    "fitting": [fitting, fitting_by_footprints, fitting_inlined_where_it_is_the_same],
}
WRONG = {
    "halo_stores": [
        (halo_stores_of_whole_tiles, "right is"),
        (halo_stores_as_if_it_divided, "right is"),
        (halo_stores_on_one_side, "right is"),
        (halo_stores_once_each, "right is"),
    ],
    "within": [
        (within_nothing_done, "temporaries take at most"),
        (within_inlined, "loads of A are at most"),
        (within_one_tile_for_all, "at most"),
        (within_the_tile_without_halo, "temporaries take at most"),
        (within_four_bytes_each, "at most"),
    ],
    "fitting": [
        (fitting_innermost, "loads of A are at most"),
        (fitting_outermost, "at most"),
        (fitting_never_left_alone, "loads of A are at most"),
        (fitting_four_bytes_each, "at most"),
        (fitting_without_the_next_row, "temporaries take at most"),
    ],
}
