import contextlib
import itertools
import json
import math
import statistics

import numpy as np


def _records(lines, workload):
    for place, line in enumerate(lines):
        try:
            fields = json.loads(line)
            if fields["v"] == 1 and fields["workload"] == workload:
                yield place, fields["status"], fields["seconds"], fields["trace"]
        except (ValueError, KeyError, TypeError):
            pass


def best(lines, workload):
    found = []
    for place, status, seconds, _ in _records(lines, workload):
        if status == "ok" and seconds and all(0 < s < math.inf for s in seconds):
            found.append((statistics.median(seconds), place))
    return min(found)[1] if found else None


def best_in_one_pass(lines, workload):
    at, least = None, math.inf
    for place, line in enumerate(lines):
        with contextlib.suppress(json.JSONDecodeError):
            one = json.loads(line)
            if not isinstance(one, dict) or one.get("v") != 1 or "seconds" not in one:
                continue
            if one["workload"] != workload or one["status"] != "ok":
                continue
            ordered = sorted(one["seconds"])
            n = len(ordered)
            if n and all(math.isfinite(s) and s > 0 for s in ordered):
                median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
                if median < least:
                    at, least = place, median
    return at


def best_in_numpy(lines, workload):
    costs = np.full(len(lines), np.inf)
    for place, status, seconds, _ in _records(lines, workload):
        times = np.array(seconds, float)
        if status == "ok" and times.size and np.isfinite(times).all() and (times > 0).all():
            costs[place] = np.median(times)
    return np.argmin(costs) if len(lines) and np.isfinite(costs.min()) else None


def best_by_the_least(lines, workload):
    found = []
    for place, status, seconds, _ in _records(lines, workload):
        if status == "ok" and seconds and all(0 < s < math.inf for s in seconds):
            found.append((min(seconds), place))
    return min(found)[1] if found else None


def best_by_the_mean(lines, workload):
    found = []
    for place, status, seconds, _ in _records(lines, workload):
        if status == "ok" and seconds and all(0 < s < math.inf for s in seconds):
            found.append((statistics.fmean(seconds), place))
    return min(found)[1] if found else None


def best_by_the_lower_middle(lines, workload):
    found = []
    for place, status, seconds, _ in _records(lines, workload):
        if status == "ok" and seconds and all(0 < s < math.inf for s in seconds):
            found.append((statistics.median_low(seconds), place))
    return min(found)[1] if found else None


