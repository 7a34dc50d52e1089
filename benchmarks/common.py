"""The common ways of all benchmarks: figures beside their bars, tables, pictures, the machine."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import minitensor as mt
from minitensor.cli.console import aligned
from minitensor.runtime import cpu_name, find_toolchain, usable_cores
from minitensor.search import TuneResult
from minitensor.version import __version__


@dataclass(frozen=True)
class Figure:
    """One measured number.

    value    the median of the repeats
    fastest  the least of them: the value of a quiet machine
    bar      a bound on the median, in the same unit; None if the figure is only context
    note     a description of the measurement
    """

    name: str
    value: float
    fastest: float
    unit: str
    bar: float | None
    note: str

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        return "met" if self.value <= self.bar else "MISSED"


def machine() -> str:
    """The machine, the compiler and the interpreter on one line; the load of the machine."""
    load = f"{os.getloadavg()[0]:.2f}"
    return (
        f"{cpu_name()}, {usable_cores()} cores, load {load}; {find_toolchain().version}; "
        f"Python {platform.python_version()}, numpy {np.__version__}, minitensor {__version__}"
    )


# ---- times


def seconds(call: Callable[[], object], repeat: int, number: int = 1) -> list[float]:
    """Seconds per call, `repeat` times: means over `number` calls; one call before is not timed."""
    call()
    return [mean_seconds(call, number) for _ in range(repeat)]


def mean_seconds(
    call: Callable[[], object], number: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds per call, the mean over `number` calls."""
    start = clock()
    for _ in range(number):
        call()
    return (clock() - start) / number


def in_processes(code: str, processes: int, environment: Mapping[str, str]) -> list[list[float]]:
    """The numbers that a script prints in processes of its own; a first one fills the caches."""
    words = [sys.executable, "-c", code]
    results = []
    for _ in range(processes + 1):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        results.append([float(word) for word in done.stdout.split()])
    return results[1:]


def times_of_best(own: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """The time of the fastest of the others over our own: the median over the rounds."""
    return float(median(min(them) / us for us, *them in zip(own, *others)))


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def searched(
    program: mt.Program, log: Path | None, trials: int, seed: int, target: Any = "c"
) -> tuple[TuneResult, list[tuple[float, int, float]]]:
    """A search, and its curve: elapsed seconds, trials, seconds of the best, for each round."""
    curve: list[tuple[float, int, float]] = []
    result = mt.tune(
        program,
        target,
        trials=trials,
        seed=seed,
        log=log,
        callbacks=[lambda p: curve.append((p.elapsed, p.trials, p.best))],
        progress=False,
    )
    return result, curve


# ---- texts and pictures


def figure(name: str, results: Sequence[float], unit: str, bar: float | None, note: str) -> Figure:
    """The figure for results in seconds; the unit is "ms" or "us"."""
    scale = {"ms": 1e3, "us": 1e6}[unit]
    return Figure(name, median(results) * scale, min(results) * scale, unit, bar, note)


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; the first row is its head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|---" * len(rows[0]) + "|", *body]


def can_draw() -> bool:
    """Return whether matplotlib is there; a line on stderr if it is not."""
    there = importlib.util.find_spec("matplotlib") is not None
    if not there:
        print("no picture: it needs matplotlib (pip install matplotlib)", file=sys.stderr)
    return there


def pictures(lines: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of matplotlib with a grid of axes, each of so many inches."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - optional

    picture = Picture(figsize=(width * columns, height * lines))
    return picture, picture.subplots(lines, columns, squeeze=False)


def main(measure: Callable[[], list[Figure]], description: str | None) -> None:
    """The command line of a benchmark: run it and print, as JSON if asked."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    show(measure, parser.parse_args().json)


def show(measure: Callable[[], list[Figure]], as_json: bool) -> None:
    """Run a benchmark and print its figures."""
    where = machine()
    figures = measure()
    if as_json:
        print(json.dumps({"machine": where, "figures": [asdict(f) for f in figures]}, indent=1))
        return
    rows = [
        (
            f.name,
            f"{f.value:.3g} {f.unit}",
            f"fastest {f.fastest:.3g}",
            "" if f.bar is None else f"bar {f.bar:g} {f.unit}",
            f.verdict,
            f.note,
        )
        for f in figures
    ]
    print("\n".join([where, *aligned(rows)]))
