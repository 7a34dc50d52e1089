"""Tuning a network: its distinct tasks, one after the other, by their share of the time.

Where there are images, their layouts come first: each is tried for the whole network, its kernels
are tuned a little, and `graph.cheapest` chooses. The network is built untuned and profiled; each
task gets trials, and where there is a time limit seconds, in proportion to what its kernels take of
a call. Source for "tasks": Zheng et al., Ansor,
OSDI 2020, §6, whose scheduler divides the trials as it goes; here they are divided once.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from minitensor.codegen import Target
from minitensor.errors import MinitensorError
from minitensor.graph import (
    Graph,
    Layouts,
    Model,
    Part,
    Scheduled,
    build_model,
    cheapest,
    images,
    program_of,
)
from minitensor.ir import Program, numpy_dtype, print_name
from minitensor.looks import Shown, Text, readable_seconds
from minitensor.schedule import Schedule
from minitensor.search.tasks import UNTUNED, layout_choices, layout_names, remembered
from minitensor.search.tune.progress import clock
from minitensor.search.tune.result import TuneResult
from minitensor.search.workload import workload_key

FEWEST: Final = 8
"""Trials of a task, at least."""
MOST: Final = 4
"""A task gets at most so many times the average of trials."""
REPEATS: Final = 9
"""Calls of the untuned network that are timed."""
LAYOUTS: Final = 0.4
"""The part of the time after which layouts are chosen."""
HOPELESS: Final = 1.5
"""A layout in which a kernel takes this many times as long, untuned, is not tuned."""
CONVERTED: Final = 1e10
"""Bytes of an image whose layout is changed in a second, as a first guess."""
TUNED: Final = "this search"

One = Callable[..., TuneResult]
"""Tunes one program, with `trials` and `time_limit`."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task of a network.

    program   its definition
    count     how many times a call runs it
    first     seconds of its kernel before the search, where it stands in the network
    schedule  the fastest; that of the rules if nothing was found
    seconds   of it; `first` if nothing was found
    trials    that were made
    failed    the reason why its search found nothing; "" if it did
    origin    where the schedule is from, in words
    """

    program: Program
    count: int
    first: float
    schedule: Schedule
    seconds: float
    trials: int = 0
    failed: str = ""
    origin: str = UNTUNED

    @property
    def name(self) -> str:
        """The name of its program."""
        return self.program.name

    @property
    def scheduled(self) -> Scheduled:
        """The schedule, and where it is from."""
        return Scheduled(self.schedule, self.origin)


@dataclass(frozen=True, slots=True, repr=False)
class NetworkResult(Shown):
    """The best schedules of the tasks of a network.

    graph        with the groups and layouts that were tuned, which `model` builds
    tasks        in the order of their share of the time
    target       what was built for, with nothing left open
    elapsed      seconds that the search took
    interrupted  whether Ctrl-C ended it early
    """

    graph: Graph
    tasks: tuple[TaskResult, ...]
    target: Target
    elapsed: float
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of a call, estimated: the sum over its kernels."""
        return sum(task.count * task.seconds for task in self.tasks)

    @property
    def first(self) -> float:
        """The same before the search."""
        return sum(task.count * task.first for task in self.tasks)

    def __str__(self) -> str:
        trials = sum(task.trials for task in self.tasks)
        return (
            f"{print_name(self.graph.name)}: an estimated {readable_seconds(self.seconds)} a call, "
            f"{readable_seconds(self.first)} before; {len(self.tasks)} tasks, {trials:,} trials in "
            f"{readable_seconds(self.elapsed)}\n    .model(), .tasks, .explain()"
        )

    def explain(self) -> str:
        """The tasks with their times before and after, as text."""
        total = self.seconds or 1.0
        lines = [f"{'share':>6} {'count':>5} {'before':>9} {'after':>9} {'trials':>6}  task"]
        for task in sorted(self.tasks, key=lambda one: -one.count * one.seconds):
            lines.append(
                f"{task.count * task.seconds / total:6.1%} {task.count:5} "
                f"{readable_seconds(task.first):>9} {readable_seconds(task.seconds):>9} "
                f"{task.trials:6}  {print_name(task.name)}"
            )
            if task.failed:
                lines.append(f"        nothing was found: {task.failed}")
        return Text("\n".join([str(self).splitlines()[0], *lines]))

    def model(self) -> Model:
        """The network, built with these schedules."""
        known = {task.program.spelled(): task.scheduled for task in self.tasks}
        return build_model(
            self.graph, self.target, lambda parts: [known[part.program.spelled()] for part in parts]
        )


