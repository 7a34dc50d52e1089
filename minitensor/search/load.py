"""The best that is known of a program, as a schedule: no search."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, MinitensorError, TuningError, printable, unexpected
from minitensor.ir import Program
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.search.log import Log
from minitensor.search.reading import Report, counted
from minitensor.search.records import OK, Record
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")


def load_best(
    log: str | os.PathLike[str] | Log, program: Program, target: str | Target = "c"
) -> Schedule:
    """The fastest schedule that a log knows for a program and a target: no search.

    log      a Log, or the path of one
    program  the definition, as it was when it was searched: same shapes, same names
    target   what is left open is filled in from this machine

    The steps go through the same checks as if a user wrote them. A record whose steps are refused
    (an older version may have allowed more) gives way to the next best, with one logged warning.

    Raises TuningError if there is no such record, saying what there is; CompileError if this
    machine must be asked and has no compiler.
    """
    source = log if isinstance(log, Log) else Log(log)
    if not isinstance(program, Program):
        raise unexpected("a program (see mt.lower)", "program", program)
    exact = native_target(Target.of(target))
    refused: list[str] = []
    schedule = None
    for record in source.ranked(program, exact):
        try:
            schedule = applied(record, program)
            break
        except MinitensorError as problem:
            refused.append(problem.message)
    if schedule is None:
        raise TuningError(_why_there_is_none(source, program, exact, refused))
    if refused:
        logger.warning(
            "%s: %s of %s cannot be applied, and the next best was taken; the first: %s",
            printable(str(source.path)),
            counted(len(refused), "faster record"),
            printable(program.name),
            refused[0],
        )
    return schedule


def applied(record: Record, program: Program) -> Schedule:
    """The schedule of a record. Raises MinitensorError where a step is refused, or left open."""
    trace = record.parsed()
    if None in trace.decisions.values():
        raise ArgumentError("the trace leaves decisions open")
    return trace.apply(program)


def _why_there_is_none(log: Log, program: Program, target: Target, refused: Sequence[str]) -> str:
    where, name = printable(str(log.path)), printable(program.name)
    if refused:
        count = counted(len(refused), "record")
        return f"{where}: none of {count} of {name} can be applied; the first: {refused[0]}"
    if not os.path.lexists(log.path):
        return f"there is no log {where}"
    key = workload_key(program)
    others = [(r.status, r.target) for r in log.records(Report()) if r.workload == key]
    if not others:
        return (
            f"{where} has no record of {name} (workload {key}); shapes, dtypes and names must be "
            "those of the program that was searched; `minitensor log show` lists what it has"
        )
    working = dict.fromkeys(str(t) for status, t in others if status == OK)
    if working:
        return f"{where} has records of {name}, but not for {target}: for {', '.join(working)}"
    return f"{where}: all {counted(len(others), 'record')} of {name} are of failures"
