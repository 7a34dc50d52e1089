"""The layouts of a network, and the schedules of its tasks: the best of a log, or of the rules."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from typing import Final

from minitensor.api import SCHEDULES
from minitensor.codegen import Target
from minitensor.errors import MinitensorError, TuningError
from minitensor.graph import (
    Cost,
    Graph,
    Layouts,
    Part,
    Scheduled,
    Schedules,
    cheapest,
    default_layouts,
    images,
    program_of,
    title_of,
)
from minitensor.ir import Program
from minitensor.runtime import digest_of_code, entry_name, recall, remember
from minitensor.schedule import Schedule
from minitensor.search.best import best_of
from minitensor.search.log import Log, PathLike
from minitensor.search.records import OK
from minitensor.search.tasks.first import schedules_for
from minitensor.search.tasks.snapshot import Snapshot
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")

TUNED = "the log"
UNTUNED = "the first sketch"
_PRICES: Final = ("ir", "arith", "lang", "graph", "search")
"""The packages whose code prices layouts."""
UNKNOWN: Final = 1e3
"""Seconds that count for a kernel of which a log knows nothing: more than all others together."""


def snapshots(log: PathLike | Log | None) -> list[Snapshot]:
    """A log as it is now, read once; none without one."""
    return [] if log is None else [Snapshot(log.path if isinstance(log, Log) else log)]


def network_choices(
    graph: Graph, log: PathLike | Log | None, target: Target
) -> tuple[Graph, Schedules]:
    """The layouts and the schedules that a log knows for a graph with groups.

    log     its path, or a Log; None for none: default layouts, and the schedules that rules give
    target  with nothing left open

    Returns the graph with its layouts, and what `build_model` asks for the schedules of tasks.
    Raises TuningError for a log that cannot be read.
    """
    logs = snapshots(log)
    return recorded_layouts(graph, logs, target), network_schedules(logs, target)


def recorded_layouts(graph: Graph, logs: Sequence[Log], target: Target) -> Graph:
    """The graph with the layouts whose kernels are the fastest in some logs, all together; with
    the default ones without a log, and as it is where it has layouts.

    To price them takes seconds, so the cache keeps them.
    """
    if graph.layouts is not None or not images(graph):
        return graph
    if not logs:
        return _laid(graph, default_layouts(graph))
    known = [record for log in logs for record in log if record.target == target]
    titles = {record.name for record in known if record.status == OK}
    best: dict[str, float] = {}
    for record in known:
        best[record.workload] = min(record.median, best.get(record.workload, math.inf))

    def cost(group: Sequence[str], layouts: Layouts) -> float:
        if title_of(graph, group, layouts) not in titles:
            return UNKNOWN
        return best.get(
            workload_key(program_of(graph, group, layouts, merge=True).program), UNKNOWN
        )

    constants = [(name, a.shape, str(a.dtype)) for name, a in graph.constants.items()]
    parts = (graph.inputs, graph.nodes, graph.kernels, graph.outputs, constants, target)
    facts = (digest_of_code(_PRICES), repr(parts), sorted(titles), sorted(best.items()))
    entry = entry_name("layouts", *facts)
    with contextlib.suppress(MinitensorError, LookupError):
        return _laid(graph, (recall(entry) or {})["layouts"])
    layouts = cheapest(graph, layout_choices(graph, target), remembered(cost))
    with contextlib.suppress(MinitensorError):  # there may be no cache
        remember(entry, {"layouts": layouts})
    return _laid(graph, layouts)


def _laid(graph: Graph, layouts: Layouts) -> Graph:
    found: Graph = graph.replace(layouts=layouts)
    return found


def layout_choices(graph: Graph, target: Target) -> dict[str, tuple[int, ...]]:
    """The layouts to choose among for each image, the default one first."""
    each = tried_layouts(graph, target)
    return {
        name: tuple(dict.fromkeys(layouts.get(name, 0) for layouts in each))
        for name in images(graph)
    }


def tried_layouts(graph: Graph, target: Target) -> list[Layouts]:
    """The layouts that are tried for the whole of a network: the default ones; channels last, in
    blocks as wide as a vector, and as written.
    """
    lanes = (target.vector_bits or 128) // 32
    found: list[Layouts] = [default_layouts(graph)]
    for name in ("NHWC", f"NCHW{lanes}c", "NCHW"):
        layouts = graph.lay_out(name).layouts or {}
        if layouts not in found:
            found.append(layouts)
    return found


def remembered(cost: Cost) -> Cost:
    """The same cost, asked once for each group and its layouts."""
    known: dict[tuple[Sequence[str], tuple[tuple[str, int], ...]], float] = {}

    def found(group: Sequence[str], layouts: Layouts) -> float:
        key = (group, tuple(layouts.items()))
        if key not in known:
            known[key] = cost(group, layouts)
        return known[key]

    return found


def network_schedules(logs: Sequence[Log], target: Target, warns: bool = True) -> Schedules:
    """A function that gives the schedules of tasks: the best of some logs for this target; that of
    `mt.apply_history_best` around it; or, for what was never tuned, what rules give. How many
    those are is logged.

    target  with nothing left open
    warns   whether it is: not where they are about to be tuned
    """

    def chosen(parts: Sequence[Part]) -> list[Scheduled]:
        tuned = [_tuned(part.program, logs, target) for part in parts]
        rest = [part.program for part, one in zip(parts, tuned) if one is None]
        rules = iter(schedules_for(rest, target))
        found = [
            Scheduled(next(rules), UNTUNED) if one is None else Scheduled(one, TUNED)
            for one in tuned
        ]
        untuned = [p.program.name for p, one in zip(parts, found) if one.origin == UNTUNED]
        if logs and untuned and warns:
            logger.warning(
                "%s: %d of %d tasks were never tuned for this machine (%s%s); model.profile says "
                "what share of the time they have, and mt.tune(graph, log=…) tunes them",
                logs[0].path,
                len(untuned),
                len(parts),
                ", ".join(untuned[:5]),
                ", …" if len(untuned) > 5 else "",
            )
        return found

    return chosen


def _tuned(program: Program, logs: Sequence[Log], target: Target) -> Schedule | None:
    """The schedule of `mt.apply_history_best`, or the best of some logs; None if none knows it."""
    find = SCHEDULES.get()
    found = find(program, target) if find is not None else None
    if found is None and logs:
        with contextlib.suppress(TuningError):
            found = best_of(logs, program, target)
    return found
