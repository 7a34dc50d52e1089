import itertools

import numpy as np


def touched(loops, depth):
    inner = loops[len(loops) - depth :]
    places = itertools.product(*(range(count) for count, _ in inner))
    return len({sum(n * step for n, (_, step) in zip(ns, inner)) for ns in places})


def touched_by_recursion(loops, depth):
    def places(part):
        if not part:
            return {0}
        (count, step), *rest = part
        return {n * step + place for n in range(count) for place in places(rest)}

    return len(places(loops[::-1][:depth]))


def touched_in_numpy(loops, depth):
    places = np.zeros(1, int)
    for count, step in loops[len(loops) - depth :]:
        places = np.unique(np.add.outer(places, step * np.arange(count)))
    return np.int64(len(places))


def touched_by_counts(loops, depth):
    found = 1
    for count, _ in loops[len(loops) - depth :]:
        found *= count
    return found


def touched_as_a_box(loops, depth):
    return 1 + sum(step * (count - 1) for count, step in loops[len(loops) - depth :])


def touched_without_overlaps(loops, depth):
    found = 1
    for count, step in loops[len(loops) - depth :]:
        found *= count if step else 1
    return found


def touched_by_the_last(loops, depth):
    return touched(loops, 0) if depth == 0 else touched_in_numpy(loops[:depth], depth)


def touched_of_all_loops(loops, depth):
    return touched(loops[-depth:], min(len(loops), depth) or len(loops))


def _error(y, w):
    return float(np.sum(w * (y - np.average(y, weights=w)) ** 2)) if len(y) else 0.0


def best_split(x, y, w):
    best = None
    for value in np.unique(x)[:-1]:
        left = x <= value
        gain = _error(y, w) - _error(y[left], w[left]) - _error(y[~left], w[~left])
        if gain > 1e-9 and (best is None or gain > best[1]):
            best = float(value), gain
    return best


def best_split_by_sums(x, y, w):
    order = np.argsort(x)
    x, y, w = x[order], y[order], w[order]
    sums, weights = np.cumsum(w * y)[:-1], np.cumsum(w)[:-1]
    total, all_weight = np.sum(w * y), np.sum(w)
    gains = sums**2 / weights + (total - sums) ** 2 / (all_weight - weights)
    gains = np.where(x[1:] > x[:-1], gains - total**2 / all_weight, 0)
    if not len(gains) or max(gains) < 1e-9:
        return None
    at = np.argmax(gains)
    return np.array([(x[at] + x[at + 1]) / 2, gains[at]])


def best_split_from_above(x, y, w):
    best = (None, 1e-9)
    for value in sorted(set(x.tolist()), reverse=True)[1:]:
        left, right = x <= value, x > value
        n, m = w[left].sum(), w[right].sum()
        apart = (w[left] @ y[left]) / n - (w[right] @ y[right]) / m
        best = max(best, (value + 0.25, n * m / (n + m) * apart**2), key=lambda pair: pair[1])
    return None if best[0] is None else list(best)


def best_split_without_weights(x, y, w):
    return best_split(x, y, np.ones(len(y)))


def best_split_between_equal_values(x, y, w):
    order = np.argsort(x, kind="stable")
    x, y, w = x[order], y[order], w[order]
    best = None
    for at in range(len(x) - 1):
        parts = _error(y[: at + 1], w[: at + 1]) + _error(y[at + 1 :], w[at + 1 :])
        gain = _error(y, w) - parts
        if gain > 1e-9 and (best is None or gain > best[1]):
            best = float(x[at]), gain
    return best


def best_split_always(x, y, w):
    found = best_split(x, y, w)
    return (float(x[0]), 0.0) if found is None else found


def best_split_of_sorted_x(x, y, w):
    return best_split(np.sort(x), y, w)


def best_split_with_the_error_left(x, y, w):
    found = best_split(x, y, w)
    return found and (found[0], _error(y, w) - found[1])


def best_split_less_than(x, y, w):
    found = best_split(x, y, w)
    return found and (float(min(v for v in x if v > found[0])), found[1])


def _ranks(values):
    return [sum(v < w for v in values) + (values.count(w) + 1) / 2 for w in values]


def spearman(a, b):
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return np.corrcoef(_ranks(a), _ranks(b))[0, 1]


def spearman_by_unique(a, b):
    ranked = []
    for values in (a, b):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranked.append((np.cumsum(counts) - (counts - 1) / 2)[inverse])
    if not len(a):
        return 0
    x, y = (r - r.mean() for r in ranked)
    scale = np.sqrt((x @ x) * (y @ y))
    return x @ y / scale if scale else 0.0


