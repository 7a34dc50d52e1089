"""The best of a log as a schedule, without a search.

load_best("tuning.jsonl", program)           # a Schedule
with apply_history_best("tuning.jsonl"):     # of every program that is built inside
    kernel = build(program)
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from minitensor.answers import answered
from minitensor.api import SCHEDULES
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, MinitensorError, TuningError, printable
from minitensor.ir import Program, print_name
from minitensor.phrasebook import no_program
from minitensor.runtime import native_target
from minitensor.schedule import Schedule, Trace
from minitensor.search.log import Log, PathLike, Report, counted, is_old
from minitensor.search.records import OK, Record
from minitensor.search.renaming import renamed
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")


@answered
def load_best(log: PathLike | Log, program: Program, target: str | Target = "c") -> Schedule:
    """The fastest schedule in a log for a program and a target: no search.

    log      a Log, or the path of one
    program  the definition, as it was when it was searched; its tensors, loops and blocks may have
             other names, if the log has those of then (see docs/records.md)
    target   what is left open is filled in from this machine

    The steps go through the same checks as if a user wrote them. A record whose steps are refused
    (an older version may have allowed more) gives way to the next best, with one logged warning.

    Raises TuningError if there is no such record, with those that there are; CompileError if
    something of the target is left open and there is no compiler.
    """
    source = log if isinstance(log, Log) else Log(log)
    if not isinstance(program, Program):
        raise no_program("program", program)
    return best_of([source], program, native_target(Target.of(target)))


def best_of(logs: Sequence[Log], program: Program, exact: Target) -> Schedule:
    """The fastest schedule in several logs, as `load_best` takes it of one."""
    refused: list[str] = []
    for record, names, source in _ranked(logs, program, exact):
        try:
            schedule = applied(record, program, names)
        except MinitensorError as problem:
            refused.append(problem.message)
            continue
        if refused:
            logger.warning(
                "%s: %s of %s cannot be applied, and the next best was taken; the first: %s",
                printable(str(source.path)),
                counted(len(refused), "faster record"),
                printable(program.name),
                refused[0],
            )
        return schedule
    raise TuningError("; ".join(_nothing_found(log, program, exact, refused) for log in logs))


def _ranked(
    logs: Sequence[Log], program: Program, exact: Target
) -> list[tuple[Record, Sequence[str], Log]]:
    """The records of a program under any names, fastest first, with these names; () for its own."""
    found: list[tuple[Record, Sequence[str], Log]] = []
    for log in logs:
        workloads: dict[str, Sequence[str]] = {**log.alike(program), workload_key(program): ()}
        for key, names in workloads.items():
            found += [(record, names, log) for record in log.ranked(key, exact)]
    return sorted(found, key=lambda one: one[0].median)


def applied(record: Record, program: Program, names: Sequence[str] = ()) -> Schedule:
    """The schedule of a record. Raises MinitensorError where a step is refused, or left open.

    names  those of the program that was searched, if they are others (see `renamed`)
    """
    trace = record.parsed()
    if None in trace.decisions.values():
        raise ArgumentError("the trace leaves decisions open")
    steps = renamed(trace, names, program) if names else trace
    with contextlib.suppress(MinitensorError):  # checked once, at the end
        return steps.apply(program, check=False).confirm()
    return steps.apply(program)  # checked after each step, for the one to name


def _nothing_found(log: Log, program: Program, target: Target, refused: Sequence[str]) -> str:
    where, name = printable(str(log.path)), printable(program.name)
    if refused:
        count = counted(len(refused), "record")
        return f"{where}: none of {count} of {name} can be applied; the first: {refused[0]}"
    if not os.path.lexists(log.path):
        return f"there is no log {where}"
    key = workload_key(program)
    every = list(log.records(Report()))
    others = [(r.status, r.target) for r in every if r.workload == key]
    if not others:
        text = (
            f"{where} has no record of {name} (workload {key}); shapes and dtypes must be those of "
            "the program that was searched, and names too if the log is of an earlier version; "
            "`minitensor log show` lists what it has"
        )
        if any(r.name == program.name and is_old(r) for r in every):
            text += (
                f"; its records of {name} by version 0.1 are too old if the program has several "
                "stages, whose loops were named otherwise then: search again"
            )
        return text
    working = dict.fromkeys(str(t) for status, t in others if status == OK)
    if working:
        return f"{where} has records of {name}, but not for {target}: for {', '.join(working)}"
    return f"{where}: all {counted(len(others), 'record')} of {name} are of failures"


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
