"""Programs built as the best of a log is scheduled: a context in which `mt.build` looks it up.

with mt.apply_history_best("tuning.jsonl"):
    kernel = mt.build(program)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from minitensor.api import SCHEDULES
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, MinitensorError, TuningError, printable
from minitensor.ir import Program, print_name
from minitensor.runtime import native_target
from minitensor.schedule import Schedule, Trace
from minitensor.search.best import best_of
from minitensor.search.log import Log, PathLike
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")


class _History:
    """The best schedules of some logs, each looked up once; what none of them has is asked of the
    context outside.
    """

    def __init__(self, logs: Sequence[Log]) -> None:
        self.logs, self.outer = logs, SCHEDULES.get()
        self.known: dict[tuple[str, Target], Trace | None] = {}

    def __call__(self, program: Program, target: Target) -> Schedule | None:
        exact = native_target(target)
        key, why = (workload_key(program), exact), ""
        if key not in self.known:
            try:
                self.known[key] = best_of(self.logs, program, exact).trace
            except MinitensorError as nothing:  # there is none, or the log is gone
                self.known[key], why = None, nothing.message
        trace = self.known[key]
        if trace is not None:
            return trace.apply(program)
        found = self.outer(program, target) if self.outer is not None else None
        if found is None and why and not isinstance(self.outer, _History):
            name = print_name(program.name)
            logger.warning("%s is built as it is written, unscheduled: %s", name, why)
        return found


@contextlib.contextmanager
def apply_history_best(*logs: PathLike | Log | Sequence[PathLike | Log]) -> Iterator[None]:
    """Build programs as the fastest schedule in some logs says, inside a `with`.

    logs  paths or Logs, one or several, or a list of them

    `mt.build(program)` takes what `mt.load_best` finds: the fastest record of this workload, under
    whatever names, for this target. Of a program that has none a warning is logged, once, and it is
    built as it is written. An explicit Schedule is built as it is. Of nested contexts the inner one
    is asked first. As any context variable it holds for the tasks (asyncio) that are started
    inside; a thread begins without it (see `contextvars.copy_context`).

    Raises TuningError, at the beginning, for a log that is missing, cannot be read or has no
    record; ArgumentError for what is no log.
    """
    first = logs[0] if len(logs) == 1 else None
    given: Sequence[Any] = first if isinstance(first, list | tuple) else logs
    sources = [log if isinstance(log, Log) else Log(log) for log in given]
    if not sources:
        raise ArgumentError("expected the path of a log, or several; apply_history_best() got none")
    for source in sources:
        report = source.verify()
        if not report.good:
            what = f"only {report.faults}" if report.faults else "it is empty"
            raise TuningError(f"{printable(str(source.path))} has no records of a search: {what}")
    token = SCHEDULES.set(_History(sources))
    try:
        yield
    finally:
        SCHEDULES.reset(token)
