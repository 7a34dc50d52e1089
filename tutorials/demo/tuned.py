"""Workloads whose schedules a search finds, beside those by hand, numpy, and torch if it is there.

Everybody takes turns, as in `minitensor bench`, but in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import OURS, Implementation, ours
from benchmarks.compare.results import Entry, Result
from benchmarks.compare.work import Work
from minitensor.cli.console import Console, indented
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
    """A workload, what the search found for it, and how fast everybody was in turns."""

    result: TuneResult
    timed: Result

    @property
    def found(self) -> Entry:
        """Ours, as the search has it."""
        return self.timed.entries[0]

    def ratio(self, name: str) -> float | None:
        """How many times as fast as somebody else ours is; None if they were not there."""
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


def tell(key: str, trials: int, pace: Pace, target: Target, console: Console, show: bool) -> Tuned:
    """Search for the schedule of a workload, say what was found, and compare.

    show  whether progress may be shown, on a terminal
    """
    hand = HAND_SCHEDULES[key]
    program = hand.define()
    console.print()
    console.print(console.styled(f"{hand.name}, float32", "bold", "cyan"))
    result = tune(program, target, trials, progress=None if show else False)
    if result.interrupted:  # whoever presses Ctrl-C here does not want the rest either
        raise KeyboardInterrupt
    console.print(_told(result))
    if result.choices is not None:
        derived = result.space.sketches[result.choices.sketch].explain()
        console.print(indented(console.styled(derived, "dim")))
    timed = compared(Work.of(key), result, pace, target)
    console.print()
    for line in console.table(list(_rows(Tuned(result, timed))), right=(1, 2, 3)):
        console.print(f"  {line}")
    return Tuned(result, timed)


def _told(result: TuneResult) -> str:
    failed = sum(result.failures.values())
    text = f"the best of {len(result.tried)} candidates in {result.elapsed:.0f} s"
    text += f" ({failed} failed)" if failed else ""
    steps = len(result.trace.steps)
    return f"{text}: {steps} step{'' if steps == 1 else 's'}, by these rules"


def compared(work: Work, result: TuneResult, pace: Pace, target: Target) -> Result:
    """Everybody in turns, the search's first. Raises CommandError if one of ours is wrong."""
    dropped: dict[str, str] = {}
    implementations = [*_own(work, result, target), *_peers(work, target, dropped)]
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


def _own(work: Work, result: TuneResult, target: Target) -> Iterator[Implementation]:
    output = work.output()
    call = result.kernel().prepare(*work.inputs, output)
    hand = next(c for c in ours(work, target.num_cores or 1) if c.name == OURS)
    for own in (
        Implementation(FOUND, call, lambda _: output),
        Implementation(BY_HAND, hand.call, hand.array),
    ):
        wrong = work.difference(own.array(own.call()))
        if wrong:
            raise CommandError(
                f"the kernel {own.name} is wrong for {work.name}: {wrong}; please report this"
            )
        yield own


def _peers(work: Work, target: Target, dropped: dict[str, str]) -> Iterator[Implementation]:
    """Those who are installed and compute it right; the reasons of the others are written down."""
    for name in PEERS:
        baseline = BASELINES[name]
        if baseline.missing:
            dropped[name] = f"{', '.join(baseline.missing)} is not installed"
            continue
        try:
            for peer in baseline.enter(name, work, target.num_cores or 1, {}):
                wrong = work.difference(peer.array(peer.call()))
                if wrong:
                    dropped[name] = f"wrong: {wrong}"
                else:
                    yield peer
        except Exception as failure:  # other people's libraries: they may raise anything
            dropped[name] = f"{type(failure).__name__}: {failure}"[:500]


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
    """A row for each workload: ours by search against everybody."""
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
