"""`mt.tune`: from a definition to the fastest schedule that a search finds."""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, overload

from minitensor.codegen import Target
from minitensor.errors import (
    ArgumentError,
    MinitensorError,
    TuningError,
    real,
    reason_of,
    unexpected,
    whole,
)
from minitensor.graph import Graph
from minitensor.ir import Program, print_name
from minitensor.phrasebook import no_program, unknown_argument
from minitensor.schedule import Schedule
from minitensor.search.evolution import taught, with_policies
from minitensor.search.gbt import OBJECTIVES
from minitensor.search.log import Log
from minitensor.search.policies import MutationPolicy, SketchPolicy
from minitensor.search.runner import (
    Device,
    Estimates,
    Runner,
    RunnerProtocol,
    Settings,
    Task,
    emulated,
    exact_target,
    nothing_works,
)
from minitensor.search.sketch import Rules, check_rules
from minitensor.search.space import Space
from minitensor.search.strategy import Strategy, named
from minitensor.search.tasks import network_schedules, snapshots
from minitensor.search.transfer import Logs, history_logs, other_searches, pretrained
from minitensor.search.tune.learner import Learner, Model, check_model, usual_model
from minitensor.search.tune.network import NetworkResult, tune_network
from minitensor.search.tune.progress import Display
from minitensor.search.tune.result import TuneResult
from minitensor.search.tune.tuner import Progress, Tuner
from minitensor.search.tuners import STRATEGIES
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")

BATCHES = (8, 64)
"""The least and the most candidates of a round; between them, an eighth of all."""


@overload
def tune(
    program: Graph, target: str | Target = "c", trials: int = 64, **options: Any
) -> NetworkResult: ...


@overload
def tune(
    program: Program, target: str | Target = "c", trials: int = 64, **options: Any
) -> TuneResult: ...


