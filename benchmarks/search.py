"""Searches compared: on tables of measured costs, where noise cannot decide; and live.

    python -m benchmarks.search replay [WORKLOAD…]                   the ablation on the tables
    python -m benchmarks.search replay [WORKLOAD…] --every           and all tuners
    python -m benchmarks.search live matmul-1024 --trials 256        time to quality, here

A table (`benchmarks.tables`) has thousands of programs of a workload with their costs. In a replay
a strategy is asked as in a search, and what it proposes costs what the table says.

What is compared, after Ansor's ablation (Zheng et al., OSDI 2020, section 7.1 and figure 7):
"evolution" is the search as it is; "no model" evolves on random scores; "beam" asks the model about
incomplete programs; "limited" has the space of a template, one sketch whose annotation is fixed.
The others are the tuners of other systems (docs/tuners.md); "annealing 500" takes as many steps as
AutoTVM, "annealing squared" learns by the squared loss in the place of the rank loss.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import common
from benchmarks.common import can_draw, machine, markdown_table, pictures
from minitensor.runtime import usable_cores
from minitensor.search import STRATEGIES, Evolution, Strategy
from minitensor.search.evolution import NoModel
from minitensor.search.tuners import Annealing
from tutorials import table, tables
from tutorials.replay import Features, Replay, TableSpace, replay
from tutorials.schedules import HAND_SCHEDULES

STEPS = (8, 16, 32, 64, 128)
"""Trials after which searches are compared."""
NEAR = 0.95
"""Of the speed of the table's best: a search that ends below has missed it."""
POPULATION = 512
"""A table has thousands of programs, where a space has millions."""
RESAMPLED = 2_000
"""Samples of a bootstrap (Efron, The Annals of Statistics 7(1), 1979)."""
ABLATION: Final = ("evolution", "no model", "beam", "limited", "random")
"""The search, the parts of it, and chance."""
SEARCHES: Final = (
    *("evolution", "no model", "beam", "limited", "annealing", "annealing 500"),
    *("annealing squared", "genetic", "flextensor", "grid", "random"),
)
Curve = list[float]
"""For each trial, the speed of the fastest until then, as a part of the table's best."""


@cache
def opened(name: str, template: bool = False) -> tuple[TableSpace, Features]:
    return TableSpace(table(name), template), {}


def searched(name: str, variant: str, seed: int, trials: int) -> Curve:
    """One search on a table."""
    space, known = opened(name, variant == "limited")
    objective = "squared" if variant.endswith(" squared") else None
    found = replay(space, _strategy(variant), trials, seed, objective, known=known)
    return filled(found, trials)


def filled(found: Replay, trials: int) -> Curve:
    """The curve of a replay, which stays where it is if there was nothing left to try."""
    return found.curve + found.curve[-1:] * (trials - len(found.tried))


def _strategy(variant: str) -> Strategy:
    if variant == "no model":
        return NoModel(population=POPULATION)
    if variant in ("evolution", "limited"):
        return Evolution(population=POPULATION)
    if variant == "annealing 500":
        return Annealing(steps=500)
    return STRATEGIES[variant.removesuffix(" squared")]


# ---- compared


