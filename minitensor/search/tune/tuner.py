"""The loop of a search: propose, measure, record, learn.

The same seed and records give the same search, bit for bit: a round depends on nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from minitensor.errors import ArgumentError, MinitensorError
from minitensor.ir import structural_hash
from minitensor.looks import readable_seconds
from minitensor.schedule import Schedule, Trace
from minitensor.search.best import applied
from minitensor.search.ledger import NO_SECONDS, Ledger
from minitensor.search.log import Log, counted
from minitensor.search.records import OK, STEADY, Record, new_record, trace_key
from minitensor.search.runner import Result, RunnerProtocol, checked_results
from minitensor.search.space import Candidate, Space
from minitensor.search.strategy import Advice, Round, Strategy
from minitensor.search.tried import Tried, fastest, foreseen
from minitensor.search.tune.comparisons import TURNS, Incumbent, finalists, run_in_turns, winner
from minitensor.search.tune.learner import Learner
from minitensor.search.tune.proposals import Lineage, Proposals, size_of_round

logger = logging.getLogger("minitensor")

CHUNK: Final = 16
"""Candidates that are built together, at least, before the first of them is measured."""


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
    ledger       the phases of these
    latest       what was tried since the last call
    drift        how many times as long as at first a call takes now
    known        of the trials, those that the log had, which took no time
    """

    round: int
    trials: int
    wanted: int
    failures: Counter[str]
    best: float
    correlation: float | None
    elapsed: float
    ledger: Ledger
    latest: tuple[Tried, ...]
    drift: float = STEADY
    known: int = 0

    @property
    def eta(self) -> float:
        """Seconds that are left, if all goes on as before; infinity at the beginning."""
        left, measured = max(0, self.wanted - self.trials), self.trials - self.known
        return self.elapsed * left / measured if measured else math.inf


