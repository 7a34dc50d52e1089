import numpy as np

import minitensor as mt


def touching_padding(h, w, kernel, stride, padding):
    def inside(n):
        starts = range(-padding, n + padding - kernel + 1, stride)
        return len(starts), sum(0 <= at + r < n for at in starts for r in range(kernel))

    (rows, near), (columns, close) = inside(h), inside(w)
    return rows * columns * kernel**2 - near * close


def touching_padding_by_loops(h, w, kernel, stride, padding):
    count = 0
    for y in range((h + 2 * padding - kernel) // stride + 1):
        for x in range((w + 2 * padding - kernel) // stride + 1):
            for ry in range(kernel):
                for rx in range(kernel):
                    row, column = y * stride + ry - padding, x * stride + rx - padding
                    count += not (0 <= row < h and 0 <= column < w)
    return count


def touching_padding_by_a_mask(h, w, kernel, stride, padding):
    zero = np.ones((h + 2 * padding, w + 2 * padding), int)
    zero[padding : padding + h, padding : padding + w] = 0
    rows = range(0, h + 2 * padding - kernel + 1, stride)
    columns = range(0, w + 2 * padding - kernel + 1, stride)
    return sum(zero[y : y + kernel, x : x + kernel].sum() for y in rows for x in columns)


def touching_padding_of_places(h, w, kernel, stride, padding):
    return sum(
        not (y >= 0 and y + kernel <= h and x >= 0 and x + kernel <= w)
        for y in range(-padding, h + padding - kernel + 1, stride)
        for x in range(-padding, w + padding - kernel + 1, stride)
    )


def touching_padding_of_a_square(h, w, kernel, stride, padding):
    return touching_padding(h, h, kernel, stride, padding)


def touching_padding_of_the_border(h, w, kernel, stride, padding):
    return (h + 2 * padding) * (w + 2 * padding) - h * w


def touching_padding_for_stride_one(h, w, kernel, stride, padding):
    return touching_padding(h, w, kernel, 1, padding)


def touching_padding_of_each_axis(h, w, kernel, stride, padding):
    def outside(n):
        starts = range(-padding, n + padding - kernel + 1, stride)
        return sum(not 0 <= at + r < n for at in starts for r in range(kernel))

    return outside(h) * outside(w)


def tensors(c, h, w, f, kernel):
    data = mt.placeholder((c, h, w), name="data")
    weight = mt.placeholder((f, c, kernel, kernel), name="weight")
    axes = [mt.reduce_axis(n, name) for n, name in ((c, "rc"), (kernel, "ry"), (kernel, "rx"))]
    return data, weight, axes


def define(c, h, w, f, kernel, stride, padding):
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)
    p = padding
    pad = mt.compute(
        (c, h + 2 * p, w + 2 * p),
        lambda c, y, x: mt.if_then_else(
            mt.logical_and(mt.logical_and(y >= p, y < h + p), mt.logical_and(x >= p, x < w + p)),
            data[c, y - p, x - p],
            0.0,
        ),
        name="pad",
    )
    rows, columns = ((n + 2 * p - kernel) // stride + 1 for n in (h, w))
    conv = mt.compute(
        (f, rows, columns),
        lambda f, y, x: mt.sum(
            pad[rc, y * stride + ry, x * stride + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    return mt.lower([data, weight, conv])


def define_in_the_sum(c, h, w, f, kernel, stride, padding):
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)

    def element(f, y, x):
        row, column = y * stride + ry - padding, x * stride + rx - padding
        inside = mt.logical_and(row >= 0, row < h)
        inside = mt.logical_and(inside, mt.logical_and(column >= 0, column < w))
        pixel = mt.if_then_else(inside, data[rc, row, column], 0.0)
        return mt.sum(weight[f, rc, ry, rx] * pixel, axis=[ry, rx, rc])

    shape = (f, *((n + 2 * padding - kernel) // stride + 1 for n in (h, w)))
    return mt.lower([data, weight, mt.compute(shape, element, name="conv")], name="conv2d")


def define_by_columns(c, h, w, f, kernel, stride, padding):
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)
    rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in (h, w))

    def pixel(c, ry, rx, y, x):
        row, column = y * stride + ry - padding, x * stride + rx - padding
        inside = mt.logical_and(row >= 0, mt.logical_and(row < h, column >= 0))
        return mt.if_then_else(mt.logical_and(inside, column < w), data[c, row, column], 0.0)

    cols = mt.compute((c, kernel, kernel, rows, columns), pixel, name="cols")
    conv = mt.compute(
        (f, rows, columns),
        lambda f, y, x: mt.sum(weight[f, rc, ry, rx] * cols[rc, ry, rx, y, x], axis=[rc, ry, rx]),
        name="conv",
    )
    return mt.lower([data, weight, conv])


def define_without_padding(c, h, w, f, kernel, stride, padding):
    return define(c, h, w, f, kernel, stride, 0)


def define_flipped(c, h, w, f, kernel, stride, padding):
    """The convolution of signal processing."""
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)

    def element(f, y, x):
        row, column = y * stride + ry - padding, x * stride + rx - padding
        inside = mt.logical_and(row >= 0, row < h)
        inside = mt.logical_and(inside, mt.logical_and(column >= 0, column < w))
        pixel = mt.if_then_else(inside, data[rc, row, column], 0.0)
        return mt.sum(weight[f, rc, kernel - 1 - ry, kernel - 1 - rx] * pixel, axis=[ry, rx, rc])

    shape = (f, *((n + 2 * padding - kernel) // stride + 1 for n in (h, w)))
    return mt.lower([data, weight, mt.compute(shape, element, name="conv")])


def define_with_select(c, h, w, f, kernel, stride, padding):
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)

    def element(f, y, x):
        row, column = y * stride + ry - padding, x * stride + rx - padding
        inside = mt.logical_and(row >= 0, row < h)
        inside = mt.logical_and(inside, mt.logical_and(column >= 0, column < w))
        pixel = mt.select(inside, data[rc, row, column], 0.0)
        return mt.sum(weight[f, rc, ry, rx] * pixel, axis=[ry, rx, rc])

    shape = (f, *((n + 2 * padding - kernel) // stride + 1 for n in (h, w)))
    return mt.lower([data, weight, mt.compute(shape, element, name="conv")])


def define_with_a_stride_of_one_axis(c, h, w, f, kernel, stride, padding):
    data, weight, (rc, ry, rx) = tensors(c, h, w, f, kernel)

    def element(f, y, x):
        row, column = y * stride + ry - padding, x + rx - padding
        inside = mt.logical_and(row >= 0, row < h)
        inside = mt.logical_and(inside, mt.logical_and(column >= 0, column < w))
        pixel = mt.if_then_else(inside, data[rc, row, column], 0.0)
        return mt.sum(weight[f, rc, ry, rx] * pixel, axis=[ry, rx, rc])

    shape = (f, *((n + 2 * padding - kernel) // stride + 1 for n in (h, w)))
    return mt.lower([data, weight, mt.compute(shape, element, name="conv")])


def define_with_one_channel(c, h, w, f, kernel, stride, padding):
    return define(1, h, w, f, kernel, stride, padding)


def define_as_a_tensor(c, h, w, f, kernel, stride, padding):
    return mt.workloads.conv2d(1, c, h, w, f, kernel, stride, padding)[2]


def fuse(s, most):
    if "pad" in s.get_blocks():
        s.compute_inline("pad")
    s.reverse_compute_at("relu", s.get_loops("conv")[2])


def fuse_with_a_strip_of_the_padding(s, most):
    _n, _f, y, _x, *_window = s.get_loops("conv")
    s.reverse_compute_at("relu", y)
    if "pad" in s.get_blocks():
        s.compute_at("pad", y)


def fuse_from_relu(s, most):
    """The producer moves to its consumer, element by element."""
    if "pad" in s.get_blocks():
        s.compute_inline("pad")
    s.compute_at("conv", s.get_loops("relu")[-1])
    s.parallel(s.get_loops("relu")[1])
    return s


def fuse_nothing(s, most):
    pass


def fuse_after_the_padding(s, most):
    s.reverse_compute_at("relu", s.get_loops("conv")[2])


def fuse_the_padding_only(s, most):
    if "pad" in s.get_blocks():
        s.compute_inline("pad")


def fuse_always_with_padding(s, most):
    s.compute_inline("pad")
    s.reverse_compute_at("relu", s.get_loops("conv")[2])


def fuse_by_inlining_the_sum(s, most):
    s.compute_inline("conv")


def strips(s, rows):
    n, f, y, _x, *_window = s.get_loops("conv")
    y_0, y_1 = s.split(y, [None, rows])
    s.reorder(n, y_0, f, y_1)
    s.compute_at("pad", y_0)


def strips_by_their_number(s, rows):
    count = s.program.outputs[0].shape[2] // rows
    outer, inner = s.split("y", [count, None])
    s.reorder(outer, "f", inner)
    loops = s.compute_at("pad", outer)
    s.parallel(outer)
    s.unroll(loops[-1])
    return s


def strips_under_channels_of_one(s, rows):
    """The channels are split, so that a loop over none of them stands outside."""
    y_0, y_1 = s.split("y", [None, rows])
    f_0, f_1 = s.split("f", [1, None])
    s.reorder(f_0, y_0, f_1, "x", y_1)
    s.compute_at("pad", y_0)


def strips_for_each_channel(s, rows):
    y_0, _ = s.split("y", [None, rows])
    s.compute_at("pad", y_0)


def strips_of_a_row(s, rows):
    n, f, y, *_ = s.get_loops("conv")
    s.reorder(n, y, f)
    s.compute_at("pad", y)


def strips_too_large(s, rows):
    strips(s, 2 * rows)


def strips_inlined(s, rows):
    s.compute_inline("pad")


def strips_of_the_loops_only(s, rows):
    y_0, y_1 = s.split("y", [None, rows])
    s.reorder(y_0, "f", y_1)


RIGHT = {
    "touching_padding": [touching_padding, touching_padding_by_loops, touching_padding_by_a_mask],
    "define": [define, define_in_the_sum, define_by_columns],
    "fuse": [fuse, fuse_with_a_strip_of_the_padding, fuse_from_relu],
    "strips": [strips, strips_by_their_number, strips_under_channels_of_one],
}
WRONG = {
    "touching_padding": [
        (touching_padding_of_places, "right is"),
        (touching_padding_of_a_square, "right is"),
        (touching_padding_of_the_border, "right is"),
        (touching_padding_for_stride_one, "right is"),
        (touching_padding_of_each_axis, "right is"),
    ],
    "define": [
        (define_without_padding, "wanted are"),
        (define_flipped, ", not "),
        (define_with_select, "out of bounds"),
        (define_with_a_stride_of_one_axis, ", not "),
        (define_with_one_channel, "the inputs and outputs are"),
        (define_as_a_tensor, "a program is wanted"),
    ],
    "fuse": [
        (fuse_nothing, "temporaries have at most"),
        (fuse_after_the_padding, "(pad"),
        (fuse_the_padding_only, "(conv"),
        (fuse_always_with_padding, "pad"),
        (fuse_by_inlining_the_sum, "ScheduleError"),
    ],
    "strips": [
        (strips_for_each_channel, "stores of pad"),
        (strips_of_a_row, "stores of pad"),
        (strips_too_large, "temporaries have at most"),
        (strips_inlined, "there is no block pad"),
        (strips_of_the_loops_only, "they share no loop"),
    ],
}
