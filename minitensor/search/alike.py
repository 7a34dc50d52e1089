"""The schedules of other programs that were measured: a search tries the nearest of its own.

A record is a trace with decisions, which can be taken anew for other extents: `space.adapted` does
that, where the programs are alike. Here is what there is, those first whose work is the most like.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from minitensor.codegen import Target
from minitensor.errors import MinitensorError
from minitensor.ir import Program
from minitensor.schedule import Trace
from minitensor.search.log import Log
from minitensor.search.records import OK, Record
from minitensor.search.workload import operations, workload_key

OF_EACH: Final = 2
"""Schedules that are taken of each other program, its fastest."""
MOST: Final = 32
"""Other programs that are looked at, at most."""


class Neighbour(NamedTuple):
    """Another program, and what was found of it.

    work    operations of a call
    traces  of its schedules, the fastest first
    """

    work: int
    traces: Sequence[Trace]


def neighbours(log: Log, program: Program, target: Target) -> list[Neighbour]:
    """The other programs that a log has records of, for the same target."""
    own, known = workload_key(program), dict[str, dict[str, Record]]()
    for record in log:
        if record.status == OK and record.workload != own and record.target == target:
            found = known.setdefault(record.workload, {})
            if record.steady <= found.get(record.trace, record).steady:
                found[record.trace] = record
    return [_neighbour(list(found.values())) for found in known.values()]


def _neighbour(records: Sequence[Record]) -> Neighbour:
    traces = []
    for record in sorted(records, key=lambda record: record.steady)[:OF_EACH]:
        with contextlib.suppress(MinitensorError):  # of a trace that this version does not know
            traces.append(record.parsed())
    return Neighbour(records[0].flop, traces)


def nearest_first(found: Iterable[Neighbour], program: Program) -> list[Trace]:
    """Their traces: the fastest of each, of those first whose work is most like that of a program;
    then the second of each.
    """
    work = math.log(1 + operations(program))
    order = sorted(found, key=lambda one: abs(math.log(1 + one.work) - work))[:MOST]
    layers = zip_longest(*(one.traces[:OF_EACH] for one in order))
    return [trace for layer in layers for trace in layer if trace is not None]
