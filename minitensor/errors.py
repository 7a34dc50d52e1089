"""Every exception of the package, and the one phrasing for a bad argument.

    MinitensorError
    ├── ArgumentError            also a ValueError and a TypeError: a value that can never be right
    ├── UnknownNameError         also an AttributeError: a name of another system, or misspelt
    ├── LoweringError            the tensor expressions do not make a program
    ├── VerifyError              a program is malformed
    │   └── ExecutionError       a program did something forbidden while it ran
    ├── ScheduleError            a primitive was refused (.rule, .step, .choices)
    │   └── ScheduleArgumentError    ... because of an argument: also an ArgumentError
    ├── CompileError             the system compiler failed (.command, .stderr)
    ├── MeasureError             a kernel could not be timed
    └── TuningError              a search found nothing

Two more are where they mean something: `runtime.WorkerError`, a MeasureError, says how a process
failed, `search.features.BatchError` what takes a replay. Others leave no function of a user.

Not here: the position of the fault in a loop nest. An error takes a `picture`, a function that
draws it; it is called only when the message is read, so that a search can reject thousands cheaply.
"""

from __future__ import annotations

import linecache
import math
import numbers
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

MAX_SHOWN = 80
_OURS = os.path.dirname(os.path.abspath(__file__))
"""The folder of the package: its frames are not what a user has to look at."""

Choices: TypeAlias = Sequence[str] | Callable[[], Sequence[str]]
"""Legal answers, or how to find them."""


