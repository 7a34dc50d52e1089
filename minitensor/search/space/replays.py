"""Schedules of sketches, each begun where it parts from one that was made before: children of a
search differ from their parents in few decisions, and half of their steps are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from minitensor.ir import Program
from minitensor.schedule import Schedule, Trace

KEPT: Final = 16
"""Schedules that are kept: each has some hundred kilobytes of programs."""


class Replays:
    """Schedules of a program. None is verified (see `Schedule.confirm`)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._made: deque[tuple[Trace, Mapping[int, Any], Schedule]] = deque(maxlen=KEPT)

    def apply(self, trace: Trace, decisions: Mapping[int, Any]) -> Schedule:
        """The schedule of a trace with other decisions at some steps. Raises ScheduleError where a
        step is refused.
        """
        wanted = trace.with_decisions(decisions)
        if None in (known := wanted.decisions).values():  # that is drawn
            return wanted.apply(self.program, check=False)
        shared = [
            (min((n for n in known if known[n] != before[n]), default=len(trace)), schedule)
            for other, before, schedule in self._made
            if other is trace
        ]
        none = 0, Schedule(self.program, check=False)
        first, begun = max(shared, key=itemgetter(0), default=none)
        made = begun.copy(first).replay(wanted, begun=True)
        self._made.append((trace, known, made.copy()))
        return made

    def clear(self) -> None:
        """Forget what was made."""
        self._made.clear()
