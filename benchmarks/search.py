"""Searches compared: on a fixed table of measured costs, where noise cannot decide; and live.

    python -m benchmarks.search measure matmul-512 --save FOLDER     a table, on a quiet machine
    python -m benchmarks.search replay FOLDER/search-*.json          strategies on tables
    python -m benchmarks.search grow matmul-512 --save FOLDER        strategies; measures what's new
    python -m benchmarks.search live matmul-1024 --trials 256        time to quality, here

A table holds every candidate of some sketches of a workload (those with few decisions: register
tiles, rows in lanes), each measured once. Replaying, a search sees what it would have measured, so
five seeds of seven searches take minutes, and two that propose the same get the same.

What is compared, after Ansor's ablation (Zheng et al., OSDI 2020, section 7.1 and figure 7):
"evolution" is the search as it is; "no model" evolves on random scores; "beam" asks the model about
incomplete programs; "limited" may use only half of the sketches, as a template would; "random",
"grid" and "annealing" are the usual baselines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
from benchmarks.common import can_draw, machine, markdown_table, pictures, searched
from minitensor.errors import ScheduleError
from minitensor.ir import structural_hash
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.search import (
    STRATEGIES,
    Evolution,
    GradientBoostedTrees,
    Result,
    Runner,
    Settings,
    Space,
    Status,
    Strategy,
    Task,
)
from minitensor.search.evolution import NoModel
from minitensor.search.space import GRANULARITY, UNROLL, Candidate
from minitensor.search.tune import Learner, Tuner
from tutorials.schedules import HAND_SCHEDULES

MOST_OF_A_SKETCH = 1_500
"""Combinations of a sketch's decisions up to which all of it is measured."""
MOST_NAMES = 25_000
"""Of candidates in a table; many are the same program."""
STEPS = (16, 32, 64, 128, 256)
"""Trials after which searches are compared."""
NEAR = 1.05
"""Of the table's best: near enough to have found it."""
GROWN = ("evolution", "no model", "beam", "limited", "random")
"""Searches that are compared on a table that grows: each measurement takes a while."""
SEARCHES = (
    "evolution",
    "rank loss",
    "no model",
    "beam",
    "limited",
    "annealing",
    "grid",
    "random",
)


