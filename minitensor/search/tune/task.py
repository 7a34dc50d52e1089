"""One task of networks: its kernel untuned, its search once that has begun, and its rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from minitensor.errors import MinitensorError
from minitensor.graph import Scheduled
from minitensor.ir import Program
from minitensor.search.alike import OF_EACH, Neighbour
from minitensor.search.records import Record
from minitensor.search.tasks import Curve, Leg
from minitensor.search.tried import fastest
from minitensor.search.tune.network_result import Step, TaskResult
from minitensor.search.tune.proposals import size_of_round
from minitensor.search.tune.search import Search
from minitensor.search.workload import operations

TUNED: Final = "this search"


@dataclass
class NetworkTask:
    """One task, as far as it has come.

    program  its definition
    first    seconds of its kernel untuned, where it stands in a network
    untuned  the schedule without this search
    legs     its rounds, those of the log too
    steps    the rounds of this search
    over     why it takes no more; "" while it does
    failed   the same, if nothing was found
    """

    program: Program
    first: float
    untuned: Scheduled
    legs: list[Leg] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    search: Search | None = None
    over: str = ""
    failed: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of the fastest kernel."""
        return min(self.first, self.legs[-1].seconds) if self.legs else self.first

    def curve(self, counts: Iterable[int]) -> Curve:
        """It, as a scheduler sees it.

        counts  how many times a call of each network runs it
        """
        numbers = tuple(map(float, counts))
        flop, legs = operations(self.program), tuple(self.legs)
        return Curve(self.program.name, numbers, flop, self.first, legs, self.over)

    def step(self, begin: Callable[[], Search], left: float, started: float) -> Leg | str:
        """Make a round; or the reason why there is none, which ends it.

        begin    makes its search
        left     seconds after which no more of the round is begun
        started  when the search for the networks began
        """
        if self.over:
            return self.over
        start = time.perf_counter()
        try:
            if self.search is None:
                self.search = begin()
                self.search.resume()
            before = len(self.search.tuner.tried)
            more = self.search.step(left)
        except MinitensorError as failure:
            self.failed = self.over = failure.message.splitlines()[0]
            return self.over
        tuner = self.search.tuner
        tried, best = len(tuner.tried) - before, tuner.best
        if not more and not self.search.interrupted:
            self.over = self.search.stopped or tuner.ended or "nothing new is left to try"
        if not tried:
            return self.over or "interrupted"
        seconds, now = best.seconds if best is not None else math.inf, time.perf_counter()
        self.legs.append(Leg(tried, round(now - start, 4), seconds))
        self.steps.append(Step(0, now - started, tried, seconds))
        return self.legs[-1]

    def neighbour(self, key: str) -> Neighbour:
        """The schedules that its search has found, for others; `key` is that of its program."""
        tried = fastest(self.search.tuner.tried) if self.search is not None else []
        ranked = sorted(tried, key=lambda one: one.steady)
        traces = [one.trace for one in ranked[:OF_EACH]]
        return Neighbour(key, self.program.name, operations(self.program), traces)

    def result(self, count: int) -> TaskResult:
        """The outcome for a network whose calls run it so many times."""
        trials, spent = sum(leg.trials for leg in self.legs), sum(leg.spent for leg in self.legs)
        found = TaskResult(
            self.program, count, self.first, self.untuned.schedule, self.first, trials, spent,
            self.failed, "" if self.failed else self.over, self.untuned.origin,
        )  # fmt: skip
        best = self.search.tuner.best if self.search is not None else None
        if best is None or best.seconds > self.first:
            return found
        schedule = best.trace.apply(self.program)
        return replace(found, schedule=schedule, seconds=best.seconds, origin=TUNED)


def legs_of(records: Sequence[Record], batch: int) -> list[Leg]:
    """The rounds in which records were made, as sizes of rounds are."""
    found: list[Leg] = []
    best, done = math.inf, 0
    while done < len(records):
        size = size_of_round(done, batch)
        part = records[done : done + size]
        best = min([best, *(record.median for record in part)])
        found.append(Leg(len(part), sum(record.spent for record in part), best))
        done += size
    return found
