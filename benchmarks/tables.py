"""Tables of measured costs: a part of a workload's space, every program of it measured once.

    python -m benchmarks.tables conv-64-56 softmax     measure, on a quiet machine; goes on if ended
    python -m benchmarks.tables conv-1x1 --sketches 3 --programs 1000              a smaller table

Searches are compared on tables (`python -m benchmarks.search replay`), where noise cannot decide:
all of them see the same cost of a program, and two that propose the same get the same.

A table has some values of each decision of some sketches, and all their combinations; annotation is
the same for all nests and blocks. So what is drawn, mutated and crossed in it is in it too. The
sketches are kept as traces: a table holds what it held when rules are no longer what they were.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
from benchmarks.common import machine
from minitensor.ir import structural_hash
from minitensor.runtime import native_target
from minitensor.schedule import Schedule, Trace
from minitensor.search import Runner, Settings, Space, Task
from minitensor.search.sketch import Derived, Sketch
from minitensor.search.space import GRANULARITY, UNROLL, Candidate, Knob, Move, Mutations, Value
from minitensor.search.space.candidate import USUAL
from minitensor.search.workload import workload_key
from tutorials.schedules import HAND_SCHEDULES

FOLDER = Path(__file__).parent / "tables"
WORKLOADS = ("conv-64-56", "dense-1024", "softmax", "depthwise", "batch-matmul", "conv-1x1")
"""A convolution with bias and relu, a product with them, a chain of reductions, a window over each
channel; and, with fewer sketches, a batch of products and a convolution of one pixel.
"""
MOST_SKETCHES = 5
"""The likeliest of a space, and one of Ansor's rules."""
MOST_NAMES = 1_800
"""Candidates of a sketch; as many values of its decisions are taken as make no more. Twice as many,
and so on, while these are too few programs."""
FEWEST = 2_000
"""Programs of a table."""
MOST_VALUES = 6
PLACES = 2
"""Places for a block that may be computed elsewhere."""
AGAIN = 64
"""The fastest programs, which are measured again: the fastest of thousands is a lucky one."""
TURNS = 4


@dataclass(frozen=True, slots=True)
class OpenKnob(Knob):
    """A knob some of whose values are in a table."""

    allowed: tuple[Value, ...] = ()

    @property
    def options(self) -> tuple[Value, ...]:
        return self.allowed

    def draw(self, rng: random.Random) -> Value:
        weights = [self.weights[v] for v in self.allowed if isinstance(v, int) and self.weights]
        return rng.choices(self.allowed, weights or None)[0]

    def likeliest(self, rng: random.Random) -> Value:
        return self.allowed[0] if self.weights else self.draw(rng)

    def changed(self, value: Value, rng: random.Random) -> Value:
        if isinstance(value, tuple):
            return rng.choice(self.allowed)
        ordered = sorted(v for v in self.allowed if isinstance(v, int))
        place = ordered.index(value)
        near = [v for v in ordered[max(0, place - 1) : place + 2] if v != value]
        return rng.choice(near) if near and rng.random() < 0.7 else self.draw(rng)

    def moved(self, value: Value, source: int, target: int, rng: random.Random) -> Value:
        if source < 0 or not isinstance(value, tuple):
            return self.changed(value, rng)
        tiles = [v for v in self.allowed if isinstance(v, tuple)]
        moved = [v for v in tiles if v[source] < value[source] and v[target] > value[target]]
        return rng.choice(moved) if moved else value


@dataclass(frozen=True)
class Table:
    """A part of the space of a workload, and what its programs cost.

    name      of the workload
    about     the machine, and when it was measured
    target    what programs were built for
    sketches  their traces, and the rules that led to them
    allowed   the values of each decision of each sketch
    programs  for each candidate, in the order of `TableSpace.names`, the number of its program; -1
              if it is refused
    seconds   of a call of each program; NaN while it is not measured, infinity for a failure
    """

    name: str
    about: str
    target: mt.Target
    sketches: tuple[Sketch, ...]
    allowed: tuple[tuple[tuple[Value, ...], ...], ...]
    programs: Sequence[int]
    seconds: np.ndarray

    @property
    def best(self) -> float:
        return float(np.nanmin(self.seconds))

    def save(self, path: Path) -> None:
        values = {
            "name": self.name,
            "about": self.about,
            "workload": workload_key(self.sketches[0].program),
            "target": asdict(self.target),
            "sketches": [
                {"trace": s.to_json(), "history": [list(asdict(d).values()) for d in s.history]}
                for s in self.sketches
            ],
            "allowed": self.allowed,
            "programs": list(self.programs),
            "seconds": [_as_json(s) for s in self.seconds],
        }
        text = json.dumps(values, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode("ascii"), mtime=0))

    @staticmethod
    def load(path: Path) -> Table:
        values = json.loads(gzip.decompress(path.read_bytes()))
        program = HAND_SCHEDULES[values["name"]].define()
        if workload_key(program) != values["workload"]:
            raise SystemExit(f"{path}: {values['name']} is another program now; measure it again")
        sketches = tuple(
            Sketch(program, Trace.from_json(s["trace"]), tuple(Derived(*d) for d in s["history"]))
            for s in values["sketches"]
        )
        allowed = tuple(
            tuple(tuple(tuple(v) if isinstance(v, list) else v for v in knob) for knob in knobs)
            for knobs in values["allowed"]
        )
        seconds = np.array([_from_json(s) for s in values["seconds"]])
        target = mt.Target(**values["target"])
        about = values["about"]
        return Table(values["name"], about, target, sketches, allowed, values["programs"], seconds)