def tune_network(
    graph: Graph,
    target: Target,
    schedules: Callable[[Sequence[Part]], Sequence[Scheduled]],
    one: One,
    trials: int,
    time_limit: float | None,
    progress: bool | None,
) -> NetworkResult:
    """Tune the distinct tasks of a graph with groups.

    schedules   those of the untuned network
    trials      of a task, on average
    time_limit  seconds for all of it; None for no limit
    progress    whether to show it on standard error; None: on a terminal

    Ctrl-C ends it: what was found until then is returned.
    """
    work = _Work(graph, target, schedules, one, trials, time_limit)
    work.shown = sys.stderr.isatty() if progress is None else progress
    if graph.layouts is None and images(graph):
        work.choose_layouts()
    tasks = work.profiled(work.graph)
    work.tune(tasks, trials, 1.0)
    return NetworkResult(work.graph, tuple(tasks), target, work.elapsed, work.interrupted)


class _Work:
    """The tuning of a network, and what it knows of kernels until now.

    known  the outcomes by the keys of programs
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        schedules: Callable[[Sequence[Part]], Sequence[Scheduled]],
        one: One,
        trials: int,
        time_limit: float | None,
    ) -> None:
        self.graph, self.target, self.one = graph, target, one
        self.schedules, self.trials, self.time_limit = schedules, trials, time_limit
        self.start = time.perf_counter()
        self.interrupted = False
        self.shown = False
        self.known: dict[str, TaskResult] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.start

    def left(self, part: float) -> float | None:
        """Seconds until a part of the time is over; None without a limit."""
        return None if self.time_limit is None else part * self.time_limit - self.elapsed

    def profiled(self, graph: Graph) -> list[TaskResult]:
        """The tasks of a graph with what is known of them; the largest share first."""
        found = []
        for task in _profiled(build_model(graph, self.target, self.schedules)):
            known = self.known.get(workload_key(task.program))
            found.append(task if known is None else replace(known, count=task.count))
        return sorted(found, key=lambda task: -task.count * task.seconds)

    def tune(self, tasks: list[TaskResult], trials: int, part: float, what: str = "task") -> None:
        """Tune tasks in their order, each by its share.

        trials  of a task, on average
        part    of the time, at the end of which it is over
        """
        for number, task in enumerate(tasks):
            left = self.left(part)
            if self.interrupted or (left is not None and left <= 0):
                break
            share = _weight(task, tasks) / sum(_weight(other, tasks) for other in tasks[number:])
            wanted = round(trials * len(tasks) * _weight(task, tasks))
            wanted = min(max(FEWEST, wanted), max(FEWEST, MOST * trials))
            seconds = None if left is None else left * share
            try:
                found = self.one(task.program, trials=wanted, time_limit=seconds)
                tasks[number] = _better(task, found)
                self.interrupted = found.interrupted
            except KeyboardInterrupt:
                self.interrupted = True
            except MinitensorError as failure:
                tasks[number] = replace(task, failed=failure.message.splitlines()[0])
            self.known[workload_key(task.program)] = tasks[number]
            if self.shown:
                _show(self.graph, tasks, number, self.elapsed, what)

    def choose_layouts(self) -> None:
        """Try each layout for the whole of the network, as long as there is time, and choose one
        for each image by the times of the kernels.
        """
        variants: list[Graph] = []
        tasks: dict[str, TaskResult] = {}
        for name in layout_names(self.target):
            left = self.left(LAYOUTS)
            if variants and left is not None and left <= 0:
                break
            variants.append(self.graph.lay_out(name))
            for task in self.profiled(variants[-1]):
                tasks.setdefault(workload_key(task.program), task)
        self.known |= tasks
        hopeful = {key for group in self.graph.kernels for key in self.hopeful(variants, group)}
        every = [task for key, task in tasks.items() if key in hopeful]
        every.sort(key=lambda task: -task.count * task.first)
        self.tune(every, max(1, self.trials // len(variants)), LAYOUTS, "layout of task")
        choices = layout_choices(self.graph, self.target)
        cost = remembered(partial(self.cost, variants))
        self.graph = self.graph.replace(layouts=cheapest(self.graph, choices, cost))

    def hopeful(self, variants: Sequence[Graph], group: Sequence[str]) -> list[str]:
        """The keys of a group's kernels that may be the fastest once they are tuned."""
        keys = dict.fromkeys(workload_key(program_of(one, group).program) for one in variants)
        times = {key: self.known[key].seconds for key in keys if key in self.known}
        most = HOPELESS * min(times.values(), default=0.0)
        return [key for key, seconds in times.items() if len(times) > 1 and seconds <= most]

    def cost(self, variants: Sequence[Graph], group: Sequence[str], layouts: Layouts) -> float:
        """Seconds of a kernel: as measured, or those with one layout for all that it reads and
        writes, and a conversion of each input that has another.
        """
        exact = self.known.get(workload_key(program_of(self.graph, group, layouts).program))
        if exact is not None:
            return exact.seconds
        made = [name for name in layouts if name in group] or list(layouts)[:1]
        for variant in variants:
            if all(variant.layout_of(name) == layouts[name] for name in made):
                like = self.known.get(workload_key(program_of(variant, group).program))
                if like is not None:
                    others = [n for n in layouts if variant.layout_of(n) != layouts[n]]
                    moved = sum(self.graph.values[name].nbytes for name in others)
                    return like.seconds + moved / CONVERTED
        return math.inf


