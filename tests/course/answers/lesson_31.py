import math
import statistics
from itertools import zip_longest

import numpy as np


def band(curves):
    longest = max(len(curve) for curve in curves)
    rows = np.array([[*curve, *[curve[-1]] * (longest - len(curve))] for curve in curves])
    return rows.min(axis=0).tolist(), np.median(rows, axis=0).tolist(), rows.max(axis=0).tolist()


def band_by_numpy(curves):
    longest = max(map(len, curves))
    rows = np.stack([np.pad(curve, (0, longest - len(curve)), "edge") for curve in curves])
    return [rows.min(0), np.quantile(rows, 0.5, axis=0), rows.max(0)]


def band_trial_by_trial(curves):
    found = [], [], []
    for at in range(max(map(len, curves))):
        values = sorted(curve[at] if at < len(curve) else curve[-1] for curve in curves)
        middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        for part, value in zip(found, (values[0], middle, values[-1])):
            part.append(value)
    return found


def band_of_those_that_go_on(curves):
    rows = [[v for v in row if v is not None] for row in zip_longest(*curves)]
    return [[f(row) for row in rows] for f in (min, statistics.median, max)]


def band_as_long_as_the_shortest(curves):
    rows = list(zip(*curves))
    return [[f(row) for row in rows] for f in (min, statistics.median, max)]


def band_of_means(curves):
    low, _, high = band(curves)
    longest = len(low)
    rows = np.array([[*curve, *[curve[-1]] * (longest - len(curve))] for curve in curves])
    return low, rows.mean(axis=0), high


def band_with_zeros(curves):
    return band([[*curve, *[0.0] * (max(map(len, curves)) - len(curve))] for curve in curves])


def trials_to(curves, target):
    found = []
    for curve in curves:
        first = [n for n, value in enumerate(curve, 1) if value >= target]
        found.append(first[0] if first else math.inf)
    return statistics.median(found)


def trials_to_by_bisection(curves, target):
    at = [int(np.searchsorted(curve, target)) + 1 for curve in curves]
    at = sorted(n if n <= len(curve) else math.inf for n, curve in zip(at, curves))
    return (at[(len(at) - 1) // 2] + at[len(at) // 2]) / 2


def trials_to_in_a_loop(curves, target):
    counts = []
    for curve in curves:
        n = 0
        while n < len(curve) and curve[n] < target:
            n += 1
        counts.append(n + 1 if n < len(curve) else float("inf"))
    return float(statistics.median(counts))


def trials_to_from_zero(curves, target):
    return trials_to(curves, target) - 1


def trials_to_leaving_out(curves, target):
    found = [n for n in (trials_to([c], target) for c in curves) if n < math.inf]
    return statistics.median(found) if found else math.inf


def trials_to_above(curves, target):
    return trials_to(curves, target + 1e-9)


def trials_to_on_average(curves, target):
    found = [trials_to([curve], target) for curve in curves]
    return sum(found) / len(found)


def sign_test(a, b):
    wins, losses = sum(x > y for x, y in zip(a, b)), sum(x < y for x, y in zip(a, b))
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2**n
    return min(1.0, 2 * tail)


def sign_test_by_all_coins(a, b):
    signs = np.sign(np.array(a) - np.array(b))
    signs = signs[signs != 0]
    n = len(signs)
    heads = np.array([bin(coins).count("1") for coins in range(2**n)])
    return float(np.mean(np.abs(2 * heads - n) >= abs(signs.sum())))


def sign_test_from_below(a, b):
    pairs = [(x, y) for x, y in zip(a, b) if x != y]
    n, fewest = len(pairs), min(sum(x > y for x, y in pairs), sum(x < y for x, y in pairs))
    chance = 0.0
    for k in range(fewest + 1):
        chance += math.comb(n, k) * 0.5**n
    return 2 * chance if 2 * chance < 1 else 1


def sign_test_of_one_side(a, b):
    return sign_test(a, b) / 2


def sign_test_with_ties(a, b):
    wins, n = sum(x > y for x, y in zip(a, b)), len(a)
    most = max(wins, n - wins)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(most, n + 1)) / 2**n)


def sign_test_of_exactly(a, b):
    wins, losses = sum(x > y for x, y in zip(a, b)), sum(x < y for x, y in zip(a, b))
    return min(1.0, 2 * math.comb(wins + losses, wins) / 2 ** (wins + losses))


def sign_test_beyond_one(a, b):
    wins, losses = sum(x > y for x, y in zip(a, b)), sum(x < y for x, y in zip(a, b))
    n = wins + losses
    return 2 * sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2**n


RIGHT = {
    "band": [band, band_by_numpy, band_trial_by_trial],
    "trials_to": [trials_to, trials_to_by_bisection, trials_to_in_a_loop],
    "sign_test": [sign_test, sign_test_by_all_coins, sign_test_from_below],
}
WRONG = {
    "band": [
        (band_of_those_that_go_on, "is not"),
        (band_as_long_as_the_shortest, "is not"),
        (band_of_means, "the median is not"),
        (band_with_zeros, "the lowest is not"),
    ],
    "trials_to": [
        (trials_to_from_zero, "right is"),
        (trials_to_leaving_out, "right is"),
        (trials_to_above, "right is"),
        (trials_to_on_average, "right is"),
    ],
    "sign_test": [
        (sign_test_of_one_side, "right is"),
        (sign_test_with_ties, "right is"),
        (sign_test_of_exactly, "right is"),
        (sign_test_beyond_one, "right is"),
    ],
}
