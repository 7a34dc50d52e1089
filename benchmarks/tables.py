"""Tables of measured costs: a part of a workload's space, every program of it measured once.

    python -m benchmarks.tables conv-64-56 softmax     measure, on a quiet machine; goes on if ended
    python -m benchmarks.tables conv-1x1 --sketches 3 --programs 1000              a smaller table

Searches are compared on tables (`python -m benchmarks.search replay`), where noise cannot decide:
all of them see the same cost of a program, and two that propose the same get the same.

A table has some values of each decision of some sketches, and all their combinations; annotation is
the same for all nests and blocks (tutorials/replay). The sketches are kept as traces: a
table holds what it held when rules are no longer what they were.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
from benchmarks.common import machine
from minitensor.ir import structural_hash
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.search import Runner, Settings, Space, Task
from minitensor.search.space import GRANULARITY, UNROLL, Knob, Value
from tutorials import TABLES
from tutorials.replay import PLACES, Table, TableSpace
from tutorials.schedules import HAND_SCHEDULES

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
AGAIN = 64
"""The fastest programs, which are measured again: the fastest of thousands is a lucky one."""
TURNS = 4


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
    folder: Path = TABLES,
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
    parser.add_argument("--save", type=Path, default=TABLES, metavar="FOLDER")
    given = parser.parse_args()
    given.save.mkdir(parents=True, exist_ok=True)
    for workload in given.names:
        measure(workload, given.save, given.programs, given.sketches)