def _as_json(seconds: float) -> float | str | None:
    if math.isnan(seconds):
        return None
    return "failed" if math.isinf(seconds) else float(f"{seconds:.6g}")


def _from_json(value: float | str | None) -> float:
    return {None: math.nan, "failed": math.inf}.get(value, value)  # type: ignore[arg-type,return-value]


class TableSpace(Space):
    """The candidates of a table, and no others.

    names     the number of the program of each
    template  whether it is the space of a template: the first sketch only, annotated as is usual
    """

    def __init__(self, table: Table, template: bool = False) -> None:
        program, self.template = table.sketches[0].program, template
        kept = table.sketches[:1] if template else table.sketches
        super().__init__(program, table.target, kept)
        self.knobs = tuple(
            tuple(_opened(knob, values) for knob, values in zip(knobs, allowed))
            for knobs, allowed in zip(self.knobs, table.allowed)
        )
        self.names = dict(zip(self.every(), table.programs or itertools.repeat(-1)))

    def every(self) -> Iterator[Candidate]:
        """All candidates, in an order that does not change."""
        for sketch, knobs in enumerate(self.knobs):
            places: list[tuple[str, ...]] = [()]
            for _ in self.movable[sketch]:
                places = [(*p, one) for p in places for one in self.possible_locations(sketch, p)]
            for values in itertools.product(*(knob.options for knob in knobs)):
                for where in places:
                    one = Candidate(sketch, values, where)
                    for amounts in itertools.product(GRANULARITY[1:], UNROLL):
                        yield self.annotated(one, *amounts)

    def possible_locations(self, sketch: int, locations: tuple[str, ...]) -> tuple[str, ...]:
        return super().possible_locations(sketch, locations)[:PLACES]

    def draw(
        self,
        rng: random.Random,
        sketch: int | None = None,
        locations: tuple[str, ...] | None = None,
    ) -> Candidate:
        return self.alike(super().draw(rng, sketch, locations))

    def mutated(
        self, candidate: Candidate, rng: random.Random, weights: Mutations | None = None
    ) -> Candidate:
        made = self.alike(super().mutated(candidate, rng, weights), candidate)
        return made if made in self.names else candidate

    def moved(self, candidate: Candidate, move: Move, rng: random.Random) -> Candidate:
        made = self.alike(super().moved(candidate, move, rng), candidate)
        return made if made in self.names else candidate

    def crossed(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        made = self.alike(super().crossed(a, b, rng))
        return made if made in self.names else a

    def alike(self, made: Candidate, before: Candidate | None = None) -> Candidate:
        """The candidate with one annotation for all: what differs from that before, if anything."""
        if self.template:
            return self.annotated(made, *USUAL)
        parallel, unroll = made.parallel[:1], made.unroll[:1]
        if before is not None:
            parallel = next(((n,) for n in made.parallel if n not in before.parallel), parallel)
            unroll = next(((n,) for n in made.unroll if n not in before.unroll), unroll)
        return self.annotated(made, *(parallel or (1,)), *(unroll or (0,)))


def _opened(knob: Knob, allowed: tuple[Value, ...]) -> OpenKnob:
    values = {name: getattr(knob, name) for name in Knob.__dataclass_fields__}
    return OpenKnob(**values, allowed=allowed)


# ---- measuring


def made(
    name: str, fewest: int = FEWEST, most_sketches: int = MOST_SKETCHES
) -> tuple[Table, dict[int, Schedule]]:
    """The table of a workload, with nothing measured, of so many programs if the values of its
    decisions allow, and of so many sketches at most; and a schedule of each program.
    """
    program, target = HAND_SCHEDULES[name].define(), native_target(mt.Target("c"))
    space = Space.of(program, target)
    order = sorted(range(len(space.sketches)), key=lambda n: -space.weights[n])
    chosen = tuple(dict.fromkeys([*order[: most_sketches - 1], order[-1]]))
    sketches = tuple(space.sketches[n] for n in chosen)
    table = Table(name, machine(), target, sketches, (), (), np.zeros(0))
    schedules: dict[int, Schedule] = {}
    most = MOST_NAMES
    while len(schedules) < fewest:
        allowed = tuple(_allowed(space, n, most) for n in chosen)
        if most > MOST_NAMES and allowed == table.allowed:
            break
        table = replace(table, allowed=allowed, programs=())
        programs, schedules = _programs(TableSpace(table))
        table = replace(table, programs=programs, seconds=np.full(len(schedules), np.nan))
        most *= 2
    return table, schedules


def _programs(space: TableSpace) -> tuple[list[int], dict[int, Schedule]]:
    """The number of the program of each candidate, -1 if it is refused; a schedule of each."""
    numbers: dict[str, int] = {}
    known: dict[object, int] = {}
    schedules: dict[int, Schedule] = {}
    programs = []
    for candidate in space.names:
        identity = space.identity(candidate)
        if identity not in known:
            known[identity] = -1
            with contextlib.suppress(mt.ScheduleError):
                schedule = space.schedule(candidate)
                number = numbers.setdefault(structural_hash(schedule.program), len(numbers))
                known[identity] = number
                schedules.setdefault(number, schedule)
        programs.append(known[identity])
    return programs, schedules


def _allowed(space: Space, number: int, names: int) -> tuple[tuple[Value, ...], ...]:
    """As many values of each decision of a sketch as make no more than so many candidates."""
    knobs, rest = space.knobs[number], len(GRANULARITY[1:]) * len(UNROLL)
    rest *= PLACES ** len(space.movable[number])
    found: tuple[tuple[Value, ...], ...] = ()
    for most in range(2, MOST_VALUES + 1):
        values = tuple(_some(knob, most) for knob in knobs)
        if found and math.prod(map(len, values)) * rest > names:
            break
        found = values
    return found


def _some(knob: Knob, most: int) -> tuple[Value, ...]:
    """The likeliest values, the first in front; where all are alike, some evenly spread."""
    options = knob.options
    if knob.weights:
        return tuple(sorted(options, key=lambda v: -knob.weights[int(v)])[:most])  # type: ignore[arg-type]
    places = np.linspace(0, len(options) - 1, min(most, len(options))).round().astype(int)
    return tuple(options[place] for place in dict.fromkeys(places.tolist()))


def measure(
    name: str,
    folder: Path = FOLDER,
    fewest: int = FEWEST,
    sketches: int = MOST_SKETCHES,
    log: Any = sys.stderr,
) -> None:
    """Measure what is not in the table of a workload yet; then the fastest again, in turns."""
    path = folder / f"{name}.json.gz"
    table, schedules = made(name, fewest, sketches)
    if path.exists():
        before = Table.load(path)
        if list(before.programs) == table.programs and before.allowed == table.allowed:
            table = before
    print(f"{name}: {len(table.seconds)} programs, {len(table.programs)} names", file=log)
    seconds, started, done = table.seconds, time.monotonic(), 0
    settings = Settings(budget=0.05, repeats=3, most_repeats=6)
    with Runner(Task.of(table.sketches[0].program, table.target), settings) as runner:
        left = np.flatnonzero(np.isnan(seconds))
        np.random.default_rng(0).shuffle(left)
        for start in range(0, len(left), 64):
            part = left[start : start + 64].tolist()
            best = None if np.isnan(seconds).all() else table.best
            for number, result in zip(part, runner.measure([schedules[n] for n in part], best)):
                seconds[number] = result.median
            done += len(part)
            table.save(path)
            rate = done / (time.monotonic() - started)
            print(
                f"  {done} of {len(left)}, {rate:.1f}/s, best {table.best * 1e3:.3f} ms", file=log
            )
        near = np.argsort(seconds)[:AGAIN].tolist()
        again = [
            [r.median for r in runner.measure([schedules[n] for n in near])] for _ in range(TURNS)
        ]
    for number, times in zip(near, zip(*again)):
        seconds[number] = statistics.median(times)
    table.save(path)
    print(f"  best {table.best * 1e3:.3f} ms", file=log)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="measure tables of costs")
    parser.add_argument("names", nargs="*", default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument(
        "--programs", type=int, default=FEWEST, metavar="N", help="at least so many"
    )
    parser.add_argument("--sketches", type=int, default=MOST_SKETCHES, metavar="N", help="at most")
    parser.add_argument("--save", type=Path, default=FOLDER, metavar="FOLDER")
    given = parser.parse_args()
    given.save.mkdir(parents=True, exist_ok=True)
    for workload in given.names:
        measure(workload, given.save, given.programs, given.sketches)
