"""The loop of a search: propose, measure, record, learn.

What a round proposes depends on the seed and on what was measured before it, and on nothing else:
the same records give the same search, bit for bit.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, Protocol

from minitensor.errors import ArgumentError, MinitensorError, kind_of, shown
from minitensor.schedule import Schedule, Trace
from minitensor.search.log import Log, applied, counted
from minitensor.search.records import OK, Record, checked_seconds, new_record
from minitensor.search.runner import Result, Status
from minitensor.search.space import Candidate, Space
from minitensor.search.strategy import Strategy
from minitensor.search.tune.learner import Learner, spearman
from minitensor.search.tune.proposals import Proposals

logger = logging.getLogger("minitensor")

CHUNK: Final = 16
"""Candidates that are built together, before the first of them is measured."""


class RunnerProtocol(Protocol):
    """A source of measurements; `mt.search.Runner` is one, and so is a table of recorded costs."""

    def measure(
        self, schedules: Sequence[Schedule], best: float | None = None, /
    ) -> Iterable[Result]:
        """The result of each schedule, in order. Each is recorded before the next is asked for.

        best  seconds of the fastest so far, None at first: one that is clearly slower may be
              stopped early
        """
        ...


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate that was tried.

    number   counted from 1
    trace    its steps
    candidate  None for a record that this space does not hold
    status   "ok", or how it failed
    seconds  per call, the median; infinity for a failure
    error    what went wrong, in one line
    known    whether it was recorded before, and not measured again
    guess    the model's score before it was measured; None if there was no model
    """

    number: int
    trace: Trace
    candidate: Candidate | None
    status: str
    seconds: float
    error: str = ""
    known: bool = False
    guess: float | None = None


def fastest(tried: Iterable[Tried]) -> list[Tried]:
    """Those that worked, fastest first."""
    return sorted((t for t in tried if t.status == OK), key=lambda t: t.seconds)


def foreseen(tried: Iterable[Tried]) -> float | None:
    """Spearman's rank correlation of the model's scores with the measured speeds."""
    known = [(t.guess, -t.seconds) for t in tried if t.guess is not None]
    return spearman([guess for guess, _ in known], [speed for _, speed in known])


