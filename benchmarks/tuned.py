"""Schedules of a search against the best baseline, from results of `benchmarks.compare --log`.

    python -m benchmarks.compare --log tuning.jsonl --tvm-records FOLDER --save FOLDER \\
        --baselines numpy,openblas-avx512,torch,inductor,onnxruntime,tvm
    python -m benchmarks.tuned FOLDER/<file>.json

For every workload the median, over the rounds, of the fastest baseline's time over ours. Where a
baseline has the weights beforehand (onnxruntime packs them), so has ours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.compare.implementation import OURS, TUNED, TUNED_BOUND
from benchmarks.compare.results import OWN, Entry, Report, Result

TVM = "tvm"
BARS = {"mean over the best": 0.95, "least": 0.75, "ahead": 8, "mean over TVM": 1.15}
"""Of the nineteen workloads with two threads."""


@dataclass(frozen=True)
class Row:
    """A workload.

    best   the fastest baseline, and its time over ours
    equal  the same with all operands given, to it and to ours
    tvm    TVM's time over ours, None without records
    hand   the hand schedule's time over ours
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
        _ratio(plain, tvm) if tvm else None,
        _ratio(plain, hand) if hand else None,
    )


def _best(own: Entry, baselines: Sequence[Entry]) -> tuple[str, float]:
    """The name of the fastest baseline; the ratio to the best of each round."""
    first = min(baselines, key=lambda e: e.seconds)
    times = zip(own.fastest, *(e.fastest for e in baselines))
    return first.name, median(min(them) / us for us, *them in times)


def _ratio(own: Entry, other: Entry) -> float:
    return median(them / us for us, them in zip(own.fastest, other.fastest))


def geometric(values: Sequence[float]) -> float:
    """The geometric mean; NaN of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """The figures that have a bar."""
    ratios = [r.best[1] for r in rows]
    return {
        "mean over the best": geometric(ratios),
        "least": min(ratios, default=math.nan),
        "ahead": sum(r > 1 for r in ratios),
        "mean over TVM": geometric([r.tvm for r in rows if r.tvm is not None]),
    }


def as_markdown(threads: int, rows: Sequence[Row]) -> str:
    """A table for one number of threads."""
    lines = [
        f"| {threads} threads | ms | best baseline | its time / ours | all operands given | "
        "| TVM / ours | hand / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        tvm, hand = (f"{v:.2f}" if v is not None else "-" for v in (r.tvm, r.hand))
        lines.append(
            f"| {r.name} | {r.seconds * 1e3:.4g} | {r.best[0]} | {r.best[1]:.2f} | "
            f"{r.equal[0]} | {r.equal[1]:.2f} | {tvm} | {hand} |"
        )
    found = summary(rows)
    figures = ", ".join(f"{name} {value:.2f} (bar {BARS[name]})" for name, value in found.items())
    return "\n".join([*lines, "", f"{len(rows)} workloads: {figures}."])


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", help="a file of `benchmarks.compare --save`")
    report = Report.from_json(Path(parser.parse_args().results).read_text(encoding="utf-8"))
    for run in report.runs:
        rows = [found for result in run.results if (found := row(result)) is not None]
        print(as_markdown(run.threads, rows), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
