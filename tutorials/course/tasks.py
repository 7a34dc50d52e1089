"""A task of a lesson: what a student writes, on what it is tried, and what it must have.

The cases of a task are drawn anew in the student's process, which only answers, and in the judging
one, which never runs a line of the student's. Between them pass values (`wire`).

    class Doubled(FunctionTask):
        name = "doubled"

        def cases(self, draw):
            return [(draw.randint(-9, 9),) for _ in range(5)]

        def expected(self, x):
            return 2 * x

A judge accepts any right answer, however it is written. Of a wrong one it says which property is
lacking, and gives the lines of a script that shows it.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, MinitensorError, shown
from minitensor.lang import definition_as_python
from minitensor.schedule import Schedule

from .wire import Other

Case: TypeAlias = "tuple[Any, ...]"
"""The arguments of one call."""
_FEW = 8
"""Elements of a list that can be compared at a glance."""


class LackingError(Exception):
    """An answer lacks a property.

    what   a sentence: the property, and what is there instead
    lines  Python after the call of the answer, whose value is `got`, that fails
    """

    def __init__(self, what: str, lines: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.what, self.lines = what, tuple(lines)


class Task(ABC):
    """A task: what is asked in the student's process, and how the replies are judged.

    name     of the function (or the value) in the student's file
    text     a line for lists
    points   what it counts
    seconds  the most that one case may take
    without  functions of minitensor that the answer has to do without, as "interpret" or
             "Schedule.split"
    """

    name: ClassVar[str]
    text: ClassVar[str]
    points: ClassVar[int] = 1
    seconds: ClassVar[float] = 20.0
    without: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def cases(self, draw: random.Random) -> Sequence[Case]:
        """The cases: the same for the same state of `draw`, and hidden from the student."""

    def ask(self, answer: Any, case: Case) -> Any:
        """The value that the answer makes of a case, in the student's process."""
        return answer(*case)

    @abstractmethod
    def judge(self, case: Case, got: Any) -> None:
        """Raises LackingError if what came of a case is not right."""

    def judge_all(  # noqa: B027 - few tasks need it
        self, cases: Sequence[Case], got: Sequence[Any]
    ) -> None:
        """Raises LackingError for what only all cases together show."""

    def script(self, case: Case) -> list[str]:
        """Python that makes a case and assigns to `got` what `answer` makes of it."""
        return [f"got = answer({', '.join(as_python(value) for value in case)})"]


class FunctionTask(Task):
    """A function of values, compared with what is expected."""

    @abstractmethod
    def expected(self, *case: Any) -> Any:
        """The right value."""

    def judge(self, case: Case, got: Any) -> None:
        """Raises LackingError if what came of a case is not right."""
        want = self.expected(*case)
        if not equal(got, want):
            call = f"{self.name}({', '.join(_brief(value) for value in case)})"
            text = f"{call} gives {_brief(got)}; right is {_brief(want)}{_apart(got, want)}"
            raise LackingError(text, lines_for(want))


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A property that a schedule must have.

    what    the property: "A is loaded at most 512 times"
    look    a function of the schedule: None where it is there, else what is there instead
    lines   Python that asserts it of `s`, with `arrays` for its inputs
    """

    what: str
    look: Callable[[Schedule], str | None]
    lines: tuple[str, ...]


class ScheduleTask(Task):
    """A function that takes a Schedule, and applies steps to it.

    A case is a program of hidden shapes and dtypes, and the other arguments of the function.
    """

    most_steps: ClassVar[int] = 1_000_000
    """Block instances of the scheduled program that the interpreter runs."""

    @abstractmethod
    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        """The properties that the schedule of a case must have, beside the results."""

    def ask(self, answer: Any, case: Case) -> Any:
        """The schedule that the answer makes, in the student's process."""
        s = Schedule(case[0])
        returned = answer(s, *case[1:])
        return returned if isinstance(returned, Schedule) else s

    def judge(self, case: Case, got: Any) -> None:
        """Raises LackingError if what came of a case is not right."""
        program: ir.Program = case[0]
        s = replayed(program, got)
        for one in [results_of(program, self.most_steps), *self.requirements(*case)]:
            found = one.look(s)
            if found is not None:
                text = f"of {described(program)}: wanted is that {one.what}, but {found}"
                raise LackingError(text, one.lines)

    def script(self, case: Case) -> list[str]:
        """Python that makes a case, and its schedule `s`."""
        program: ir.Program = case[0]
        arguments = "".join(f", {as_python(value)}" for value in case[1:])
        return [
            definition_as_python(program),
            f"arrays = [{', '.join(as_python(a) for a in small_arrays(program))}]",
            "s = mt.Schedule(program)",
            f"got = answer(s{arguments})",
            "s = got if isinstance(got, mt.Schedule) else s",
        ]


def replayed(program: ir.Program, got: Any) -> Schedule:
    """The schedule of a trace that came back. Raises LackingError."""
    if isinstance(got, Other) or not hasattr(got, "apply"):
        raise LackingError(f"a Schedule is wanted, not {_brief(got)}", ("assert False, got",))
    try:
        found = got.apply(program)
    except MinitensorError as refused:
        text = f"its steps cannot be repeated on {described(program)}: {refused.message}"
        raise LackingError(text, ("s.trace.apply(program)",)) from None
    assert isinstance(found, Schedule)
    return found