def _better(task: TaskResult, found: TuneResult) -> TaskResult:
    """The outcome for a task: that of its search, or what it had before, if that is faster."""
    if found.seconds > task.first:
        return replace(task, trials=len(found.tried))
    return replace(
        task,
        schedule=found.schedule,
        seconds=found.seconds,
        trials=len(found.tried),
        origin=TUNED,
    )


def _weight(task: TaskResult, tasks: Sequence[TaskResult]) -> float:
    """The part of the trials that a task gets: its share of the time, and a little in any case."""
    total = sum(other.count * other.seconds for other in tasks) or 1.0
    return task.count * task.seconds / total + 1 / (8 * len(tasks))


def _profiled(model: Model) -> list[TaskResult]:
    """The tasks of an untuned network, with the times of their kernels; the largest share first."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 2, value.shape).astype(numpy_dtype(value.dtype))
        for value in model.graph.inputs
    ]
    rows = model.profile(*arrays, repeat=REPEATS).rows
    spent = [math.inf] * len(model.tasks)
    for call, row in zip(model.calls, rows):
        spent[call.kernel] = min(spent[call.kernel], row.seconds)
    tasks = [
        TaskResult(
            task.part.program, task.count, seconds, task.schedule, seconds, origin=task.origin
        )
        for task, seconds in zip(model.tasks, spent)
    ]
    return sorted(tasks, key=lambda task: -task.count * task.first)


def _show(
    graph: Graph, tasks: Sequence[TaskResult], number: int, elapsed: float, what: str
) -> None:
    """A line on standard error: the estimated time of the network, and the task that was tuned."""
    task = tasks[number]
    total = sum(one.count * one.seconds for one in tasks)
    before = sum(one.count * one.first for one in tasks)
    print(
        f"{print_name(graph.name)}: an estimated {readable_seconds(total)} "
        f"({readable_seconds(before)} before), {what} {number + 1} of {len(tasks)}, "
        f"{clock(elapsed)}; {print_name(task.name)} {readable_seconds(task.first)} -> "
        f"{readable_seconds(task.seconds)} after {task.trials} trials",
        file=sys.stderr,
        flush=True,
    )
