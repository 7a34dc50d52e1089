def left_over(extent, bits, size):
    lanes = bits // size
    while lanes * size >= 128:
        extent %= lanes
        lanes //= 2
    return extent


def left_over_by_the_narrowest(extent, bits, size):
    """Wider vectors are multiples of the narrowest one."""
    return extent % (128 // size)


def left_over_by_taking_away(extent, bits, size):
    for width in (512, 256, 128):
        while width <= bits and extent * size >= width:
            extent -= width // size
    return extent


def left_over_by_full_vectors(extent, bits, size):
    return extent % (bits // size)


def left_over_to_the_end(extent, bits, size):
    """Halves down to two lanes."""
    lanes = bits // size
    while lanes >= 2:
        extent %= lanes
        lanes //= 2
    return extent


def left_over_of_float32(extent, bits, size):
    return extent % 4


def left_over_in_bits(extent, bits, size):
    return extent * size % bits // size


def lanes(s):
    for block in s.get_blocks():
        s.vectorize(s.get_loops(block)[-1])


def lanes_cut(s):
    """A split for the vectors, with a rest of its own."""
    bits = {"float32": 32, "float64": 64, "int16": 16}[str(s.program.outputs[0].dtype)]
    for block in ("P", "Q"):
        _, inner = s.split(s.get_loops(block)[1], [None, 256 // bits])
        s.vectorize(inner)


def lanes_and_threads(s):
    for block in list(s.get_blocks()):
        i, j = s.get_loops(block)
        s.parallel(i)
        s.vectorize(j)
    return s


def lanes_in_columns(s):
    """The loop of the columns outside, and yet in lanes."""
    for block in list(s.get_blocks()):
        i, j = s.get_loops(block)
        s.reorder(j, i)
        s.vectorize(j)


def lanes_of_rows(s):
    for block in s.get_blocks():
        s.vectorize(s.get_loops(block)[0])


def lanes_of_the_last_stage(s):
    s.vectorize(s.get_loops("Q")[-1])


def lanes_by_fives(s):
    for block in list(s.get_blocks()):
        _, inner = s.split(s.get_loops(block)[1], [None, 5])
        s.vectorize(inner)


def lanes_of_float32(s):
    for block in list(s.get_blocks()):
        _, inner = s.split(s.get_loops(block)[1], [None, 8])
        s.vectorize(inner)


def lanes_of_nothing(s):
    pass


def share(s, cores):
    i, j = s.get_loops("B")
    j_0, _ = s.split(j, [cores, None])
    s.reorder(j_0, i)
    s.parallel(j_0)


def share_fused(s, cores):
    i, j = s.get_loops("B")
    j_0, j_1 = s.split(j, [cores, None])
    s.parallel(s.fuse(i, j_0))
    s.vectorize(j_1)


def share_flat(s, cores):
    """One loop of all elements, cut for the cores."""
    outer, _ = s.split(s.fuse(*s.get_loops("B")), [cores, None])
    s.parallel(outer)


def share_rows(s, cores):
    s.parallel(s.get_loops("B")[0])


def share_columns(s, cores):
    s.parallel(s.get_loops("B")[1])


def share_elements(s, cores):
    s.parallel(s.fuse(*s.get_loops("B")))


def share_one_too_many(s, cores):
    i, j = s.get_loops("B")
    j_0, _ = s.split(j, [cores + 1, None])
    s.reorder(j_0, i)
    s.parallel(j_0)


def share_of_one_row(s, cores):
    i, j = s.get_loops("B")
    fused = s.fuse(i, j)
    s.parallel(s.split(fused, [cores, s.program.outputs[0].shape[1]])[0])


def share_inside(s, cores):
    j_0, _ = s.split(s.get_loops("B")[1], [cores, None])
    s.parallel(j_0)


def tile(s, rows):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, 8])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)


def tile_with_columns_outside(s, rows):
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, 4])
    s.reorder(j_0, i_0, k, i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)
    s.parallel(j_0)


def tile_in_scalars(s, rows):
    """Registers of one number each."""
    i_0, i_1 = s.split("i", [None, rows])
    s.reorder(i_0, "j", "k", i_1)
    s.unroll(i_1)


def tile_of_all_columns(s, rows):
    """Rows inside, a vector or more for each of them."""
    i_0, i_1 = s.split("i", [None, rows])
    s.reorder(i_0, "k", i_1, "j")
    s.unroll(i_1)
    s.vectorize("j")


def tile_with_k_inside(s, rows):
    _, i_1 = s.split("i", [None, rows])
    _, j_1 = s.split("j", [None, 8])
    s.reorder(i_1, "k", j_1)
    s.vectorize(j_1)


def tile_not_unrolled(s, rows):
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, 8])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.vectorize(j_1)


def tile_unrolled_k(s, rows):
    s.unroll("k")


def tile_one_row_less(s, rows):
    tile(s, max(1, rows - 1))


RIGHT = {
    "left_over": [left_over, left_over_by_the_narrowest, left_over_by_taking_away],
    "lanes": [lanes, lanes_cut, lanes_and_threads, lanes_in_columns],
    "share": [share, share_fused, share_flat],
    "tile": [tile, tile_with_columns_outside, tile_in_scalars, tile_of_all_columns],
}
WRONG = {
    "left_over": [
        (left_over_by_full_vectors, "right is"),
        (left_over_to_the_end, "right is"),
        (left_over_of_float32, "right is"),
        (left_over_in_bits, "right is"),
    ],
    "lanes": [
        (lanes_of_rows, "code generation has no remark 'gather', but"),
        (lanes_of_the_last_stage, "elements of P, but they store 0"),
        (lanes_by_fives, "elements of P, but they store"),
        (lanes_of_float32, "elements of P, but they store 0"),
        (lanes_of_nothing, "elements of P, but they store 0"),
    ],
    "share": [
        (share_rows, "times the average, but of its"),
        (share_columns, "it is of kind serial"),
        (share_elements, "computes at least 16 elements, but it computes 1"),
        (share_one_too_many, "one core has 2"),
        (share_of_one_row, "of its elements one core computes"),
        (share_inside, "it is of kind serial"),
    ],
    "tile": [
        (tile_with_k_inside, "loads of B that are left"),
        (tile_not_unrolled, "but there are"),
        (tile_unrolled_k, "loads of B that are left"),
        (tile_one_row_less, "loads of B that are left"),
    ],
}
