"""The outcome of a search for networks: the tasks, what each got and gained, and the models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from minitensor.codegen import Target
from minitensor.graph import Graph, Model, Part, Scheduled, build_model
from minitensor.ir import Program, print_name
from minitensor.looks import Shown, Text, readable_seconds
from minitensor.pictures import Gallery, folder_of, write
from minitensor.schedule import Schedule
from minitensor.search.ledger import NO_SECONDS, Ledger
from minitensor.search.pictures import Layer, tasks_picture
from minitensor.search.tasks import UNTUNED


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task of a network.

    program   its definition
    count     how many times a call runs it
    first     seconds of its kernel before the search, where it stands in the network
    schedule  the fastest; that of the rules if nothing was found
    seconds   of it; `first` if nothing was found
    trials    that were made
    spent     seconds that they took
    failed    the reason why its search found nothing; "" if it did
    ended     why it takes no more trials; "" if it would
    origin    where the schedule is from, in words
    """

    program: Program
    count: int
    first: float
    schedule: Schedule
    seconds: float
    trials: int = 0
    spent: float = 0.0
    failed: str = ""
    ended: str = ""
    origin: str = UNTUNED

    @property
    def name(self) -> str:
        """The name of its program."""
        return self.program.name

    @property
    def scheduled(self) -> Scheduled:
        """The schedule, and where it is from."""
        return Scheduled(self.schedule, self.origin)


class Step(NamedTuple):
    """A round of one task, in a search for networks.

    task     the place of the task in `tasks`
    elapsed  seconds since the search began, at its end
    trials   candidates that were tried
    seconds  of a call of the task's fastest kernel, at its end
    """

    task: int
    elapsed: float
    trials: int
    seconds: float


@dataclass(frozen=True, slots=True, repr=False)
class NetworkResult(Shown):
    """The best schedules of the tasks of a network.

    graph        with the groups and layouts that were tuned, which `model` builds
    tasks        in the order of their share of the time
    target       what was built for, with nothing left open
    elapsed      seconds that the search took
    interrupted  whether Ctrl-C ended it early
    stopped      why it ended early; "" if it did not
    steps        the rounds, one after the other, but those in layouts that were not chosen
    upcoming     which task would be next, and why, as text; "" if none would
    time         the phases of `elapsed` (mt.search.Ledger)
    """

    graph: Graph
    tasks: tuple[TaskResult, ...]
    target: Target
    elapsed: float
    interrupted: bool = False
    stopped: str = ""
    steps: tuple[Step, ...] = ()
    upcoming: str = ""
    time: Ledger = NO_SECONDS

    @property
    def seconds(self) -> float:
        """Seconds of a call, estimated: the sum over its kernels."""
        return sum(task.count * task.seconds for task in self.tasks)

    @property
    def first(self) -> float:
        """The same before the search."""
        return sum(task.count * task.first for task in self.tasks)

    def curve(self) -> list[tuple[float, float]]:
        """After each round, the seconds since the search began, and those of a call until then."""
        best = [task.first for task in self.tasks]
        found = []
        for step in self.steps:
            best[step.task] = min(best[step.task], step.seconds)
            now = sum(task.count * seconds for task, seconds in zip(self.tasks, best))
            found.append((step.elapsed, now))
        return found

    def __str__(self) -> str:
        trials = sum(task.trials for task in self.tasks)
        return (
            f"{print_name(self.graph.name)}: an estimated {readable_seconds(self.seconds)} a call, "
            f"{readable_seconds(self.first)} before; {len(self.tasks)} tasks, {trials:,} trials in "
            f"{readable_seconds(self.elapsed)}\n    .model(), .tasks, .explain(), .plot(folder)"
        )

    def explain(self) -> str:
        """The tasks as text: the times before and after, what each got, and which would be next."""
        total = self.seconds or 1.0
        head = str(self).splitlines()[0]
        if self.interrupted or self.stopped:
            head += f"; it ended early: {self.stopped or 'interrupted'}"
        lines = [
            head,
            f"{'share':>6} {'count':>5} {'before':>9} {'after':>9} {'trials':>6} {'for':>7}  task",
        ]
        for task in sorted(self.tasks, key=lambda one: -one.count * one.seconds):
            lines.append(
                f"{task.count * task.seconds / total:6.1%} {task.count:5} "
                f"{readable_seconds(task.first):>9} {readable_seconds(task.seconds):>9} "
                f"{task.trials:6} {readable_seconds(task.spent):>7}  {print_name(task.name)}"
            )
            if task.failed or task.ended:
                said = f"nothing was found: {task.failed}" if task.failed else task.ended
                lines.append(f"        {said}")
        lines.append(f"where the time went: {self.time}")
        return Text("\n".join([*lines, *([self.upcoming] if self.upcoming else [])]))

    def plot(self, folder: str | os.PathLike[str] | None = None) -> Gallery:
        """The estimated time of a call while the search went on, a layer for each task, shown in a
        notebook.

        folder  where it is written as tasks.svg too; made if it is missing

        Raises ArgumentError if the file cannot be written.
        """
        steps = [[(s.elapsed, s.seconds) for s in self.steps if s.task == n]
                 for n in range(len(self.tasks))]  # fmt: skip
        layers = [
            Layer(task.name, task.count, task.first, own) for task, own in zip(self.tasks, steps)
        ]
        drawn = Gallery([tasks_picture(str(self).splitlines()[0], layers, self.elapsed)])
        if folder is not None:
            write(folder_of(folder) / "tasks.svg", drawn[0].svg())
        return drawn

    def model(self) -> Model:
        """The network, built with these schedules."""
        known = {task.program.spelled(): task.scheduled for task in self.tasks}

        def chosen(parts: Sequence[Part]) -> list[Scheduled]:
            return [known[part.program.spelled()] for part in parts]

        return build_model(self.graph, self.target, chosen)
