import itertools
import random

import numpy as np

import minitensor as mt


def operands(lanes, group):
    a = mt.placeholder((lanes * group,), "uint8", name="a")
    b = mt.placeholder((lanes * group,), "int8", name="b")
    return a, b, mt.reduce_axis(group, name="k")


def meaning(lanes, group):
    a, b, k = operands(lanes, group)

    def element(j):
        at = group * j + k
        return mt.sum(a[at].astype("int32") * b[at].astype("int32"), axis=k)

    return mt.lower([a, b, mt.compute((lanes,), element, name="c")], name="dot")


def meaning_of_other_names(lanes, group):
    left, right, step = operands(lanes, group)
    c = mt.compute(
        (lanes,),
        lambda lane: mt.sum(
            right[lane * group + step].astype("int32") * left[lane * group + step].astype("int32"),
            axis=[step],
        ),
        name="c",
    )
    return mt.lower([left, right, c])


def meaning_in_sixteen_bits(lanes, group):
    """A product fits into 16 bits, their sum does not."""
    a, b, k = operands(lanes, group)

    def element(j):
        product = a[j * group + k].astype("int16") * b[j * group + k].astype("int16")
        return mt.sum(product.astype("int32"), axis=k)

    return mt.lower([a, b, mt.compute((lanes,), element, name="c")])


def meaning_with_a_late_cast(lanes, group):
    a, b, k = operands(lanes, group)

    def element(j):
        at = group * j + k
        return mt.sum((a[at].astype("int8") * b[at]).astype("int32"), axis=k)

    return mt.lower([a, b, mt.compute((lanes,), element, name="c")])


def meaning_with_lanes_apart(lanes, group):
    a, b, k = operands(lanes, group)

    def element(j):
        at = j + lanes * k
        return mt.sum(a[at].astype("int32") * b[at].astype("int32"), axis=k)

    return mt.lower([a, b, mt.compute((lanes,), element, name="c")])


def meaning_of_four(lanes, group):
    return meaning(lanes, 4)


def meaning_in_two_stages(lanes, group):
    a, b, k = operands(lanes, group)
    p = mt.compute(
        (lanes * group,), lambda x: a[x].astype("int32") * b[x].astype("int32"), name="p"
    )
    c = mt.compute((lanes,), lambda j: mt.sum(p[group * j + k], axis=k), name="c")
    return mt.lower([a, b, c])


def meaning_of_signed_bytes(lanes, group):
    a = mt.placeholder((lanes * group,), "int8", name="a")
    _, b, k = operands(lanes, group)

    def element(j):
        at = group * j + k
        return mt.sum(a[at].astype("int32") * b[at].astype("int32"), axis=k)

    return mt.lower([a, b, mt.compute((lanes,), element, name="c")])


def meant(a, b, stride, c):
    return [c[j] + sum(a[k] * b[j * stride + k] for k in range(4)) for j in range(4)] + c[4:]


def shows(body, a, b, stride, c):
    found = list(c)
    body(list(a), list(b), stride, found)
    return found != meant(a, b, stride, c)


def difference(body):
    draw = random.Random(0)
    for _ in range(300):
        stride = draw.randint(4, 8)
        some = draw.choice([(-128, -1, 0, 1, 127), (-128,), range(-128, 128)])
        a, b = (draw.choices(some, k=n) for n in (4, 3 * stride + 4))
        c = [draw.randint(-99, 99) for _ in range(6)]
        if shows(body, a, b, stride, c):
            return a, b, stride, c
    return None


def difference_of_corners(body):
    for low, high in itertools.product((-128, 127, 3, 0), (-128, 127, -5)):
        for stride, length in ((4, 4), (5, 7)):
            a, b, c = [low] * 4, [high] * (3 * stride + 4), list(range(1, length + 1))
            b = [n + (j % 3) * (n != 127) * (n != -128) for j, n in enumerate(b)]
            if shows(body, a, b, stride, c):
                return [a, b, stride, c]
    a, b, c = [1, 2, 3, 4], list(range(40)), [7] * 5
    return (a, b, 9, c) if shows(body, a, b, 9, c) else None


def difference_by_numpy(body):
    rng = np.random.default_rng(1)
    for stride in range(4, 33):
        for low, high in ((-128, -127), (-128, 128), (126, 128)):
            a, b = (rng.integers(low, high, n) for n in (4, 4 * stride))
            c = rng.integers(-(10**6), 10**6, 8)
            if shows(body, a.tolist(), b.tolist(), stride, c.tolist()):
                return a, b, stride, c
    return None


