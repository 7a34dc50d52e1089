"""Tuning networks: their distinct tasks, each round of trials where it is worth the most.

Where there are images, their layouts come first: each is tried for the whole network, its kernels
are tuned a little, and `graph.cheapest` chooses. A network is built untuned and profiled; then a
scheduler of `search.tasks` gives rounds to tasks, whose searches stay as they are in between.
Source for "tasks" and their scheduler: Zheng et al., Ansor, OSDI 2020, §6.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from minitensor.errors import reason_of, unexpected
from minitensor.graph import (
    Graph,
    Layouts,
    Model,
    Scheduled,
    build_model,
    cheapest,
    images,
    program_of,
)
from minitensor.ir import Program, numpy_dtype, print_name
from minitensor.looks import readable_seconds
from minitensor.schedule import Trace
from minitensor.search.alike import Neighbour, neighbours
from minitensor.search.ledger import Ledger
from minitensor.search.records import trace_key
from minitensor.search.runner import shared_processes
from minitensor.search.tasks import (
    Curve,
    Gradient,
    Leg,
    Objective,
    Requirements,
    TaskScheduler,
    latencies_of,
    layout_choices,
    network_schedules,
    objective_of,
    race,
    remembered,
    scheduler_of,
    snapshots,
    tried_layouts,
    value_of,
)
from minitensor.search.tune.network_result import NetworkResult
from minitensor.search.tune.progress import clock
from minitensor.search.tune.proposals import FIRST
from minitensor.search.tune.search import Options, Search
from minitensor.search.tune.task import NetworkTask, legs_of
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")

REPEATS: Final = 9
"""Calls of the untuned network that are timed."""
LAYOUTS: Final = 0.4
"""The part of the time after which layouts are chosen."""
HOPELESS: Final = 1.5
"""A layout in which a kernel takes this many times as long, untuned, is not tuned."""
CONVERTED: Final = 1e10
"""Bytes of an image whose layout is changed in a second, as a first guess."""
FINALS: Final = 0.1
"""The part of the time that is kept for finals, at most."""
FINAL: Final = 1.0
"""Seconds of the finals of a task, as a first guess."""
EVERY: Final = 5.0
"""Seconds between two lines of progress."""

Counts = dict[str, int]
"""The times that a call of a network runs the program of a key."""


class Plan(NamedTuple):
    """The rules by which trials are divided.

    trials      of a task, on average
    time_limit  seconds for all of it; infinity for no limit
    """

    scheduler: TaskScheduler
    objective: Objective
    trials: int
    time_limit: float

    @staticmethod
    def of(
        graphs: Sequence[Graph],
        scheduler: str | TaskScheduler,
        objective: str | Objective,
        trials: int,
        time_limit: float | None,
    ) -> Plan:
        """The arguments of `mt.tune`, checked. Raises ArgumentError."""
        found = objective_of(objective)
        value_of(found, [1.0] * len(graphs))
        limit = math.inf if time_limit is None else float(time_limit)
        return Plan(scheduler_of(scheduler), found, trials, limit)


def networks_of(given: object) -> list[Graph] | None:
    """The graphs of a list, or of one; None for what is no graph. Raises ArgumentError."""
    if isinstance(given, Graph):
        return [given]
    if not isinstance(given, (list, tuple)) or not any(isinstance(one, Graph) for one in given):
        return None
    if not all(isinstance(one, Graph) for one in given):
        raise unexpected("a list of graphs alone", "program", given)
    return list(given)


def tune_networks(
    graphs: Sequence[Graph], options: Options, plan: Plan, progress: bool | None
) -> list[NetworkResult]:
    """Tune the distinct tasks of some graphs together.

    progress  whether to show it on standard error; None: on a terminal

    Ctrl-C ends it: what was found until then is returned.
    """
    if progress is not None and not isinstance(progress, bool):
        raise unexpected("True, False, or None", "progress", progress)
    with shared_processes():
        work = _Work([graph.grouped() for graph in graphs], options, plan)
        work.shown = sys.stderr.isatty() if progress is None else progress
        try:
            return work.results()
        finally:
            work.close()


class _Work:
    """The tuning of networks, and what it knows of kernels until now.

    tasks  those by the keys of programs, in any layout that was tried
    """

    def __init__(self, graphs: Sequence[Graph], options: Options, plan: Plan) -> None:
        self._logs = snapshots(options.known)
        known = self._logs[0] if self._logs else None  # it is read once, for all tasks
        self.graphs, self.options, self.plan = list(graphs), replace(options, known=known), plan
        self.start = time.perf_counter()
        self.interrupted = False
        self.stopped = ""
        self.shown = False
        self.tasks: dict[str, NetworkTask] = {}
        self._said = -math.inf
        self._schedules = network_schedules(self._logs, options.target, warns=False)
        self._known = [one for log in self._logs for one in neighbours(log, options.target)]

    def close(self) -> None:
        """End all searches."""
        for entry in self.tasks.values():
            if entry.search is not None:
                entry.search.close()

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.start

    def left(self, part: float = 1.0) -> float:
        """Seconds until a part of the time is over."""
        return part * self.plan.time_limit - self.elapsed

    # ---- the whole

    def results(self) -> list[NetworkResult]:
        """Tune, and return what was found for each network."""
        asked = [n for n, g in enumerate(self.graphs) if g.layouts is None and images(g)]
        if asked:
            self.choose_layouts(asked)
        counts = [self.profiled(graph) for graph in self.graphs]
        keys = self.by_share(counts)
        reserve = min(FINALS * self.plan.time_limit, FINAL * len(keys))
        self.tune(keys, counts, self.plan.trials, lambda: self.left() - reserve)
        upcoming = self.upcoming(keys, counts)
        self.finals(keys)
        return [self.result(graph, keys, own, upcoming) for graph, own in zip(self.graphs, counts)]

    def result(
        self, graph: Graph, keys: Sequence[str], counts: Counts, upcoming: str
    ) -> NetworkResult:
        """The outcome for one network."""
        own = [key for key in keys if key in counts]
        tasks = [self.tasks[key].result(counts[key]) for key in own]
        steps = [s._replace(task=n) for n, key in enumerate(own) for s in self.tasks[key].steps]
        return NetworkResult(
            graph, tuple(tasks), self.options.target, self.elapsed, self.interrupted,
            self.stopped, tuple(sorted(steps, key=lambda step: step.elapsed)), upcoming,
            self.time(),
        )  # fmt: skip

    def time(self) -> Ledger:
        """The phases of the seconds until now, of all tasks together."""
        searches = [task.search for task in self.tasks.values() if task.search is not None]
        known = sum((search.tuner.ledger for search in searches), Ledger())
        return known.rest_is("propose", self.elapsed)

    def profiled(self, graph: Graph) -> Counts:
        """The number of times that each task of a graph runs; new ones are built and timed."""
        model = build_model(graph, self.options.target, self._schedules)
        counts: Counts = {}
        for task, seconds in zip(model.tasks, profiled_seconds(model)):
            key, untuned = workload_key(task.part.program), Scheduled(task.schedule, task.origin)
            counts[key] = counts.get(key, 0) + task.count
            if key not in self.tasks:
                entry = NetworkTask(task.part.program, seconds, untuned)
                self.tasks[key] = entry
                for log in self._logs:
                    known = log.measured(entry.program, self.options.target)
                    known.pop(trace_key(Trace()), None)  # as it is written: in finals alone
                    entry.legs += legs_of(list(known.values()), self.options.batch)
        return counts

    def by_share(self, counts: Sequence[Counts]) -> list[str]:
        """The keys of tasks, the largest share of all calls first."""
        keys = dict.fromkeys(key for own in counts for key in own)
        return sorted(
            keys,
            key=lambda key: -sum(own.get(key, 0) for own in counts) * self.tasks[key].seconds,
        )

    # ---- rounds

    def tune(
        self,
        keys: Sequence[str],
        counts: Sequence[Counts],
        trials: int,
        left: Callable[[], float],
        what: str = "",
    ) -> None:
        """Give rounds to tasks.

        trials  of a task on average, those of the log counted in
        left    a function that gives the seconds that are left for it
        """
        curves = [self.tasks[key].curve(own.get(key, 0) for own in counts) for key in keys]
        wanted, objective = trials * len(curves), self.plan.objective

        def over() -> bool:
            enough = isinstance(objective, Requirements) and objective.met(latencies_of(curves))
            done = sum(curve.trials for curve in curves) >= wanted
            return self.interrupted or done or enough or left() <= 0

        def step(place: int) -> Leg | str:
            task = self.tasks[keys[place]]
            found = task.step(partial(self.search, task.program), left(), self.start)
            self.interrupted |= task.search is not None and task.search.interrupted
            return found

        try:
            for place in race(
                curves, step, self.plan.scheduler, objective, over, self.options.seed
            ):
                self.show(curves, place, what)
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as failure:  # of the objective or the scheduler
            if not any(entry.search is not None for entry in self.tasks.values()):
                raise
            self.stopped = reason_of(failure)
            logger.warning("the search ended early: %s", self.stopped)

    def search(self, program: Program) -> Search:
        """The search of a task, which has not begun."""
        return Search(program, self.options.apart(), 1, beside=self.neighbours)

    def neighbours(self) -> list[Neighbour]:
        """All tasks, with their schedules until now, and the other programs of the logs."""
        begun = {key: task for key, task in self.tasks.items() if task.search is not None}
        known = [one for one in self._known if one.workload not in begun]
        return [*known, *(task.neighbour(key) for key, task in begun.items())]

    def finals(self, keys: Sequence[str]) -> None:
        """Let the fastest of each task run in turns, as long as there is time."""
        for key in keys:
            search = self.tasks[key].search
            if self.interrupted or self.left() <= 0:
                break
            if search is not None and not self.tasks[key].failed:
                search.finals()
                self.interrupted |= search.interrupted

    def upcoming(self, keys: Sequence[str], counts: Sequence[Counts]) -> str:
        """The task that a gradient would choose next, and the reason."""
        scheduler, objective = self.plan.scheduler, self.plan.objective
        if not isinstance(scheduler, Gradient) or self.stopped:
            return ""
        curves = [self.tasks[key].curve(own.get(key, 0) for own in counts) for key in keys]
        gains = scheduler.gains(curves, objective)
        most = max(
            (n for n, curve in enumerate(curves) if not curve.closed),
            key=lambda n: gains[n],
            default=None,
        )
        if most is None or not gains[most]:
            return ""
        name = print_name(curves[most].name)
        if not curves[most].legs:
            return f"next would be {name}, which has had no trial"
        return (
            f"next would be {name}: {gains[most]:.2g} of the objective is hoped for in "
            f"a {'second' if scheduler.currency == 'seconds' else 'trial'} of it"
        )

    # ---- layouts

    def choose_layouts(self, asked: Sequence[int]) -> None:
        """Try each layout for the whole of some networks, as long as there is time, and choose one
        for each image by the times of the kernels.

        asked  the places of the networks
        """
        variants: dict[int, list[Graph]] = {place: [] for place in asked}
        counts: list[Counts] = [{} for _ in self.graphs]
        each = [tried_layouts(self.graphs[place], self.options.target) for place in asked]
        passes = list(itertools.zip_longest(*each))
        for layouts_by_place in passes:
            if layouts_by_place is not passes[0] and self.left(LAYOUTS) <= 0:
                break
            for place, layouts in zip(asked, layouts_by_place):
                if layouts is None:
                    continue
                variants[place].append(self.graphs[place].replace(layouts=layouts))
                for key, count in self.profiled(variants[place][-1]).items():
                    counts[place][key] = counts[place].get(key, 0) + count
        hopeful = {
            key
            for place in asked
            for group in self.graphs[place].kernels
            for key in self.hopeful(variants[place], group)
        }
        keys = [key for key in self.by_share(counts) if key in hopeful]
        trials = max(FIRST, self.plan.trials // len(passes))  # a round of each, or none compares
        self.tune(keys, counts, trials, lambda: self.left(LAYOUTS), "layouts")
        for place in asked:
            graph = self.graphs[place]
            choices = layout_choices(graph, self.options.target)
            cost = remembered(partial(self.cost, graph, variants[place]))
            self.graphs[place] = graph.replace(layouts=cheapest(graph, choices, cost))

    def hopeful(self, variants: Sequence[Graph], group: Sequence[str]) -> list[str]:
        """The keys of a group's kernels that may be the fastest once they are tuned."""
        keys = dict.fromkeys(
            workload_key(program_of(one, group, merge=True).program) for one in variants
        )
        times = {key: self.tasks[key].seconds for key in keys if key in self.tasks}
        most = HOPELESS * min(times.values(), default=0.0)
        return [key for key, seconds in times.items() if len(times) > 1 and seconds <= most]

    def cost(
        self, graph: Graph, variants: Sequence[Graph], group: Sequence[str], layouts: Layouts
    ) -> float:
        """Seconds of a kernel: as measured, or those with one layout for all that it reads and
        writes, and a conversion of each input that has another.
        """
        exact = self.tasks.get(workload_key(program_of(graph, group, layouts, merge=True).program))
        if exact is not None:
            return exact.seconds
        made = [name for name in layouts if name in group] or list(layouts)[:1]
        for variant in variants:
            if all(variant.layout_of(name) == layouts[name] for name in made):
                like = self.tasks.get(workload_key(program_of(variant, group, merge=True).program))
                if like is not None:
                    others = [n for n in layouts if variant.layout_of(n) != layouts[n]]
                    moved = sum(graph.values[name].nbytes for name in others)
                    return like.seconds + moved / CONVERTED
        return math.inf

    # ---- progress

    def show(self, curves: Sequence[Curve], place: int, what: str) -> None:
        """A line on standard error, every few seconds: the estimated time of each network, and the
        task that had a round.
        """
        if not self.shown or self.elapsed - self._said < EVERY:
            return
        self._said = self.elapsed
        curve = curves[place]
        now = ", ".join(map(readable_seconds, latencies_of(curves)))
        before = latencies_of([replace(curve, legs=()) for curve in curves])
        names = ", ".join(print_name(graph.name) for graph in self.graphs)
        print(
            f"{names}{what and f' ({what})'}: an estimated {now} "
            f"({', '.join(map(readable_seconds, before))} before), "
            f"{sum(c.trials for c in curves):,} trials of {len(curves)} tasks, "
            f"{clock(self.elapsed)}; {print_name(curve.name)} {readable_seconds(curve.first)} -> "
            f"{readable_seconds(curve.seconds)} after {curve.trials} trials",
            file=sys.stderr,
            flush=True,
        )


def profiled_seconds(model: Model) -> list[float]:
    """Seconds of each distinct kernel of a model, in a network."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 2, value.shape).astype(numpy_dtype(value.dtype))
        for value in model.graph.inputs
    ]
    rows = model.profile(*arrays, repeat=REPEATS).rows
    spent = [math.inf] * len(model.tasks)
    for call, row in zip(model.calls, rows):
        spent[call.kernel] = min(spent[call.kernel], row.seconds)
    return spent
