"""Profiles: the time of a model, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from minitensor.codegen import report_of
from minitensor.errors import is_integer, unexpected
from minitensor.graph.assemble import Task
from minitensor.graph.driver import Call
from minitensor.graph.nodes import Nodes
from minitensor.looks import Shown, readable_seconds


@dataclass(frozen=True, slots=True)
class Row:
    """One call of a kernel.

    name     of the kernel
    output   the first value that it computes
    shape    of that
    origin   where the schedule is from
    seconds  the median of several calls of the model
    flops    arithmetic operations of a call
    nbytes   of its arguments
    """

    name: str
    output: str
    shape: tuple[int, ...]
    origin: str
    seconds: float
    flops: int
    nbytes: int


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Shown):
    """The kernels of a model in the order of a call, each timed where it stands."""

    rows: tuple[Row, ...]

    @property
    def seconds(self) -> float:
        """The sum over the kernels."""
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        lines = [
            f"{len(self.rows)} kernels, {readable_seconds(self.seconds)}",
            f"{'share':>6} {'time':>9} {'GFLOP/s':>8} {'GB/s':>6}  kernel",
        ]
        for row in sorted(self.rows, key=lambda row: -row.seconds):
            rate = 1e-9 / max(row.seconds, 1e-9)
            shape = "x".join(map(str, row.shape))
            lines.append(
                f"{row.seconds / total:6.1%} {readable_seconds(row.seconds):>9} "
                f"{row.flops * rate:8.1f} {row.nbytes * rate:6.1f}  {row.name} {shape} "
                f"({row.origin})"
            )
        return "\n".join(lines)


def profile_of(
    graph: Nodes,
    calls: Sequence[Call],
    tasks: Sequence[Task],
    timed: Callable[[], Iterator[np.ndarray]],
    repeat: int,
) -> Profile:
    """A profile from nanoseconds of each call. Raises ArgumentError for a number that is none."""
    if not is_integer(repeat, 1):
        raise unexpected("a number of at least 1", "repeat", repeat)
    seconds = 1e-9 * np.median(list(islice(timed(), repeat)), axis=0)
    reports = [report_of(task.part.program, task.kernel.target) for task in tasks]
    rows = []
    for call, spent in zip(calls, seconds):
        task, report = tasks[call.kernel], reports[call.kernel]
        shape = graph.values[call.outputs[0]].shape
        counts = (report.operations, report.argument_bytes)
        rows.append(Row(call.name, call.outputs[0], shape, task.origin, float(spent), *counts))
    return Profile(tuple(rows))