@dataclass
class Tuner:
    """One search over a space.

    runner    builds and measures
    strategy  proposes
    learner   features and the model
    trials    how many candidates, those that are recorded already counted in
    batch     candidates of a round at most; there are fewer while little is known
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
    limit: float = math.inf
    patience: int | None = None
    callback: Callable[[Progress], object] = lambda progress: None
    tried: list[Tried] = field(default_factory=list)
    written: Tried | None = None
    """The program as it is written, number 0, if it won the finals of a search."""
    rounds: int = 0
    ledger: Ledger = NO_SECONDS
    """The phases of building and running candidates."""
    correlation: float | None = None
    failures: list[tuple[Schedule, Result]] = field(default_factory=list)
    """Those of this run while nothing has worked."""
    unrecorded: int = 0
    """Candidates that were tried, and that the log did not take."""
    ended: str = ""
    """The limit that ended the search before all trials; "" if none did."""
    advice: Advice = field(default_factory=Advice)  # of policies
    _started: float = 0.0

    def __post_init__(self) -> None:
        self.proposals = Proposals(self.space, self.strategy)
        self._incumbent = Incumbent(self._again)
        self._lineage = Lineage(self.space, self.proposals.sources)

    @property
    def best(self) -> Tried | None:
        """The fastest candidate that worked, or the program as it is written, if that is faster."""
        return next(iter(fastest(self.tried, self.written)), None)

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
                    candidate = self._lineage.add(record.trace_key, found[0])
                    program = found[1].program
                elif record.status == OK:  # of another space; it may turn out to be the best
                    applied(record, self.space.program)
            except MinitensorError as failure:
                refused.append(failure.message)
                continue
            number = len(self.tried) + len(news) + 1
            one = Tried.of(record, number, trace, candidate)
            if candidate is None and not trace.steps:
                self.written = replace(one, number=0)
                continue
            news.append(one)
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
        while len(self.tried) < self.trials and not self._over() and self.round():
            pass

    def step(self, limit: float) -> bool:
        """Go on for one round, of which no chunk but the first is begun after `limit` seconds.
        Returns whether there may be more to try.
        """
        self._started, self.limit = time.perf_counter(), limit
        self.trials = len(self.tried) + self.batch
        more, late = self.round(), self.ended
        self.limit, self.ended = math.inf, ""
        self.space.replays.clear()  # of many tasks, whose turn may be long after
        return more and (bool(late) or not self._over())

    def _over(self) -> bool:
        """Return whether a limit of the search is reached; never before anything was tried."""
        best = self.best.number if self.best is not None else len(self.tried)
        if self.tried and time.perf_counter() - self._started >= self.limit:
            self.ended = f"its time limit of {readable_seconds(self.limit)}"
        elif self.patience is not None and len(self.tried) - best >= self.patience:
            self.ended = f"no faster one among {counted(self.patience, 'candidate')}"
        return bool(self.ended)

    def round(self) -> bool:
        """Propose, measure and learn once; False if there was nothing new to try."""
        if self.log is not None and not self.rounds:
            with contextlib.suppress(MinitensorError):  # `_append` warns of such a log
                self.log.define(self.space.program)
        getattr(self.runner, "prepare", lambda: None)()
        size = size_of_round(len(self.tried), self.batch)
        seed = f"{self.seed}/{len(self.tried)}"
        ranked = sorted(fastest(self.tried), key=lambda t: t.steady)
        best = [t.candidate for t in ranked if t.candidate is not None]
        score, known = self.learner.score, tuple(self.tried)
        rng, trusted = random.Random(seed), self._uses_model and self.learner.trusted
        now = Round(self.space, best, score, rng, size, known, seed, trusted, self.advice)
        chosen = self.proposals.take(now, min(size, self.trials - len(self.tried)), seed)
        if not chosen:
            return False
        self.rounds += 1
        bound = self._incumbent.again(self.best) if self.best and not self._is_exact else None
        guesses: list[float | None] = [None] * len(chosen)
        if self._has_model:
            guesses = self.learner.score([c for c, _ in chosen]).tolist()
        first = len(self.tried)
        chunk = max(CHUNK, getattr(self.runner, "at_once", 0))
        for start in range(0, len(chosen), chunk):
            if start and self._over():
                break
            part = slice(start, start + chunk)
            self._measured(chosen[part], guesses[part], bound)
        if self._has_model:
            self.correlation = foreseen(self.tried[first:])
        if self._uses_model:
            self.learner.fit()
        return True

    def finals(self) -> None:
        """Let the fastest run in turns, the program as it is written among them, if this search has
        measured anything; the winner is the best from then on. One that fails now has failed.
        """
        if not self.rounds or self.best is None:
            return
        near = finalists(self.tried, self.best, self.proposals.begun)
        written = Schedule(self.space.program)
        schedules = [t.trace.apply(self.space.program) for t in near]
        if all(structural_hash(s.program) != structural_hash(written.program) for s in schedules):
            schedules.append(written)
        runner = getattr(self.runner, "together", self.runner.measure)  # all on one machine
        turns = 1 if self._is_exact else TURNS
        results = run_in_turns(partial(self._results, runner=runner), schedules, turns)
        for tried, (*_, last) in zip(near, results):
            if not last.ok:
                outcome = {"status": last.status.value, "error": last.message}
                self._replace(tried, seconds=math.inf, **outcome)
        won = winner(results, [tried.seconds for tried in near])
        if won is not None:
            self._crown(schedules[won[0]], won[1])

    def _crown(self, schedule: Schedule, result: Result) -> None:
        """Make the winner of the finals the best, in the log too."""
        seconds = result.median
        written = Tried(0, schedule.trace, None, OK, seconds)
        known = next((t for t in self.tried if t.trace == schedule.trace), written)
        best = self._replace(known, seconds=seconds, disturbed=False, drift=STEADY)
        if self.log is not None:
            self._append(self.log, self._record(best, result))

    def _replace(self, tried: Tried, **changed: Any) -> Tried:
        now = replace(tried, **changed)
        if tried.number:
            self.tried[tried.number - 1] = now
        else:
            self.written = now
        return now

    @property
    def _uses_model(self) -> bool:
        return bool(getattr(self.strategy, "uses_model", True))

    @property
    def _is_exact(self) -> bool:
        return bool(getattr(self.runner, "exact", False))

    @property
    def _has_model(self) -> bool:
        return self._uses_model and self.learner.fitted

    def _again(self, trace: Trace) -> Result:
        """The result of a candidate that was measured before."""
        (result,) = self._results([trace.apply(self.space.program)], None)
        return result

    def _measured(
        self,
        chosen: Sequence[tuple[Candidate, Schedule]],
        guesses: Sequence[float | None],
        bound: float | None,
    ) -> None:
        """Measure some candidates.

        bound  seconds that the incumbent of this round takes now, if known
        """
        best = self.best.seconds if bound is None and self.best is not None else bound
        drift = self._incumbent.drift
        news: list[Tried] = []
        try:
            results = self._results([schedule for _, schedule in chosen], best)
            for result, (candidate, schedule), guess in zip(results, chosen, guesses):
                number = len(self.tried) + len(news) + 1
                outcome = result.status.value, result.median, result.message, False, guess
                state = result.busy, result.disturbed, drift, self.rounds
                line = self._lineage.of(candidate)
                measured = self._lineage.add(trace_key(schedule.trace), candidate)
                one = Tried(number, schedule.trace, measured, *outcome, *state, *line, result.spent)
                if self.log is not None:
                    self._append(self.log, self._record(one, result))
                news.append(one)
                if not result.ok and best is None:
                    self.failures.append((schedule, result))
        except ArgumentError:  # of the runner: which result is whose is not known
            raise
        except BaseException:  # Ctrl-C; what is in the log was tried
            self.tried += news
            raise
        self._take(news)
        self._report(tuple(news))

    def _results(
        self,
        schedules: Sequence[Schedule],
        best: float | None,
        runner: Callable[..., Any] | None = None,
    ) -> Iterator[Result]:
        """Results of a runner, checked; the seconds until the last are accounted for."""
        start, known = time.perf_counter(), Ledger()
        measure = self.runner.measure if runner is None else runner
        try:
            for result in checked_results(measure(schedules, best), len(schedules)):
                known += result.ledger
                yield result
        finally:
            rest = "wait" if known.total else "run"  # a runner that keeps no ledger
            self.ledger += known.rest_is(rest, time.perf_counter() - start)

    def _record(self, tried: Tried, result: Result) -> Record:
        return new_record(
            self.space.program, self.space.target, tried.trace, seconds=result.times,
            status=tried.status, error=tried.error, seed=self.seed, drift=tried.drift,
            disturbed=tried.disturbed, parents=tried.parents, change=tried.change,
            spent=tried.spent, ledger=result.ledger, host=result.host,
        )  # fmt: skip

    def _append(self, log: Log, record: Record) -> None:
        """Record a candidate. Those that the log does not take (a full disk) are counted, and the
        first of them gives a warning.
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
            known = [t for t in news if t.candidate is not None and not t.disturbed]
            speeds = [1 / t.steady if t.status == OK else 0.0 for t in known]
            self.learner.learn([t.candidate for t in known if t.candidate is not None], speeds)
            if any(t.known for t in news):
                self.learner.fit()

    def _report(self, latest: tuple[Tried, ...]) -> None:
        elapsed = time.perf_counter() - self._started
        failures = Counter(t.status for t in self.tried if t.status != OK)
        best = self.best.seconds if self.best is not None else math.inf
        counts = self.rounds, len(self.tried), self.trials, failures
        spent = elapsed, self.ledger.rest_is("propose", elapsed)
        known = sum(t.known for t in self.tried)
        drift = self._incumbent.drift
        self.callback(Progress(*counts, best, self.correlation, *spent, latest, drift, known))
