"""Bars for the hand schedules, from results of `benchmarks.compare`.

    python -m benchmarks.compare --threads 1,2 --save benchmarks/results
    python -m benchmarks.bars benchmarks/results/<file>.json

A bar is a ratio: to a baseline in the same rounds, to the limit of the machine in the same rounds,
or to another of our own figures. "At most" is the ratio of a kernel at 100 % of the limit: a
baseline near the limit cannot be beaten by a factor of 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compare.implementation import BOUND, OURS
from benchmarks.compare.results import Entry, Report, Result, Run, of_results
from minitensor.cli.console import aligned


@dataclass(frozen=True)
class Workload:
    """Some results: those of a kind whose parameters include the given ones."""

    kind: str
    parameters: Mapping[str, int]

    def among(self, run: Run) -> Result | None:
        for result in run.results:
            if result.kind == self.kind and self.parameters.items() <= result.parameters.items():
                return result
        return None


@dataclass(frozen=True)
class Verdict:
    """One bar, measured.

    value    the measured ratio; None without a measurement
    at_most  the ratio at the limit of the machine; None if that is not known
    """

    bar: str
    threads: int
    wanted: float
    value: float | None
    at_most: float | None = None

    @property
    def word(self) -> str:
        if self.value is None:
            return "not measured"
        return "met" if self.value >= self.wanted else "MISSED"


def square(n: int) -> Workload:
    return Workload("matmul", {"m": n, "n": n, "k": n})


def conv(c: int, f: int, h: int, kernel: int) -> Workload:
    return Workload("conv", {"c": c, "f": f, "h": h, "kernel": kernel})


PRODUCTS = {
    "matmul 1024": square(1024),
    "matmul 512": square(512),
    "matmul 2048": square(2048),
}
ODD = Workload("matmul", {"m": 997, "n": 1009, "k": 1013})
SMALL_PRODUCTS = {
    "matmul 16x1024x1024": Workload("matmul", {"m": 16, "n": 1024, "k": 1024}),
    "batch matmul 12x(128x128x64)": Workload("batch_matmul", {"m": 128, "n": 128, "k": 64}),
}
BEST_CONVS = {
    "conv 3x3 64->64 56x56": conv(64, 64, 56, 3),
    "conv 3x3 256->256 14x14": conv(256, 256, 14, 3),
}
OTHER_CONVS = {
    "conv 1x1 64->256 56x56": conv(64, 256, 56, 1),
    "conv 7x7/2 3->64 224x224": conv(3, 64, 224, 7),
    "conv 3x3 512->512 7x7": conv(512, 512, 7, 3),
    "depthwise 128 56x56": Workload("depthwise", {"c": 128, "h": 56}),
}
MEMORY = {
    "softmax 4096x1024": ("softmax", "onnxruntime"),
    "layer norm 4096x1024": ("layer_norm", "tvm"),
    "row sum 4096x4096": ("row_sum", "torch"),
    "full sum 16M": ("full_sum", "torch"),
    "5 elementwise 16M": ("elementwise", "inductor"),
    "transpose+add 4096x4096": ("transpose_add", "inductor"),
}


def verdicts(report: Report) -> list[Verdict]:
    """All bars, for each number of threads that was measured."""
    found: list[Verdict] = []
    for run in report.runs:
        found += _products(run, report)
        for name, workload in SMALL_PRODUCTS.items():
            found.append(_against(name, run, workload, OURS, "numpy", 1.5))
        for name, workload in BEST_CONVS.items():
            found.append(_against(name, run, workload, OURS, "torch", 0.95))
        for name, workload in (BEST_CONVS | OTHER_CONVS).items():
            found.append(_against(name, run, workload, BOUND, "onnxruntime bound", 0.9))
        for name, (kind, baseline) in MEMORY.items():
            found.append(_against(name, run, Workload(kind, {}), OURS, baseline, 0.9))
    return found


def _products(run: Run, report: Report) -> Iterator[Verdict]:
    for name, workload in PRODUCTS.items():
        result = workload.among(run)
        own = result.entry(OURS) if result else None
        if run.threads == 1:
            yield _against(name, run, workload, OURS, "numpy", 1.75)
            part = result.of_roof(own) if result and own else None
            yield Verdict(f"{name}: of the FMA peak", 1, 0.85, part, 1.0)
        elif run.threads == 2:
            alone = _own_seconds(report, 1, workload)
            gained = alone / own.seconds if alone and own else None
            yield Verdict(f"{name}: 2 threads against 1", 2, 1.85, gained, 2.0)
    odd, even = ODD.among(run), square(1024).among(run)
    value = None
    if odd and even and (a := odd.entry(OURS)) and (b := even.entry(OURS)):
        value = odd.rate(a) / even.rate(b)
    yield Verdict("matmul 997x1009x1013: of the rate at 1024", run.threads, 0.85, value)


def _own_seconds(report: Report, threads: int, workload: Workload) -> float | None:
    for run in report.runs:
        if run.threads == threads and (result := workload.among(run)):
            own = result.entry(OURS)
            return own.seconds if own else None
    return None


def _against(
    name: str, run: Run, workload: Workload, own_name: str, other: str, wanted: float
) -> Verdict:
    text = f"{name}: {own_name} against {other}"
    result = workload.among(run)
    if result is None:
        return Verdict(text, run.threads, wanted, None)
    own, baseline = _found(result, own_name), _found(result, other)
    if own is None or baseline is None:
        return Verdict(text, run.threads, wanted, None)
    part = result.of_roof(baseline) if result.flop else None  # a cache beats the memory's bandwidth
    return Verdict(
        text, run.threads, wanted, own.times_as_fast_as(baseline), 1 / part if part else None
    )


def _found(result: Result, name: str) -> Entry | None:
    """The entry of that name; where no weights can be bound, the one with all operands given."""
    return result.entry(name) or (
        None if any(e.bound for e in result.entries) else result.entry(name.removesuffix(" bound"))
    )


def table(found: list[Verdict]) -> str:
    rows = [("bar", "threads", "wanted", "measured", "at most", "")]
    for v in found:
        value = "" if v.value is None else f"{v.value:.2f}"
        most = "" if v.at_most is None else f"{v.at_most:.2f}"
        rows.append((v.bar, str(v.threads), f"{v.wanted:.2f}", value, most, v.word))
    return "\n".join(aligned(rows, right=(1, 2, 3, 4)))


def main() -> int:
    """The command; its exit status."""
    return of_results(__doc__, show)


def show(report: Report, as_json: bool) -> None:
    found = verdicts(report)
    if as_json:
        values: list[dict[str, Any]] = [{**asdict(v), "verdict": v.word} for v in found]
        print(json.dumps(values, indent=1))
    else:
        print(f"{report.about['machine']['cpu']}, {report.about['date']}")
        print(table(found))


if __name__ == "__main__":
    sys.exit(main())
