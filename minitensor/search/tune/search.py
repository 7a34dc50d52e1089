"""The search for one program: what it is asked for, what it works with, and how far it has come."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minitensor.accelerator import Machine
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, MinitensorError, TuningError, reason_of, unexpected
from minitensor.ir import Program, print_name
from minitensor.schedule import Schedule, Trace
from minitensor.search.advice import taught, with_policies
from minitensor.search.alike import Neighbour, nearest_first, neighbours
from minitensor.search.evolution import Evolution
from minitensor.search.gbt import OBJECTIVES
from minitensor.search.ledger import Ledger
from minitensor.search.log import Log
from minitensor.search.policies import MutationPolicy, SketchPolicy
from minitensor.search.runner import (
    Device,
    Estimates,
    Runner,
    RunnerProtocol,
    Settings,
    Simulated,
    Task,
    emulated,
    nothing_works,
)
from minitensor.search.sketch import Rules, accelerator_template, check_rules
from minitensor.search.space import Space
from minitensor.search.strategy import Strategy, named
from minitensor.search.tasks import Snapshot, schedule_for
from minitensor.search.transfer import other_searches, pretrained
from minitensor.search.tune.learner import Learner, Model, check_model, usual_model
from minitensor.search.tune.result import TuneResult
from minitensor.search.tune.tuner import Progress, Tuner
from minitensor.search.tuners import STRATEGIES
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `mt.tune` that are for any program; see there.

    target  with nothing left open
    log     where candidates are recorded
    known   the log that is resumed; None for none
    history logs of searches for other programs
    batch   candidates of a round at most
    """

    target: Target
    log: Log | None
    known: Snapshot | None
    seed: int
    rules: Rules
    strategy: str | Strategy
    sketch_policy: str | SketchPolicy
    mutation_policy: str | MutationPolicy
    model: Model | None
    history: Sequence[Log]
    batch: int
    patience: int | None
    settings: Settings | None
    builder: Executor | None
    measurer: Executor | None

    def __post_init__(self) -> None:
        plan = self.plan()
        if self.model is not None:
            check_model(self.model)
        check_rules(self.rules)
        if self.settings is not None and not isinstance(self.settings, Settings):
            raise unexpected("Settings(...), or None", "settings", self.settings)
        if self.history and not getattr(plan, "uses_model", True):
            raise ArgumentError("history= is for a model, and the strategy asks none")

    def plan(self) -> Strategy:
        """The strategy, with its policies."""
        found = named("strategy", self.strategy, STRATEGIES, "propose(round)")
        return with_policies(found, self.sketch_policy, self.mutation_policy)

    def learns(self, plan: Strategy) -> Model:
        """The model."""
        return usual_model(self.seed, _objective(plan)) if self.model is None else self.model

    def apart(self) -> Options:
        """The same for a search beside others: what learns is a copy."""
        learning = {
            name: copy.deepcopy(value)
            for name in ("strategy", "sketch_policy", "mutation_policy", "model")
            if not isinstance(value := getattr(self, name), str)
        }
        return replace(self, **learning)


def _objective(strategy: Strategy) -> str:
    """The loss that a strategy asks for."""
    asked = getattr(strategy, "objective", None)
    return asked if isinstance(asked, str) and asked in OBJECTIVES else "squared"


