import statistics

import numpy as np

import minitensor as mt

SIZES = {"float16": 2, "float32": 4, "float64": 8}


def intensity(m, n, k, dtype):
    return 2 * m * n * k / (SIZES[dtype] * (m * k + k * n + m * n))


def intensity_by_numpy(m, n, k, dtype):
    moved = sum(np.empty(shape, dtype).nbytes for shape in ((m, k), (k, n), (m, n)))
    return np.float64(2.0 * m * n * k) / moved


def intensity_of_the_program(m, n, k, dtype):
    program = mt.lower(mt.workloads.matmul(m=m, n=n, k=k, dtype=dtype))
    moved = sum(b.nbytes for b in program.params)
    return 2 * m * n * k / moved


def intensity_without_the_result(m, n, k, dtype):
    return 2 * m * n * k / (SIZES[dtype] * (m * k + k * n))


def intensity_of_multiply_adds(m, n, k, dtype):
    return m * n * k / (SIZES[dtype] * (m * k + k * n + m * n))


def intensity_of_float32(m, n, k, dtype):
    return 2 * m * n * k / (4 * (m * k + k * n + m * n))


def intensity_without_reuse(m, n, k, dtype):
    return 2 * m * n * k / (SIZES[dtype] * (2 * m * n * k + m * n))


def intensity_with_shapes_mixed_up(m, n, k, dtype):
    return 2 * m * n * k / (SIZES[dtype] * (m * n + n * k + m * n))


def attainable(operations, moved, peak, bandwidth):
    if moved == 0 or operations / moved * bandwidth > peak:
        return peak, "compute"
    return operations / moved * bandwidth, "memory"


def attainable_by_times(operations, moved, peak, bandwidth):
    times = [(operations / peak, "compute"), (moved / bandwidth, "memory")]
    seconds, bound = max(times)
    return [operations / seconds, bound]


def attainable_by_the_ridge(operations, moved, peak, bandwidth):
    ridge = peak / bandwidth
    if operations > ridge * moved:
        return np.float64(peak), "compute"
    return np.float64(bandwidth) * operations / moved, "memory"


def attainable_divides_by_nothing(operations, moved, peak, bandwidth):
    rate = operations / moved * bandwidth
    return (peak, "compute") if rate > peak else (rate, "memory")


def attainable_the_larger(operations, moved, peak, bandwidth):
    if moved == 0:
        return peak, "compute"
    rate = operations / moved * bandwidth
    return max(rate, peak), "memory" if rate > peak else "compute"


def attainable_a_number(operations, moved, peak, bandwidth):
    return attainable(operations, moved, peak, bandwidth)[0]


def attainable_bound_the_other_way(operations, moved, peak, bandwidth):
    rate, bound = attainable(operations, moved, peak, bandwidth)
    return rate, "memory" if bound == "compute" else "compute"


def attainable_inverted(operations, moved, peak, bandwidth):
    rate = moved / max(operations, 1) * bandwidth
    return (peak, "compute") if rate > peak else (rate, "memory")


def summary(results):
    return statistics.median(results)


def summary_by_hand(results):
    ordered = sorted(results)
    return ordered[len(ordered) // 2]


def summary_of_the_densest(results):
    """The mean of the half that lies closest together."""
    ordered = sorted(results)
    half = (len(ordered) + 1) // 2
    first = min(range(len(ordered) - half + 1), key=lambda n: ordered[n + half - 1] / ordered[n])
    return float(np.mean(ordered[first : first + half]))


def summary_mean(results):
    return sum(results) / len(results)


def summary_min(results):
    return min(results)


def summary_unsorted(results):
    return results[len(results) // 2]


def summary_trimmed(results):
    ordered = sorted(results)
    cut = len(ordered) // 10
    return np.mean(ordered[cut : len(ordered) - cut])


def summary_without_the_first(results):
    return statistics.median(results[1:])


def compare(a, b):
    ratio = np.median(np.array(b) / np.array(a))
    if len(a) < 5 or 0.95 < ratio < 1.05:
        return "undecided"
    return "faster" if ratio < 1 else "slower"


def compare_by_votes(a, b):
    """A sign test with a margin."""
    if len(a) < 5:
        return "undecided"
    for name, wins in (
        ("faster", sum(y < 0.95 * x for x, y in zip(a, b))),
        ("slower", sum(x < 0.95 * y for x, y in zip(a, b))),
    ):
        if wins > 0.6 * len(a):
            return name
    return "undecided"


def compare_by_logarithms(a, b):
    logs = sorted(np.log(y) - np.log(x) for x, y in zip(a, b))
    quarter = len(logs) // 4
    middle = np.mean(logs[quarter : len(logs) - quarter])
    if len(a) >= 5 and abs(middle) > 0.05:
        return "faster" if middle < 0 else "slower"
    return "undecided"


def compare_means(a, b):
    ratio = np.mean(b) / np.mean(a)
    if len(a) < 5 or 0.95 < ratio < 1.05:
        return "undecided"
    return "faster" if ratio < 1 else "slower"


def compare_medians_apart(a, b):
    ratio = np.median(b) / np.median(a)
    if len(a) < 5 or 0.95 < ratio < 1.05:
        return "undecided"
    return "faster" if ratio < 1 else "slower"


def compare_with_few_rounds(a, b):
    ratio = np.median(np.array(b) / np.array(a))
    return "undecided" if 0.95 < ratio < 1.05 else "faster" if ratio < 1 else "slower"


def compare_always_decides(a, b):
    if len(a) < 5:
        return "undecided"
    return "faster" if np.median(np.array(b) / np.array(a)) < 1 else "slower"


def compare_the_other_way(a, b):
    return compare(b, a)


RIGHT = {
    "intensity": [intensity, intensity_by_numpy, intensity_of_the_program],
    "attainable": [attainable, attainable_by_times, attainable_by_the_ridge],
    "summary": [summary, summary_by_hand, summary_of_the_densest],
    "compare": [compare, compare_by_votes, compare_by_logarithms],
}
WRONG = {
    "intensity": [
        (intensity_without_the_result, "bytes"),
        (intensity_of_multiply_adds, "operations, "),
        (intensity_of_float32, "'float64') gives"),
        (intensity_without_reuse, "right is"),
        (intensity_with_shapes_mixed_up, "right is"),
    ],
    "attainable": [
        (attainable_divides_by_nothing, "ZeroDivisionError"),
        (attainable_the_larger, "gives a rate of"),
        (attainable_a_number, "(rate, bound) is wanted"),
        (attainable_bound_the_other_way, "is said to be bound by"),
        (attainable_inverted, "gives a rate of"),
    ],
    "summary": [
        (summary_mean, "the undisturbed ones are"),
        (summary_min, "the undisturbed ones are"),
        (summary_unsorted, "the undisturbed ones are"),
        (summary_trimmed, "the undisturbed ones are"),
        (summary_without_the_first, "StatisticsError"),
    ],
    "compare": [
        (compare_means, "right is"),
        (compare_medians_apart, "right is"),
        (compare_with_few_rounds, "right is 'undecided'"),
        (compare_always_decides, "right is 'undecided'"),
        (compare_the_other_way, "right is"),
    ],
}
