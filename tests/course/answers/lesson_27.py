"""Answers to lesson 27, right and wrong."""

import itertools

import numpy as np

# ---- grouped


def grouped(b, lanes, group):
    rows, columns = len(b), len(b[0])

    def element(k, j):
        return b[k][j] if k < rows and j < columns else 0

    return [
        [
            [[element(k * group + y, j * lanes + x) for y in range(group)] for x in range(lanes)]
            for k in range(-(-rows // group))
        ]
        for j in range(-(-columns // lanes))
    ]


def grouped_by_numpy(b, lanes, group):
    b = np.array(b)
    k, n = (-(-size // part) for size, part in zip(b.shape, (group, lanes)))
    found = np.zeros((k * group, n * lanes), int)
    found[: b.shape[0], : b.shape[1]] = b
    return found.reshape(k, group, n, lanes).transpose(2, 0, 3, 1)


def grouped_by_columns(b, lanes, group):
    columns = [list(column) for column in zip(*b)]
    columns += [[0] * len(b) for _ in range(-len(columns) % lanes)]
    for column in columns:
        column += [0] * (-len(column) % group)
    found = []
    for start in range(0, len(columns), lanes):
        part = columns[start : start + lanes]
        found.append(
            [[c[k : k + group] for c in part] for k in range(0, len(part[0]), group)]
        )  # fmt: skip
    return found


def grouped_with_rows_first(b, lanes, group):
    return np.array(grouped(b, lanes, group)).transpose(1, 0, 2, 3).tolist()


def grouped_with_lanes_last(b, lanes, group):
    return np.array(grouped(b, lanes, group)).transpose(0, 1, 3, 2).tolist()


def grouped_without_tails(b, lanes, group):
    k, n = len(b) // group * group, len(b[0]) // lanes * lanes
    cut = np.array(b)[:k, :n]
    return cut.reshape(k // group, group, n // lanes, lanes).transpose(2, 0, 3, 1).tolist()


def grouped_with_the_last_again(b, lanes, group):
    b = np.array(b)
    k, n = (-size % part for size, part in zip(b.shape, (group, lanes)))
    return grouped_by_numpy(np.pad(b, ((0, k), (0, n)), mode="edge"), lanes, group).tolist()


# ---- assign


def indexed(operands):
    return {
        loop: tuple(loop in own for own in operands) for own in operands for loop in own
    }  # fmt: skip


def assign(instruction, product):
    first, second, result = product.values()
    wanted = indexed(list(instruction.values()))
    for operands in ((first, second, result), (second, first, result)):
        there, found = indexed(operands), {}
        for axis, place in wanted.items():
            free = [x for x in there if there[x] == place and x not in found.values()]
            if not free:
                break
            found[axis] = free[0]
        else:
            return found
    return None


def assign_the_last(instruction, product):
    first, second, result = product.values()
    wanted = indexed(list(instruction.values()))
    for operands in ((second, first, result), (first, second, result)):
        there = indexed(operands)
        for loops in itertools.permutations(reversed(list(there)), len(wanted)):
            found = dict(zip(wanted, loops))
            if all(there[found[axis]] == place for axis, place in wanted.items()):
                return found
    return None


def assign_by_masks(instruction, product):
    def masks(a, b, c):
        return {x: (x in a) + 2 * (x in b) + 4 * (x in c) for x in sorted({*a, *b, *c})}

    own = masks(*instruction.values())
    a, b, c = product.values()
    for there in (masks(a, b, c), masks(b, a, c)):
        classes = {}
        for loop, mask in there.items():
            classes.setdefault(mask, []).append(loop)
        try:
            return {axis: classes[mask].pop() for axis, mask in own.items()}
        except (KeyError, IndexError):
            continue
    return None


def assign_in_one_order(instruction, product):
    wanted, there = indexed(list(instruction.values())), indexed(list(product.values()))
    found = {}
    for axis, place in wanted.items():
        free = [x for x in there if there[x] == place and x not in found.values()]
        if not free:
            return None
        found[axis] = free[0]
    return found


def assign_by_the_result(instruction, product):
    """In the result or not is all that is asked."""
    result, own = list(product.values())[2], list(instruction.values())[2]
    loops = indexed(list(product.values()))
    found = {}
    for axis in indexed(list(instruction.values())):
        free = [x for x in loops if (x in result) == (axis in own) and x not in found.values()]
        if not free:
            return None
        found[axis] = free[0]
    return found


def assign_always(instruction, product):
    axes, loops = indexed(list(instruction.values())), indexed(list(product.values()))
    return dict(zip(axes, loops))


def assign_never(instruction, product):
    return None


def assign_pairs(instruction, product):
    found = assign(instruction, product)
    return None if found is None else list(found.items())


# ---- signed


def signed(dot, a, b):
    return dot([n + 128 for n in a], b) - 128 * sum(b)


def signed_by_two(dot, a, b):
    return dot([n ^ -128 if n < 0 else n + 128 for n in a], b) - dot([128] * 4, b)


def signed_in_parts(dot, a, b):
    return dot([max(n, 0) for n in a], b) - dot([max(-n, 0) for n in a], b)


def signed_as_it_is(dot, a, b):
    return dot(a, b)


def signed_without_the_rest(dot, a, b):
    return dot([n + 128 for n in a], b)


def signed_by_127(dot, a, b):
    return dot([n + 127 for n in a], b) - 127 * sum(b)


def signed_modulo(dot, a, b):
    return dot([n & 255 for n in a], b)


def signed_by_hand(dot, a, b):
    return sum(x * y for x, y in zip(a, b))


# ---- tensorized


def copied(s, instruction):
    s.cache_write("C", "global")
    s.cache_read("C", "A", "global")
    s.cache_read("C", "B", "global")
    s.pad("k", 4)
    s.pad("j", instruction.axes["j"])


def tiled(s, instruction):
    lanes = instruction.axes["j"]
    s.transform_layout("B_global", lambda k, j: (j // lanes, k // 4, j % lanes, k % 4))
    j_0, j_1 = s.split("j", [None, lanes])
    k_0, k_1 = s.split("k", [None, 4])
    return j_0, j_1, k_0, k_1


def tensorized(s, instruction):
    copied(s, instruction)
    j_0, j_1, k_0, k_1 = tiled(s, instruction)
    s.reorder("i", j_0, k_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, instruction)


def tensorized_with_rows_inside(s, instruction):
    copied(s, instruction)
    j_0, j_1, k_0, k_1 = tiled(s, instruction)
    s.reorder(j_0, k_0, "i", j_1, k_1)
    s.decompose_reduction("C", j_0)
    s.tensorize(j_1, instruction)
    return s


def tensorized_with_another_layout(s, instruction):
    lanes = instruction.axes["j"]
    copied(s, instruction)
    s.transform_layout("B_global", lambda k, j: (k // 4, j, k % 4))
    j_0, j_1 = s.split("j", [None, lanes])
    k_0, k_1 = s.split("k", [None, 4])
    s.reorder(k_0, "i", j_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, instruction)


def tensorized_without_zeros(s, instruction):
    s.cache_write("C", "global")
    s.cache_read("C", "B", "global")
    j_0, j_1, k_0, k_1 = tiled(s, instruction)
    s.reorder("i", j_0, k_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, instruction)


def tensorized_without_the_layout(s, instruction):
    copied(s, instruction)
    j_0, j_1 = s.split("j", [None, instruction.axes["j"]])
    k_0, k_1 = s.split("k", [None, 4])
    s.reorder("i", j_0, k_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, instruction)


def tensorized_but_for_the_call(s, instruction):
    copied(s, instruction)
    j_0, j_1, k_0, k_1 = tiled(s, instruction)
    s.reorder("i", j_0, k_0, j_1, k_1)


def tensorized_for_four_lanes(s, instruction):
    s.cache_write("C", "global")
    s.cache_read("C", "A", "global")
    s.cache_read("C", "B", "global")
    s.pad("k", 4)
    s.pad("j", 4)
    s.transform_layout("B_global", lambda k, j: (j // 4, k // 4, j % 4, k % 4))
    j_0, j_1 = s.split("j", [None, 4])
    k_0, k_1 = s.split("k", [None, 4])
    s.reorder("i", j_0, k_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, instruction)


RIGHT = {
    "grouped": [grouped, grouped_by_numpy, grouped_by_columns],
    "assign": [assign, assign_the_last, assign_by_masks],
    "signed": [signed, signed_by_two, signed_in_parts],
    "tensorized": [tensorized, tensorized_with_rows_inside, tensorized_with_another_layout],
}
WRONG = {
    "grouped": [
        (grouped_with_rows_first, "right is"),
        (grouped_with_lanes_last, "right is"),
        (grouped_without_tails, "right is"),
        (grouped_with_the_last_again, "right is"),
    ],
    "assign": [
        (assign_in_one_order, "None for an instruction that can do"),
        (assign_by_the_result, "do not index the same operands"),
        (assign_always, "do not index the same operands"),
        (assign_never, "None for an instruction that can do"),
        (assign_pairs, "a dictionary of axes and loops is wanted"),
    ],
    "signed": [
        (signed_as_it_is, "ValueError"),
        (signed_without_the_rest, "right is"),
        (signed_by_127, "ValueError"),
        (signed_modulo, "right is"),
        (signed_by_hand, "uses dot 0 times"),
    ],
    "tensorized": [
        (tensorized_without_zeros, "ScheduleError"),
        (tensorized_without_the_layout, "R8"),
        (tensorized_but_for_the_call, "stands in the loops"),
        (tensorized_for_four_lanes, "R7"),
    ],
}
