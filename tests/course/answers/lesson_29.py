import math

import numpy as np

import minitensor as mt


def parameters(low, high):
    low, high = min(low, 0), max(high, 0)
    scale = (high - low) / 255 or 1.0
    return scale, round(-low / scale)


def parameters_by_numpy(low, high):
    ends = np.array([low, 0.0, high])
    scale = np.ptp(ends) / 255
    if scale == 0:
        return [1.0, 0]
    return np.array([scale, np.clip(np.rint(-ends.min() / scale), 0, 255)])


def parameters_from_above(low, high):
    if low == high == 0:
        return 1, 0
    scale = (max(high, 0) - min(low, 0)) / 255
    return scale, 255 - round(max(high, 0) / scale)


def parameters_without_zero(low, high):
    scale = (high - low) / 255 or 1.0
    return scale, min(255, max(0, round(-low / scale)))


def parameters_of_256_steps(low, high):
    low, high = min(low, 0), max(high, 0)
    scale = (high - low) / 256 or 1.0
    return scale, round(-low / scale)


def parameters_around_zero(low, high):
    return max(abs(low), abs(high)) / 127 or 1.0, 128


def parameters_that_divide_by_zero(low, high):
    scale = (max(high, 0) - min(low, 0)) / 255
    return scale, round(-min(low, 0) / scale)


def product(a, b, zero_a, zero_b):
    return (a.astype("int32") - zero_a) @ (b.astype("int32") - zero_b)


def product_with_corrections(a, b, zero_a, zero_b):
    a, b = a.astype(np.int32), b.astype(np.int32)
    sums = a @ b - zero_b * a.sum(axis=1, keepdims=True) - zero_a * b.sum(axis=0)
    return (sums + a.shape[1] * zero_a * zero_b).astype("int32")


def product_in_doubles(a, b, zero_a, zero_b):
    return ((a - float(zero_a)) @ (b - float(zero_b))).astype("int32")


def product_that_wraps(a, b, zero_a, zero_b):
    return ((a - np.uint8(zero_a)).astype("int32")) @ ((b - np.int8(zero_b)).astype("int32"))


def product_in_16_bits(a, b, zero_a, zero_b):
    return ((a.astype("int16") - zero_a) @ (b.astype("int16") - zero_b)).astype("int32")


def product_in_int64(a, b, zero_a, zero_b):
    return (a.astype("int64") - zero_a) @ (b.astype("int64") - zero_b)


def product_without_the_last_term(a, b, zero_a, zero_b):
    a, b = a.astype(np.int32), b.astype(np.int32)
    return a @ b - zero_b * a.sum(axis=1, keepdims=True) - zero_a * b.sum(axis=0)


def error(n, rms_a, rms_b, largest_a, largest_b):
    sa, sb = largest_a / 127, largest_b / 127
    return math.sqrt(n / 12 * ((rms_a * sb) ** 2 + (rms_b * sa) ** 2))


def error_by_hypot(n, rms_a, rms_b, largest_a, largest_b):
    return np.hypot(rms_a * largest_b, rms_b * largest_a) / 127 * np.sqrt(n / 12)


def error_term_by_term(n, rms_a, rms_b, largest_a, largest_b):
    squares = [
        (rms * largest / 127) ** 2 / 12 for rms, largest in ((rms_a, largest_b), (rms_b, largest_a))
    ]
    return sum(n * square for square in squares) ** 0.5


def error_that_grows_like_n(n, rms_a, rms_b, largest_a, largest_b):
    return n / math.sqrt(12) / 127 * math.hypot(rms_a * largest_b, rms_b * largest_a)


def error_of_own_scales(n, rms_a, rms_b, largest_a, largest_b):
    return error(n, rms_a, rms_b, largest_b, largest_a)


def error_of_half_steps(n, rms_a, rms_b, largest_a, largest_b):
    return error(n, rms_a, rms_b, largest_a, largest_b) * math.sqrt(12) / 2


def define(m, n, k, zero):
    A, B = mt.placeholder((m, k), "uint8", name="A"), mt.placeholder((k, n), "int8", name="B")
    r = mt.reduce_axis(k, name="r")
    C = mt.compute(
        (m, n),
        lambda i, j: mt.sum((A[i, r].astype("int32") - zero) * B[r, j].astype("int32"), axis=r),
        name="C",
    )
    return mt.lower([A, B, C], name="product")


def define_with_corrections(m, n, k, zero):
    A, B = mt.placeholder((m, k), "uint8", name="A"), mt.placeholder((k, n), "int8", name="B")
    r, t = mt.reduce_axis(k, name="r"), mt.reduce_axis(k, name="t")
    wide = lambda x: x.astype("int32")
    P = mt.compute((m, n), lambda i, j: mt.sum(wide(A[i, r]) * wide(B[r, j]), axis=r), name="P")
    S = mt.compute((n,), lambda j: mt.sum(wide(B[t, j]), axis=t), name="S")
    return mt.lower([A, B, mt.compute((m, n), lambda i, j: P[i, j] - zero * S[j], name="C")])


def define_by_an_operator(m, n, k, zero):
    A, B = mt.placeholder((m, k), "uint8", name="A"), mt.placeholder((k, n), "int8", name="B")
    sums = mt.ops.matmul_integer(A, B, zero)
    return mt.lower([A, B, mt.compute((m, n), lambda i, j: sums[i, j] + 0, name="C")])


def define_in_bytes(m, n, k, zero):
    A, B = mt.placeholder((m, k), "uint8", name="A"), mt.placeholder((k, n), "int8", name="B")
    r = mt.reduce_axis(k, name="r")

    def element(i, j):
        moved = (A[i, r] - mt.const(zero, "uint8")).astype("int32")
        return mt.sum(moved * B[r, j].astype("int32"), axis=r)

    return mt.lower([A, B, mt.compute((m, n), element, name="C")])


def define_without_the_zero(m, n, k, zero):
    return define(m, n, k, 0)


def define_in_floats(m, n, k, zero):
    A, B = mt.placeholder((m, k), "uint8", name="A"), mt.placeholder((k, n), "int8", name="B")
    r = mt.reduce_axis(k, name="r")
    wide = lambda x: x.astype("float32")
    C = mt.compute(
        (m, n), lambda i, j: mt.sum((wide(A[i, r]) - zero) * wide(B[r, j]), axis=r), name="C"
    )
    return mt.lower([A, B, C])


RIGHT = {
    "parameters": [parameters, parameters_by_numpy, parameters_from_above],
    "product": [product, product_with_corrections, product_in_doubles],
    "error": [error, error_by_hypot, error_term_by_term],
    "define": [define, define_with_corrections, define_by_an_operator],
}
WRONG = {
    "parameters": [
        (parameters_without_zero, "right is"),
        (parameters_of_256_steps, "right is"),
        (parameters_around_zero, "right is"),
        (parameters_that_divide_by_zero, "ZeroDivisionError"),
    ],
    "product": [
        (product_that_wraps, "right is"),
        (product_in_16_bits, "right is"),
        (product_in_int64, "right is"),
        (product_without_the_last_term, "right is"),
    ],
    "error": [
        (error_that_grows_like_n, "right is"),
        (error_of_own_scales, "right is"),
        (error_of_half_steps, "right is"),
    ],
    "define": [
        (define_in_bytes, "C["),
        (define_without_the_zero, "C["),
        (define_in_floats, "wanted are"),
    ],
}
