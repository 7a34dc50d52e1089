"""Measured times, the figures that follow from them, and both as JSON.

The file holds the time of every round: all that is printed can be computed from it again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.compare.implementation import BOUND, OURS, TUNED, TUNED_BOUND
from minitensor.errors import ArgumentError
from minitensor.runtime import Limits, ratio
from tutorials.schedules import HAND_SCHEDULES

FORMAT: Final = "minitensor bench"
VERSION: Final = 1

OWN: Final = (OURS, BOUND, TUNED, TUNED_BOUND)


@dataclass(frozen=True, slots=True)
class Entry:
    """One implementation in one workload; an element for each round.

    fastest  seconds of the fastest call
    typical  seconds of the median call
    bound    the weights were given before the call
    note     a remark of the implementation
    """

    name: str
    fastest: Sequence[float]
    typical: Sequence[float]
    bound: bool = False
    note: str = ""

    @property
    def seconds(self) -> float:
        """The quoted time: the median over the rounds of the fastest call in a round."""
        return median(self.fastest)

    def times_as_fast_as(self, other: Entry) -> float:
        """The factor by which this one is faster: the median of the ratios within the rounds."""
        return ratio(self.fastest, other.fastest)


@dataclass(frozen=True, slots=True)
class Result:
    """All implementations of one workload.

    key, name, kind, parameters, flop, bytes   as in `Work`
    entries  in the order of tables: ours first
    roof     the limit of the machine in each round: operations a second if the workload is limited
             by those, else bytes a second
    dropped  implementations that were left out, and why
    """

    key: str
    name: str
    kind: str
    parameters: Mapping[str, int]
    flop: int
    bytes: int
    entries: Sequence[Entry]
    roof: Sequence[float] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Of the rates."""
        return "GFLOP/s" if self.flop else "GB/s"

    @property
    def work(self) -> int:
        """Operations or bytes of a call."""
        return self.flop or self.bytes

    def entry(self, name: str) -> Entry | None:
        """The implementation of that name; None if it was left out."""
        return next((e for e in self.entries if e.name == name), None)

    def rate(self, entry: Entry) -> float:
        """GFLOP/s or GB/s."""
        return self.work / entry.seconds / 1e9

    def of_roof(self, entry: Entry) -> float | None:
        """The fraction of the limit in the same round; None if that is not known."""
        if not self.roof:
            return None
        return median(
            self.work / s / limit for s, limit in zip(entry.fastest, self.roof, strict=True)
        )

    def baselines(self, bound: bool) -> list[Entry]:
        """The baselines, fastest first; those with bound weights only if `bound`."""
        others = [e for e in self.entries if e.name not in OWN and (bound or not e.bound)]
        return sorted(others, key=lambda e: e.seconds)

    def best_baseline(self, own: Entry) -> Entry | None:
        """The fastest of those that were given no more beforehand."""
        return next(iter(self.baselines(own.bound)), None)


@dataclass(slots=True)
class Run:
    """The results of one process.

    threads  of every implementation
    cores    the numbers of the cores it was pinned to, () if it was not
    limits   measured before the first workload
    """

    threads: int
    cores: Sequence[int]
    limits: Limits | None = None
    results: list[Result] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """All results of one command, and where they were measured.

    about        the date, the machine, the compiler and its flags, versions, the environment, the
                 rule of measuring and its pace: names to values that JSON can hold
    interrupted  whether it was stopped before the end
    """

    about: dict[str, Any]
    runs: list[Run] = field(default_factory=list)
    interrupted: bool = False

    def each(self) -> Iterator[tuple[Run, Result]]:
        """Every result with its run."""
        for run in self.runs:
            for result in run.results:
                yield run, result

    def to_json(self) -> dict[str, Any]:
        """As values that JSON can hold, ratios included for reading by eye."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **self.about,
            "interrupted": self.interrupted,
            "runs": [
                {
                    "threads": run.threads,
                    "cores": list(run.cores),
                    "limits": None if run.limits is None else asdict(run.limits),
                    "results": [{**result_to_json(r), "summary": summary(r)} for r in run.results],
                }
                for run in self.runs
            ],
        }

    @staticmethod
    def from_json(text: str) -> Report:
        """The inverse of `to_json`. Raises ArgumentError for any other text."""
        try:
            values = json.loads(text)
            if values.pop("format") != FORMAT or values.pop("version") != VERSION:
                raise ArgumentError(f"expected results of version {VERSION} of {FORMAT!r}")
            interrupted, runs = values.pop("interrupted"), values.pop("runs")
            return Report(values, [_run_of_json(run) for run in runs], interrupted)
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            if isinstance(failure, ArgumentError):
                raise
            raise ArgumentError(f"these are no results of {FORMAT!r}: {failure}") from failure


def summary(result: Result) -> dict[str, Any]:
    """For each of ours its rate, its part of the limit, and all ratios."""
    found: dict[str, Any] = {}
    for own in filter(None, map(result.entry, OWN)):
        best = result.best_baseline(own)
        part = result.of_roof(own)
        found[own.name] = {
            "milliseconds": round(own.seconds * 1e3, 5),
            "rate": round(result.rate(own), 2),
            "unit": result.unit,
            "of_machine": None if part is None else round(part, 4),
            "best_baseline": None if best is None else best.name,
            "times_as_fast_as": {
                baseline.name: round(own.times_as_fast_as(baseline), 4)
                for baseline in result.baselines(bound=True)
            },
        }
    return found


def lost(key: str, dropped: Mapping[str, str]) -> Result:
    """The result of a workload that was not measured."""
    hand = HAND_SCHEDULES[key]
    sizes = dict(hand.parameters)
    return Result(key, hand.name, hand.kind, sizes, hand.flop, hand.bytes, [], (), dropped)


def result_to_json(result: Result) -> dict[str, Any]:
    """The fields of a result."""
    return asdict(result)


def result_of_json(values: Mapping[str, Any]) -> Result:
    """The result of those fields. Raises TypeError or KeyError if they are others."""
    known = {name: value for name, value in values.items() if name != "summary"}
    entries = [Entry(**entry) for entry in known.pop("entries")]
    return Result(entries=entries, **known)


def _run_of_json(values: Mapping[str, Any]) -> Run:
    limits = values["limits"]
    return Run(
        values["threads"],
        values["cores"],
        None if limits is None else Limits(**limits),
        [result_of_json(result) for result in values["results"]],
    )


def of_results(description: str | None, show: Callable[[Report, bool], None]) -> int:
    """The command line of a script about a file of results; its exit status.

    show  prints the report; the flag says whether as JSON
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", help="a file of `benchmarks.compare --save`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    try:
        report = Report.from_json(Path(given.results).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ArgumentError) as failure:
        print(f"cannot read {given.results}: {failure}", file=sys.stderr)
        return 1
    show(report, given.json)
    return 0