def spearman_by_groups(a, b):
    def ranks(values):
        found, place = [0.0] * len(values), 0
        order = sorted(range(len(values)), key=lambda n: values[n])
        for _, group in itertools.groupby(order, key=lambda n: values[n]):
            members = list(group)
            for n in members:
                found[n] = place + (len(members) - 1) / 2
            place += len(members)
        return found

    x, y = ranks(a), ranks(b)
    middle = (len(x) - 1) / 2
    top = sum((p - middle) * (q - middle) for p, q in zip(x, y))
    below = sum((p - middle) ** 2 for p in x) * sum((q - middle) ** 2 for q in y)
    return top / below**0.5 if below else 0.0


def spearman_without_ties(a, b):
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


def spearman_by_the_short_formula(a, b):
    n = len(a)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return 1 - 6 * sum((p - q) ** 2 for p, q in zip(_ranks(a), _ranks(b))) / (n * (n * n - 1))


def spearman_of_values(a, b):
    return 0.0 if len(set(a)) < 2 or len(set(b)) < 2 else np.corrcoef(a, b)[0, 1]


def spearman_of_a_constant(a, b):
    with np.errstate(all="ignore"):
        return 0.0 if len(a) < 2 else np.corrcoef(_ranks(a), _ranks(b))[0, 1]


def boost(y, leaves, rate):
    score = np.full(len(y), y.mean())
    for tree in leaves:
        residual = y - score
        for leaf in set(tree.tolist()):
            score[tree == leaf] += rate * residual[tree == leaf].mean()
    return score


def boost_by_bincount(y, leaves, rate):
    score = np.full(len(y), np.mean(y))
    for tree in leaves:
        count = np.bincount(tree)
        means = np.bincount(tree, weights=y - score) / np.maximum(count, 1)
        score = score + rate * means[tree]
    return score


def boost_in_lists(y, leaves, rate):
    n = len(y)
    score = [sum(y) / n] * n
    for tree in leaves:
        left = [y[i] - score[i] for i in range(n)]
        groups = [[left[j] for j in range(n) if tree[j] == tree[i]] for i in range(n)]
        score = [score[i] + rate * sum(groups[i]) / len(groups[i]) for i in range(n)]
    return score


def boost_of_labels(y, leaves, rate):
    score = np.full(len(y), y.mean())
    for tree in leaves:
        score = score + rate * np.array([y[tree == leaf].mean() for leaf in tree])
    return score


def boost_without_a_start(y, leaves, rate):
    return boost(y - y.mean(), leaves, rate)


def boost_from_zero(y, leaves, rate):
    score = np.zeros(len(y))
    for tree in leaves:
        score = score + rate * np.array([(y - score)[tree == leaf].mean() for leaf in tree])
    return score


def boost_without_a_rate(y, leaves, rate):
    return boost(y, leaves, 1.0)


def boost_with_one_residual(y, leaves, rate):
    residual, score = y - y.mean(), np.full(len(y), y.mean())
    for tree in leaves:
        score = score + rate * np.array([residual[tree == leaf].mean() for leaf in tree])
    return score


RIGHT = {
    "touched": [touched, touched_by_recursion, touched_in_numpy],
    "best_split": [best_split, best_split_by_sums, best_split_from_above],
    "spearman": [spearman, spearman_by_unique, spearman_by_groups],
    "boost": [boost, boost_by_bincount, boost_in_lists],
}
WRONG = {
    "touched": [
        (touched_by_counts, "right is"),
        (touched_as_a_box, "right is"),
        (touched_without_overlaps, "right is"),
        (touched_by_the_last, "right is"),
        (touched_of_all_loops, "right is"),
    ],
    "best_split": [
        (best_split_without_weights, "the gain is"),
        (best_split_between_equal_values, "off the error"),
        (best_split_always, "None is right"),
        (best_split_of_sorted_x, "off the error"),
        (best_split_with_the_error_left, "the gain is"),
        (best_split_less_than, "of x = "),
    ],
    "spearman": [
        (spearman_without_ties, "right is"),
        (spearman_by_the_short_formula, "right is"),
        (spearman_of_values, "right is 1"),
        (spearman_of_a_constant, "right is 0"),
    ],
    "boost": [
        (boost_of_labels, "the scores are"),
        (boost_without_a_start, "the scores are"),
        (boost_from_zero, "the scores are"),
        (boost_without_a_rate, "the scores are"),
        (boost_with_one_residual, "the scores are"),
    ],
}
