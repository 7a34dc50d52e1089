import itertools

import numpy as np


def digits(number, sizes):
    found = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        found.insert(0, digit)
    return found


def digits_by_numpy(number, sizes):
    return [int(digit) for digit in np.unravel_index(number, sizes)]


def digits_from_the_front(number, sizes):
    below = 1
    for size in sizes:
        below *= size
    found = ()
    for size in sizes:
        below //= size
        found += (number // below,)
        number %= below
    return found


def digits_reversed(number, sizes):
    return digits(number, sizes)[::-1]


def digits_of_the_wrong_sizes(number, sizes):
    found = []
    for size in sizes:
        number, digit = divmod(number, size)
        found.append(digit)
    return found


def digits_of_two(number, sizes):
    return [number // sizes[-1], number % sizes[-1]]


def digits_by_counting(number, sizes):
    for at, found in enumerate(itertools.product(*map(range, sizes))):
        if at == number or at > 300:
            return list(found)
    return None


def inferred(n, factors):
    known = 1
    for factor in factors:
        known *= factor or 1
    return [-(-n // known) if factor is None else factor for factor in factors]


def visits(n, factors, order):
    sizes = inferred(n, factors)
    found = []
    for numbers in itertools.product(*[range(sizes[place]) for place in order]):
        values = dict(zip(order, numbers))
        index = 0
        for place, size in enumerate(sizes):
            index = index * size + values[place]
        if index < n:
            found.append(index)
    return found


def visits_by_numpy(n, factors, order):
    sizes = inferred(n, factors)
    numbers = np.arange(np.prod(sizes)).reshape(sizes).transpose(order).ravel()
    return tuple(numbers[numbers < n])


def visits_by_sorting(n, factors, order):
    sizes = inferred(n, factors)

    def key(index):
        places = digits(index, sizes)
        return [places[place] for place in order]

    return sorted(range(n), key=key)


def visits_unguarded(n, factors, order):
    sizes = inferred(n, factors)
    return np.arange(np.prod(sizes)).reshape(sizes).transpose(order).ravel().tolist()


def visits_rounded_down(n, factors, order):
    known = 1
    for factor in factors:
        known *= factor or 1
    sizes = [n // known if factor is None else factor for factor in factors]
    return visits(n, sizes, order)


def visits_in_the_old_order(n, factors, order):
    return list(range(n))


def visits_of_the_inverse(n, factors, order):
    return visits(n, factors, [order.index(place) for place in range(len(order))])


def tile(s, height, width):
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, height])
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(i_0, j_0, j_1, i_1)


def tile_by_fusing(s, height, width):
    i, j = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, j_1, i)
    i_0, i_1 = s.split(i, [None, height])
    s.reorder(i_0, j_0, j_1, i_1)
    s.parallel(s.fuse(i_0, j_0))
    return s


def tile_by_number(s, height, width):
    i, j = s.get_loops("C")
    rows, columns = s.program.outputs[0].shape
    i_0, i_1 = s.split(i, [-(-rows // height), height])
    j_0, j_1 = s.split(j, [-(-columns // width), width])
    s.reorder(j_1, i_1)
    s.reorder(i_0, j_0, j_1, i_1)
    s.unroll(i_1)


def tile_and_cut_the_rows(s, height, width):
    copy = s.copy()
    i, j = copy.get_loops("C")
    rows = copy.program.outputs[0].shape[0]
    tail = "cut" if rows >= height else "guard"
    copy.split(i, [None, height], tail=tail)
    for block in copy.get_blocks():
        *_, inner, j = copy.get_loops(block)
        j_0, j_1 = copy.split(j, [None, width])
        copy.reorder(j_0, j_1, inner)
    return copy


def tile_row_by_row(s, height, width):
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, height])
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(i_0, j_0, i_1, j_1)


def tile_down_first(s, height, width):
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, height])
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, i_0, j_1, i_1)


def tile_so_many(s, height, width):
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [height, None])
    j_0, j_1 = s.split(j, [width, None])
    s.reorder(i_0, j_0, j_1, i_1)


def tile_whole_ones(s, height, width):
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, height], tail="exact")
    j_0, j_1 = s.split(j, [None, width], tail="exact")
    s.reorder(i_0, j_0, j_1, i_1)


