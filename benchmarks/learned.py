"""Learned choices against a search without them, on tables of measured costs.

    python -m benchmarks.learned                      the protocol, on all tables
    python -m benchmarks.learned conv-64-56 --seeds 20 --sketch thompson --save FOLDER
    python -m benchmarks.learned --live --seeds 5     real searches, in turns

Four cells and a placebo, for each of two baselines:

    neither    the baseline
    sketch     with a sketch policy
    mutation   with a mutation policy
    both       with both
    placebo    both are asked, and their answers are thrown away
    pretrained both, which begin with what searches on all other tables taught them (--cells)

"ours" is the search as it is; "Ansor" has the parameters that Ansor published, and begins at random
as it does. A policy that only repairs a weak baseline shows there, and not here.

The target is the median, over seeds, of the best that the baseline ends with. The time to it is the
clock of a search: proposing, learning and the policies as long as they took, building and running
as `tutorials.replay.spent` says. A search that misses the target has used all of its time.
Ratios are cell over baseline, seed by seed: below 1 is faster. The interval is a paired bootstrap
of their geometric mean over workloads and seeds; p is Wilcoxon's signed-rank test of their
logarithms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import minitensor as mt
from benchmarks.common import machine, markdown_table, pictures
from benchmarks.search import POPULATION, RESAMPLED, opened
from minitensor.runtime import usable_cores
from minitensor.search import (
    MUTATION_POLICIES,
    SKETCH_POLICIES,
    Evolution,
    Progress,
    Round,
    Strategy,
)
from minitensor.search.advice import taught
from minitensor.search.evolution import Population, evolve
from minitensor.search.policies import History
from minitensor.search.space import Candidate
from tutorials import tables
from tutorials.replay import replay
from tutorials.schedules import HAND_SCHEDULES

CELLS: Final = ("neither", "sketch", "mutation", "both", "placebo")
PAST: Final = 96
"""Trials of each search that a policy was taught by."""
BASELINES: Final = ("ours", "Ansor")


@dataclass(frozen=True, slots=True)
class Ansor(Evolution):
    """Ansor's published search: random until something is learnt, mutations alone, 5 % at random,
    no share for each sketch. (Its code, auto_scheduler/search_policy/sketch_policy.cc and the
    defaults of search_policy.py; its population is 2,048, here as large as ours: a table is small.)
    """

    crossover: float = 0.0
    floor: float = 0.0

    def propose(self, round: Round) -> list[Candidate]:
        """See Strategy."""
        population = Population(round.space, self, round.rng)
        self.consult(population, round)
        if not round.best:
            return population.drawn(4 * round.count)
        ranked = evolve(population, round.score, round.best, 4 * round.count + len(round.best))
        return population.batch(ranked, round)


@dataclass(frozen=True)
class Ignored:
    """A policy of either kind that is asked, and whose answer is thrown away."""

    policy: Any

    def shares(self, *given: Any) -> None:
        self.policy.shares(*given)

    def weights(self, *given: Any) -> None:
        self.policy.weights(*given)


@dataclass(frozen=True)
class Run:
    """One search: its clock after each trial, and the speed of the fastest until then, as a part
    of the table's best.
    """

    times: list[float]
    speeds: list[float]
    """Of a real search, of which no best is known, calls a second."""

    def until(self, target: float) -> tuple[float, int]:
        """Seconds and trials to a speed; all that was used where it was missed."""
        for number, (clock, speed) in enumerate(zip(self.times, self.speeds), 1):
            if speed >= target - 1e-9:
                return clock, number
        return self.times[-1], len(self.times)

    def steps(self) -> list[tuple[int, float, float]]:
        """Trial, clock and speed wherever there was a faster one, and at the end."""
        last = len(self.speeds) - 1
        return [
            (n + 1, round(self.times[n], 2), float(f"{self.speeds[n]:.5g}"))
            for n in range(last + 1)
            if n in (0, last) or self.speeds[n] > self.speeds[n - 1]
        ]

    def at(self, clocks: npt.ArrayLike) -> list[float]:
        """The speeds at some clocks; 0 before the first trial."""
        places = np.searchsorted(self.times, clocks, side="right")
        return [self.speeds[n - 1] if n else 0.0 for n in places]


def strategy_of(baseline: str, cell: str, sketch: str, mutation: str, population: int) -> Evolution:
    """The search of a cell."""
    strategy: Evolution = (Ansor if baseline == "Ansor" else Evolution)(population=population)
    of_sketches, of_moves = SKETCH_POLICIES[sketch], MUTATION_POLICIES[mutation]
    if cell == "placebo":
        strategy = replace(
            strategy, sketch_policy=Ignored(of_sketches), mutation_policy=Ignored(of_moves)
        )
    if cell in ("sketch", "both", "pretrained"):
        strategy = replace(strategy, sketch_policy=of_sketches)
    if cell in ("mutation", "both", "pretrained"):
        strategy = replace(strategy, mutation_policy=of_moves)
    return strategy


@cache
def past(name: str) -> History:
    """A search on a table, as a policy sees it."""
    space, known = opened(name)
    found = replay(space, Evolution(population=POPULATION), PAST, 0, known=known)
    return History(found.tried, space, lambda batch: np.zeros(len(batch)), 0)


def run(
    name: str, baseline: str, cell: str, sketch: str, mutation: str, seed: int, trials: int
) -> Run:
    """One search on a table."""
    space, known = opened(name)
    strategy: Strategy = strategy_of(baseline, cell, sketch, mutation, POPULATION)
    if cell == "pretrained":
        strategy = taught(strategy, lambda: [past(other) for other in tables() if other != name])
    found = replay(space, strategy, trials, seed, known=known)
    return Run(list(found.times), found.curve)


def run_live(
    name: str, baseline: str, cell: str, sketch: str, mutation: str, seed: int, trials: int
) -> Run:
    """One search on this machine, with an empty compile cache; its clock as rounds end."""
    times: list[float] = []

    def note(progress: Progress) -> None:
        times.extend([progress.elapsed] * (progress.trials - len(times)))

    population = Evolution().population
    with tempfile.TemporaryDirectory() as folder, temporary_cache(folder):
        result = mt.tune(
            HAND_SCHEDULES[name].define(),
            trials=trials,
            strategy=strategy_of(baseline, cell, sketch, mutation, population),
            seed=seed,
            callbacks=[note],
            progress=False,
        )
    costs = [t.seconds for t in result.tried]
    return Run(times, (1 / np.minimum.accumulate(costs)).tolist())


@contextlib.contextmanager
def temporary_cache(folder: str) -> Iterator[None]:
    """An empty compile cache."""
    before = os.environ.get("MINITENSOR_CACHE_DIR")
    os.environ["MINITENSOR_CACHE_DIR"] = folder
    try:
        yield
    finally:
        del os.environ["MINITENSOR_CACHE_DIR"]
        if before is not None:
            os.environ["MINITENSOR_CACHE_DIR"] = before


Runs = dict[tuple[str, str, str], list[Run]]
"""The searches of each workload, baseline and cell, by seed."""


def measured(names: Sequence[str], given: argparse.Namespace) -> Runs:
    """All searches: on as many cores as there are, or live, in turns."""
    if given.live:
        return measured_live(names, given)
    with ProcessPoolExecutor(usable_cores(), mp_context=get_context("spawn")) as pool:
        policies = given.sketch, given.mutation
        asked = {
            (n, b, c): [
                pool.submit(run, n, b, c, *policies, s, given.trials) for s in range(given.seeds)
            ]
            for n in names
            for b in given.baselines
            for c in given.cells
        }
        return {key: [one.result() for one in runs] for key, runs in asked.items()}


def measured_live(names: Sequence[str], given: argparse.Namespace) -> Runs:
    """All searches, one after the other: the cells take turns, each seed begins with another."""
    runs: Runs = {(n, b, c): [] for n in names for b in given.baselines for c in given.cells}
    kinds = [(b, c) for b in given.baselines for c in given.cells]
    for seed in range(given.seeds):
        for name in names:
            for baseline, cell in (*kinds[seed % len(kinds) :], *kinds[: seed % len(kinds)]):
                one = run_live(
                    name, baseline, cell, given.sketch, given.mutation, seed, given.trials
                )
                runs[name, baseline, cell].append(one)
                best = f"{1e3 / one.speeds[-1]:.3f} ms after {one.times[-1]:.0f} s"
                print(f"{name}, {baseline}, {cell}, seed {seed}: {best}", file=sys.stderr)
    return runs


# ---- statistics


def interval(logarithms: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the geometric mean of ratios."""
    rng, values = np.random.default_rng(0), np.asarray(logarithms)
    means = rng.choice(values, (RESAMPLED, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return math.exp(low), math.exp(high)


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p of Wilcoxon's signed-rank test, by its normal approximation; 1 if there are
    no differences. (Wilcoxon, Biometrics Bulletin 1(6), 1945; ties share their mean rank.)
    """
    values = np.asarray([d for d in differences if d != 0])
    if not len(values):
        return 1.0
    _, inverse, counts = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[inverse]
    n, positive = len(values), ranks[values > 0].sum()
    variance = n * (n + 1) * (2 * n + 1) / 24 - (counts**3 - counts).sum() / 48
    z = (positive - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def as_markdown(runs: Runs, names: Sequence[str], given: argparse.Namespace) -> str:
    """A table for each baseline: a row for each cell, a column for each workload."""
    parts = []
    for baseline in given.baselines:
        targets = {n: _target(runs[n, baseline, "neither"]) for n in names}
        heads = [f"{n}: {_shown(targets[n], given.live)}" for n in names]
        lines = [["cell", *heads, "all", "95 %", "p", "trials", "end"]]
        for cell in given.cells:
            pairs = {
                n: list(zip(runs[n, baseline, cell], runs[n, baseline, "neither"])) for n in names
            }
            found = {
                n: [math.log(a.until(targets[n])[0] / b.until(targets[n])[0]) for a, b in pairs[n]]
                for n in names
            }
            trials = [
                math.log(a.until(targets[n])[1] / b.until(targets[n])[1])
                for n in names
                for a, b in pairs[n]
            ]
            ends = [math.log(a.speeds[-1] / b.speeds[-1]) for n in names for a, b in pairs[n]]
            every = [ratio for n in names for ratio in found[n]]
            low, high = interval(every)
            lines.append(
                [
                    cell,
                    *(f"{math.exp(statistics.fmean(found[n])):.2f}" for n in names),
                    f"{math.exp(statistics.fmean(every)):.3f}",
                    f"{low:.2f} to {high:.2f}",
                    f"{wilcoxon(every):.2g}",
                    f"{math.exp(statistics.fmean(trials)):.2f}",
                    f"{math.exp(statistics.fmean(ends)):.3f}",
                ]
            )
        parts += [f"### Baseline: {baseline}", "", *markdown_table(lines), ""]
        parts += [_quartiles(runs, names, baseline, given.cells, targets), ""]
    return "\n".join(parts)


def _shown(speed: float, live: bool) -> str:
    return f"{1e3 / speed:.3f} ms" if live else f"{speed:.3f}"


def _target(baseline: Sequence[Run]) -> float:
    return statistics.median(run.speeds[-1] for run in baseline)


def _quartiles(
    runs: Runs, names: Sequence[str], baseline: str, cells: Sequence[str], targets: dict[str, float]
) -> str:
    lines = [["seconds to the target: quartiles", *names]]
    for cell in cells:
        row = [cell]
        for name in names:
            times = [run.until(targets[name])[0] for run in runs[name, baseline, cell]]
            row.append(" / ".join(f"{q:.0f}" for q in np.quantile(times, [0.25, 0.5, 0.75])))
        lines.append(row)
    return "\n".join(markdown_table(lines))


def plot(runs: Runs, names: Sequence[str], given: argparse.Namespace, path: Path) -> None:
    """Speeds over the clock, a row for each baseline: medians over seeds, quartiles as a band."""
    figure, axes = pictures(len(given.baselines), len(names), 4.2, 3.6)
    for row, baseline in zip(axes, given.baselines):
        for axis, name in zip(row, names):
            every = [one for cell in given.cells for one in runs[name, baseline, cell]]
            top = max(one.speeds[-1] for one in every)
            clocks = np.linspace(0, max(one.times[-1] for one in every), 200)
            for cell in given.cells:
                table = np.array([one.at(clocks) for one in runs[name, baseline, cell]]) / top
                (line,) = axis.plot(clocks, np.median(table, axis=0), label=cell)
                low, high = np.quantile(table, [0.25, 0.75], axis=0)
                axis.fill_between(clocks, low, high, alpha=0.1, color=line.get_color())
            axis.set(title=f"{name}, {baseline}", xlabel="seconds", ylim=(0.3, 1.02))
            axis.set_ylabel("speed, as a part of the best")
            axis.grid(alpha=0.3)
    axes[0][0].legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description="learned choices against a search without")
    known = tables()
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", default=known)
    parser.add_argument("--sketch", choices=[*SKETCH_POLICIES][1:], default="thompson")
    parser.add_argument("--mutation", choices=[*MUTATION_POLICIES][1:], default="learned")
    parser.add_argument("--live", action="store_true", help="search on this machine, not in tables")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--baselines", nargs="+", choices=BASELINES, default=BASELINES)
    parser.add_argument("--cells", nargs="+", choices=[*CELLS, "pretrained"], default=CELLS)
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    runs = measured(given.names, given)
    head = f"{machine()}; {given.seeds} seeds, {given.trials} trials; sketches: {given.sketch}"
    text = f"{head}, mutations: {given.mutation}\n\n{as_markdown(runs, given.names, given)}"
    print(text)
    if given.save is not None:
        name = "learned-live" if given.live else "learned"
        (given.save / f"{name}.md").write_text(text, encoding="utf-8")
        rows = {"/".join(key): [one.steps() for one in found] for key, found in runs.items()}
        text = json.dumps(rows, separators=(",", ":"))
        (given.save / f"{name}.json").write_text(text, encoding="utf-8")
        with contextlib.suppress(ModuleNotFoundError):  # without matplotlib there is no picture
            plot(runs, given.names, given, given.save / f"{name}.png")


if __name__ == "__main__":
    main()
