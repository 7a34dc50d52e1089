"""What every benchmark does: take medians, print figures beside their bars, name the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from minitensor.runtime import cpu_name, find_toolchain, usable_cores
from minitensor.version import __version__


@dataclass(frozen=True)
class Figure:
    """One measured number.

    value    the median of the repeats
    fastest  the least of them: what a quiet machine would give
    bar      what the median is meant to stay under, in the same unit; None if it is only context
    note     what exactly was measured
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
    """The machine, the compiler and the interpreter on one line; how busy the machine is."""
    load = f"{os.getloadavg()[0]:.2f}"
    return (
        f"{cpu_name()}, {usable_cores()} cores, load {load}; {find_toolchain().version}; "
        f"Python {platform.python_version()}, numpy {np.__version__}, minitensor {__version__}"
    )


def seconds(call: Callable[[], object], repeat: int, number: int = 1) -> list[float]:
    """Seconds per call, `repeat` times: means over `number` calls; one call before is not timed."""
    call()
    results = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            call()
        results.append((time.perf_counter() - start) / number)
    return results


def figure(name: str, results: Sequence[float], unit: str, bar: float | None, note: str) -> Figure:
    """The figure for results in seconds; the unit is "ms" or "us"."""
    scale = {"ms": 1e3, "us": 1e6}[unit]
    return Figure(name, median(results) * scale, min(results) * scale, unit, bar, note)


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned lines."""
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
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )


def main(measure: Callable[[], list[Figure]], description: str | None) -> None:
    """The command line of a benchmark: run it and print, as JSON if asked."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    where = machine()
    figures = measure()
    if as_json:
        print(json.dumps({"machine": where, "figures": [asdict(f) for f in figures]}, indent=1))
    else:
        print(where)
        print(table(figures))