def tile_with_more_guards(s, height, width):
    rows, columns = s.program.outputs[0].shape
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [rows, height])
    j_0, j_1 = s.split(j, [columns, width])
    s.reorder(i_0, j_0, j_1, i_1)


def strips(s, width):
    i, j = s.get_loops("C")
    s.reorder(j, i)
    s.split(j, [None, width], tail="cut")
    for block in s.get_blocks():
        *_, column, row = s.get_loops(block)
        s.reorder(row, column)


def strips_of_names(s, width):
    i, j = s.get_loops("C")
    columns = s.program.outputs[0].shape[1]
    s.reorder(j, i)
    j_0, j_1 = s.split(j, [columns // width, width], tail="cut")
    s.reorder(j_0, i, j_1)
    if len(s.get_blocks()) > 1:
        tail, again = s.get_loops(s.get_blocks()[1])
        s.reorder(again, tail)


def strips_in_parallel(s, width):
    i, j = s.get_loops("C")
    s.reorder(j, i)
    exact = s.program.outputs[0].shape[1] % width == 0
    j_0, _ = s.split(j, [None, width], tail="exact" if exact else "cut")
    for block in s.get_blocks():
        s.reorder(*reversed(s.get_loops(block)[-2:]))
    s.parallel(j_0)
    return s


def strips_with_a_guard(s, width):
    i, j = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width])
    s.reorder(j_0, i, j_1)


def strips_whole_ones(s, width):
    i, j = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width], tail="exact")
    s.reorder(j_0, i, j_1)


def strips_cut_too_early(s, width):
    i, j = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, width], tail="cut")
    if len(s.get_blocks()) == 1:
        s.reorder(j_0, i, j_1)


def strips_without_the_tail(s, width):
    i, j = s.get_loops("C")
    s.reorder(j, i)
    _, j_1 = s.split(j, [None, width], tail="cut")
    s.reorder(i, j_1)


def strips_column_by_column(s, width):
    i, j = s.get_loops("C")
    s.reorder(j, i)
    s.split(j, [None, width], tail="cut")


RIGHT = {
    "digits": [digits, digits_by_numpy, digits_from_the_front],
    "visits": [visits, visits_by_numpy, visits_by_sorting],
    "tile": [tile, tile_by_fusing, tile_by_number, tile_and_cut_the_rows],
    "strips": [strips, strips_of_names, strips_in_parallel],
}
WRONG = {
    "digits": [
        (digits_reversed, "right is ["),
        (digits_of_the_wrong_sizes, "right is ["),
        (digits_of_two, "right is ["),
        (digits_by_counting, "right is ["),
    ],
    "visits": [
        (visits_unguarded, "right is ["),
        (visits_rounded_down, "right is ["),
        (visits_in_the_old_order, "right is ["),
        (visits_of_the_inverse, "right is ["),
    ],
    "tile": [
        (tile_row_by_row, "column by column inside, but store number 2 is to"),
        (tile_down_first, "column by column inside, but store number"),
        (tile_so_many, "but store number"),
        (tile_whole_ones, "breaks R3"),
        (tile_with_more_guards, "the conditions of guards are 0, but there are 2"),
    ],
    "strips": [
        (strips_with_a_guard, "the conditions of guards are 0, but there are 1"),
        (strips_whole_ones, "breaks R3"),
        (strips_cut_too_early, "row by row inside, but store number"),
        (strips_without_the_tail, "row by row inside, but store number"),
        (strips_column_by_column, "row by row inside, but store number"),
    ],
}