class MinitensorError(Exception):
    """The base of every error this package raises on purpose.

    `message` is one line that can be matched; `picture` draws the place, lazily; `str()` is both.
    """

    def __init__(self, message: str, picture: Callable[[], str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.picture = picture

    def __str__(self) -> str:
        if self.picture is None:
            return self.message
        return f"{self.message}\n{self.picture()}"

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows: where the user's own code is, and the message."""
        lines = [f"{type(self).__name__}: {self}"]
        for frame, line in traceback.walk_tb(self.__traceback__):
            code = frame.f_code
            if not code.co_filename.startswith(_OURS) and "IPython" not in code.co_filename:
                text = linecache.getline(code.co_filename, line).strip()
                lines.insert(-1, f"in {code.co_name}, line {line}: {text}")
        return lines

    def __reduce__(self) -> tuple[Any, ...]:
        """Between processes an error travels with its picture drawn."""
        state = {**self.__dict__, "write_page": None}
        if self.picture is not None:
            state["picture"] = _Drawn(self.picture())
        return _restored, (type(self), self.args), state


class _Drawn:
    """A picture that is drawn already."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self) -> str:
        return self.text


def _restored(kind: type[MinitensorError], args: tuple[Any, ...]) -> MinitensorError:
    """An error of that kind, its attributes still to be set."""
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class ArgumentError(MinitensorError, ValueError, TypeError):
    """An argument has a type or a value that can never be right."""


class UnknownNameError(MinitensorError, AttributeError):
    """An attribute that does not exist; the message has what to write (see `phrasebook`)."""


class LoweringError(MinitensorError):
    """Tensor expressions that do not make a program: out of bounds, circular, misplaced."""


class VerifyError(MinitensorError):
    """A program is malformed; the message names the node and the rule it breaks."""


class ExecutionError(VerifyError):
    """A program did something forbidden while it ran.

    `kind` is one of "out of bounds", "uninitialised", "race", "barrier", "domain", "memory"; of a
    kernel on a GPU, or in its emulator, also "misaligned", "unwritten", "input changed", "device".
    """

    def __init__(self, message: str, kind: str, picture: Callable[[], str] | None = None) -> None:
        super().__init__(message, picture)
        self.kind = kind


class ScheduleError(MinitensorError):
    """A primitive was refused; the schedule is as it was.

    rule     the id of the declared rule that was broken, such as "R4"
    step     the number of the refused step, counted from 1 (None outside a Schedule)
    choices  the arguments that would have been legal, where they can be listed (found, like the
             picture, when they are asked for)
    advice   the step that leads on, such as 'rfactor the loop first'
    """

    def __init__(
        self,
        message: str,
        rule: str,
        choices: Choices = (),
        picture: Callable[[], str] | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(message, picture)
        self.rule = rule
        self.advice = advice
        self.step: int | None = None
        self.write_page: Callable[[Any, str], None] | None = None
        self._choices = choices

    def show(self, *, html: str | os.PathLike[str] | None = None) -> None:
        """Print the message; with `html`, write a page of pictures to that file: two iterations
        that conflict, where that is the reason, and the loop nest with the culprits marked.

        Raises ArgumentError for a refusal outside a Schedule, and for a path that cannot be
        written.
        """
        if html is None:
            print(self)
            return
        draw = getattr(self.picture, "write_page", self.write_page)
        if draw is None:
            raise ArgumentError(f"no schedule refused this, so there is no page: {self.message}")
        draw(html, self.message)

    @property
    def choices(self) -> tuple[str, ...]:
        """The arguments that would have been legal, where they can be listed."""
        self._choices = tuple(self._choices() if callable(self._choices) else self._choices)
        return self._choices

    def __reduce__(self) -> tuple[Any, ...]:
        self._choices = self.choices
        return super().__reduce__()

    def __str__(self) -> str:
        text = super().__str__()
        if self.choices:
            text += "\n    legal: " + ", ".join(f'"{choice}"' for choice in self.choices)
        if self.advice:
            text += f"\n    instead: {self.advice}"
        if self.step is not None:
            text += f"\n    (step {self.step} of this schedule)"
        return text


class ScheduleArgumentError(ScheduleError, ArgumentError):
    """A primitive was refused for an argument of the wrong type, or a value that no loop takes."""


class CompileError(MinitensorError):
    """The system compiler is missing, failed, or did not end in time.

    command  the command as a list of words (empty when no compiler was found)
    stderr   what it printed
    """

    def __init__(self, message: str, command: Sequence[str] = (), stderr: str = "") -> None:
        super().__init__(message)
        self.command = tuple(command)
        self.stderr = stderr

    def __str__(self) -> str:
        text = self.message
        if self.command:
            text += "\n    command: " + " ".join(self.command)
        if self.stderr:
            text += "\n    stderr:\n" + "\n".join(
                "        " + line for line in self.stderr.rstrip().splitlines()[:40]
            )
        return text


class MeasureError(MinitensorError):
    """A kernel could not be timed."""


class TuningError(MinitensorError):
    """A search found no working schedule; the message holds the first reason."""


def shown(value: object) -> str:
    """The value as it appears in a message: its repr on one line, cut to a readable length."""
    try:
        text = printable(repr(value))
    except Exception as failure:  # a user's __repr__ may do anything
        text = f"<unprintable: {type(failure).__name__}>"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def printable(text: str) -> str:
    """The text on one line, control codes and what cannot be printed as "?"."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)


def kind_of(value: object) -> str:
    """The name of the value's type as it appears in a message."""
    return printable(type(value).__name__)


def reason_of(failure: Exception) -> str:
    """The message of any exception on one line, with its type if it is none of minitensor's."""
    if isinstance(failure, MinitensorError):
        return printable(failure.message)
    return f"{kind_of(failure)}: {printable(str(failure))}"


def unexpected(expected: str, name: str, value: object) -> ArgumentError:
    """The error for `name=value` where `expected` was wanted; the caller raises it."""
    return ArgumentError(f"expected {expected}, but got {name}={shown(value)} ({kind_of(value)})")


def is_integer(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Tell whether a value is an integer within bounds, of any type but bool."""
    integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return integer and least <= int(value) <= most


def is_real(value: Any, least: float, most: float = sys.float_info.max) -> bool:
    """Tell whether a value is a number within bounds, of any type but bool."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    number: Any = value if isinstance(value, numbers.Rational) else float(value)
    return bool(least <= number <= most)


def whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """An integer of any type within bounds, both included. Raises ArgumentError."""
    if not is_integer(value, least, most):
        bounds = f">= {least}" if most == math.inf else f"from {least} to {most}"
        raise unexpected(f"an integer {bounds}", name, value)
    return int(value)


def real(name: str, value: Any, least: float, most: float) -> None:
    """Raise ArgumentError for what is no number within bounds, both included."""
    if not is_real(value, least, most):
        bounds = f">= {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise unexpected(f"a number {bounds}", name, value)
