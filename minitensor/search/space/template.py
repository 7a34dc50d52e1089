"""Templates: functions of a Schedule with decisions in them.

Only the function knows what its decisions mean: which steps it takes may depend on them, and it may
refuse some. So a candidate is the function called again, with the decisions of the search. The
steps that it takes then may be those of another sketch than the candidate has.

A function that draws at random by itself takes other steps with the same decisions. What it was
seen to do is then replayed, with other decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from minitensor.errors import MinitensorError, ScheduleError, TuningError, kind_of, reason_of
from minitensor.ir import Program
from minitensor.schedule import Schedule, Trace
from minitensor.search.sketch import Sketch
from minitensor.search.space.open import calls
from minitensor.search.unmade import NOT_AS_REQUIRED, Unmade

logger = logging.getLogger("minitensor")

CALLS: Final = 64
"""Calls in a row, with decisions drawn at random, that show no steps that were not seen before;
more, where none of them was as the function requires."""
MOST_CALLS: Final = 1024
UNSEEN: Final = "the template breaks T1: its steps with any decisions are among those it showed"


class Template:
    """A function of a Schedule, and the structures that it was seen to make.

    seen     a schedule of each: what differs in more than numbers, by other steps or by blocks at
             other places, are structures of their own
    unmade   calls that raised
    repeats  whether the same decisions give the same steps
    """

    def __init__(
        self, program: Program, function: Callable[[Schedule], object], seed: int = 0
    ) -> None:
        self.program, self.function = program, function
        self.unmade, self.repeats = Unmade(), True
        self._numbers: dict[str, int] = {}
        self.seen: list[Schedule] = []
        nothing_new = 0
        for number in range(MOST_CALLS):
            if nothing_new >= CALLS and (self.seen or not self._may_be_rare()):
                break
            nothing_new = 0 if self._call(seed + number) else nothing_new + 1
        if not self.seen:
            raise self._nothing()
        if not self.repeats:
            logger.warning(
                "the template %s takes other steps when it is called again with the same "
                "decisions, as if it drew at random by itself (what it chooses should be a "
                "decision: see sample_categorical); the %d schedules that it made are tried with "
                "other decisions",
                name_of(function),
                len(self.seen),
            )

    @property
    def sketches(self) -> list[Sketch]:
        """The structures, with the decisions open but for places."""
        return [Sketch(self.program, structure(s.trace), ()) for s in self.seen]

    def make(self, number: int, decisions: Mapping[int, Any]) -> tuple[int, Schedule]:
        """The schedule of a structure with other decisions, by the numbers of its steps; and the
        structure that it has.

        Raises ScheduleError where that was not seen before, and whatever the function raises.
        """
        if not self.repeats:
            return number, self.seen[number].trace.with_decisions(decisions).apply(self.program)
        schedule = Schedule(
            self.program, seed=0, decisions=[decisions[step] for step in sorted(decisions)]
        )
        self.function(schedule)
        found = self._numbers.get(_key(schedule))
        if found is None:
            raise ScheduleError(UNSEEN, "T1")
        return found, schedule

    def _call(self, seed: int) -> bool:
        """Call the function once; return whether that showed something new."""
        schedule = Schedule(self.program, seed=seed)
        try:
            self.function(schedule)
        except Exception as failure:  # what was drawn may not go together
            self.unmade.add("the template", failure)
            return False
        key = _key(schedule)
        if key in self._numbers:
            return False
        number = self._numbers[key] = len(self.seen)
        self.seen.append(schedule)
        if self.repeats:
            try:
                found, again = self.make(number, schedule.trace.decisions)
                same = again.trace.decisions == schedule.trace.decisions
                self.repeats = found == number and same
            except Exception:
                self.repeats = False
        return True

    def _may_be_rare(self) -> bool:
        """Return whether most calls so far came to something that the function requires."""
        return self.unmade.counts[NOT_AS_REQUIRED] * 2 >= len(self.unmade)

    def _nothing(self) -> Exception:
        """The error of a function that raises each time: the first of its most frequent kind."""
        ((kind, count),) = self.unmade.counts.most_common(1)
        first = self.unmade.first[kind]
        if kind == NOT_AS_REQUIRED:
            error = TuningError(
                f"no candidate of the template {name_of(self.function)}: {count:,} of "
                f"{len(self.unmade):,} draws of its decisions are not as it requires; the first: "
                f"{reason_of(first)}"
            )
            error.__cause__ = first
            return error
        if isinstance(first, MinitensorError):
            return first
        error = TuningError(
            f"the template {name_of(self.function)} raises in each of {len(self.unmade)} "
            f"calls ({self.unmade}); the first: {kind}: {first}"
        )
        error.__cause__ = first
        return error


def structure(trace: Trace) -> Trace:
    """A trace with its decisions open, but for places."""
    places = {
        number: step.result
        for number, step in enumerate(trace.steps)
        if step.primitive == "sample_compute_location"
    }
    return trace.opened().with_decisions(places)


def _key(schedule: Schedule) -> str:
    return repr(calls(structure(schedule.trace)))


def name_of(function: object) -> str:
    """The name of a function as it appears in a message."""
    return str(getattr(function, "__name__", kind_of(function)))
