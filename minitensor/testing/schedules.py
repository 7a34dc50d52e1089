"""Steps of a schedule drawn at random, with legal and illegal arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import REGISTRY, Scene, Schedule
from minitensor.testing.draws import Draws
from minitensor.testing.matching import example_intrinsic, matching_intrinsic
from minitensor.testing.scripts import with_script

STEPS: Final = 12
"""The most primitives that are tried on a program."""
_PRINTED: Final = 4
"""Of so many attempts one is printed if it is refused, which takes longer than to refuse it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a primitive: what it was, and how it ended.

    call     as Python
    refused  the rule that it breaks; None if it was accepted
    """

    primitive: str
    call: str
    refused: str | None


@dataclass
class DrawnSchedule:
    """A drawn schedule and the attempts that led to it, those that were refused too."""

    schedule: Schedule
    attempts: list[Attempt] = field(default_factory=list)


class BrokenPromiseError(AssertionError):
    """A primitive did what none may do; `call` is the call as Python.

    It raised something else than a ScheduleError, or one that names no declared rule, or changed
    the schedule that it refused.
    """

    def __init__(self, message: str, schedule: Schedule, call: str) -> None:
        super().__init__(message)
        self.schedule = schedule
        self.call = call


@st.composite
def schedules(
    draw: DrawFn,
    program: ir.Program,
    max_steps: int = STEPS,
    primitives: Sequence[str] | None = None,
) -> Schedule:
    """A schedule after 1 to `max_steps` attempts at a primitive, with legal and illegal arguments.

    Arguments are drawn from what the program has at each step, so that most steps are plausible
    and a good part is legal. A refusal must be a ScheduleError that names a rule its primitive
    declares, and must leave the schedule as it was; for anything else AssertionError is raised,
    with a script that shows it.

    primitives  the names to draw from, each as often as it stands there; all of them if None
    """
    return kept_promises(draw, program, attempts(program, max_steps, primitives))


def kept_promises(
    draw: DrawFn, program: ir.Program, strategy: SearchStrategy[DrawnSchedule]
) -> Schedule:
    """A schedule that a strategy draws. Raises AssertionError for a primitive that does what none
    may do, with a script that shows it.
    """
    try:
        found = draw(strategy)
    except BrokenPromiseError as broken:
        arrays = "small_arrays(program, 0)"
        text = with_script(broken, program, broken.schedule, arrays, broken.call)
        raise AssertionError(text) from broken
    for attempt in found.attempts:
        ended = f"refused by {attempt.refused}" if attempt.refused else "accepted"
        event(f"{attempt.primitive} {ended}")
    return found.schedule


@st.composite
def attempts(
    draw: DrawFn,
    program: ir.Program,
    max_steps: int = STEPS,
    primitives: Sequence[str] | None = None,
) -> DrawnSchedule:
    """A schedule as `schedules` draws it, with the attempts. Raises BrokenPromiseError."""
    draws = Draws(draw)
    made = DrawnSchedule(Schedule(program, seed=draws.number(0, 1000)))

    def attempt(n: int) -> None:
        Trial(draw, made).some(primitives or PRIMITIVES)

    draws.repeat(1, max_steps, 88, attempt)
    return made


class Trial(Draws, Scene):
    """A schedule that is being drawn: tries primitives, with arguments from what it has."""

    def __init__(self, draw: DrawFn, drawn: DrawnSchedule) -> None:
        super().__init__(draw)
        self.drawn = drawn

    @property
    def schedule(self) -> Schedule:
        """The schedule so far."""
        return self.drawn.schedule

    def some(self, primitives: Sequence[str]) -> None:
        """Try one of these primitives, with arguments drawn at random."""
        call = REGISTRY[self.pick(primitives)].call
        assert call is not None
        with suppress(ScheduleError):
            call(self)

    def tried(self, primitive: str, *args: Any, **kwargs: Any) -> Any:
        """Call a primitive; what it returns, None if it refuses."""
        try:
            return self.do(primitive, *args, **kwargs)
        except ScheduleError:
            return None

    def do(self, primitive: str, *args: Any, **kwargs: Any) -> Any:
        """Call a primitive; what it returns. Raises its ScheduleError if it refuses."""
        schedule = self.schedule
        before, steps = schedule.program, len(schedule.trace)
        given = [*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())]
        call = f"{primitive}({', '.join(given)})"
        try:
            result = getattr(schedule, primitive)(*args, **kwargs)
        except ScheduleError as refusal:
            named = REGISTRY.get(refusal.message.partition("(")[0])
            if named is None or refusal.rule not in named.rules:
                self._broken(f"the refusal names no declared rule: {refusal}", call)
            if len(self.drawn.attempts) % _PRINTED == 0 and not str(refusal).strip():
                self._broken("the refusal says nothing", call)
            if schedule.program is not before or len(schedule.trace) != steps:
                self._broken(f"refused, and the schedule is another: {refusal}", call)
            self.drawn.attempts.append(Attempt(primitive, call, refusal.rule))
            raise
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}"
            raise BrokenPromiseError(f"{call} raised {text}", schedule, call) from failure
        if len(schedule.trace) != steps + 1:
            self._broken("accepted, and not recorded as one step", call)
        self.drawn.attempts.append(Attempt(primitive, call, None))
        return result

    def _broken(self, what: str, call: str) -> NoReturn:
        raise BrokenPromiseError(f"{call}: {what}", self.schedule, call)

    def example_intrinsic(self) -> ir.Intrinsic:
        """Some intrinsic."""
        return example_intrinsic()

    def matching_intrinsic(
        self, block: str, loops: Sequence[str], fixed: bool
    ) -> ir.Intrinsic | None:
        """An intrinsic that means what the innermost loops of a block do; None if there is none."""
        return matching_intrinsic(self.program, block, loops, fixed)


def _text(value: Any) -> str:
    """An argument as Python."""
    return repr(value.key) if isinstance(value, ir.Intrinsic) else repr(value)


PRIMITIVES: Final = tuple(name for name, found in REGISTRY.items() for _ in range(found.often))
"""The names to draw from; those that restructure most come more often."""
