"""Steps of a schedule drawn at random, with legal and illegal arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.fuzz.choices import Choices
from minitensor.fuzz.meanings import example_intrinsic, matching_intrinsic
from minitensor.schedule import REGISTRY, Scene, Schedule

T = TypeVar("T")

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


def draw_schedule(
    choices: Choices,
    program: ir.Program,
    most: int = STEPS,
    primitives: Sequence[str] | None = None,
) -> DrawnSchedule:
    """A schedule after 1 to `most` attempts at a primitive of `primitives` (None: of all).

    Arguments are drawn from what the program has at each step, so that most steps are plausible
    and a good part is legal. Raises BrokenPromiseError for what no primitive may do.
    """
    drawn = DrawnSchedule(Schedule(program, seed=choices.number(0, 1000)))

    def attempt(n: int) -> None:
        step = _Step(choices, drawn)
        with suppress(ScheduleError):
            call = REGISTRY[choices.pick(primitives or PRIMITIVES)].call
            assert call is not None
            call(step)

    choices.repeat(1, most, 88, attempt)
    return drawn


class _Step(Scene):
    """Draws arguments from what a schedule's program has, and tries primitives with them."""

    def __init__(self, choices: Choices, drawn: DrawnSchedule) -> None:
        self.drawn = drawn
        self._choices = choices

    @property
    def schedule(self) -> Schedule:
        return self.drawn.schedule

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

    def number(self, low: int, high: int) -> int:
        return self._choices.number(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self._choices.pick(options)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self._choices.shuffled(options)

    def chance(self, percent: int) -> bool:
        return self._choices.chance(percent)

    def example_intrinsic(self) -> ir.Intrinsic:
        return example_intrinsic()

    def matching_intrinsic(
        self, block: str, loops: Sequence[str], fixed: bool
    ) -> ir.Intrinsic | None:
        return matching_intrinsic(self.program, block, loops, fixed)


def _text(value: Any) -> str:
    """An argument as Python."""
    return repr(value.key) if isinstance(value, ir.Intrinsic) else repr(value)


PRIMITIVES: Final = tuple(name for name, found in REGISTRY.items() for _ in range(found.often))
"""The names to draw from; those that restructure most come more often."""