@dataclass(frozen=True)
class Table:
    """Every candidate of a space, and what it costs.

    name      of the workload
    sketches  which of the space's sketches are in it
    costs     seconds of a call; infinity for a failure
    programs  what distinguishes those that are the same program by two names
    """

    name: str
    about: str
    sketches: tuple[int, ...]
    costs: dict[Candidate, float]

    @property
    def best(self) -> float:
        return min(self.costs.values())

    def save(self, path: Path) -> None:
        rows = [[*_plain(c), round(s, 10) if s < np.inf else None] for c, s in self.costs.items()]
        values = {"name": self.name, "about": self.about, "sketches": self.sketches, "rows": rows}
        path.write_text(json.dumps(values), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Table:
        values = json.loads(path.read_text(encoding="utf-8"))
        costs = {}
        for sketch, chosen, locations, parallel, unroll, seconds in values["rows"]:
            decided = tuple(tuple(v) if isinstance(v, list) else v for v in chosen)
            key = Candidate(sketch, decided, tuple(locations), parallel, unroll)
            costs[key] = np.inf if seconds is None else seconds
        return Table(values["name"], values["about"], tuple(values["sketches"]), costs)


def _plain(candidate: Candidate) -> list[Any]:
    found = asdict(candidate)
    return [found[key] for key in ("sketch", "values", "locations", "parallel", "unroll")]


class TableSpace(Space):
    """The candidates of a table, and no others."""

    def __init__(self, table: Table, only: Sequence[int] | None = None) -> None:
        program = HAND_SCHEDULES[table.name].define()
        target = native_target(mt.Target("c"))
        whole = Space.of(program, target)
        kept = [whole.sketches[n] for n in table.sketches]
        super().__init__(program, target, kept)
        allowed = range(len(kept)) if only is None else only
        self.costs = {c: s for c, s in table.costs.items() if c.sketch in allowed}
        self.rows: dict[tuple[int, tuple[str, ...]], list[Candidate]] = {}
        for candidate in self.costs:
            self.rows.setdefault((candidate.sketch, candidate.locations), []).append(candidate)
        self.last: dict[str, float] = {}
        self._schedules: dict[Candidate, Schedule] = {}

    def draw(
        self,
        rng: random.Random,
        sketch: int | None = None,
        locations: tuple[str, ...] | None = None,
    ) -> Candidate:
        keys = [k for k in self.rows if sketch in (None, k[0]) and locations in (None, k[1])]
        return rng.choice(self.rows[rng.choice(keys or list(self.rows))])

    def identity(self, candidate: Candidate) -> Candidate:
        return candidate

    def schedule(self, candidate: Candidate) -> Schedule:
        if candidate not in self.costs:
            raise ScheduleError("not in the table", "T1")
        if candidate not in self._schedules:
            self._schedules[candidate] = super().schedule(candidate)
        schedule = self._schedules[candidate]
        self.last[structural_hash(schedule.program)] = self.costs[candidate]
        return schedule

    def measure(
        self, candidates: Sequence[Schedule], best: float | None = None
    ) -> Iterator[Result]:
        for schedule in candidates:
            seconds = self.last[structural_hash(schedule.program)]
            ok = seconds < np.inf
            yield Result(Status.OK, (seconds,), 1) if ok else Result(Status.CRASH)


# ---- the table


def measured(name: str, log: Any = sys.stderr) -> Table:
    """All candidates of the small sketches of a workload, measured."""
    program, target = HAND_SCHEDULES[name].define(), native_target(mt.Target("c"))
    whole = Space.of(program, target)
    sizes = [np.prod([len(k.options) for k in knobs], initial=1) for knobs in whole.knobs]
    small = [n for n, size in enumerate(sizes) if 1 < size <= MOST_OF_A_SKETCH]
    counts = [sum(1 for _ in _all(Space(program, target, [whole.sketches[n]]))) for n in small]
    sketches = tuple(n for n, c in zip(small, itertools.accumulate(counts)) if c <= MOST_NAMES)
    space = Space(program, target, [whole.sketches[n] for n in sketches])
    costs: dict[Candidate, float] = {}
    twins: dict[str, list[Candidate]] = {}
    schedules: dict[str, Schedule] = {}
    for candidate in _all(space):
        try:
            schedule = space.schedule(candidate)
        except ScheduleError:
            continue
        key = structural_hash(schedule.program)
        twins.setdefault(key, []).append(candidate)
        schedules.setdefault(key, schedule)
    print(f"{name}: {len(schedules)} programs, {sum(map(len, twins.values()))} names", file=log)
    keys, started = list(schedules), time.monotonic()
    settings = Settings(budget=0.05, repeats=3, most_repeats=6)
    with Runner(Task.of(program, target), settings) as runner:
        best = None
        for start in range(0, len(keys), 64):
            part = keys[start : start + 64]
            for key, result in zip(part, runner.measure([schedules[k] for k in part], best)):
                for candidate in twins[key]:
                    costs[candidate] = result.median
            best = min(costs.values())
            done = start + len(part)
            rate = done / (time.monotonic() - started)
            print(f"  {done}, {rate:.1f}/s, best {best * 1e3:.3f} ms", file=log, flush=True)
    return Table(name, machine(), sketches, costs)


def _all(space: Space) -> Iterator[Candidate]:
    for sketch, knobs in enumerate(space.knobs):
        places: list[tuple[str, ...]] = [()]
        for _ in space.movable[sketch]:
            places = [(*p, one) for p in places for one in space.possible_locations(sketch, p)[:3]]
        for values in itertools.product(*(k.options for k in knobs)):
            for where in places:
                for parallel, unroll in itertools.product(GRANULARITY[1:], UNROLL):
                    yield Candidate(sketch, values, where, parallel, unroll)


# ---- searches


def search(table: Table, variant: str, seed: int, trials: int) -> list[float]:
    """The best cost after each trial of one search."""
    half = range(0, len(table.sketches), 2) if variant == "limited" else None
    space = TableSpace(table, half)
    objective = "rank" if variant == "rank loss" else "squared"
    learner = Learner(space, GradientBoostedTrees(objective, seed=seed))
    strategy = _strategy(variant, population=512)
    tuner = Tuner(space, space, strategy, learner, trials, 16, seed=seed)
    tuner.run()
    costs = [t.seconds for t in tuner.tried]
    return list(np.minimum.accumulate([*costs, *[np.inf] * (trials - len(costs))]))


def _strategy(variant: str, population: int) -> Strategy:
    if variant == "no model":
        return NoModel(population=population)
    if variant in ("evolution", "rank loss", "limited"):
        return Evolution(population=population)
    return STRATEGIES[variant]


def compare(table: Table, seeds: int, trials: int) -> dict[str, list[list[float]]]:
    """The curves of all variants, as parts of the table's best: 1 is the best there is."""
    found: dict[str, list[list[float]]] = {}
    for variant in SEARCHES:
        curves = [search(table, variant, seed, trials) for seed in range(seeds)]
        found[variant] = [[table.best / s if s else 0.0 for s in curve] for curve in curves]
        steps = [n for n in STEPS if n <= trials]
        medians = [statistics.median(c[n - 1] for c in found[variant]) for n in steps]
        print(f"  {variant:10}", *(f"{m:6.3f}" for m in medians), flush=True)
    return found


def as_markdown(table: Table, curves: dict[str, list[list[float]]], trials: int) -> str:
    """A table: the median over seeds after so many trials, and the trials to come near the best."""
    lines = [
        f"### {HAND_SCHEDULES[table.name].name}",
        "",
        f"{len(table.costs):,} candidates, best {table.best * 1e3:.4g} ms, median "
        f"{statistics.median(table.costs.values()) * 1e3:.4g} ms; {table.about}",
        "",
        _curves_as_markdown(curves, trials),
    ]
    return "\n".join(lines)


def _curves_as_markdown(curves: dict[str, list[list[float]]], trials: int) -> str:
    steps = [n for n in STEPS if n <= trials]
    lines = [["search", *(f"after {n}" for n in steps), f"trials to {1 / NEAR:.0%}"]]
    for variant, found in curves.items():
        medians = [f"{statistics.median(c[n - 1] for c in found):.3f}" for n in steps]
        reached = [next((n for n, v in enumerate(c, 1) if v >= 1 / NEAR), None) for c in found]
        times = [n for n in reached if n is not None]
        near = f"{statistics.median(times):.0f}" if len(times) > len(found) // 2 else "-"
        near += "" if len(times) == len(found) else f" ({len(times)} of {len(found)} seeds)"
        lines.append([variant, *medians, near])
    return "\n".join([*markdown_table(lines), ""])


def plot(curves: dict[str, dict[str, list[list[float]]]], path: Path) -> None:
    """The curves, a picture for each table: medians over seeds, and quartiles as a band."""
    figure, axes = pictures(1, len(curves), 5.5, 4.2)
    for axis, (name, found) in zip(axes[0], curves.items()):
        for variant, seeds in found.items():
            table = np.array(seeds)
            trials = np.arange(1, table.shape[1] + 1)
            (line,) = axis.plot(trials, np.median(table, axis=0), label=variant)
            low, high = np.quantile(table, [0.25, 0.75], axis=0)
            axis.fill_between(trials, low, high, alpha=0.12, color=line.get_color())
        axis.set(title=HAND_SCHEDULES[name].name, xlabel="trials", ylim=(0.3, 1.02))
        axis.set_ylabel("speed, as a part of the best in the table")
        axis.grid(alpha=0.3)
    axes[0][0].legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


# ---- on a table that grows


class Shared:
    """Measures what was not measured before: all searches see the same cost of a program.

    path  of the table, a line for each program: its hash, and seconds (null for a failure)
    """

    def __init__(self, runner: Runner, path: Path) -> None:
        self.runner, self.path = runner, path
        self.known: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, seconds = json.loads(line)
                self.known[key] = _result(seconds)

    def measure(self, candidates: Sequence[Schedule], best: float | None = None) -> list[Result]:
        """As `Runner.measure`."""
        keys = [structural_hash(c.program) for c in candidates]
        news = {k: c for k, c in zip(keys, candidates) if k not in self.known}
        with self.path.open("a", encoding="utf-8") as file:
            for key, result in zip(news, self.runner.measure(list(news.values()), best)):
                seconds = result.median if result.ok else None
                self.known[key] = _result(seconds)
                print(json.dumps([key, seconds]), file=file)
        return [self.known[key] for key in keys]


def _result(seconds: float | None) -> Result:
    return Result(Status.CRASH) if seconds is None else Result(Status.OK, (seconds,), 1)


def grow(name: str, rules: str, seeds: int, trials: int, folder: Path) -> str:
    """All of GROWN on the whole space of some rules, over seeds; a table and its curves."""
    program, target = HAND_SCHEDULES[name].define(), native_target(mt.Target("c"))
    whole = Space.of(program, target, rules)
    half = Space(program, target, whole.sketches[::2])
    curves: dict[str, list[list[float]]] = {variant: [] for variant in GROWN}
    settings = Settings(budget=0.05, repeats=3, most_repeats=6)
    with Runner(Task.of(program, target), settings) as runner:
        shared = Shared(runner, folder / f"costs-{name}-{rules}.jsonl")
        for seed in range(seeds):
            for variant in GROWN:
                space = half if variant == "limited" else whole
                learner = Learner(space, GradientBoostedTrees(seed=seed))
                strategy = _strategy(variant, population=2048)
                tuner = Tuner(space, shared, strategy, learner, trials, 16, seed=seed)
                tuner.run()
                tried = [t.seconds for t in tuner.tried]
                tried += [np.inf] * (trials - len(tried))
                curves[variant].append(list(np.minimum.accumulate(tried)))
                last = curves[variant][-1][-1]
                print(f"  seed {seed}, {variant:10} {last * 1e3:.4g} ms", flush=True)
    costs = {k: r.median for k, r in shared.known.items() if r.ok}
    best = min(costs.values())
    parts = {c: [[best / s for s in one] for one in found] for c, found in curves.items()}
    values = {"name": name, "rules": rules, "about": machine(), "best": best, "curves": parts}
    (folder / f"grown-{name}-{rules}.json").write_text(json.dumps(values), encoding="utf-8")
    if can_draw():
        plot({name: parts}, folder / f"grown-{name}-{rules}.png")
    head = f"### {HAND_SCHEDULES[name].name}, rules={rules!r}, {seeds} seeds\n\n"
    about = f"{len(costs):,} programs measured, best {best * 1e3:.4g} ms; {machine()}\n\n"
    return head + about + _curves_as_markdown(parts, trials)


# ---- live


def live(name: str, trials: int, seed: int, folder: Path | None) -> str:
    """Tune for real; a line of figures."""
    hand = HAND_SCHEDULES[name]
    log = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"tuning-{name}.jsonl"
    result, points = searched(hand.define(), log, trials, seed)
    flop = hand.flop or 0
    outside = result.elapsed - result.measuring
    steps = [p for p in points if p[1] in (32, 64, 128, 256, 512, 1000) or p is points[-1]]
    curve = ", ".join(f"{n}: {b * 1e3:.3f} ms at {s:.0f} s" for s, n, b in steps)
    speed = f"{flop / result.seconds / 1e9:.0f} GFLOP/s" if flop else ""
    return (
        f"{hand.name}: {result.seconds * 1e3:.3f} ms {speed} after {len(result.tried)} trials, "
        f"{result.elapsed:.0f} s ({len(result.tried) / result.elapsed:.1f} trials/s), "
        f"{outside / result.elapsed:.0%} outside building and running; "
        f"failed {dict(result.failures)}; {curve}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="compare searches")
    parser.add_argument("what", choices=("measure", "replay", "grow", "live"))
    parser.add_argument("names", nargs="+", metavar="WORKLOAD|FILE")
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--rules", default="ansor", help="of the space of `grow`")
    given = parser.parse_args()
    if given.what == "measure":
        for name in given.names:
            measured(name).save((given.save or Path()) / f"search-{name}.json")
    elif given.what == "grow":
        folder = given.save or Path()
        for name in given.names:
            text = grow(name, given.rules, given.seeds, given.trials, folder)
            (folder / f"grown-{name}-{given.rules}.md").write_text(text, encoding="utf-8")
            print(text)
    elif given.what == "live":
        print(machine())
        for name in given.names:
            print(live(name, given.trials, given.seed, given.save), flush=True)
    else:
        curves, texts = {}, []
        for file in given.names:
            table = Table.load(Path(file))
            print(f"{table.name}: after {STEPS} trials")
            curves[table.name] = compare(table, given.seeds, given.trials)
            texts.append(as_markdown(table, curves[table.name], given.trials))
        print("\n".join(texts))
        if given.save is not None:
            (given.save / "search.md").write_text("\n".join(texts), encoding="utf-8")
            if can_draw():
                plot(curves, given.save / "search.png")


if __name__ == "__main__":
    main()
