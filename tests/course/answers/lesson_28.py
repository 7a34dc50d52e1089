import math

import numpy as np


def step(state, score, value):
    m, z, o = state
    if score == -math.inf:
        return state
    larger = max(m, score)
    old, new = math.exp(m - larger), math.exp(score - larger)
    return larger, z * old + new, [a * old + x * new for a, x in zip(o, value)]


def step_by_cases(state, score, value):
    m, z, o = state
    if score <= m:
        weight = math.exp(score - m) if m > -math.inf else 0.0
        return m, z + weight, [a + weight * x for a, x in zip(o, value)]
    factor = math.exp(m - score)
    return score, z * factor + 1.0, [a * factor + x for a, x in zip(o, value)]


def step_by_numpy(state, score, value):
    m, z, o = state
    top = np.maximum(m, score)
    with np.errstate(invalid="ignore"):
        old, new = np.nan_to_num(np.exp(np.array([m, score]) - top))
    sums = np.array([z, *o]) * old + np.array([1.0, *value]) * new
    return [float(top), float(sums[0]), sums[1:]]


def step_that_forgets_o(state, score, value):
    o = state[2]
    new = math.exp(score - max(state[0], score)) if score > -math.inf else 0.0
    m, z, _ = step(state, score, value)
    return m, z, [a + x * new for a, x in zip(o, value)]


def step_the_other_way(state, score, value):
    m, z, o = state
    larger = max(m, score)
    old = math.exp(min(larger - m, 700.0))
    return larger, z * old + 1, [a * old + x for a, x in zip(o, value)]


def step_without_masks(state, score, value):
    m, z, o = state
    larger = max(m, score)
    with np.errstate(invalid="ignore"):
        old, new = np.exp(np.float64(m) - larger), np.exp(np.float64(score) - larger)
    return larger, z * old + new, [a * old + x * new for a, x in zip(o, value)]


def step_that_averages(state, score, value):
    m, z, o = step(state, score, value)
    return m, z, [a / z if z else a for a in o]


def reference(scores, values):
    weights = np.exp(np.array(scores) - max(scores))
    return weights @ np.array(values) / weights.sum()


def tried(attend, rows):
    for scores in rows:
        values = [[float(n), 1.0 - n * n] for n in range(len(scores))]
        try:
            got = attend(scores, values)
        except ArithmeticError:
            return False
        if not np.allclose(got, reference(scores, values), rtol=1e-6, atol=1e-9):
            return False
    return True


def is_right(attend):
    rising = [[1.0, 2.0, 3.0], [-900.0, -899.0, -898.5], [800.0, 801.0, 805.0]]
    return tried(attend, [*rising, *(row[::-1] for row in rising), [0.5] * 5, [4.0]])


def is_right_at_random(attend):
    rng = np.random.default_rng(0)
    rows = [
        (rng.normal(size=n) * scale + at).tolist()
        for n in (1, 2, 7, 13)
        for scale in (1, 5)
        for at in (-800, 0, 800)
    ]
    return tried(attend, [*rows, [2.0, 2.0, 2.0, 2.0]])


def is_right_by_shifts(attend):
    base = [0.3, 1.7, 1.7, -0.4, 2.9, 0.0, 3.1]
    return tried(attend, [[x + shift for x in base] for shift in (-1000, -3, 0, 900)])


def is_right_on_falling_rows(attend):
    return tried(attend, [[3.0, 2.0, 1.0], [900.0, 800.0], [-800.0, -900.0]])


def is_right_on_small_scores(attend):
    rng = np.random.default_rng(0)
    return tried(attend, rng.normal(size=(50, 6)).tolist())


def is_right_always(attend):
    return True


def is_right_bit_by_bit(attend):
    scores = [0.1, 0.7, 0.3, 1.9, 1.1]
    values = [[0.1 * n, 0.7] for n in range(5)]
    return list(attend(scores, values)) == reference(scores, values).tolist()


def fuse(s, keys):
    i, e, key = s.get_loops("state_0")
    s.reorder(i, key, e)
    block, _ = s.split(key, [None, keys])
    s.compute_at("S", block)
    s.reverse_compute_at("O", i)


def fuse_a_key_at_a_time(s, keys):
    i, e, key = s.get_loops("state_0")
    s.reorder(i, key, e)
    s.compute_at("S", key)
    s.reverse_compute_at("O", i)


def fuse_and_lanes(s, keys):
    fuse(s, keys)
    s.vectorize(s.get_loops("O")[-1])
    s.parallel(s.get_loops("O")[0])


def fuse_without_o(s, keys):
    i, e, key = s.get_loops("state_0")
    s.reorder(i, key, e)
    s.compute_at("S", s.split(key, [None, keys])[0])


def fuse_within_each_number(s, keys):
    i, _, key = s.get_loops("state_0")
    block, _ = s.split(key, [None, keys])
    s.compute_at("S", block)
    s.reverse_compute_at("O", i)


def fuse_rows(s, keys):
    i, _, _ = s.get_loops("state_0")
    s.compute_at("S", i)
    s.reverse_compute_at("O", i)


def fuse_nothing(s, keys):
    pass


RIGHT = {
    "step": [step, step_by_cases, step_by_numpy],
    "is_right": [is_right, is_right_at_random, is_right_by_shifts],
    "fuse": [fuse, fuse_a_key_at_a_time, fuse_and_lanes],
}
WRONG = {
    "step": [
        (step_that_forgets_o, "right is"),
        (step_the_other_way, "right is"),
        (step_without_masks, "right is"),
        (step_that_averages, "right is"),
    ],
    "is_right": [
        (is_right_on_falling_rows, "does not find the fault"),
        (is_right_on_small_scores, "does not find the fault"),
        (is_right_always, "does not find the fault"),
        (is_right_bit_by_bit, "version"),
    ],
    "fuse": [
        (fuse_without_o, "temporaries take at most"),
        (fuse_within_each_number, "loads of K are at most"),
        (fuse_rows, "temporaries take at most"),
        (fuse_nothing, "temporaries take at most"),
    ],
}