class Search:
    """The search for one program, as far as it has come. A context: its processes end with it.

    program    the definition
    options    what is asked for
    trials     candidates that are tried, those of the log counted in
    space      a function of a Schedule with decisions in it, a Space, or None for sketches
    inputs     one array for each input; None for random integers
    runner     builds and measures; None for one that is made here
    beside     a function that gives what is known of other programs; None for what the log knows

    Raises as `mt.tune` does.
    """

    def __init__(
        self,
        program: Program,
        options: Options,
        trials: int,
        *,
        space: Callable[[Schedule], object] | Space | None = None,
        inputs: Sequence[Any] | None = None,
        runner: RunnerProtocol | None = None,
        beside: Callable[[], Sequence[Neighbour]] | None = None,
    ) -> None:
        start = time.perf_counter()
        target, seed, log = options.target, options.seed, options.log
        own = {
            "inputs": inputs,
            "settings": options.settings,
            "builder": options.builder,
            "measurer": options.measurer,
        }
        given = _given_runner(runner, program, target, own, seed)
        self._estimates = runner is None and target.kind == "cuda-emulator"
        self._simulated = given if runner is None and isinstance(given, Simulated) else None
        self.program, self.options, self.inputs, self.beside = program, options, inputs, beside
        if log is not None:
            log.touch()
        checking = time.perf_counter()
        self.task = Task.of(program, target, inputs, seed) if given is None else None
        checked = Ledger(check=time.perf_counter() - checking)
        searched = _space(program, target, space, options.rules, seed)
        plan, logs = options.plan(), options.history
        plan = taught(plan, partial(other_searches, logs, program, target)) if logs else plan
        history = pretrained(logs, program, target, seed)
        self.learner = Learner(searched, options.learns(plan), history)
        self._made: Runner | None = None
        if given is None:
            assert self.task is not None
            given = self._made = Runner(
                self.task,
                options.settings,
                builder=options.builder,
                measurer=options.measurer,
            )
        self.tuner = Tuner(searched, given, plan, self.learner, trials, options.batch, log, seed)
        self.tuner.patience, self.tuner.ledger = options.patience, checked
        if isinstance(plan, Evolution):
            self.tuner.proposals.alike = self.alike
            if space is None and target.kind == "c":
                self.tuner.proposals.untuned = partial(schedule_for, program, target)
        self.interrupted, self.stopped = False, ""
        self.elapsed = time.perf_counter() - start
        """Seconds of all that was done for it."""

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that were started for it alone, and remove their files."""
        if self._made is not None:
            self._made.close()

    def alike(self) -> list[Trace]:
        """The schedules of other programs that are known, those of the nearest first."""
        if self.beside is None:
            log = self.options.known
            found = [] if log is None else neighbours(log, self.options.target)
            self.beside = lambda: found
        return nearest_first(self.beside(), self.program)

    def resume(self) -> None:
        """Take over what the log knows."""
        if self.options.known is not None:
            known = self.options.known.measured(self.program, self.options.target)
            self.tuner.resume(list(known.values()))

    def run(self, limit: float | None, callback: Callable[[Progress], object]) -> None:
        """Take over what the log knows, search until the end, and let the fastest run in turns.

        limit  seconds after which nothing more is tried; None for no limit
        """

        def whole() -> None:
            self.resume()
            self.tuner.limit = math.inf if limit is None else float(limit)
            self.tuner.callback = callback
            self.tuner.run()
            self.tuner.finals()

        self._guarded(whole)

    def step(self, limit: float) -> bool:
        """Go on for one round; False if there is nothing more to try.

        limit  seconds after which no further chunk of it is tried
        """
        more = self._guarded(partial(self.tuner.step, limit))
        return bool(more) and not self.stopped

    def finals(self) -> None:
        """Let the fastest run in turns."""
        self._guarded(self.tuner.finals)

    def _guarded(self, act: Callable[[], object]) -> object:
        """Do some of it. An interrupt or an exception ends the search, and is kept; it is raised if
        nothing was found yet.
        """
        start = time.perf_counter()
        try:
            return act()
        except KeyboardInterrupt:
            if self.tuner.best is None:
                raise
            self.interrupted = True
        except Exception as failure:
            if self.tuner.best is None:
                raise
            self.stopped = reason_of(failure)
            trace = None if isinstance(failure, MinitensorError) else failure
            logger.warning("the search ended early: %s", self.stopped, exc_info=trace)
        finally:
            self.elapsed += time.perf_counter() - start
        return None

    def result(self) -> TuneResult:
        """The outcome. Raises TuningError if nothing was found."""
        tuner, best = self.tuner, self.tuner.best
        if best is None:
            raise self._no_result()
        schedule = best.trace.apply(self.program)
        return TuneResult(
            program=self.program,
            schedule=schedule,
            seconds=best.seconds,
            tried=tuple(tuner.tried),
            written=tuner.written,
            target=self.options.target,
            space=tuner.space,
            model=self.learner.model if self.learner.fitted else None,
            elapsed=self.elapsed,
            time=tuner.ledger.rest_is("propose", self.elapsed),
            interrupted=self.interrupted,
            stopped=self.stopped,
            ended=tuner.ended,
            unmade=tuner.proposals.unmade,
            unscored=self.learner.unmade,
            unrecorded=tuner.unrecorded,
            unchosen=tuner.advice.unchosen,
            shares=tuple(tuner.advice.shares),
            odds=tuner.advice.odds,
            history=self.learner.history,
            estimated=self._checked_estimate(schedule),
        )

    def _checked_estimate(self, schedule: Schedule) -> str:
        """A sentence on the best of a search that has measured nothing; "" if it has. Raises
        TuningError if it is wrong.
        """
        options = self.options
        if self._simulated is not None:
            (right, seen), where = self._simulated.checked(schedule), "simulator"
        elif self._estimates:
            target, seed = options.target, options.seed
            (right, seen), where = (
                emulated(schedule, self.program, target, self.inputs, seed),
                "emulator",
            )
        else:
            return ""
        if not right:
            raise TuningError(f"the best candidate is wrong in the {where}: {seen}")
        return seen

    def _no_result(self) -> TuningError:
        tuner, name = self.tuner, print_name(self.program.name)
        if tuner.failures:
            schedules = [schedule for schedule, _ in tuner.failures]
            results = [result for _, result in tuner.failures]
            return nothing_works(self.task or self.program.name, schedules, results)
        if tuner.tried:
            failed = tuner.tried[0]
            return TuningError(
                f"all {len(tuner.tried)} candidates in the log failed; the first was "
                f"{failed.status}: {failed.error}"
            )
        unmade = tuner.proposals.unmade
        if not unmade:
            return TuningError(f"no candidate of {name}: the strategy proposed none")
        first = next(iter(unmade.first.values()))
        text = f"no legal candidate of {name} was found ({unmade}); the first: {reason_of(first)}"
        error = TuningError(text)
        error.__cause__ = first
        return error


def _given_runner(
    runner: RunnerProtocol | None,
    program: Program,
    target: Target,
    own: Mapping[str, Any],
    seed: int,
) -> RunnerProtocol | None:
    """A user's runner, checked; that of a GPU, or the estimates for one; None for a Runner."""
    if runner is not None:
        _check_runner(runner, target, own)
    if runner is not None or target.kind == "c":
        return runner
    unused = ["builder", "measurer"] + ["settings"] * (target.kind != "cuda")
    for name in unused:
        if own[name] is not None:
            raise ArgumentError(f"for target {target.kind!r}, {name}= has no effect")
    if target.kind == "accelerator":
        return Simulated(program, target, own["inputs"], seed)
    if target.kind == "cuda-emulator":
        return Estimates(target)
    return Device.of(program, target, own["inputs"], seed, own["settings"])