def difference_without_corners(body):
    """Random numbers of the whole range: sums at its very end are never drawn."""
    draw = random.Random(0)
    for _ in range(2000):
        stride = draw.randint(4, 8)
        a, b = ([draw.randint(-128, 127) for _ in range(n)] for n in (4, 3 * stride + 4))
        c = [draw.randint(-99, 99) for _ in range(6)]
        if shows(body, a, b, stride, c):
            return a, b, stride, c
    return None


def difference_from_zero(body):
    a, b = [-128] * 4, [-128] * 40
    return (a, b, 5, [0] * 8) if shows(body, a, b, 5, [0] * 8) else None


def difference_of_rows_without_gaps(body):
    draw = random.Random(0)
    for _ in range(300):
        some = draw.choice([(-128, -1, 0, 1, 127), (-128,), range(-128, 128)])
        a, b = (draw.choices(some, k=n) for n in (4, 16))
        c = [draw.randint(-99, 99) for _ in range(6)]
        if shows(body, a, b, 4, c):
            return a, b, 4, c
    return None


def difference_of_four_elements(body):
    found = difference(body)
    return found and (*found[:3], found[3][:4])


def difference_always(body):
    return [-128] * 4, [-128] * 40, 5, list(range(6))


def difference_beyond_bytes(body):
    return [200] * 4, [200] * 40, 5, [1] * 6


def tensorized(s, instruction):
    m, n, k = instruction.axes.values()
    i_0, i_1 = s.split("i", [None, m])
    j_0, j_1 = s.split("j", [None, n])
    k_0, k_1 = s.split("k", [None, k])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(i_1, instruction)


def tensorized_with_k_outside(s, instruction):
    pairs = zip(s.get_loops("C"), instruction.axes.values())
    outer, inner = zip(*[s.split(loop, [None, extent]) for loop, extent in pairs])
    s.reorder(outer[2], outer[0], outer[1], inner[2], inner[1], inner[0])
    s.decompose_reduction("C", outer[2])
    s.tensorize(inner[2], instruction.key)
    s.parallel(outer[0])
    return s


def tensorized_packed(s, instruction):
    _m, n, _k = instruction.axes.values()
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda r, j: (j // n, r, j % n))
    tensorized(s, instruction)


def tensorized_without_the_zeros(s, instruction):
    m, n, k = instruction.axes.values()
    i_0, i_1 = s.split("i", [None, m])
    j_0, j_1 = s.split("j", [None, n])
    k_0, k_1 = s.split("k", [None, k])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    s.tensorize(i_1, instruction)


def tensorized_of_one_size(s, instruction):
    i_0, i_1 = s.split("i", [None, 4])
    j_0, j_1 = s.split("j", [None, 8])
    k_0, k_1 = s.split("k", [None, 4])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(i_1, instruction)


def tensorized_but_for_the_call(s, instruction):
    m, n, _k = instruction.axes.values()
    i_0, i_1 = s.split("i", [None, m])
    j_0, j_1 = s.split("j", [None, n])
    s.reorder(i_0, j_0, "k", i_1, j_1)


def tensorized_by_another(s, instruction):
    m, n, _ = instruction.axes.values()
    tensorized(s, mt.intrinsics.matmul_f32(m, n, 1, lanes=2))


def tensorized_by_a_note(s, instruction):
    s.annotate("i", "intrinsic", instruction.key)


def tensorized_outside(s, instruction):
    m, n, k = instruction.axes.values()
    i_0, _ = s.split("i", [None, m])
    s.split("j", [None, n])
    k_0, _ = s.split("k", [None, k])
    s.decompose_reduction("C", k_0)
    s.tensorize(i_0, instruction)


RIGHT = {
    "meaning": [meaning, meaning_of_other_names, meaning_in_sixteen_bits],
    "difference": [difference, difference_of_corners, difference_by_numpy],
    "tensorized": [tensorized, tensorized_with_k_outside, tensorized_packed],
}
WRONG = {
    "meaning": [
        (meaning_with_a_late_cast, ", not "),
        (meaning_with_lanes_apart, ", not "),
        (meaning_of_four, "wanted are a ["),
        (meaning_in_two_stages, "computes 2 tensors"),
        (
            meaning_of_signed_bytes,
            "a [",
        ),
    ],
    "difference": [
        (difference_without_corners, "17 bits"),
        (difference_from_zero, "None for a body that is wrong for"),
        (difference_of_rows_without_gaps, "rows of b with gaps"),
        (difference_of_four_elements, "more than four elements"),
        (difference_always, "does what it means"),
        (difference_beyond_bytes, "within the limits"),
    ],
    "tensorized": [
        (tensorized_without_the_zeros, "R4"),
        (tensorized_of_one_size, "ScheduleError"),
        (tensorized_but_for_the_call, "stands in the loops"),
        (tensorized_by_another, "every sum is done by"),
        (tensorized_outside, "ScheduleError"),
        (tensorized_by_a_note, "every sum is done by"),
    ],
}
