import itertools

import numpy as np


def order(s, strides):
    near = [x for x in strides if max(strides[x].values()) <= 1]
    s.reorder(*[x for x in strides if x not in near], near[0])


def order_of_sorted_loops(s, strides):
    s.reorder(*sorted(strides, key=lambda x: -max(strides[x].values())))


def order_of_a_tile(s, strides):
    x = min(strides, key=lambda loop: max(strides[loop].values()))
    outer, inner = s.split(x, [None, 2])
    s.reorder(outer, *[y for y in strides if y != x], inner)
    return s


def order_as_it_is(s, strides):
    pass


def order_always_by_j(s, strides):
    s.reorder("i", "k", "j")


def order_by_the_result(s, strides):
    x = min(strides, key=lambda loop: strides[loop]["C"])
    s.reorder(*[y for y in strides if y != x], x)


def order_with_a_unit_loop(s, strides):
    s.add_unit_loop("C")


def registers(rows, columns, lanes):
    row = -(-columns // lanes)
    return rows * row + row + 1


def registers_counted(rows, columns, lanes):
    row = len(range(0, columns, lanes))
    return sum(1 for _ in itertools.product(range(rows + 1), range(row))) + 1


def registers_by_numpy(rows, columns, lanes):
    return (np.int64(rows) + 1) * ((columns + lanes - 1) // lanes) + 1


def registers_of_whole_vectors(rows, columns, lanes):
    row = columns // lanes
    return rows * row + row + 1


def registers_of_the_sums(rows, columns, lanes):
    return rows * -(-columns // lanes)


def registers_without_the_element(rows, columns, lanes):
    return (rows + 1) * -(-columns // lanes)


def registers_of_the_flat_tile(rows, columns, lanes):
    return -(-rows * columns // lanes) + -(-columns // lanes) + 1


def best_register_tile(registers, lanes):
    tiles = [(r, v) for r in range(1, registers) for v in range(1, registers)]
    fit = [(r, v) for r, v in tiles if r * v + v + 1 <= registers]
    r, v = min(fit, key=lambda t: (t[0] + t[1]) / (t[0] * t[1]))
    return r, v * lanes


def best_register_tile_from_rows(registers, lanes):
    best = None
    for r in range(registers, 0, -1):
        v = (registers - 1) // (r + 1)
        if v and (best is None or (r + v) * best[0] * best[1] < sum(best) * r * v):
            best = (r, v)
    return [best[0], best[1] * lanes]


def best_register_tile_by_numpy(registers, lanes):
    r, v = np.mgrid[1 : registers + 1, 1 : registers + 1]
    cost = np.where(r * v + v + 1 <= registers, 1 / r + 1 / v, 9)
    at = np.argmin(cost)
    return r.flat[at], v.flat[at] * lanes


def best_register_tile_without_the_element(registers, lanes):
    tiles = [(r, v) for r in range(1, registers) for v in range(1, registers)]
    r, v = min(
        [(r, v) for r, v in tiles if r * v + v <= registers],
        key=lambda t: (t[0] + t[1]) / (t[0] * t[1]),
    )
    return r, v * lanes


def best_register_tile_of_most_sums(registers, lanes):
    tiles = [(r, v) for r in range(1, registers) for v in range(1, registers)]
    r, v = max([t for t in tiles if t[0] * t[1] + t[1] + 1 <= registers], key=lambda t: t[0] * t[1])
    return r, v * lanes


def best_register_tile_of_two_vectors(registers, lanes):
    return (max(1, (registers - 1) // 2 - 1), 2 * lanes) if registers > 4 else (1, lanes)


def best_register_tile_in_vectors(registers, lanes):
    rows, columns = best_register_tile(registers, lanes)
    return rows, columns // lanes


def best_register_tile_in_floats(registers, lanes):
    return tuple(map(float, best_register_tile(registers, lanes)))


def register_tile(s, rows, columns):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)


def register_tile_of_panels(s, rows, columns):
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, columns])
    i_0, i_1 = s.split(i, [None, rows])
    s.reorder(j_0, i_0, k, i_1, j_1)
    s.vectorize(j_1)
    s.unroll(i_1)
    s.parallel(j_0)
    return s


def register_tile_decomposed(s, rows, columns):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1, j_2 = s.split("j", [None, columns // 8, 8])
    s.reorder(i_0, j_0, "k", i_1, j_1, j_2)
    for loop in (i_1, j_1):
        s.unroll(loop)
    s.vectorize(j_2)
    s.decompose_reduction("C", "k")


def register_tile_with_k_inside(s, rows, columns):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, i_1, j_1, "k")
    s.unroll(i_1)


def register_tile_without_unroll(s, rows, columns):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.vectorize(j_1)


def register_tile_of_scalars(s, rows, columns):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.unroll(i_1)
    s.unroll(j_1)


def register_tile_turned(s, rows, columns):
    register_tile(s, columns, rows)


def register_tile_of_one_vector(s, rows, columns):
    register_tile(s, rows, 8)


def register_tile_of_divisors(s, rows, columns):
    """No tails: the largest divisor of the rows."""
    m = s.program.outputs[0].shape[0]
    register_tile(s, max(n for n in range(1, rows + 1) if m % n == 0), columns)


RIGHT = {
    "order": [order, order_of_sorted_loops, order_of_a_tile],
    "registers": [registers, registers_counted, registers_by_numpy],
    "best_register_tile": [
        best_register_tile,
        best_register_tile_from_rows,
        best_register_tile_by_numpy,
    ],
    "register_tile": [register_tile, register_tile_of_panels, register_tile_decomposed],
}
WRONG = {
    "order": [
        (order_as_it_is, "an iteration moves"),
        (order_always_by_j, "an iteration moves"),
        (order_by_the_result, "an iteration moves"),
        (order_with_a_unit_loop, "an iteration moves"),
    ],
    "registers": [
        (registers_of_whole_vectors, "right is"),
        (registers_of_the_sums, "right is"),
        (registers_without_the_element, "right is"),
        (registers_of_the_flat_tile, "right is"),
    ],
    "best_register_tile": [
        (best_register_tile_without_the_element, "registers"),
        (best_register_tile_of_most_sums, "loads a multiply-add; a tile that fits has"),
        (best_register_tile_of_two_vectors, "loads a multiply-add; a tile that fits has"),
        (best_register_tile_in_vectors, "no multiple of"),
        (best_register_tile_in_floats, "two whole numbers"),
    ],
    "register_tile": [
        (register_tile_with_k_inside, "a loop around C is of kind vectorize"),
        (register_tile_without_unroll, "promotion"),
        (register_tile_of_scalars, "registers"),
        (register_tile_turned, "remark"),
        (register_tile_of_one_vector, "the code loads at most"),
        (register_tile_of_divisors, "the code loads at most"),
    ],
}
