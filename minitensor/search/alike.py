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
from minitensor.search.records import OK, Record
from minitensor.search.tasks import Snapshot
from minitensor.search.workload import operations, workload_key

ALIKE: Final = "as an alike program has it"
"""The change of a candidate that comes from another program's schedule."""
OF_EACH: Final = 2
"""Schedules that are taken of each other program, its fastest."""
MOST: Final = 32
"""Other programs that are looked at, at most."""


class Neighbour(NamedTuple):
    """Another program, with schedules of it.

    workload  its key
    name      its name: programs of one name are the most alike
    work      operations of a call
    traces    of its schedules, the fastest first
    """

    workload: str
    name: str
    work: int
    traces: Sequence[Trace]


def neighbours(log: Snapshot, target: Target) -> list[Neighbour]:
    """The programs that a log has records of, for a target."""
    known = (
        [record for record in records if record.status == OK and record.target == target]
        for records in log.by_workload.values()
    )
    return [_neighbour(records) for records in known if records]


def _neighbour(records: Sequence[Record]) -> Neighbour:
    """The program of some records, with the fastest of their traces."""
    ranked = sorted(records, key=lambda record: record.steady)
    traces: list[Trace] = []
    for text in [*dict.fromkeys(record.trace for record in ranked)][:OF_EACH]:
        with contextlib.suppress(MinitensorError):  # of a trace that this version does not know
            traces.append(Trace.from_json(text))
    return Neighbour(ranked[0].workload, ranked[0].name, ranked[0].flop, traces)


def nearest_first(found: Iterable[Neighbour], program: Program) -> list[Trace]:
    """The traces of programs other than this: the fastest of each, then the second of each; those
    of programs of its name first, and of these the nearest in work.
    """
    work, own = math.log(1 + operations(program)), workload_key(program)
    others = [one for one in found if one.workload != own]
    away = {one.workload: abs(math.log(1 + one.work) - work) for one in others}
    others.sort(key=lambda one: (one.name != program.name, away[one.workload], one.workload))
    layers = zip_longest(*(one.traces for one in others[:MOST]))
    return [trace for layer in layers for trace in layer if trace is not None]
