"""The schedules of a network's tasks: the best of a log, or what rules give."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from minitensor.api import SCHEDULES
from minitensor.codegen import Target
from minitensor.errors import TuningError
from minitensor.graph import Part, Scheduled, Schedules
from minitensor.search.best import best_of
from minitensor.search.log import Log, PathLike
from minitensor.search.tasks.first import schedule_for

logger = logging.getLogger("minitensor")

TUNED = "the log"
UNTUNED = "the first sketch"


def network_schedules(log: PathLike | Log | None, target: Target) -> Schedules:
    """A function that gives the schedules of tasks: the best of the log for this target; that of
    `mt.apply_history_best` around it; or, for what was never tuned, what rules give. How many
    those are is logged.

    target  with nothing left open
    """
    logs = [] if log is None else [log if isinstance(log, Log) else Log(log)]

    def chosen(parts: Sequence[Part]) -> list[Scheduled]:
        found = [_scheduled(part, logs, target) for part in parts]
        untuned = [p.program.name for p, one in zip(parts, found) if one.origin == UNTUNED]
        if logs and untuned:
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


def _scheduled(part: Part, logs: Sequence[Log], target: Target) -> Scheduled:
    find = SCHEDULES.get()
    found = find(part.program, target) if find is not None else None
    if found is not None:
        return Scheduled(found, TUNED)
    if logs:
        try:
            return Scheduled(best_of(logs, part.program, target), TUNED)
        except TuningError:
            pass
    return Scheduled(schedule_for(part.program, target), UNTUNED)