def compared(
    names: Sequence[str], searches: Sequence[str], seeds: int, trials: int
) -> dict[str, dict[str, list[Curve]]]:
    """The curves of some searches on some tables, by name and search: one for each seed."""
    context = get_context("spawn")
    with ProcessPoolExecutor(usable_cores(), mp_context=context) as pool:
        asked = {
            (name, variant): [
                pool.submit(searched, name, variant, seed, trials) for seed in range(seeds)
            ]
            for name in names
            for variant in searches
        }
        found: dict[str, dict[str, list[Curve]]] = {name: {} for name in names}
        for (name, variant), curves in asked.items():
            found[name][variant] = [curve.result() for curve in curves]
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    rng, given = np.random.default_rng(0), np.asarray(values)
    means = rng.choice(given, (RESAMPLED, len(given))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def trials_to(curve: Curve) -> float:
    """The number of the first trial that is near the best of the table; infinity if none is."""
    return next((n for n, part in enumerate(curve, start=1) if part >= NEAR), np.inf)


def _trials(number: float) -> str:
    return "more" if number == np.inf else f"{number:.0f}"


def as_markdown(name: str, found: dict[str, list[Curve]], trials: int) -> str:
    """The speed after so many trials, as a part of the table's best: means over seeds; and of the
    last, the interval of the mean, the median, the worst, and how many seeds missed the best. Then
    the trials until a search is near the best: the median over seeds, and quartiles.
    """
    costs = opened(name)[0].table
    steps = [n for n in STEPS if n <= trials]
    lines = [["search", *(f"after {n}" for n in steps), "95 %", "median", "worst", "below .95"]]
    lines[0] += ["trials to .95", "quartiles"]
    for variant, curves in found.items():
        last = [curve[-1] for curve in curves]
        means = [f"{statistics.fmean(c[n - 1] for c in curves):.3f}" for n in steps]
        low, high = interval(last)
        spread = [f"{low:.3f} to {high:.3f}", f"{statistics.median(last):.3f}", f"{min(last):.3f}"]
        missed = str(sum(v < NEAR for v in last))
        needed = [trials_to(curve) for curve in curves]
        low, middle, high = np.quantile(needed, [0.25, 0.5, 0.75], method="inverted_cdf")
        speed = [_trials(middle), f"{_trials(low)} to {_trials(high)}"]
        lines.append([variant, *means, *spread, missed, *speed])
    about = (
        f"{len(costs.seconds):,} programs, best {costs.best * 1e3:.4g} ms, median "
        f"{np.median(costs.seconds) * 1e3:.4g} ms; {costs.about}"
    )
    title = f"### {HAND_SCHEDULES[name].name}, {len(found['random'])} seeds"
    return "\n".join([title, "", about, "", *markdown_table(lines), ""])


def plot(curves: dict[str, dict[str, list[Curve]]], path: Path) -> None:
    """The curves, a picture for each table: medians over seeds, and quartiles as a band."""
    figure, axes = pictures(1, len(curves), 5.5, 4.2)
    for axis, (name, found) in zip(axes[0], curves.items()):
        for variant, seeds in found.items():
            every = np.array(seeds)
            trials = np.arange(1, every.shape[1] + 1)
            (line,) = axis.plot(trials, np.median(every, axis=0), label=variant)
            low, high = np.quantile(every, [0.25, 0.75], axis=0)
            axis.fill_between(trials, low, high, alpha=0.12, color=line.get_color())
        axis.set(title=HAND_SCHEDULES[name].name, xlabel="trials", ylim=(0.3, 1.02))
        axis.set_ylabel("speed, as a part of the best in the table")
        axis.grid(alpha=0.3)
    axes[0][0].legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


# ---- live


def live(name: str, trials: int, seed: int, folder: Path | None) -> str:
    """Tune for real; a line of figures."""
    hand = HAND_SCHEDULES[name]
    log = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"tuning-{name}.jsonl"
    result, points = common.searched(hand.define(), log, trials, seed)
    flop = hand.flop or 0
    steps = [p for p in points if p[1] in (32, 64, 128, 256, 512, 1000) or p is points[-1]]
    curve = ", ".join(f"{n}: {b * 1e3:.3f} ms at {s:.0f} s" for s, n, b in steps)
    speed = f"{flop / result.seconds / 1e9:.0f} GFLOP/s" if flop else ""
    return (
        f"{hand.name}: {result.seconds * 1e3:.3f} ms {speed} after {len(result.tried)} trials, "
        f"{result.elapsed:.0f} s ({len(result.tried) / result.elapsed:.1f} trials/s), "
        f"{result.time}; "
        f"failed {dict(result.failures)}; {curve}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="compare searches")
    parser.add_argument("what", choices=("replay", "live"))
    parser.add_argument("names", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--every", action="store_true", help="all tuners, beside the ablation")
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of a live search")
    parser.add_argument("--trials", type=int, default=128)
    given = parser.parse_args()
    if given.what == "live":
        print(machine())
        for name in given.names:
            print(live(name, given.trials, given.seed, given.save), flush=True)
        return
    names = given.names or tables()
    searches = SEARCHES if given.every else ABLATION
    curves = compared(names, searches, given.seeds, given.trials)
    text = "\n".join(as_markdown(name, found, given.trials) for name, found in curves.items())
    print(text)
    if given.save is not None:
        (given.save / "search.md").write_text(text, encoding="utf-8")
        rounded = {n: {v: np.round(c, 4).tolist() for v, c in f.items()} for n, f in curves.items()}
        (given.save / "search.json").write_text(json.dumps(rounded), encoding="utf-8")
        if can_draw():
            plot(curves, given.save / "search.png")


if __name__ == "__main__":
    main()
