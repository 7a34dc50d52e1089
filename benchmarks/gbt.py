"""The cost model's learner beside xgboost: time, and how well both rank programs they never saw.

    python -m benchmarks.gbt            minutes; less without xgboost: ours alone

Both learn 50 trees of depth 6 from the same rows with the same loss (the weighted squared error of
sums over statements; xgboost gets it as an objective of its own). All have a turn in each
round, and ratios are medians of those within the rounds. "Ideal" is half the time that xgboost
takes with one thread: two threads cannot do better, and on a machine that others use they do far
worse, since each waits for the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common import Figure, figure, main, mean_seconds
from benchmarks.synthetic import FEATURES, Programs, programs
from minitensor.search import GradientBoostedTrees, Samples

try:
    import xgboost
except ImportError:
    xgboost = None

ROWS = 10_000
TREES = 50
DEPTH = 6
BINS = 127
ROUNDS = 7
POPULATION = 2048
"""Programs that are scored at once, of six statements each."""
STATEMENTS = 6
SPLITS = 16
TOP = 32
FAILED = 0.05

Call = Callable[[], object]


def measure() -> list[Figure]:
    made = accuracy(lambda seed: programs(4, 820, seed, FAILED))
    return [*_training(), *_prediction(), *made]


def _training() -> list[Figure]:
    random = np.random.default_rng(0)
    made = programs(4, 600, 0, FAILED).first(ROWS)
    owners = np.arange(ROWS) // STATEMENTS
    values = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    speed = np.exp(np.bincount(owners, np.maximum(values[:, 0] * values[:, 1], values[:, 2])))
    normal = Programs(values, owners, speed, np.zeros(len(speed), np.int64))
    figures = []
    for name, data in (("programs", made), ("normal", normal)):
        for bins, theirs in ((BINS, 128), (255, 256)):
            calls: dict[str, Call] = {"ours": partial(_fit, data, bins)}
            for threads in (1, 2) if xgboost else ():
                calls[f"xgboost {threads}"] = partial(_xgboost, data, theirs, threads)
            title = f"train, {name}, {bins} bins"
            note = f"{len(data.features)} x {FEATURES}, {TREES} trees of depth {DEPTH}"
            figures += _compared(title, _rounds(calls), note, 3.0)
    return figures


def _prediction() -> list[Figure]:
    made = programs(4, 600, 0, FAILED)
    model = _fit(made, BINS)
    rows = POPULATION * STATEMENTS
    features = made.features[np.random.default_rng(1).integers(0, len(made.features), rows)]
    owners = np.arange(rows) // STATEMENTS
    samples = Samples(features, np.bincount(owners))
    calls: dict[str, Call] = {"ours": lambda: model.predict(samples)}
    for threads in (1, 2) if xgboost else ():
        baseline = _xgboost(made, 128, threads)
        baseline.set_param({"nthread": threads})
        calls[f"xgboost {threads}"] = partial(_sums, baseline, features, owners)
    results = _rounds(calls, number=5)
    found = _compared("predict", results, f"{POPULATION} programs of {STATEMENTS} statements", 5.0)
    speed = POPULATION / median(results["ours"])
    found.append(
        Figure("programs a second", speed, POPULATION / min(results["ours"]), "", None, "at least")
    )
    return found


def _sums(baseline: Any, features: Any, owners: Any) -> Any:
    return np.bincount(owners, baseline.inplace_predict(features, predict_type="margin"))


def _rounds(calls: dict[str, Call], number: int = 1) -> dict[str, list[float]]:
    """CPU seconds of all threads under "ours" and "xgboost 1"; seconds on the clock for the rest.

    Those with a single thread are so compared without the load of other programs.
    """
    results: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            clock = time.perf_counter if name == "xgboost 2" else time.process_time
            results[name].append(mean_seconds(call, number, clock))
    return results


def _compared(name: str, results: dict[str, list[float]], note: str, bar: float) -> list[Figure]:
    ours = results["ours"]
    figures = [figure(f"{name}: ours", ours, "ms", None, note)]
    if "xgboost 1" in results:
        ideal = [seconds / 2 for seconds in results["xgboost 1"]]
        figures.append(figure(f"{name}: xgboost, ideal", ideal, "ms", None, "1 thread, halved"))
        figures.append(figure(f"{name}: xgboost", results["xgboost 2"], "ms", None, "2 threads"))
        ratios = [a / b for a, b in zip(ours, ideal)]
        figures.append(
            Figure(f"{name}: ratio", median(ratios), min(ratios), "x", bar, "ours to ideal")
        )
    return figures


def accuracy(data_of: Callable[[int], Programs]) -> list[Figure]:
    """How well both rank the half of some programs that they did not learn from.

    data_of  the programs of a split, by its number
    """
    scores: dict[str, list[tuple[float, float]]] = {}
    for seed in range(SPLITS):
        data = data_of(seed)
        chosen = np.random.default_rng(seed).random(len(data.labels)) < 0.5
        known, unseen = data.part(chosen), data.part(~chosen)
        models = {
            "ours": _fit(known, BINS),
            "ours, 255 bins": _fit(known, 255),
            "ours, rank": _fit(known, BINS, "rank"),
        }
        results: dict[str, Any] = {n: m.predict(_samples(unseen)) for n, m in models.items()}
        if xgboost:
            margins = _xgboost(known, 256, 1).inplace_predict(
                unseen.features, predict_type="margin"
            )
            results["xgboost"] = np.bincount(unseen.programs, margins)
        for name, found in results.items():
            scores.setdefault(name, []).append(quality(found, unseen))
    figures = []
    for position, (what, bar) in enumerate((("pairs in order", 0.01), (f"top {TOP} found", 0.02))):
        parts = {name: [pair[position] for pair in found] for name, found in scores.items()}
        figures += [_mean(f"{what}: {name}", values, None) for name, values in parts.items()]
        theirs = parts.pop("xgboost", None)
        for name, values in parts.items():
            behind = [b - a for a, b in zip(values, theirs or ())]
            if not behind:
                continue
            figures.append(_mean(f"{what}: {name} behind xgboost by", behind, bar))
    return figures


def _mean(name: str, values: list[float], bar: float | None) -> Figure:
    error = float(np.std(values)) / len(values) ** 0.5
    note = f"mean of {len(values)} splits, +- {error:.4f}; beside it the least"
    return Figure(name, float(np.mean(values)), min(values), "", bar, note)


def quality(scores: Any, data: Programs) -> tuple[float, float]:
    """The part of pairs within a workload in the right order (a tie is half right), and the part of
    the `TOP` fastest that are among the `TOP` with the best scores; means over the workloads.
    """
    found = []
    for group in np.unique(data.groups):
        own = data.groups == group
        label, score = data.labels[own], scores[own]
        faster = label[:, None] > label
        difference = (score[:, None] - score)[faster]
        ordered = np.mean((difference > 0) + 0.5 * (difference == 0))
        best, guessed = np.argsort(-label)[:TOP], np.argsort(-score)[:TOP]
        found.append((ordered, len(np.intersect1d(best, guessed)) / TOP))
    pairs, top = np.mean(found, axis=0)
    return float(pairs), float(top)


def _fit(data: Programs, bins: int, objective: str = "squared") -> GradientBoostedTrees:
    trees = GradientBoostedTrees(objective, n_trees=TREES, max_depth=DEPTH, bins=bins)
    label, weight = _targets(data)
    return trees.fit(_samples(data), label, weight if objective == "squared" else None, data.groups)


def _samples(data: Programs) -> Samples:
    return Samples(data.features, np.bincount(data.programs, minlength=len(data.labels)))


def _targets(data: Programs) -> tuple[Any, Any]:
    """Labels as parts of the best of their workload, and weights: Ansor's loss."""
    best = np.maximum.reduceat(data.labels, np.flatnonzero(np.diff(data.groups, prepend=-1)))
    label = data.labels / best[data.groups]
    return label, np.maximum(label, 0.1)


def _xgboost(data: Programs, bins: int, threads: int) -> Any:
    """xgboost on the same loss, with our own derivatives and settings."""
    label, weight = _targets(data)
    start = float((weight * label).sum() / weight.sum())
    curvature = 2 * (weight * np.bincount(data.programs))[data.programs]

    def objective(margins: Any, _: Any) -> tuple[Any, Any]:
        total = start + np.bincount(data.programs, margins)
        return (2 * weight * (total - label))[data.programs], curvature

    table = xgboost.QuantileDMatrix(data.features, max_bin=bins, nthread=threads)
    settings = {
        "max_depth": DEPTH,
        "eta": 0.3,
        "lambda": 1.0,
        "min_child_weight": 0.0,
        "tree_method": "hist",
        "max_bin": bins,
        "nthread": threads,
        "base_score": 0.0,
    }
    return xgboost.train(settings, table, TREES, obj=objective)


if __name__ == "__main__":
    main(measure, __doc__)