def best_of_any_workload(lines, workload):
    found = []
    for place, line in enumerate(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            one = json.loads(line)
            usable = one["seconds"] and all(0 < s < math.inf for s in one["seconds"])
            if one["v"] == 1 and one["status"] == "ok" and usable:
                found.append((statistics.median(one["seconds"]), place))
    return min(found)[1] if found else None


def best_with_failures(lines, workload):
    found = [
        (statistics.median(seconds), place)
        for place, _, seconds, _ in _records(lines, workload)
        if seconds and all(0 < s < math.inf for s in seconds)
    ]
    return min(found)[1] if found else None


def best_with_nan(lines, workload):
    found = [
        (statistics.median(seconds), place)
        for place, status, seconds, _ in _records(lines, workload)
        if status == "ok" and seconds
    ]
    return min(found)[1] if found else None


def best_of_whole_files(lines, workload):
    every = [json.loads(line) for line in lines]
    found = [
        n for n, one in enumerate(every) if one["workload"] == workload and one["status"] == "ok"
    ]
    return min(found, key=lambda n: statistics.median(every[n]["seconds"]), default=None)


def best_with_other_versions(lines, workload):
    found = []
    for place, line in enumerate(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            one = json.loads(line)
            usable = one["seconds"] and all(0 < s < math.inf for s in one["seconds"])
            if one["workload"] == workload and one["status"] == "ok" and usable:
                found.append((statistics.median(one["seconds"]), place))
    return min(found)[1] if found else None


def best_among_the_records(lines, workload):
    """The place among the records, not among the lines."""
    found = []
    for place, (_, status, seconds, _) in enumerate(_records(lines, workload)):
        if status == "ok" and seconds and all(0 < s < math.inf for s in seconds):
            found.append((statistics.median(seconds), place))
    return min(found)[1] if found else None


def resume(lines, workload, trials):
    known = {}
    for _, status, seconds, trace in _records(lines, workload):
        cost = statistics.median(seconds) if status == "ok" else math.inf
        known[trace] = min(known.get(trace, math.inf), cost)
    return max(0, trials - len(known)), known


def resume_by_groups(lines, workload, trials):
    found = sorted(_records(lines, workload), key=lambda one: one[3])
    known = {
        trace: min(float(np.median(s)) if status == "ok" else np.inf for _, status, s, _ in group)
        for trace, group in itertools.groupby(found, key=lambda one: one[3])
    }
    return [trials - min(trials, len(known)), known]


def resume_from_the_slowest(lines, workload, trials):
    costs = [
        (statistics.median(seconds) if status == "ok" else math.inf, trace)
        for _, status, seconds, trace in _records(lines, workload)
    ]
    known = {trace: cost for cost, trace in sorted(costs, reverse=True)}
    return max(trials - len(known), 0), known


def resume_without_failures(lines, workload, trials):
    known = {}
    for _, status, seconds, trace in _records(lines, workload):
        if status == "ok":
            known[trace] = min(known.get(trace, math.inf), statistics.median(seconds))
    return max(0, trials - len(known)), known


def resume_by_lines(lines, workload, trials):
    count = len(list(_records(lines, workload)))
    return max(0, trials - count), resume(lines, workload, trials)[1]


def resume_with_the_last(lines, workload, trials):
    known = {}
    for _, status, seconds, trace in _records(lines, workload):
        known[trace] = statistics.median(seconds) if status == "ok" else math.inf
    return max(0, trials - len(known)), known


def resume_below_zero(lines, workload, trials):
    known = resume(lines, workload, trials)[1]
    return trials - len(known), known


def resume_with_lists(lines, workload, trials):
    left, known = resume(lines, workload, trials)
    return left, sorted(known)


def curve(seconds):
    found, least = [], math.inf
    for one in seconds:
        if one is not None and not math.isnan(one):
            least = min(least, one)
        found.append(least)
    return found


def curve_in_numpy(seconds):
    times = np.array([math.inf if s is None else s for s in seconds], float)
    return np.minimum.accumulate(np.where(np.isnan(times), np.inf, times))


def curve_by_accumulate(seconds):
    times = (s if s is not None and s == s else float("inf") for s in seconds)
    return tuple(itertools.accumulate(times, min))


def curve_by_slices(seconds):
    works = [s if s is not None and s > 0 else math.inf for s in seconds]
    return [min(works[: n + 1]) for n in range(len(works))]


def curve_without_failures(seconds):
    return curve([s for s in seconds if s is not None and s == s])


def curve_with_nan(seconds):
    return list(itertools.accumulate([math.inf if s is None else s for s in seconds], min))


def curve_in_numpy_with_nan(seconds):
    return np.minimum.accumulate([math.inf if s is None else s for s in seconds] or [math.inf])


def curve_of_each(seconds):
    return [math.inf if s is None or s != s else s for s in seconds]


def curve_from_zero(seconds):
    return [0.0 if value == math.inf else value for value in curve(seconds)]


RIGHT = {
    "best": [best, best_in_one_pass, best_in_numpy],
    "resume": [resume, resume_by_groups, resume_from_the_slowest],
    "curve": [curve, curve_in_numpy, curve_by_accumulate, curve_by_slices],
}
WRONG = {
    "best": [
        (best_by_the_least, "the best record is line"),
        (best_by_the_mean, "the best record is line"),
        (best_by_the_lower_middle, "the best record is line"),
        (best_of_any_workload, "the best record is line"),
        (best_with_failures, "wrong result"),
        (best_with_nan, "the best record is line"),
        (best_of_whole_files, "raises"),
        (best_with_other_versions, '"v": '),
        (best_among_the_records, "the best record is line"),
    ],
    "resume": [
        (resume_without_failures, "was tried, and is not in what is known"),
        (resume_by_lines, "are left"),
        (resume_with_the_last, "seconds are known"),
        (resume_below_zero, "of 3 trials 0 are left"),
        (resume_with_lists, "a dictionary"),
    ],
    "curve": [
        (curve_without_failures, "right is"),
        (curve_with_nan, "right is"),
        (curve_in_numpy_with_nan, "right is"),
        (curve_of_each, "right is"),
        (curve_from_zero, "right is"),
    ],
}
