"""Schedules of a search against the best baseline, from results of `benchmarks.compare --log`.

    python -m benchmarks.compare --log tuning.jsonl --tvm-records FOLDER --save FOLDER \\
        --baselines numpy,openblas-avx512,torch,inductor,onnxruntime,tvm
    python -m benchmarks.tuned FOLDER/<file>.json

For every workload the median, over the rounds, of the fastest baseline's time over ours. Where a
baseline has the weights beforehand (onnxruntime packs them), so has ours.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common import geometric_mean, markdown_table, times_of_best
from benchmarks.compare.implementation import OURS, TUNED, TUNED_BOUND
from benchmarks.compare.results import OWN, Entry, Report, Result, of_results

TVM = "tvm"
BARS = {
    "mean over the best": 0.95,
    "least": 0.75,
    "ahead": 8,
    "mean over TVM": 1.15,
    "least of by hand": 0.97,
}
"""Of the nineteen workloads with two threads."""


@dataclass(frozen=True)
class Row:
    """A workload.

    best   the fastest baseline, and its time over ours
    equal  the same with all operands given, to it and to ours
    tvm    TVM's time over ours, None without records
    hand   the hand schedule's time over ours: under 1, the space or the search lacks something
    """

    name: str
    seconds: float
    best: tuple[str, float]
    equal: tuple[str, float]
    tvm: float | None
    hand: float | None


def row(result: Result) -> Row | None:
    """The row of a workload; None without a schedule of a search, or without baselines."""
    plain, hand = result.entry(TUNED), result.entry(OURS)
    baselines = [e for e in result.entries if e.name not in OWN]
    if plain is None or not baselines:
        return None
    ours = result.entry(TUNED_BOUND) or plain
    tvm = result.entry(TVM)
    return Row(
        result.name,
        ours.seconds,
        _best(ours, baselines),
        _best(plain, [e for e in baselines if not e.bound]),
        plain.times_as_fast_as(tvm) if tvm else None,
        plain.times_as_fast_as(hand) if hand else None,
    )


def _best(own: Entry, baselines: Sequence[Entry]) -> tuple[str, float]:
    """The name of the fastest baseline; the ratio to the best of each round."""
    first = min(baselines, key=lambda e: e.seconds)
    return first.name, times_of_best(own.fastest, [e.fastest for e in baselines])


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """The figures that have a bar."""
    ratios = [r.best[1] for r in rows]
    return {
        "mean over the best": geometric_mean(ratios),
        "least": min(ratios, default=math.nan),
        "ahead": sum(r > 1 for r in ratios),
        "mean over TVM": geometric_mean([r.tvm for r in rows if r.tvm is not None]),
        "least of by hand": min((r.hand for r in rows if r.hand is not None), default=math.nan),
    }


def as_markdown(threads: int, rows: Sequence[Row]) -> str:
    """A table for one number of threads."""
    head = [
        f"{threads} threads",
        "ms",
        "best baseline",
        "its time / ours",
        "all operands given",
        "",
    ]
    lines = [[*head, "TVM / ours", "hand / ours"]]
    for r in rows:
        best, equal = ((name, f"{value:.2f}") for name, value in (r.best, r.equal))
        last = (f"{v:.2f}" if v is not None else "-" for v in (r.tvm, r.hand))
        lines.append([r.name, f"{r.seconds * 1e3:.4g}", *best, *equal, *last])
    found = summary(rows)
    figures = ", ".join(f"{name} {value:.2f} (bar {BARS[name]})" for name, value in found.items())
    return "\n".join([*markdown_table(lines), "", f"{len(rows)} workloads: {figures}."])


def show(report: Report, as_json: bool) -> None:
    """Print the tables."""
    for run in report.runs:
        rows = [found for result in run.results if (found := row(result)) is not None]
        if as_json:
            print(json.dumps({"threads": run.threads, **summary(rows)}))
        else:
            print(as_markdown(run.threads, rows), "\n")


if __name__ == "__main__":
    sys.exit(of_results(__doc__, show))
