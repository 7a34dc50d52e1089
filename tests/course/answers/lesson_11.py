import math

import numpy as np

import minitensor as mt


def sum_in_lanes(values, lanes):
    partial = np.zeros(lanes, "float32")
    for at, value in enumerate(values):
        partial[at % lanes] += value
    result = np.float32(0)
    for one in partial:
        result += one
    return result


def sum_in_lanes_by_vectors(values, lanes):
    rows = -(-len(values) // lanes)
    padded = np.zeros(rows * lanes, "float32")
    padded[: len(values)] = values
    partial = np.zeros(lanes, "float32")
    for row in padded.reshape(rows, lanes):
        partial = partial + row
    return np.add.accumulate(partial, dtype="float32")[-1]


def sum_in_lanes_interpreted(values, lanes):
    A = mt.placeholder(values.shape, "float32", name="A")
    k = mt.reduce_axis(len(values), name="k")
    s = mt.Schedule(mt.lower([A, mt.compute((), lambda: mt.sum(A[k], axis=k), name="S")]))
    s.vectorize(s.split("k", [None, lanes])[1])
    return float(mt.interpret(s, values))


def sum_in_lanes_one_chain(values, lanes):
    result = np.float32(0)
    for value in values:
        result += value
    return result


def sum_in_lanes_in_float64(values, lanes):
    return np.float32(sum(float(np.sum(values[at::lanes], dtype="float64")) for at in range(lanes)))


def sum_in_lanes_of_neighbours(values, lanes):
    size = -(-len(values) // lanes)
    parts = [values[at * size : (at + 1) * size] for at in range(lanes)]
    return sum_in_lanes(np.array([sum_in_lanes(p, 1) for p in parts], "float32"), 1)


def sum_in_lanes_without_the_rest(values, lanes):
    return sum_in_lanes(values[: len(values) // lanes * lanes], lanes)


def in_parts(s, parts):
    (k,) = s.get_loops("S")
    k_0, _ = s.split(k, [parts, None])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_in_turn(s, parts):
    (k,) = s.get_loops("S")
    _, k_1 = s.split(k, [None, parts])
    block = s.rfactor(k_1)
    s.reorder(*reversed(s.get_loops(block)))
    s.parallel(k_1)
    return s


def in_parts_and_cut_again(s, parts):
    (k,) = s.get_loops("S")
    n = s.program.inputs[0].shape[0]
    k_0, k_1 = s.split(k, [parts, -(-n // parts)])
    s.split(k_1, [None, 2])
    block = s.rfactor(k_0)
    s.decompose_reduction(block, s.get_loops(block)[1])
    s.parallel(k_0)
    s.unroll(s.get_loops("S")[-1])


def in_parts_not_parallel(s, parts):
    s.rfactor(s.split(s.get_loops("S")[0], [parts, None])[0])


def in_parts_of_that_size(s, parts):
    k_0, _ = s.split(s.get_loops("S")[0], [None, parts])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_parallel_first(s, parts):
    k_0, _ = s.split(s.get_loops("S")[0], [parts, None])
    s.parallel(k_0)
    s.rfactor(k_0)


def in_parts_that_divide(s, parts):
    n = s.program.inputs[0].shape[0]
    parts = max(p for p in range(1, parts + 1) if n % p == 0)
    in_parts(s, parts)


def in_parts_all_in_the_first(s, parts):
    n = s.program.inputs[0].shape[0]
    k_0, _ = s.split(s.get_loops("S")[0], [parts, n])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_a_copy(s, parts):
    copy = s.cache_read("S", "A", "global")
    s.parallel(s.split(s.get_loops(copy)[0], [parts, None])[0])


def merge(one, other):
    m = max(one[0], other[0])
    if m == -math.inf:
        return m, 0.0
    return m, one[1] * math.exp(one[0] - m) + other[1] * math.exp(other[0] - m)


def merge_small_into_large(one, other):
    (small, s), (large, t) = sorted((one, other))
    return [large, t + (s and s * math.exp(small - large))]


def merge_by_numpy(one, other):
    tops, sums = np.array([one[0], other[0]]), np.array([one[1], other[1]])
    top = tops.max()
    with np.errstate(invalid="ignore"):
        factors = np.exp(np.where(tops == top, 0.0, tops - top))
    return top, float(factors @ sums)


def merge_adding(one, other):
    return max(one[0], other[0]), one[1] + other[1]


def merge_the_other_way(one, other):
    m = max(one[0], other[0])
    return m, one[1] * math.exp(m - one[0]) + other[1] * math.exp(m - other[0])


def merge_undone(one, other):
    m = max(one[0], other[0])
    return m, (one[1] * math.exp(one[0]) + other[1] * math.exp(other[0])) / math.exp(m)


def merge_without_empty(one, other):
    m = max(one[0], other[0])
    return m, one[1] * math.exp(one[0] - m) + other[1] * math.exp(other[0] - m)


def defined(n, combine, identity, finish, count=2):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    one = mt.const(1.0, "float32")
    reduce = mt.comm_reducer(combine, identity, name="log_sum_exp")
    given = (A[k], one) if count == 2 else A[k]
    state = mt.compute((), lambda: reduce(given, axis=k), name="state")
    L = mt.compute((), lambda: finish(state), name="L")
    return mt.lower([A, L], name="log_sum_exp")


def scale(x, m):
    return mt.exp(mt.select(x == m, 0.0, x - m))


def combined(x, y):
    m = mt.maximum(x[0], y[0])
    return m, x[1] * scale(x[0], m) + y[1] * scale(y[0], m)


def log_sum_exp(n):
    return defined(n, combined, (-math.inf, 0.0), lambda s: s[0][()] + mt.log(s[1][()]))


def log_sum_exp_of_logarithms(n):
    def both(x, y):
        m = mt.maximum(x, y)
        low = mt.minimum(x, y)
        return m + mt.log1p(mt.exp(mt.select(low == -math.inf, low, low - m)))

    return defined(n, both, -math.inf, lambda s: s[()] + 0.0, count=1)


def log_sum_exp_with_a_finite_floor(n):
    def both(x, y):
        m = mt.maximum(x[0], y[0])
        at = mt.maximum(m, -3e38)
        return m, x[1] * mt.exp(x[0] - at) + y[1] * mt.exp(y[0] - at)

    return defined(n, both, (-math.inf, 0.0), lambda s: s[0][()] + mt.log(s[1][()]))


def log_sum_exp_not_masked(n):
    def both(x, y):
        m = mt.maximum(x[0], y[0])
        return m, x[1] * mt.exp(x[0] - m) + y[1] * mt.exp(y[0] - m)

    return defined(n, both, (-math.inf, 0.0), lambda s: s[0][()] + mt.log(s[1][()]))


def log_sum_exp_naive(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    T = mt.compute((), lambda: mt.sum(mt.exp(A[k]), axis=k), name="T")
    return mt.lower([A, mt.compute((), lambda: mt.log(T[()]), name="L")])


def log_sum_exp_in_two_passes(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    M = mt.compute((), lambda: mt.max(A[k], axis=k), name="M")
    T = mt.compute((), lambda: mt.sum(mt.exp(A[k] - M[()]), axis=k), name="T")
    return mt.lower([A, mt.compute((), lambda: M[()] + mt.log(T[()]), name="L")])


def log_sum_exp_of_a_copy(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    B = mt.compute((n,), lambda i: A[i], name="B")
    M = mt.compute((), lambda: mt.max(B[k], axis=k), name="M")
    T = mt.compute((), lambda: mt.sum(mt.exp(B[k] - M[()]), axis=k), name="T")
    return mt.lower([A, mt.compute((), lambda: M[()] + mt.log(T[()]), name="L")])


def log_sum_exp_of_the_sum_alone(n):
    return defined(n, combined, (-math.inf, 0.0), lambda s: mt.log(s[1][()]))


def log_sum_exp_with_an_axis(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    reduce = mt.comm_reducer(combined, (-math.inf, 0.0))
    M, T = mt.compute((1,), lambda i: reduce((A[k], mt.const(1.0, "float32")), axis=k), name="s")
    return mt.lower([A, mt.compute((1,), lambda i: M[i] + mt.log(T[i]), name="L")])


RIGHT = {
    "sum_in_lanes": [sum_in_lanes, sum_in_lanes_by_vectors, sum_in_lanes_interpreted],
    "in_parts": [in_parts, in_parts_in_turn, in_parts_and_cut_again],
    "merge": [merge, merge_small_into_large, merge_by_numpy],
    "log_sum_exp": [
        log_sum_exp,
        log_sum_exp_of_logarithms,
        log_sum_exp_with_a_finite_floor,
    ],
}
WRONG = {
    "sum_in_lanes": [
        (sum_in_lanes_one_chain, "right is"),
        (sum_in_lanes_in_float64, "right is"),
        (sum_in_lanes_of_neighbours, "right is"),
        (sum_in_lanes_without_the_rest, "right is"),
    ],
    "in_parts": [
        (in_parts_not_parallel, "there is no parallel loop"),
        (in_parts_of_that_size, "its iterations combine"),
        (in_parts_parallel_first, "ScheduleError"),
        (in_parts_that_divide, "its iterations combine"),
        (in_parts_all_in_the_first, "its iterations combine"),
        (in_parts_a_copy, "there is no parallel loop"),
    ],
    "merge": [
        (merge_adding, "right is"),
        (merge_the_other_way, "right is"),
        (merge_undone, "OverflowError"),
        (merge_without_empty, "right is (-inf, 0)"),
    ],
    "log_sum_exp": [
        (log_sum_exp_not_masked, "it gives nan"),
        (log_sum_exp_naive, "values near 1000"),
        (log_sum_exp_in_two_passes, "it loads A"),
        (log_sum_exp_of_a_copy, "few are enough"),
        (log_sum_exp_of_the_sum_alone, "right is"),
        (log_sum_exp_with_an_axis, "inputs and outputs"),
    ],
}
