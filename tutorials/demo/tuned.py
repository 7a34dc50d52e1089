"""Workloads whose schedules a search finds, in turns with hand schedules, numpy and torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import Source, admitted, of_kernel, ours
from benchmarks.compare.results import Entry, Result
from benchmarks.compare.work import Work
from minitensor.cli.console import Console, aligned, indented
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.runtime import Pace, interleave
from minitensor.search import TuneResult, tune
from tutorials.schedules import HAND_SCHEDULES

FOUND: Final = "by search"
BY_HAND: Final = "by hand"
PEERS: Final = ("numpy", "torch")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A workload, the result of its search, and all times in turns."""

    result: TuneResult
    timed: Result

    @property
    def found(self) -> Entry:
        """The kernel of the search."""
        return self.timed.entries[0]

    def ratio(self, name: str) -> float | None:
        """The factor by which that is faster than another; None if the other was left out."""
        other = self.timed.entry(name)
        return None if other is None else self.found.times_as_fast_as(other)

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "name": self.timed.name,
            "flop": self.timed.flop or None,
            "bytes": self.timed.bytes,
            "trials": len(self.result.tried),
            "failures": dict(self.result.failures),
            "elapsed": self.result.elapsed,
            "ms": {entry.name: entry.seconds * 1e3 for entry in self.timed.entries},
            "missing": dict(self.timed.dropped),
            "python": self.result.trace.as_python().splitlines(),
        }


def search(
    key: str, trials: int, pace: Pace, target: Target, console: Console, show: bool
) -> Tuned:
    """Search for the schedule of a workload, say what was found, and compare.

    show  whether progress may be shown, on a terminal
    """
    hand = HAND_SCHEDULES[key]
    program = hand.define()
    console.print()
    console.print(console.styled(f"{hand.name}, float32", "bold", "cyan"))
    result = tune(program, target, trials, progress=None if show else False)
    if result.interrupted:  # Ctrl-C ends the demo, not one search only
        raise KeyboardInterrupt
    console.print(_said(result))
    if result.candidate is not None:
        derived = result.space.sketches[result.candidate.sketch].explain()
        console.print(indented(console.styled(derived, "dim")))
    timed = compared(Work.of(key), result, pace, target)
    console.print()
    for line in aligned(list(_rows(Tuned(result, timed))), right=(1, 2, 3)):
        console.print(f"  {line}")
    return Tuned(result, timed)


def _said(result: TuneResult) -> str:
    failed = sum(result.failures.values())
    text = f"the best of {len(result.tried)} candidates in {result.elapsed:.0f} s"
    text += f" ({failed} failed)" if failed else ""
    steps = len(result.trace.steps)
    return f"{text}: {steps} step{'' if steps == 1 else 's'}, by these rules"


def compared(work: Work, result: TuneResult, pace: Pace, target: Target) -> Result:
    """All in turns, the search's kernel first. Raises CommandError if one of ours is wrong."""
    threads = target.num_cores or 1
    dropped = {
        name: f"{', '.join(BASELINES[name].missing)} is not installed"
        for name in PEERS
        if BASELINES[name].missing
    }
    sources: dict[str, Source] = {
        FOUND: lambda: iter([of_kernel(FOUND, result.kernel(), work)]),
        BY_HAND: lambda: (replace(one, name=BY_HAND) for one in islice(ours(work, threads), 1)),
    }
    for name in PEERS:
        sources[name] = partial(BASELINES[name].enter, name, work, threads, {})
    implementations = list(admitted(sources, work, dropped))
    for name in (FOUND, BY_HAND):
        if name in dropped:
            reason = f"the kernel {name} fails for {work.name}: {dropped[name]}; please report this"
            raise CommandError(reason)
    turns = interleave(implementations, pace)
    entries = [Entry(c.name, turns[c.name].fastest, turns[c.name].typical) for c in implementations]
    roof = result.roofline()
    rates = [roof.peak * 1e9] * pace.rounds if roof.peak is not None else []
    return Result(
        work.key,
        work.name,
        work.kind,
        work.parameters,
        work.flop,
        work.bytes,
        entries,
        rates,
        dropped,
    )


def _rows(tuned: Tuned) -> Iterator[Sequence[str]]:
    """A line for each implementation."""
    timed = tuned.timed
    for entry in timed.entries:
        against = ""
        if entry is not tuned.found:
            against = f"by search is {tuned.found.times_as_fast_as(entry):.2f} x"
        yield (
            entry.name,
            f"{entry.seconds * 1e3:.3g} ms",
            f"{timed.rate(entry):.3g} {timed.unit}",
            _part(timed, entry),
            against,
        )


def _part(timed: Result, entry: Entry) -> str:
    part = timed.of_roof(entry)
    if part is None:
        return ""
    return f"{100 * part:.0f} % of {'peak' if timed.flop else 'bandwidth'}"


def summary(every: Sequence[Tuned]) -> list[Sequence[str]]:
    """A row for each workload: the kernel of the search against all others."""
    names = (BY_HAND, *(n for n in PEERS if any(t.timed.entry(n) for t in every)))
    rows: list[Sequence[str]] = [
        ("found by search", "ms", "rate", "", *(f"x {name}" for name in names))
    ]
    for tuned in every:
        timed, found = tuned.timed, tuned.found
        ratios = [tuned.ratio(name) for name in names]
        rows.append(
            (
                timed.name,
                f"{found.seconds * 1e3:.3g}",
                f"{timed.rate(found):.3g} {timed.unit}",
                _part(timed, found),
                *("-" if r is None else f"{r:.2f}" for r in ratios),
            )
        )
    return rows
