"""Workloads whose schedules a search found: recorded ones, and one that is searched for now.

`recorded.jsonl` is a log of `mt.tune` as any other: the best of long searches, for vectors of 256
bits and, where there is one, of 512. `python -m tutorials.demo.record` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import minitensor as mt
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import Source, admitted, of_kernel, ours
from benchmarks.compare.work import Work
from minitensor.cli.console import Console, aligned, indented
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.looks import readable_seconds
from minitensor.runtime import Pace, interleave
from minitensor.search import Log, Record, Roofline, TuneResult, tune, workload_key

from ..schedules import HAND_SCHEDULES

LOG: Final = Path(__file__).with_name("recorded.jsonl")
RECORDED: Final = "recorded"
LIVE: Final = "found now"
BY_HAND: Final = "by hand"
PEERS: Final = ("numpy", "torch")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A workload and the fastest call of each implementation of it, in seconds, all in turns.

    live  the search that ran now; None for a recorded schedule only
    """

    work: Work
    seconds: Mapping[str, float]
    roof: Roofline
    live: TuneResult | None = None

    def described(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = {
            "name": self.work.name,
            "flop": self.work.flop or None,
            "bytes": self.work.bytes,
            "ms": {name: seconds * 1e3 for name, seconds in self.seconds.items()},
        }
        if self.live is not None:
            found["trials"] = len(self.live.tried)
            found["elapsed"] = self.live.elapsed
            found["failures"] = dict(self.live.failures)
            found["python"] = self.live.trace.as_python().splitlines()
        return found

    def rows(self) -> Iterator[Sequence[str]]:
        """A line for each implementation."""
        numpy = self.seconds["numpy"]
        for name, seconds in self.seconds.items():
            part = self.roof.part(seconds)
            of = "peak" if self.roof.flop else "bandwidth"
            yield (
                name,
                readable_seconds(seconds),
                f"{self.roof.rate(seconds):.3g} {self.roof.unit}",
                "" if part is None else f"{100 * part:.0f} % of {of}",
                "" if name == "numpy" else f"{numpy / seconds:.2f} x numpy",
            )


def recorded(program: mt.Program, target: Target) -> Record:
    """The best record of a program whose vectors are most like the target's."""

    def distance(record: Record) -> tuple[int, float]:
        return abs((record.target.vector_bits or 0) - (target.vector_bits or 0)), record.median

    key = workload_key(program)
    return min((one for one in Log(LOG) if one.workload == key), key=distance)


def search(key: str, trials: int, target: Target, console: Console, show: bool) -> TuneResult:
    """Search for the schedule of a workload, and say what was found.

    show  whether progress may be shown, on a terminal
    """
    result = tune(HAND_SCHEDULES[key].define(), target, trials, progress=None if show else False)
    if result.interrupted:  # Ctrl-C ends the demo, not one search only
        raise KeyboardInterrupt
    console.print(_said(result))
    if result.candidate is not None:
        derived = result.space.sketches[result.candidate.sketch].explain()
        console.print(indented(console.styled(derived, "dim")))
    return result


def _said(result: TuneResult) -> str:
    failed = sum(result.failures.values())
    text = f"the best of {len(result.tried)} candidates in {result.elapsed:.0f} s"
    text += f" ({failed} failed)" if failed else ""
    steps = len(result.trace.steps)
    return f"{text}: {steps} step{'' if steps == 1 else 's'}, by these rules"


def compared(
    key: str, pace: Pace, target: Target, console: Console, live: TuneResult | None = None
) -> Tuned:
    """A workload's kernels in turns, and a table. Raises CommandError if one of ours is wrong."""
    work, threads = Work.of(key), target.num_cores or 1
    program = HAND_SCHEDULES[key].define()
    dropped = {n: "it is not installed" for n in PEERS if BASELINES[n].missing}

    def replayed() -> Iterator[Any]:
        schedule = recorded(program, target).parsed().apply(program)
        yield of_kernel(RECORDED, mt.build(schedule, target), work)

    sources: dict[str, Source] = {RECORDED: replayed}
    if live is not None:
        sources[LIVE] = lambda: iter([of_kernel(LIVE, live.kernel(), work)])
    sources[BY_HAND] = lambda: (
        replace(one, name=BY_HAND) for one in islice(ours(work, threads), 1)
    )
    own = tuple(sources)
    for name in PEERS:
        sources[name] = partial(BASELINES[name].enter, name, work, threads, {})
    implementations = list(admitted(sources, work, dropped))
    for name in own:
        if name in dropped:
            reason = f"the kernel {name} fails for {work.name}: {dropped[name]}; please report this"
            raise CommandError(reason)
    turns = interleave(implementations, pace)
    seconds = {one.name: min(turns[one.name].fastest) for one in implementations}
    roof = Roofline.of(program, target).corrected(min(seconds.values()))
    tuned = Tuned(work, seconds, roof, live)
    console.print()
    console.print(console.styled(f"{work.name}, float32", "bold", "cyan"))
    for line in aligned(list(tuned.rows()), right=(1, 2, 3, 4)):
        console.print(f"  {line}")
    return tuned