def _check_runner(runner: object, target: Target, own: Mapping[str, object]) -> None:
    if isinstance(runner, type) or not callable(getattr(runner, "measure", None)):
        raise unexpected("an object with measure(schedules, best), or None", "runner", runner)
    for name, value in own.items():
        if value is not None:
            raise ArgumentError(f"with runner=, {name}= has no effect; give it to the runner")
    measured = runner.task.target if isinstance(runner, Runner) else getattr(runner, "target", None)
    if measured not in (None, target):
        raise ArgumentError(
            f"expected a runner for {target}, but got {measured}; tune(…, target=) is that of the "
            "runner"
        )


def _space(
    program: Program,
    target: Target,
    space: Callable[[Schedule], object] | Space | None,
    rules: Rules,
    seed: int,
) -> Space:
    if space is None and target.kind == "accelerator":
        space = accelerator_template(program, Machine.of(target))
    if space is None:
        return Space.of(program, target, rules)
    if isinstance(space, Space):
        same = workload_key(space.program) == workload_key(program)
        if not same or space.target != target:
            expected = f"a Space of {print_name(program.name)} on {target}"
            found = f"one of {print_name(space.program.name)} on {space.target}"
            raise ArgumentError(f"expected {expected}, but got {found}")
        return space
    return Space.of_template(program, target, space, seed)
