import minitensor as mt


def define(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    R = mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")
    return mt.lower([A, R], name="sharpen")


def define_in_two_stages(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    B = mt.compute((n,), lambda i: A[i] + A[i + 2], name="B")
    return mt.lower([A, mt.compute((n,), lambda i: A[i + 1] * 3.0 - B[i], name="R")])


def define_as_a_reduction(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    k = mt.reduce_axis(3, name="k")
    R = mt.compute(
        (n,),
        lambda i: mt.sum(mt.select(k == 1, 3.0, -1.0).astype("float32") * A[i + k], axis=k),
        name="R",
    )
    return mt.lower([A, R])


def define_backwards(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    R = mt.compute((n,), lambda i: A[i] + A[i + 2] - 3 * A[i + 1], name="R")
    return mt.lower([A, R])


def define_in_doubles(n):
    A = mt.placeholder((n + 2,), "float64", name="A")
    R = mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")
    return mt.lower([A, R])


def define_no_program(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    return mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")


def define_one_size(n):
    return define(16)


def recompute(s):
    s.compute_inline("P")


def recompute_and_cut(s):
    s.split("y", [None, 4])
    s.compute_inline("P")
    s.parallel("y_0")


def recompute_a_copy(s):
    copy = s.copy()
    copy.compute_inline(copy.get_producers("Q")[0])
    return copy


def recompute_nothing(s):
    pass


def recompute_in_tiles(s):
    s.compute_at("P", s.get_loops("Q")[0])


def recompute_the_wrong_block(s):
    s.compute_inline("Q")


def tiles(s, size):
    outer, _ = s.split("y", [None, size])
    s.compute_at("P", outer)


def tiles_by_their_number(s, size):
    count = s.program.outputs[0].shape[0] // size
    outer, _ = s.split("y", [count, None])
    s.compute_at("P", outer)
    s.parallel(outer)


def tiles_that_are_unrolled(s, size):
    outer, inner = s.split(s.get_loops("Q")[0], [None, size])
    (x,) = s.compute_at("P", outer)
    s.unroll(inner)
    s.vectorize(x)
    return s


def tiles_too_large(s, size):
    tiles(s, size + 1)


def tiles_too_small(s, size):
    _, inner = s.split("y", [None, size])
    s.compute_at("P", inner)


def tiles_beside(s, size):
    s.split("y", [None, size])
    s.split("x", [None, size])


RIGHT = {
    "define": [define, define_in_two_stages, define_as_a_reduction],
    "recompute": [recompute, recompute_and_cut, recompute_a_copy],
    "tiles": [tiles, tiles_by_their_number, tiles_that_are_unrolled],
}
WRONG = {
    "define": [
        (define_backwards, "R[0] is"),
        (define_in_doubles, "float64"),
        (define_no_program, "a program is wanted"),
        (define_one_size, "inputs and outputs"),
    ],
    "recompute": [
        (recompute_nothing, "P has no loops of its own, but it is still there"),
        (recompute_in_tiles, "it is still there"),
        (recompute_the_wrong_block, "ScheduleError"),
    ],
    "tiles": [
        (tiles_too_large, "stores of P are"),
        (tiles_too_small, "stores of P are"),
        (tiles_beside, "they share no loop"),
    ],
}
