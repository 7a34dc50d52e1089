from collections import OrderedDict, deque

import minitensor as mt


def misses(addresses, line, lines):
    cache, found = OrderedDict(), 0
    for address in addresses:
        number = address // line
        if number in cache:
            cache.move_to_end(number)
            continue
        found += 1
        cache[number] = True
        if len(cache) > lines:
            cache.popitem(last=False)
    return found


def misses_by_ages(addresses, line, lines):
    used = {}
    found = 0
    for now, address in enumerate(addresses):
        number = address // line
        if number not in used:
            found += 1
            if len(used) == lines:
                del used[min(used, key=used.get)]
        used[number] = now
    return found


def misses_by_distances(addresses, line, lines):
    stack, found = [], 0
    for number in (a // line for a in addresses):
        found += number not in stack[:lines]
        stack = [number, *(n for n in stack if n != number)]
    return found


def misses_first_in_first_out(addresses, line, lines):
    cache, found = deque(maxlen=lines), 0
    for address in addresses:
        if address // line not in cache:
            found += 1
            cache.append(address // line)
    return found


def misses_of_bytes(addresses, line, lines):
    return misses(addresses, 1, lines)


def misses_one_line_more(addresses, line, lines):
    return misses(addresses, line, lines + 1)


def misses_compulsory_only(addresses, line, lines):
    return len({a // line for a in addresses})


def misses_hits(addresses, line, lines):
    return len(addresses) - misses(addresses, line, lines)


def best_tile(n, cache_bytes, itemsize):
    return max(t for t in range(1, n + 1) if n % t == 0 and 3 * t * t * itemsize <= cache_bytes)


def best_tile_downwards(n, cache_bytes, itemsize):
    tile = min(n, int((cache_bytes / (3 * itemsize)) ** 0.5) + 1)
    while n % tile or 3 * tile**2 * itemsize > cache_bytes:
        tile -= 1
    return tile


def best_tile_by_footprints(n, cache_bytes, itemsize):
    dtype = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}[itemsize]
    A = mt.placeholder((n, n), dtype, name="A")
    B = mt.placeholder((n, n), dtype, name="B")
    k = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    best = 1
    for tile in (t for t in range(1, n + 1) if n % t == 0):
        s = mt.Schedule(mt.lower([A, B, C]))
        pairs = [s.split(x, [None, tile]) for x in ("i", "j", "k")]
        s.reorder(*(o for o, _ in pairs), *(x for _, x in pairs))
        found = {f.loop.var: f.total for f in mt.pictures.footprints(s.program, "C") if f.loop}
        if found["k_0"] <= cache_bytes:
            best = tile
    return best


def best_tile_of_one_matrix(n, cache_bytes, itemsize):
    return max(t for t in range(1, n + 1) if n % t == 0 and t * t * itemsize <= cache_bytes)


def best_tile_of_any_size(n, cache_bytes, itemsize):
    return max(t for t in range(1, n + 1) if 3 * t * t * itemsize <= cache_bytes)


def best_tile_of_floats(n, cache_bytes, itemsize):
    return max(t for t in range(1, n + 1) if n % t == 0 and (3 * t * t * 4 <= cache_bytes or t < 2))


def best_tile_strictly_less(n, cache_bytes, itemsize):
    fit = [t for t in range(1, n + 1) if n % t == 0 and 3 * t * t * itemsize < cache_bytes]
    return max(fit)


def pack(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, j_1)
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))


def pack_panel_by_panel(s, width):
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, i, k, j_1)
    copy = s.cache_read("C", "B", "local")
    loops = s.compute_at(copy, j_0)
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))
    s.vectorize(loops[-1])
    s.unroll(j_1)


def pack_in_rows_of_panels(s, width):
    rows = s.program.buffers["B"].shape[0]
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, i, j_1)
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k * width + j % width))
    assert s.program.buffers[copy].shape[1] == rows * width
    return s


def pack_with_a_too(s, width):
    copy = s.cache_read("C", "A", "global")
    s.transform_layout(copy, lambda i, k: (k, i))
    pack(s, width)
    s.parallel(s.get_loops("C")[0])


def pack_no_layout(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, j_1)
    s.cache_read("C", "B", "global")


def pack_no_loops(s, width):
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))


def pack_no_copy(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, j_1)


def pack_transposed_panels(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, j_1)
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, j % width, k))


def pack_for_each_row(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, k, j_1)
    copy = s.cache_read("C", "B", "global")
    s.compute_at(copy, j_0)
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))


def pack_only_what_divides(s, width):
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width], tail="exact")
    s.reorder(j_0, k, j_1)
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))


RIGHT = {
    "misses": [misses, misses_by_ages, misses_by_distances],
    "best_tile": [best_tile, best_tile_downwards, best_tile_by_footprints],
    "pack": [pack, pack_panel_by_panel, pack_in_rows_of_panels, pack_with_a_too],
}
WRONG = {
    "misses": [
        (misses_first_in_first_out, "right is"),
        (misses_of_bytes, "right is"),
        (misses_one_line_more, "right is"),
        (misses_compulsory_only, "right is"),
        (misses_hits, "right is"),
    ],
    "best_tile": [
        (best_tile_of_one_matrix, "right is"),
        (best_tile_of_any_size, "right is"),
        (best_tile_of_floats, "right is"),
        (best_tile_strictly_less, "right is"),
    ],
    "pack": [
        (pack_no_layout, "B[k, j] lies at"),
        (pack_no_loops, "reads the panels from the first address to the last"),
        (pack_no_copy, "loads of B are at most"),
        (pack_transposed_panels, "B[k, j] lies at"),
        (pack_for_each_row, "loads of B are at most"),
        (pack_only_what_divides, "ScheduleError"),
    ],
}
