"""Searches with a history against searches without, on tables of measured costs.

    python -m benchmarks.transfer --seeds 10 --trials 128

Leave one out: of each table (`benchmarks.tables`) the history is what all others hold, at most so
many programs as `minitensor.search.transfer` takes from logs. They are of other kinds,
so a search should be no slower with them. (Shapes of one kind need tables that there are not yet.)
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.common import machine, markdown_table
from benchmarks.learned import interval
from benchmarks.search import POPULATION, opened, searched_on
from benchmarks.tables import FOLDER
from minitensor.runtime import usable_cores
from minitensor.search import Evolution, GradientBoostedTrees
from minitensor.search.transfer import MOST, MOST_OF_ONE, Floats, Pretrained, global_model
from minitensor.search.tune import Learner

Run = tuple[list[float], float | None, float]
"""After each trial the speed of the fastest, as a part of the table's best; the rank correlation of
the global model with all that was measured, and its weight, both at the end."""


def known_of(name: str, count: int) -> list[tuple[float, Floats]]:
    """Seconds and features of programs of a table: the fastest, and as many drawn at random."""
    table, space, _ = opened(name, False)
    first = {program: one for one, program in reversed(space.names.items()) if program >= 0}
    order = sorted(first, key=lambda program: table.seconds[program])
    half = count // 2
    chosen = order[:half] + random.Random(name).sample(order[half:], count - half)
    features = Learner(space, GradientBoostedTrees()).features([first[p] for p in chosen])
    return [(float(table.seconds[p]), f) for p, f in zip(chosen, features) if f is not None]


@cache
def history_of(name: str, names: tuple[str, ...]) -> Pretrained:
    """The global model of all workloads but one."""
    others = [other for other in names if other != name]
    count = min(MOST_OF_ONE, MOST // len(others))
    made = global_model([known_of(other, count) for other in others], 0)
    assert made is not None
    return made


def run(name: str, names: tuple[str, ...], seed: int, trials: int, transfers: bool) -> Run:
    """One search."""
    table, space, known = opened(name, False)
    history = None
    if transfers:
        made = history_of(name, names)
        history = Pretrained(made.trees, made.records, made.workloads)
    strategy = Evolution(population=POPULATION)
    tried, _ = searched_on(table, space, known, strategy, seed, trials, history=history)
    costs = [t.seconds for t in tried] + [np.inf] * (trials - len(tried))
    curve = [table.best / seconds for seconds in np.minimum.accumulate(costs)]
    return curve, *((history.correlation, history.weight) if history else (None, 0.0))


def until(curve: Sequence[float], target: float) -> int:
    """The trials until a speed is reached; one more than there are if it is not."""
    return next((n for n, speed in enumerate(curve, 1) if speed >= target), len(curve) + 1)


def as_markdown(runs: dict[tuple[str, bool], list[Run]], names: Sequence[str]) -> str:
    """A row for each workload: trials with a history over trials without."""
    lines = [
        ["workload", "target", "trials", "95 %", "after 16", "after 32", "end", "rank", "weight"]
    ]
    every: list[float] = []
    for name in [*names, "all"]:
        if name == "all":
            low, high = interval(every)
            mean = math.exp(statistics.fmean(every))
            lines.append([name, "", f"{mean:.2f}", f"{low:.2f} to {high:.2f}", *[""] * 5])
            continue
        with_, without = runs[name, True], runs[name, False]
        target = statistics.median(curve[-1] for curve, *_ in without)
        found = [
            math.log(until(a, target) / until(b, target))
            for (a, *_), (b, *_) in zip(with_, without)
        ]
        every += found
        low, high = interval(found)
        speeds = [
            statistics.fmean(math.log(a[n] / b[n]) for (a, *_), (b, *_) in zip(with_, without))
            for n in (15, 31, -1)
        ]
        ranks = [rank for _, rank, _ in with_ if rank is not None]
        weight = statistics.fmean(weight for *_, weight in with_)
        lines.append(
            [
                name,
                f"{target:.3f}",
                f"{math.exp(statistics.fmean(found)):.2f}",
                f"{low:.2f} to {high:.2f}",
                *(f"{math.exp(speed):.3f}" for speed in speeds),
                f"{statistics.fmean(ranks):.2f}" if ranks else "",
                f"{weight:.2f}",
            ]
        )
    return "\n".join(markdown_table(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="searches with a history against those without")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--save", type=Path, metavar="FILE")
    given = parser.parse_args()
    names = tuple(sorted(p.name.split(".")[0] for p in FOLDER.glob("*.json.gz")))
    with ProcessPoolExecutor(usable_cores(), mp_context=get_context("spawn")) as pool:
        asked = {
            (name, transfers): [
                pool.submit(run, name, names, seed, given.trials, transfers)
                for seed in range(given.seeds)
            ]
            for name in names
            for transfers in (False, True)
        }
        runs = {key: [one.result() for one in found] for key, found in asked.items()}
    head = f"{machine()}; {given.seeds} seeds, {given.trials} trials"
    text = f"{head}\n\n{as_markdown(runs, names)}\n"
    print(text)
    if given.save is not None:
        given.save.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
