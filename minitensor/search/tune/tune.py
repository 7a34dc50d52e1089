"""`mt.tune`: from a definition to the fastest schedule that a search finds."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, overload

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, real, unexpected, whole
from minitensor.garbage import collected_seldom
from minitensor.graph import Graph
from minitensor.ir import Program
from minitensor.phrasebook import no_program, unknown_argument
from minitensor.schedule import Schedule
from minitensor.search.log import Log
from minitensor.search.policies import MutationPolicy, SketchPolicy
from minitensor.search.runner import RunnerProtocol, Settings, exact_target
from minitensor.search.sketch import Rules
from minitensor.search.space import Space
from minitensor.search.strategy import Strategy
from minitensor.search.tasks import Objective, Snapshot, TaskScheduler
from minitensor.search.transfer import Logs, history_logs
from minitensor.search.tune.learner import Model
from minitensor.search.tune.network import Plan, networks_of, tune_networks
from minitensor.search.tune.network_result import NetworkResult
from minitensor.search.tune.progress import Display
from minitensor.search.tune.result import TuneResult
from minitensor.search.tune.search import Options, Search
from minitensor.search.tune.tuner import Progress

BATCHES = (8, 64)
"""The least and the most candidates of a round; between them, an eighth of all."""


@overload
def tune(
    program: Graph, target: str | Target = "c", trials: int = 64, **options: Any
) -> NetworkResult: ...


@overload
def tune(
    program: Sequence[Graph], target: str | Target = "c", trials: int = 64, **options: Any
) -> list[NetworkResult]: ...


@overload
def tune(
    program: Program, target: str | Target = "c", trials: int = 64, **options: Any
) -> TuneResult: ...


@collected_seldom()
def tune(
    program: Program | Graph | Sequence[Graph],
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
    scheduler: str | TaskScheduler = "gradient",
    objective: str | Objective = "latency",
    precision: str | None = None,
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
    """Search for the fastest schedule of a program, or of each distinct kernel of graphs.

        result = mt.tune(program, trials=64, log="tuning.jsonl")
        kernel = result.kernel()
        model = mt.tune(graph, trials=64, log="tuning.jsonl", time_limit=600).model()

    Of a graph, or of several in a list, the distinct kernels are tuned together, as tasks: one of
    them gets the next round of trials. `trials` is then that of a task on average, and a TuneResult
    becomes a mt.search.NetworkResult, or a list of one for each graph. A graph without groups is
    optimized and fused first, as `mt.build` does. What is for one program (space, inputs, runner,
    callbacks) is refused.

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
    scheduler  of graphs: chooses the task of the next round. "gradient" for the one of which the
               most is expected (mt.search.Gradient), "round_robin", "random", or an object with
               `choose(curves, objective, rng)` (mt.search.TaskScheduler)
    objective  of graphs: what is to fall. "latency" for the sum of their seconds,
               mt.search.Requirements(...), mt.search.Speedup(...), or a function of the seconds of
               each
    precision  of graphs: "bf16" or "f16", as mt.build has it; None for that of the graph
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
    if isinstance(target, int):
        raise unexpected("a target's name or an mt.Target (trials= has a name)", "target", target)
    trials, seed = whole("trials", trials, 1), whole("seed", seed, 0)
    usual = min(BATCHES[1], max(BATCHES[0], trials // 8))
    if time_limit is not None:
        real("time_limit", time_limit, 0, math.inf)
    waited = None if patience is None else whole("patience", patience, 1)
    network = networks_of(program)
    if network is None:
        calls = _checked(program, callbacks)
        its = {"scheduler": scheduler, "objective": objective, "precision": precision}
        _refuse("for graphs, and this is one program", **its)
    else:
        alone = {"space": space, "inputs": inputs, "runner": runner, "callbacks": callbacks}
        _refuse("for one program, and this is a graph of several", **alone)
        if precision is not None:
            network = [graph.in_precision(precision) for graph in network]
    where = log if isinstance(log, Log) or log is None else Log(log)
    options = Options(
        target=exact_target(target, gpu=network is None),
        log=where,
        known=Snapshot(where.path) if resume and where is not None else None,
        seed=seed,
        rules=rules,
        strategy=strategy,
        sketch_policy=sketch_policy,
        mutation_policy=mutation_policy,
        model=model,
        history=history_logs(history),
        batch=usual if batch is None else whole("batch", batch, 1),
        patience=waited,
        settings=settings,
        builder=builder,
        measurer=measurer,
    )
    if network is not None:
        plan = Plan.of(network, scheduler, objective, trials, time_limit)
        results = tune_networks(network, options, plan, progress)
        return results[0] if isinstance(program, Graph) else results
    assert isinstance(program, Program)
    if not (space is None or isinstance(space, Space) or callable(space)):
        raise unexpected("a function of a Schedule, a Space, or None", "space", space)
    display = Display.of(progress, program, options.target)
    with Search(program, options, trials, space=space, inputs=inputs, runner=runner) as search:
        with display:
            calls.append(display.update)
            search.run(time_limit, lambda progress: [call(progress) for call in calls])
        return search.result()


def _refuse(why: str, **given: object) -> None:
    """Raise ArgumentError for an argument that has another value than its default."""
    usual = inspect.signature(tune).parameters
    for name, value in given.items():
        default = usual[name].default
        same = value is default or (isinstance(value, str) and value == default)
        if not same and not (isinstance(value, (list, tuple)) and not value):
            raise ArgumentError(f"{name}= is {why}")


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
