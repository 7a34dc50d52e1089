"""Task schedulers on recorded curves of the tasks of networks: who spends trials where they count.

    python -m benchmarks.tasks                                  the tables of benchmarks/curves
    python -m benchmarks.tasks record NAME FILE.onnx LOG        a table from a log, see below

A table has, of each task of a network, what each trial of a search took and found; it is made from
the log of a search that gave all tasks as many trials:

    mt.tune(graph.lay_out("NCHW"), trials=96, scheduler="round_robin", log=LOG)

A replay gives each scheduler the rounds of these searches, so it takes seconds. A seed draws the
trials of each round anew from those of the same round. The baseline is the round robin with a third
of the trials; the figures are the trials and the seconds that the others take to its last latency,
as parts of its own, and the latencies at equal seconds. The oracle knows the curves: it takes the
rounds that gain most in a second, always.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import minitensor as mt
from benchmarks.common import machine, markdown_table
from minitensor.schedule import Trace
from minitensor.search.tasks import latency
from minitensor.search.tune.network import profiled_seconds
from minitensor.search.tune.proposals import size_of_round

FOLDER: Final = Path(__file__).parent / "curves"
SEEDS: Final = 20
BATCH: Final = 64
PART: Final = 3
"""The round robin gets one trial of so many that the table has."""


@dataclass(frozen=True)
class Recorded:
    """A task of a table.

    trials  of each, the seconds it took and the seconds of a call; infinity for a failure
    """

    name: str
    count: int
    work: float
    first: float
    trials: tuple[tuple[float, float], ...]

    def legs(self, rng: random.Random) -> list[mt.search.Leg]:
        """The rounds of a search, each of trials drawn from the same round of the table."""
        found: list[mt.search.Leg] = []
        best, done = math.inf, 0
        while done < len(self.trials):
            part = self.trials[done : done + size_of_round(done, BATCH)]
            drawn = rng.choices(part, k=len(part))
            best = min([best, *(seconds for _, seconds in drawn)])
            found.append(mt.search.Leg(len(part), sum(spent for spent, _ in drawn), best))
            done += len(part)
        return found


@dataclass(frozen=True)
class Oracle:
    """The scheduler that knows what comes: of all open tasks the rounds that gain most in a second.

    legs  of each task
    """

    legs: Sequence[Sequence[mt.search.Leg]]

    def choose(
        self,
        curves: Sequence[mt.search.Curve],
        objective: mt.search.Objective,
        rng: random.Random,
    ) -> int:
        """The place of the task."""
        return max((n for n, c in enumerate(curves) if not c.closed),
                   key=lambda n: self._rate(curves[n], self.legs[n]))  # fmt: skip

    def _rate(self, curve: mt.search.Curve, legs: Sequence[mt.search.Leg]) -> float:
        best = spent = 0.0
        for leg in legs[len(curve.legs) :]:
            spent += leg.spent
            best = max(best, curve.counts[0] * (curve.seconds - leg.seconds) / spent)
        return best


@dataclass(frozen=True)
class Run:
    """A replay: after each round the trials, the seconds, and the latency until then."""

    points: tuple[tuple[int, float, float], ...]

    def until(self, target: float) -> tuple[int, float]:
        """Trials and seconds to a latency; all that there are if it is missed."""
        for trials, spent, now in self.points:
            if now <= target * (1 + 1e-9):
                return trials, spent
        return self.points[-1][:2]

    def at(self, spent: float) -> float:
        """The latency after so many seconds."""
        return min((now for _, at, now in self.points if at <= spent), default=math.inf)


def replayed(
    tasks: Sequence[Recorded], scheduler: mt.search.TaskScheduler | None, seed: int, trials: float
) -> Run:
    """A search for a network by a scheduler, None for the oracle."""
    rng = random.Random(seed)
    legs = [task.legs(rng) for task in tasks]
    curves = [mt.search.Curve(t.name, (float(t.count),), t.work, t.first) for t in tasks]
    points: list[tuple[int, float, float]] = []

    def step(place: int) -> mt.search.Leg | str:
        done = len(curves[place].legs)
        return legs[place][done] if done < len(legs[place]) else "the table ends"

    def over() -> bool:
        return bool(points) and points[-1][0] >= trials

    chosen = Oracle(legs) if scheduler is None else scheduler
    for _ in mt.search.race(curves, step, chosen, latency, over, seed):
        now = sum(curve.counts[0] * curve.seconds for curve in curves)
        points.append((sum(c.trials for c in curves), sum(c.spent for c in curves), now))
    return Run(tuple(points))


def schedulers() -> dict[str, mt.search.TaskScheduler | None]:
    """Those that are compared with the round robin."""
    gradient = mt.search.Gradient
    return {
        "gradient": gradient(),
        "gradient by seconds": gradient(currency="seconds"),
        "no alike tasks": gradient(alike=False),
        "no hope": gradient(hopeful=False),
        "alpha 0.5": gradient(alpha=0.5),
        "alpha 0.8": gradient(alpha=0.8),
        "random": mt.search.Uniform(),
        "oracle": None,
    }


def compared(tasks: Sequence[Recorded], seeds: int) -> list[list[str]]:
    """The rows of a table of one network."""
    budget = sum(len(task.trials) for task in tasks) / PART
    base = [replayed(tasks, mt.search.RoundRobin(), seed, budget) for seed in range(seeds)]
    rows = [["scheduler", "trials", "seconds", "latency at equal seconds"]]
    for name, scheduler in schedulers().items():
        parts: list[tuple[float, float, float]] = []
        for seed, reference in enumerate(base):
            trials, spent, target = reference.points[-1]
            run = replayed(tasks, scheduler, seed, math.inf)
            found = run.until(target)
            parts.append((found[0] / trials, found[1] / spent, run.at(spent) / target))
        rows.append([name, *(_middle([part[n] for part in parts]) for n in range(3))])
    return rows


def _middle(values: Sequence[float]) -> str:
    """The median, and the middle nine tenths."""
    ranked = sorted(values)
    cut = len(ranked) // 20
    return f"{statistics.median(ranked):.2f} ({ranked[cut]:.2f} to {ranked[-1 - cut]:.2f})"


def opened(path: Path) -> list[Recorded]:
    """The tasks of a table."""
    with gzip.open(path, "rt") as file:
        rows = json.load(file)["tasks"]
    return [
        Recorded(**{**row, "trials": tuple((spent, s or math.inf) for spent, s in row["trials"])})
        for row in rows
    ]


def record(name: str, network: Path, log: Path) -> Path:
    """Write the table of a network from a log; returns its path."""
    graph = mt.graph.from_onnx(network).lay_out("NCHW")
    model = mt.build(graph)
    rows = []
    known = mt.search.Log(log)
    for task, first in zip(model.tasks, profiled_seconds(model)):
        records = known.measured(task.part.program, model.target)
        records.pop(mt.search.trace_key(Trace()), None)
        trials = [
            (round(r.spent, 3), float(f"{r.median:.4g}") if r.seconds else None)
            for r in records.values()
        ]
        work = mt.search.operations(task.part.program)
        row = {"name": task.part.program.name, "count": task.count, "work": work}
        rows.append({**row, "first": float(f"{first:.4g}"), "trials": trials})
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json.gz"
    text = json.dumps({"machine": machine(), "tasks": rows}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def main() -> None:
    """Print the comparison, or write a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", nargs="?", choices=["record"])
    parser.add_argument("given", nargs="*", metavar="NAME FILE.onnx LOG")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    if options.action == "record":
        if len(options.given) != 3:
            parser.error("record needs NAME, FILE.onnx and LOG")
        name, network, log = options.given
        print(record(name, Path(network), Path(log)))
        return
    for path in sorted(FOLDER.glob("*.json.gz")):
        tasks = opened(path)
        total = sum(len(task.trials) for task in tasks)
        print(f"\n{path.name.removesuffix('.json.gz')}: {len(tasks)} tasks, {total:,} trials, "
              f"{options.seeds} seeds\n")  # fmt: skip
        print("\n".join(markdown_table(compared(tasks, options.seeds))))


if __name__ == "__main__":
    main()