def tune(
    program: Program | Graph,
    target: str | Target = "c",
    trials: int = 64,
    *,
    log: str | os.PathLike[str] | Log | None = None,
    resume: bool = True,
    seed: int = 0,
    space: Callable[[Schedule], object] | Space | None = None,
    rules: Rules = "default",
    strategy: str | Strategy = "evolution",
    sketch_policy: str | SketchPolicy = "uniform",
    mutation_policy: str | MutationPolicy = "fixed",
    model: Model | None = None,
    history: Logs = None,
    inputs: Sequence[Any] | None = None,
    batch: int | None = None,
    time_limit: float | None = None,
    patience: int | None = None,
    callbacks: Iterable[Callable[[Progress], object]] = (),
    progress: bool | None = None,
    settings: Settings | None = None,
    runner: RunnerProtocol | None = None,
    builder: Executor | None = None,
    measurer: Executor | None = None,
    **others: Any,
) -> Any:
    """Search for the fastest schedule of a program, or of each distinct kernel of a graph.

        result = mt.tune(program, trials=64, log="tuning.jsonl")
        kernel = result.kernel()
        model = mt.tune(graph, trials=64, log="tuning.jsonl", time_limit=600).model()

    Of a graph the tasks are tuned one after the other, with trials and seconds by their share of
    the time: `trials` is then that of a task on average, and a TuneResult becomes a
    mt.search.NetworkResult. A graph without groups is optimized and fused first, as `mt.build`
    does. What is for one program (space, inputs, runner, callbacks) is refused.

    target     "c", or an mt.Target; what is left open is filled in from this machine. "cuda" for
               the GPU of this machine; "cuda-emulator" where there is none: nothing is measured
               then, candidates are ranked by an estimate (`mt.gpu_cost`), and the best of them is
               run in the emulator, if it is small
    trials     how many candidates are tried, those of the log counted in
    log        where each is recorded before the next ones are tried; None for nowhere
    resume     whether what the log knows of this program and target is taken over: nothing is
               measured twice. With False the log is only written to
    seed       of everything that is drawn. The same seed and the same records give the same search
    space      a function of a Schedule with decisions in it (a template), or a Space; None for
               sketches that rules derive
    rules      which rules: "default", "ansor" for the paper's, or a list of rules, such as
               [mine, *mt.search.DEFAULT_RULES]
    strategy   chooses candidates: "evolution", a baseline (mt.search.STRATEGIES), or an object with
               `propose` (mt.search.Strategy), such as mt.search.Evolution(population=512)
    sketch_policy    chooses how much of each round a sketch gets, in an evolution: "uniform" for
               none, another name (mt.search.SKETCH_POLICIES), or an object with
               `shares(history, rng)` (mt.search.SketchPolicy)
    mutation_policy  chooses the moves of its mutations: "fixed" for odds that do not change,
               "learned" and "learned_trees", or an object with `weights(parents, history, rng)`
               (mt.search.MutationPolicy)
    model      learns what is fast: an object with `fit` and `predict` (mt.search.Model); boosted
               trees if None, with the loss that the strategy asks for
    history    logs of searches for other programs, or their paths: a model of these has a part in
               the scores, which fades, and "policy_gradient" and "learned" begin with what these
               taught them; records of this program itself are left alone (`log` has those). None
               or [] for none
    inputs     one array for each input; small random integers if None, and for what is used as an
               index, positions that are there
    batch      candidates of a round at most; None for an eighth of the trials, from 8 to 64. The
               first rounds have 8, and later ones half of what was tried
    time_limit seconds after which nothing more is tried, but for the first round; None for no
               limit. What is being measured then, and the finals, take their time on top
    patience   candidates in a row of which none is the fastest, after which the search ends; None:
               all trials are made
    callbacks  each is called with a Progress after every few candidates
    progress   whether to show on standard error how far it is; None: on a terminal or in a notebook
    settings   of measurement
    runner     builds and measures: an object with `measure(schedules, best)` that yields a Result
               for each (see mt.search.RunnerProtocol), which is not closed; None for an
               mt.search.Runner with these inputs, settings and executors
    builder    executor that runs the compiler, measurer the candidates; None for own processes

    In the end the fastest and the program as it is written run in turns, which decides.

    Ctrl-C ends the search: what was found until then is returned, marked `interrupted`; without
    any, it is raised. So does an exception of a strategy, a runner or a callback: the reason is in
    `stopped` then, and logged. What a model or a log does not take costs no more than that, and an
    exception while a candidate is made costs this candidate: both are counted.

    Raises TuningError, with the first failure, its schedule and a command that shows it again, if
    no candidate works, and for a log of `history` that is missing; CompileError without a compiler;
    ArgumentError for arguments that make no sense.

    Source: Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning,
    OSDI 2020.
    """
    if others:
        raise unknown_argument("tune", next(iter(others)), _keywords())
    if isinstance(program, Graph):
        return _of_network(
            program,
            {"space": space, "inputs": inputs, "runner": runner, "callbacks": list(callbacks)},
            trials, time_limit, progress,
            target=exact_target(target), log=log, resume=resume, seed=seed, rules=rules,
            strategy=strategy, sketch_policy=sketch_policy, mutation_policy=mutation_policy,
            model=model, history=history, batch=batch, patience=patience, settings=settings,
            builder=builder, measurer=measurer,
        )  # fmt: skip
    if isinstance(target, int):
        raise unexpected("a target's name or an mt.Target (trials= has a name)", "target", target)
    trials, seed = whole("trials", trials, 1), whole("seed", seed, 0)
    count = (
        min(BATCHES[1], max(BATCHES[0], trials // 8)) if batch is None else whole("batch", batch, 1)
    )
    if time_limit is not None:
        real("time_limit", time_limit, 0, math.inf)
    waited = None if patience is None else whole("patience", patience, 1)
    calls = _checked(program, callbacks)
    plan = with_policies(
        named("strategy", strategy, STRATEGIES, "propose(round)"), sketch_policy, mutation_policy
    )
    learns = usual_model(seed, _objective(plan)) if model is None else model
    check_model(learns)
    check_rules(rules)
    if not (space is None or isinstance(space, Space) or callable(space)):
        raise unexpected("a function of a Schedule, a Space, or None", "space", space)
    if settings is not None and not isinstance(settings, Settings):
        raise unexpected("Settings(...), or None", "settings", settings)
    own = {"inputs": inputs, "settings": settings, "builder": builder, "measurer": measurer}
    exact = exact_target(target, gpu=True)
    estimates = runner is None and exact.kind == "cuda-emulator"
    runner = _given_runner(runner, program, exact, own, seed)
    if history and not getattr(plan, "uses_model", True):
        raise ArgumentError("history= is for a model, and the strategy asks none")
    where = log if isinstance(log, Log) or log is None else Log(log)
    logs = history_logs(history)
    if where is not None:
        where.touch()
    started = time.perf_counter()
    task = Task.of(program, exact, inputs, seed) if runner is None else None
    searched = _space(program, exact, space, rules, seed)
    plan = taught(plan, partial(other_searches, logs, program, exact)) if logs else plan
    learner = Learner(searched, learns, pretrained(logs, program, exact, seed))
    display = Display.of(progress, program, exact)
    calls.append(display.update)
    with display, contextlib.ExitStack() as stack:
        if task is not None:
            made = Runner(task, settings, builder=builder, measurer=measurer)
            runner = stack.enter_context(made)
        assert runner is not None
        tuner = Tuner(searched, runner, plan, learner, trials, count, where, seed)
        tuner.limit = math.inf if time_limit is None else float(time_limit)
        tuner.patience = waited
        tuner.callback = lambda progress: [call(progress) for call in calls]
        interrupted, stopped = _run(tuner, where if resume else None)
    best = tuner.best
    if best is None:
        raise _no_result(program, task, tuner)
    return TuneResult(
        program=program,
        schedule=best.trace.apply(program),
        seconds=best.seconds,
        tried=tuple(tuner.tried),
        written=tuner.written,
        target=exact,
        space=searched,
        model=learner.model if learner.fitted else None,
        elapsed=time.perf_counter() - started,
        measuring=tuner.measuring,
        interrupted=interrupted,
        stopped=stopped,
        ended=tuner.ended,
        unmade=tuner.proposals.unmade,
        unscored=learner.unmade,
        unrecorded=tuner.unrecorded,
        unchosen=tuner.advice.unchosen,
        shares=tuple(tuner.advice.shares),
        odds=tuner.advice.odds,
        history=learner.history,
        estimated=_checked_estimate(best.trace.apply(program), program, exact, inputs, seed)
        if estimates
        else "",
    )


def _of_network(
    graph: Graph,
    alone: Mapping[str, Any],
    trials: int,
    time_limit: float | None,
    progress: bool | None,
    **own: Any,
) -> NetworkResult:
    """The search for the kernels of a graph.

    alone  arguments that make sense for one program only
    own    those for the search of each
    """
    for name, value in alone.items():
        if value is not None and value != []:
            raise ArgumentError(f"{name}= is for one program, and this is a graph of several")
    if time_limit is not None:
        real("time_limit", time_limit, 0, math.inf)

    def one(program: Program, **limits: Any) -> TuneResult:
        found: TuneResult = tune(program, progress=False, **own, **limits)
        return found

    logs = snapshots(own["log"] if own["resume"] else None)
    schedules = network_schedules(logs, own["target"], warns=False)
    wanted, grouped = whole("trials", trials, 1), graph.grouped()
    return tune_network(grouped, own["target"], schedules, one, wanted, time_limit, progress)


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
    if runner is not None or not target.is_gpu:
        return runner
    unused = ["builder", "measurer"] + ["settings"] * (target.kind == "cuda-emulator")
    for name in unused:
        if own[name] is not None:
            raise ArgumentError(f"for target {target.kind!r}, {name}= has no effect")
    if target.kind == "cuda-emulator":
        return Estimates(target)
    return Device.of(program, target, own["inputs"], seed, own["settings"])


def _checked_estimate(
    schedule: Schedule, program: Program, target: Target, inputs: Sequence[Any] | None, seed: int
) -> str:
    """A sentence on the best of a search that has measured nothing. Raises TuningError if it is
    wrong.
    """
    right, seen = emulated(schedule, program, target, inputs, seed)
    if not right:
        raise TuningError(f"the best candidate is wrong in the emulator: {seen}")
    return seen


def _keywords() -> list[str]:
    """The arguments of `tune` by their names."""
    return [name for name in inspect.signature(tune).parameters if name != "others"]


def _checked(
    program: object, callbacks: Iterable[Callable[[Progress], object]]
) -> list[Callable[[Progress], object]]:
    """The callbacks. Raises ArgumentError."""
    if not isinstance(program, Program):
        raise no_program("program", program)
    if not isinstance(callbacks, Iterable):
        raise unexpected("a list of functions of a Progress", "callbacks", callbacks)
    calls = list(callbacks)
    for call in calls:
        if not callable(call):
            raise unexpected("functions of a Progress", "callbacks", call)
    return calls


def _objective(strategy: Strategy) -> str:
    """The loss that a strategy asks for."""
    asked = getattr(strategy, "objective", None)
    return asked if isinstance(asked, str) and asked in OBJECTIVES else "squared"


def _check_runner(runner: object, target: Target, own: Mapping[str, object]) -> None:
    if isinstance(runner, type) or not callable(getattr(runner, "measure", None)):
        raise unexpected("an object with measure(schedules, best), or None", "runner", runner)
    for name, value in own.items():
        if value is not None:
            raise ArgumentError(f"with runner=, {name}= has no effect; give it to the runner")
    if isinstance(runner, Runner) and runner.task.target != target:
        raise ArgumentError(f"expected a runner for {target}, but got {runner.task.target}")


def _space(
    program: Program,
    target: Target,
    space: Callable[[Schedule], object] | Space | None,
    rules: Rules,
    seed: int,
) -> Space:
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


def _run(tuner: Tuner, known: Log | None) -> tuple[bool, str]:
    """Search, after taking over what a log knows. Returns whether Ctrl-C ended it early, and the
    exception that did, as text; raises them if nothing was found.
    """
    try:
        if known is not None:
            space = tuner.space
            tuner.resume(list(known.measured(space.program, space.target).values()))
        tuner.run()
        tuner.finals()
    except KeyboardInterrupt:
        if tuner.best is None:
            raise
        return True, ""
    except Exception as failure:
        if tuner.best is None:
            raise
        stopped = reason_of(failure)
        trace = None if isinstance(failure, MinitensorError) else failure
        logger.warning("the search ended early: %s", stopped, exc_info=trace)
        return False, stopped
    return False, ""


def _no_result(program: Program, task: Task | None, tuner: Tuner) -> TuningError:
    if tuner.failures:
        schedules = [schedule for schedule, _ in tuner.failures]
        results = [result for _, result in tuner.failures]
        return nothing_works(task or program.name, schedules, results)
    if tuner.tried:
        failed = tuner.tried[0]
        return TuningError(
            f"all {len(tuner.tried)} candidates in the log failed; the first was {failed.status}: "
            f"{failed.error}"
        )
    name, unmade = print_name(program.name), tuner.proposals.unmade
    if not unmade:
        return TuningError(f"no candidate of {name}: the strategy proposed none")
    first = next(iter(unmade.first.values()))
    text = f"no legal candidate of {name} was found ({unmade}); the first: {reason_of(first)}"
    error = TuningError(text)
    error.__cause__ = first
    return error