def results_of(program: ir.Program, most_steps: int) -> Requirement:
    """The requirement that a schedule gives the results of its program, in the interpreter."""

    def look(s: Schedule) -> str | None:
        steps = instances(s.program)
        if steps > most_steps:
            return f"{steps:,} instances of blocks run, which is too many to try"
        arrays = small_arrays(program)
        names = [b.name for b in program.outputs]
        want, _ = ir.interpret(program, arrays, names)
        try:
            got, _ = ir.interpret(s.program, arrays, names)
        except MinitensorError as failure:
            return f"the interpreter says: {failure.message}"
        same = all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(want, got))
        return None if same else "they differ"

    lines = (
        "want, found = mt.interpret(program, *arrays), mt.interpret(s, *arrays)",
        "assert np.allclose(want, found), (want, found)",
    )
    return Requirement("the results are those of the definition", look, lines)


def instances(program: ir.Program) -> int:
    """The number of block instances that a run has, and of iterations at least."""
    total = 0
    for loops in ir.paths(program).values():
        count = 1
        for loop in loops:
            count *= max(loop.extent, 1)
        total += count
    return total


def small_arrays(program: ir.Program) -> list[np.ndarray]:
    """An array of small integers for each input: sums of them are exact in any order."""
    rng = np.random.default_rng(7)
    found = []
    for buffer in program.inputs:
        low = 0 if buffer.dtype.kind in ("uint", "bool") else -3
        high = 1 if buffer.dtype.kind == "bool" else 3
        found.append(ir.pack(np.asarray(rng.integers(low, high + 1, buffer.shape)), buffer.dtype))
    return found


def described(program: ir.Program) -> str:
    """A program by its name and its outputs' shapes, for a message."""
    outputs = [f"{b.name} {list(b.shape)} {b.dtype}" for b in program.outputs]
    return f"{ir.print_name(program.name)} ({', '.join(outputs)})"


def equal(got: Any, want: Any) -> bool:
    """Test whether an answer is what is expected: any kind of number and of sequence will do. Where
    an array is expected, it is one of the same dtype. NaN equals NaN.
    """
    if isinstance(want, np.ndarray):
        same = isinstance(got, np.ndarray) and got.dtype == want.dtype and got.shape == want.shape
        return same and np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
    if isinstance(want, (list, tuple)):
        got = got.tolist() if isinstance(got, np.ndarray) else got
        sequence = isinstance(got, (list, tuple)) and len(got) == len(want)
        return sequence and all(equal(g, w) for g, w in zip(got, want))
    if isinstance(want, dict):
        keys = isinstance(got, dict) and got.keys() == want.keys()
        return keys and all(equal(got[key], want[key]) for key in want)
    if isinstance(want, bool) or isinstance(got, (bool, np.bool_)):
        return isinstance(want, bool) and isinstance(got, (bool, np.bool_)) and bool(got) == want
    if isinstance(want, (int, float)) and isinstance(got, (int, float, np.generic)):
        return bool(got == want or (got != got and want != want))
    return type(got) is type(want) and bool(got == want)


def lines_for(want: Any) -> list[str]:
    """Python that asserts that `got` is a value."""
    if isinstance(want, np.ndarray):
        lines = [
            "assert got.dtype == want.dtype, got.dtype",
            "np.testing.assert_array_equal(got, want)",
        ]
        return [f"want = {as_python(want)}", *lines]
    imported = f"from {__name__} import equal"
    return [imported, f"want = {as_python(want)}", "assert equal(got, want), got"]


def as_python(value: Any) -> str:
    """A value as Python, where `np` and `ir` (minitensor.ir) are known."""
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()}, {str(value.dtype)!r}).reshape({value.shape})"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, float) and (value != value or value in (np.inf, -np.inf)):
        return f"float({str(value)!r})"
    if isinstance(value, ir.DType):
        return "ir.INDEX" if value == ir.INDEX else f"ir.DType.of({str(value)!r})"
    if isinstance(value, enum.Enum):
        return f"ir.{type(value).__name__}.{value.name}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_python, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(as_python, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_python(k)}: {as_python(v)}' for k, v in value.items())}}}"
    if dataclasses.is_dataclass(value) and getattr(ir, type(value).__name__, None) is type(value):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        given = ", ".join(f"{name}={as_python(getattr(value, name))}" for name in fields)
        return f"ir.{type(value).__name__}({given})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value) if not isinstance(value, str) else repr(str(value))
    raise ArgumentError(f"a value of type {type(value).__name__} has no text")


def _apart(got: Any, want: Any) -> str:
    """The end of a message, where two values alone do not say enough."""
    if got is None:
        return " (is a `return` missing?)"
    if isinstance(got, ir.Expr) and isinstance(want, (int, float)):
        return f", a number and no ir.{type(got).__name__}"
    if not isinstance(want, list) or not isinstance(got, (list, tuple)):
        return ""
    if len(got) != len(want) and len(want) > _FEW:
        return f"; there are {len(got)} of them, and not {len(want)}"
    at = next((n for n, (a, b) in enumerate(zip(got, want)) if not equal(a, b)), 0)
    return f"; at place {at} is {_brief(got[at])}, not {_brief(want[at])}" if at >= _FEW else ""


def _brief(value: Any) -> str:
    if isinstance(value, Other):
        return f"{value.text} (a {value.name})"
    try:
        if isinstance(value, ir.Expr):
            return ir.print_expr(value)
        return described(value) if isinstance(value, ir.Program) else shown(value)
    except Exception:  # a node of a student's own making may hold anything
        return f"a malformed {type(value).__name__}"