def curve(tried: Sequence[Tried]) -> list[float]:
    """After each trial, the seconds of the fastest until then; infinity while there is none."""
    return list(accumulate((t.seconds for t in tried), min))


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a search; callbacks get one after each chunk.

    round        counted from 1
    trials       candidates that were tried, and of how many
    failures     by kind
    best         seconds of the fastest; infinity if there is none
    correlation  of the model's scores with what was measured in the last round: Spearman's ρ; None
                 if there is no model yet
    elapsed      seconds since the search began
    measuring    of these, building and running candidates
    latest       what was tried since the last call
    """

    round: int
    trials: int
    wanted: int
    failures: Counter[str]
    best: float
    correlation: float | None
    elapsed: float
    measuring: float
    latest: tuple[Tried, ...]

    @property
    def eta(self) -> float:
        """Seconds that are left, if all goes on as before; infinity at the beginning."""
        left = self.wanted - self.trials
        return self.elapsed * left / self.trials if self.trials else float("inf")


@dataclass
class Tuner:
    """One search over a space.

    runner    builds and measures
    strategy  proposes
    learner   features and the model
    trials    how many candidates, those that are recorded already counted in
    batch     candidates of a round
    log       where candidates are recorded; None for nowhere
    seed      of everything that is drawn
    """

    space: Space
    runner: RunnerProtocol
    strategy: Strategy
    learner: Learner
    trials: int
    batch: int
    log: Log | None = None
    seed: int = 0
    callback: Callable[[Progress], object] = lambda progress: None
    tried: list[Tried] = field(default_factory=list)
    rounds: int = 0
    measuring: float = 0.0
    correlation: float | None = None
    failures: list[tuple[Schedule, Result]] = field(default_factory=list)
    """Those of this run while nothing has worked."""
    unrecorded: int = 0
    """Candidates that were tried, and that the log did not take."""
    _started: float = 0.0

    def __post_init__(self) -> None:
        self.proposals = Proposals(self.space, self.strategy)

    @property
    def best(self) -> Tried | None:
        """The fastest candidate that worked."""
        return next(iter(fastest(self.tried)), None)

    def resume(self, records: Sequence[Record]) -> None:
        """Take over what was recorded: nothing of it is measured again.

        What cannot be applied any more (an older version may have allowed it) is left out, with one
        logged warning.
        """
        news: list[Tried] = []
        refused: list[str] = []
        for record in records:
            candidate = program = None
            try:
                trace = record.parsed()
                found = self.space.recognized(trace)
                if found is not None:
                    candidate, program = found[0], found[1].program
                elif record.status == OK:  # of another space; it may turn out to be the best
                    applied(record, self.space.program)
            except MinitensorError as failure:
                refused.append(failure.message)
                continue
            number = len(self.tried) + len(news) + 1
            outcome = record.status, record.median, record.error
            news.append(Tried(number, trace, candidate, *outcome, known=True))
            self.proposals.know(record.trace_key, program)
        if refused:
            logger.warning(
                "%s cannot be applied, and left out; the first: %s",
                counted(len(refused), "record"),
                refused[0],
            )
        self._take(news)

    def run(self) -> None:
        """Search until enough candidates were tried, or no new ones are found.

        Ctrl-C ends it as it ends any loop; what was tried until then is in `tried` and in the log.
        """
        self._started = time.perf_counter()
        if self.tried:
            self._report(tuple(self.tried))
        while len(self.tried) < self.trials and self.round():
            pass

    def round(self) -> bool:
        """Propose, measure and learn once; False if there was nothing new to try."""
        count, seed = (
            min(self.batch, self.trials - len(self.tried)),
            f"{self.seed}/{len(self.tried)}",
        )
        best = [t.candidate for t in fastest(self.tried) if t.candidate is not None]
        chosen = self.proposals.take(best, self.learner.score, self.batch, count, seed)
        if not chosen:
            return False
        self.rounds += 1
        guesses: list[float | None] = [None] * len(chosen)
        if self._has_model:
            guesses = self.learner.score([c for c, _ in chosen]).tolist()
        first = len(self.tried)
        for start in range(0, len(chosen), CHUNK):
            part = slice(start, start + CHUNK)
            self._measured(chosen[part], guesses[part])
        if self._has_model:
            self.correlation = foreseen(self.tried[first:])
        if self._uses_model:
            self.learner.fit()
        return True

    @property
    def _uses_model(self) -> bool:
        return bool(getattr(self.strategy, "uses_model", True))

    @property
    def _has_model(self) -> bool:
        return self._uses_model and self.learner.fitted

    def _measured(
        self, chosen: Sequence[tuple[Candidate, Schedule]], guesses: Sequence[float | None]
    ) -> None:
        best = self.best.seconds if self.best is not None else None
        news: list[Tried] = []

        start = time.perf_counter()
        try:
            results = self._results([schedule for _, schedule in chosen], best)
            for result, (candidate, schedule), guess in zip(results, chosen, guesses):
                status = OK if result.ok else result.status.value
                if self.log is not None:
                    self._append(self.log, self._record(schedule, result, status))
                place, error = len(self.tried) + len(news) + 1, result.message
                seconds, trace = result.median, schedule.trace
                news.append(Tried(place, trace, candidate, status, seconds, error, guess=guess))
                if not result.ok and best is None:
                    self.failures.append((schedule, result))
        except ArgumentError:  # of the runner: which result is whose is not known
            raise
        except BaseException:  # Ctrl-C; what is in the log was tried
            self.tried += news
            raise
        finally:
            self.measuring += time.perf_counter() - start
        self._take(news)
        self._report(tuple(news))

    def _results(self, schedules: Sequence[Schedule], best: float | None) -> Iterator[Result]:
        """The results of a runner, which may be a user's own: checked, one for each schedule."""
        results = self.runner.measure(schedules, best)
        if not isinstance(results, Iterable):
            raise _wrong("results (mt.search.Result)", results)
        count, wanted = 0, f"a result for each of {len(schedules)} schedules"
        for count, result in enumerate(results, 1):
            if count > len(schedules):
                raise ArgumentError(f"expected {wanted} from runner.measure(), but got more")
            yield checked_result(result)
        if count != len(schedules):
            raise ArgumentError(f"expected {wanted} from runner.measure(), but got {count}")

    def _record(self, schedule: Schedule, result: Result, status: str) -> Record:
        return new_record(
            self.space.program,
            self.space.target,
            schedule.trace,
            seconds=result.times,
            status=status,
            error=result.message,
            seed=self.seed,
        )

    def _append(self, log: Log, record: Record) -> None:
        """Record a candidate. A log that does not take it (a full disk) is told of once, and tried
        again with the next.
        """
        try:
            log.append(record)
        except MinitensorError as failure:
            if not self.unrecorded:
                logger.warning("the search goes on without its log: %s", failure.message)
            self.unrecorded += 1

    def _take(self, news: Sequence[Tried]) -> None:
        self.tried += news
        if self._uses_model:
            known = [t for t in news if t.candidate is not None]
            speeds = [1 / t.seconds if t.status == OK else 0.0 for t in known]
            self.learner.learn([t.candidate for t in known if t.candidate is not None], speeds)
            if any(t.known for t in news):
                self.learner.fit()

    def _report(self, latest: tuple[Tried, ...]) -> None:
        best = self.best
        self.callback(
            Progress(
                self.rounds,
                len(self.tried),
                self.trials,
                Counter(t.status for t in self.tried if t.status != OK),
                best.seconds if best is not None else float("inf"),
                self.correlation,
                time.perf_counter() - self._started,
                self.measuring,
                latest,
            )
        )


def checked_result(result: object) -> Result:
    """A result of a runner, with its times as floats. Raises ArgumentError for what is none."""
    if not isinstance(result, Result):
        raise _wrong("results (mt.search.Result)", result)
    if not isinstance(result.status, Status):
        raise _wrong("a status (mt.search.Status)", result.status)
    if not isinstance(result.message, str):
        raise _wrong("a message (text)", result.message)
    try:
        times = checked_seconds(result.times)
    except ArgumentError:
        raise _wrong("times (a tuple of finite numbers above 0)", result.times) from None
    if result.ok != bool(times):
        raise _wrong("times with Status.OK, and none with a failure", result)
    return replace(result, times=times)


def _wrong(expected: str, got: object) -> ArgumentError:
    kind = kind_of(got)
    return ArgumentError(
        f"expected {expected} from runner.measure(), but got {shown(got)} ({kind})"
    )
