"""Searches with a history against searches without, on tables of measured costs.

    python -m benchmarks.transfer --seeds 10 --trials 128
    python -m benchmarks.transfer --live --trials 64    the layers of ResNet-18, searched here
    python -m benchmarks.transfer --log --trials 64     the same, and what a log gives by itself

Leave one out: of each table (`benchmarks.tables`) the history is what all others hold, at most so
many programs as `minitensor.search.transfer` takes from logs. Most are of other kinds, so a search
should be no slower with them. Live, each of nine convolutions is searched alone, and then with the
logs of the other eight as its history, or with their records in its own log.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np

import minitensor as mt
from benchmarks.common import machine, markdown_table
from benchmarks.learned import interval, temporary_cache
from benchmarks.search import POPULATION, filled, opened
from minitensor.runtime import usable_cores
from minitensor.search import Evolution
from minitensor.search.transfer import MOST, MOST_OF_ONE, Floats, Pretrained, global_model
from tutorials import tables
from tutorials.replay import replay

Run = tuple[list[float], float | None, float]
"""After each trial the speed of the fastest, as a part of the table's best; the rank correlation of
the global model with all that was measured, and its weight, both at the end."""


def known_of(name: str, count: int) -> list[tuple[float, Floats]]:
    """Seconds and features of programs of a table: the fastest, and as many drawn at random."""
    space, _ = opened(name)
    table = space.table
    first = {program: one for one, program in reversed(space.names.items()) if program >= 0}
    order = sorted(first, key=lambda program: table.seconds[program])
    half = count // 2
    chosen = order[:half] + random.Random(name).sample(order[half:], count - half)
    features = space.features([first[p] for p in chosen])
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
    space, known = opened(name)
    history = None
    if transfers:
        made = history_of(name, names)
        history = Pretrained(made.trees, made.records, made.workloads)
    strategy = Evolution(population=POPULATION)
    found = replay(space, strategy, trials, seed, history=history, known=known)
    return filled(found, trials), *(
        (history.correlation, history.weight) if history else (None, 0.0)
    )


def until(curve: Sequence[float], target: float) -> int:
    """The trials until a speed is reached; one more than there are if it is not."""
    return next((n for n, speed in enumerate(curve, 1) if speed >= target), len(curve) + 1)


LAYERS: Final = {  # channels, pixels, filters, kernel, stride
    "conv1": (3, 224, 64, 7, 2),
    "conv2": (64, 56, 64, 3, 1),
    "conv3": (64, 56, 128, 3, 2),
    "conv3 1x1": (64, 56, 128, 1, 2),
    "conv3 same": (128, 28, 128, 3, 1),
    "conv4": (128, 28, 256, 3, 2),
    "conv4 same": (256, 14, 256, 3, 1),
    "conv5": (256, 14, 512, 3, 2),
    "conv5 same": (512, 7, 512, 3, 1),
}
"""The convolutions of ResNet-18 that differ, with bias and relu, of one image.

Source: He et al., Deep residual learning for image recognition, CVPR 2016, table 1."""


def searched(
    layer: str, seed: int, trials: int, log: Path, others: Sequence[Path], alike: bool
) -> Run:
    """A search on this machine, with an empty compile cache; calls a second after each trial.

    others  the logs of other layers
    alike   whether they are in the log of the search, and not its history
    """
    history = [] if alike else list(others)
    if alike:
        log.write_bytes(b"".join(other.read_bytes() for other in others))
    c, pixels, f, kernel, stride = LAYERS[layer]
    tensors = mt.workloads.conv2d_bias_relu(
        1, c, pixels, pixels, f, kernel, stride=stride, padding=kernel // 2
    )
    program = mt.lower(tensors, name="layer")
    with tempfile.TemporaryDirectory() as folder, temporary_cache(folder):
        result = mt.tune(
            program, trials=trials, seed=seed, log=log, history=history, progress=False
        )
    learnt = result.history
    curve = (1 / np.minimum.accumulate([t.seconds for t in result.tried])).tolist()
    return curve, *((learnt.correlation, learnt.weight) if learnt else (None, 0.0))


def live(seeds: int, trials: int, alike: bool) -> dict[tuple[str, bool], list[Run]]:
    """Each layer alone, and with what the searches of the others have recorded."""
    runs: dict[tuple[str, bool], list[Run]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, transfers, name in itertools.product(range(seeds), (False, True), LAYERS):
            own = Path(folder) / f"{name}-{seed}-{transfers}.jsonl"
            others = [Path(folder) / f"{n}-{seed}-False.jsonl" for n in LAYERS if n != name]
            one = searched(name, seed, trials, own, others if transfers else [], alike)
            runs.setdefault((name, transfers), []).append(one)
            text = f"{1e3 / one[0][-1]:.3f} ms {'with' if transfers else 'without'} the others"
            print(f"{name}, seed {seed}: {text}", file=sys.stderr)
    return runs


def as_markdown(
    runs: dict[tuple[str, bool], list[Run]], names: Sequence[str], live: bool = False
) -> str:
    """A row for each workload: trials with the others over trials without."""
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
        if live:  # 95 % of the best of all searches, as is usual for transfer
            target = 0.95 * max(curve[-1] for curve, *_ in (*with_, *without))
        else:
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
                f"{1e3 / target:.3f} ms" if live else f"{target:.3f}",
                f"{math.exp(statistics.fmean(found)):.2f}",
                f"{low:.2f} to {high:.2f}",
                *(f"{math.exp(speed):.3f}" for speed in speeds),
                f"{statistics.fmean(ranks):.2f}" if ranks else "",
                f"{weight:.2f}",
            ]
        )
    return "\n".join(markdown_table(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="searches that know others against those that do not"
    )
    parser.add_argument("--live", action="store_true", help="search the layers of ResNet-18")
    parser.add_argument("--log", action="store_true", help="the same, with their records in a log")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--save", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.live or given.log:
        text = as_markdown(live(given.seeds, given.trials, given.log), list(LAYERS), live=True)
    else:
        text = as_markdown(*replayed(given.seeds, given.trials))
    text = f"{machine()}; {given.seeds} seeds, {given.trials} trials\n\n{text}\n"
    print(text)
    if given.save is not None:
        given.save.write_text(text, encoding="utf-8")


def replayed(seeds: int, trials: int) -> tuple[dict[tuple[str, bool], list[Run]], Sequence[str]]:
    """The same on tables."""
    names = tables()
    with ProcessPoolExecutor(usable_cores(), mp_context=get_context("spawn")) as pool:
        asked = {
            (name, transfers): [
                pool.submit(run, name, names, seed, trials, transfers) for seed in range(seeds)
            ]
            for name in names
            for transfers in (False, True)
        }
        return {key: [one.result() for one in found] for key, found in asked.items()}, names


if __name__ == "__main__":
    main()
