"""Random search over a template. It learns nothing from what it measures."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minitensor.codegen import Target
from minitensor.errors import (
    ExecutionError,
    MinitensorError,
    ScheduleError,
    TuningError,
    unexpected,
)
from minitensor.ir import Program
from minitensor.schedule import Schedule
from minitensor.search.measure import Measurer, WrongResultError
from minitensor.search.trial import FailureKind, SearchResult, Trial

REDRAWS: Final = 100
"""How often a candidate that was tried before is drawn again before the space counts as empty."""


def random_search(
    program: Program,
    space: Callable[[Schedule], object],
    *,
    trials: int,
    target: str | Target = "c",
    seed: int = 0,
    inputs: Sequence[Any] | None = None,
    callback: Callable[[Trial], object] | None = None,
) -> SearchResult:
    """Draw schedules from a template at random, and keep the fastest that computes the same.

        def space(s):
            i, j, k = s.get_loops("C")
            rows = s.sample_categorical([2, 4, 8])
            i_0, i_1 = s.split(i, [None, rows])
            …
        result = random_search(program, space, trials=64)

    This is a random search and no more: the baseline that a search which learns has to beat.

    space     a function of a Schedule that applies primitives to it, some of them decisions
              (`sample_perfect_tile` and so on), which are then drawn at random
    trials    how many different candidates to try; fewer if the space seems to hold no more
    target    "c", "interpreter", or an mt.Target
    seed      of the decisions, and of the inputs if none are given. The same seed gives the same
              candidates in the same order; their times differ from run to run
    inputs    one array for each input, in call order; small random integers if None
    callback  called with each Trial when it is done

    Each candidate is a fresh Schedule: the template is applied, the kernel built, its result
    compared with that of the unscheduled program (integers exactly, floats within TOLERANCE), and
    its time taken. A refused step, a compiler error, a wrong result is a Trial with its reason and
    does not end the search. Ctrl-C does: what was found until then is returned, marked
    `interrupted`. Candidates run in this process, so one that crashes ends it.

    Raises TuningError, with the first reason, if no candidate works; CompileError if there is no
    compiler; ArgumentError for arguments that make no sense.
    """
    _check_arguments(program, space, trials, seed, callback)
    measurer = Measurer(program, Target.of(target), inputs, seed)
    search = _Search(program, space, measurer, random.Random(seed))
    interrupted = False
    try:
        while len(search.trials) < trials and search.step():
            if callback is not None:
                callback(search.trials[-1])
    except KeyboardInterrupt:
        if search.best is None:
            raise
        interrupted = True
    if search.best is None:
        raise _nothing_works(search) from search.first_error
    schedule, seconds = search.best
    return SearchResult(schedule, seconds, tuple(search.trials), measurer.target, interrupted)


def _check_arguments(
    program: object, space: object, trials: object, seed: object, callback: object
) -> None:
    if not isinstance(program, Program):
        raise unexpected("a program (see mt.lower)", "program", program)
    if not callable(space):
        raise unexpected("a function of a Schedule", "space", space)
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise unexpected("an integer >= 1", "trials", trials)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise unexpected("an integer >= 0", "seed", seed)
    if callback is not None and not callable(callback):
        raise unexpected("a function of a Trial, or None", "callback", callback)


def _nothing_works(search: _Search) -> TuningError:
    count = len(search.trials)
    tried = "the only candidate failed" if count == 1 else f"all {count} candidates failed"
    first = search.trials[0]
    kind = first.failure.value if first.failure is not None else ""
    return TuningError(f"{tried}; the first was {kind}: {first.reason}")


@dataclass
class _Search:
    """The state of a search. A trial is in `trials` before anyone hears of it."""

    program: Program
    space: Callable[[Schedule], object]
    measurer: Measurer
    rng: random.Random
    trials: list[Trial] = field(default_factory=list)
    best: tuple[Schedule, float] | None = None
    first_error: Exception | None = None
    seen: set[tuple[str, str]] = field(default_factory=set)

    def step(self) -> bool:
        """Try one candidate that has not been tried; False if none can be found."""
        for _ in range(REDRAWS):
            schedule = Schedule(self.program, seed=self.rng.getrandbits(32))
            error = self.applied(schedule)
            key = (schedule.trace.to_json(), "" if error is None else _reason(error))
            if key not in self.seen:
                self.seen.add(key)
                self.try_out(schedule, error)
                return True
        return False

    def applied(self, schedule: Schedule) -> Exception | None:
        """Apply the template; what it raised."""
        try:
            self.space(schedule)
        except Exception as error:  # the template is the user's code: it may raise anything
            return error
        return None

    def try_out(self, schedule: Schedule, error: Exception | None) -> None:
        """Build, check and time a candidate, and record it."""
        number, trace, seconds = len(self.trials) + 1, schedule.trace, None
        kind = FailureKind.REFUSED if isinstance(error, ScheduleError) else FailureKind.TEMPLATE
        if error is None:
            try:
                seconds = self.measurer.seconds(self.measurer.build(schedule))
            except MinitensorError as problem:
                kind, error = _kind_of(problem), problem
        if seconds is None:
            assert error is not None
            self.first_error = self.first_error or error
            self.trials.append(Trial(number, trace, None, kind, _reason(error)))
            return
        self.trials.append(Trial(number, trace, seconds))
        if self.best is None or seconds < self.best[1]:
            self.best = (schedule, seconds)


def _kind_of(problem: MinitensorError) -> FailureKind:
    if isinstance(problem, WrongResultError):
        return FailureKind.WRONG
    return FailureKind.RUN if isinstance(problem, ExecutionError) else FailureKind.BUILD


def _reason(error: Exception) -> str:
    """The first line of what an exception says."""
    if isinstance(error, MinitensorError):
        return error.message
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
