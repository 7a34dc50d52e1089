"""A step of a trace, and the values that decisions gave, which know the step they came from.

`sample_perfect_tile` returns numbers that know the step that chose them. What is computed of them
(`tile * 2`) knows it too, so that a trace replayed with another decision carries all of it along:

    Source = Ref(step, item)              what an earlier step returned, or one item of it
           | Derived(op, arguments)       op: + - * // %, on sources and numbers

A comparison (`if tile > 8`) sees the number that was drawn and leaves no record.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from minitensor.errors import ScheduleArgumentError


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of an earlier step, or one item of it."""

    step: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """A number that was computed of what earlier steps returned."""

    op: str
    arguments: tuple[Any, ...]


Source: TypeAlias = Ref | Derived


@dataclass(frozen=True, slots=True)
class Step:
    """One applied primitive: its key, canonical arguments (with sources) and what it returned."""

    primitive: str
    arguments: Mapping[str, Any]
    result: Any

    @property
    def is_decision(self) -> bool:
        """Return whether the step chooses something."""
        return "decision" in self.arguments


def begins(steps: Sequence[Step], first: Sequence[Step]) -> bool:
    """Return whether steps begin with the calls of others, whatever these returned."""
    calls = [[(s.primitive, s.arguments) for s in some] for some in (steps[: len(first)], first)]
    return calls[0] == calls[1]


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
"""The arithmetic that a trace records."""


class Decided:
    """A number or a string that a decision gave; used like the value itself.

    value   an int, a float or a str
    source  where it came from
    """

    __slots__ = ("source", "value")
    __array_ufunc__ = None  # numpy leaves arithmetic with its own numbers to this class

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == value_of(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < value_of(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= value_of(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > value_of(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= value_of(other))

    def __neg__(self) -> Any:
        return _computed("-", 0, self)

    def __add__(self, other: Any) -> Any:
        return _computed("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _computed("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _computed("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _computed("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _computed("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _computed("*", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _computed("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _computed("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return _computed("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _computed("%", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.value / value_of(other)

    def __rtruediv__(self, other: Any) -> Any:
        return value_of(other) / self.value

    def __pow__(self, other: Any) -> Any:
        return self.value ** value_of(other)


def value_of(value: Any) -> Any:
    """The value without its source; anything else as it is."""
    return value.value if isinstance(value, Decided) else value


def plain(value: Any) -> Any:
    """An argument without sources, those inside lists and tuples too."""
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    return value_of(value)


def _computed(op: str, a: Any, b: Any) -> Any:
    """`a op b`: with its source where both are numbers that a trace can hold."""
    result = OPERATORS[op](value_of(a), value_of(b))
    numbers = (int, float)
    if all(type(value_of(x)) in numbers for x in (a, b)) and type(result) in numbers:
        arguments = tuple(x.source if isinstance(x, Decided) else x for x in (a, b))
        return Decided(result, Derived(op, arguments))
    return result


def decided(result: Any, step: int) -> Any:
    """The result of a decision as its user gets it: every part carries the step."""
    if isinstance(result, tuple):
        return tuple(Decided(value, Ref(step, n)) for n, value in enumerate(result))
    return Decided(result, Ref(step))


def resolved(value: Any, results: Sequence[Any]) -> Any:
    """An argument of a trace with its sources replaced by what the steps returned.

    Raises LookupError for a reference to what no step returned, ArithmeticError for a division
    by 0, TypeError for arithmetic with names.
    """
    match value:
        case Ref(step, None):
            return results[step]
        case Ref(step, int(item)):
            found = results[step]
            if not isinstance(found, tuple) or item >= len(found):
                raise LookupError(
                    f"item {item} of what step {step + 1} returned, which has no such item"
                )
            return found[item]
        case Derived(op, arguments):
            numbers = [resolved(argument, results) for argument in arguments]
            if not all(type(value_of(number)) in (int, float) for number in numbers):
                raise TypeError(f"{op} of {numbers}, which are not numbers")
            return OPERATORS[op](*numbers)
        case tuple():
            return tuple(resolved(item, results) for item in value)
    return value


def argument(value: Any, results: Sequence[Any]) -> Any:
    """The same. Raises ScheduleArgumentError, by rule A1, for a reference that has no value."""
    try:
        return resolved(value, results)
    except (LookupError, ArithmeticError, TypeError) as problem:
        text = f"step {len(results) + 1} refers to {problem}"
        raise ScheduleArgumentError(text, "A1") from None


def sourced(given: Any, canonical: Any, results: Sequence[Any], names: dict[str, Ref]) -> Any:
    """A canonical argument as a trace records it: what earlier steps returned as its source.

    given    the argument as the user passed it
    results  what the steps returned, by their numbers; a value of another schedule is recorded as
             it is
    names    the sources of loops and blocks
    """
    if isinstance(given, Decided) and _holds(given.source, canonical, results):
        return given.source
    if isinstance(canonical, str):
        return names.get(canonical, canonical)
    if not isinstance(canonical, tuple) or not isinstance(given, Sequence):
        return canonical
    if len(given) != len(canonical):
        return canonical
    items = tuple(sourced(g, c, results, names) for g, c in zip(given, canonical))
    match items:
        case (Ref(step, 0), *_) if canonical == results[step] and all(
            isinstance(g, Decided) and item == Ref(step, n)
            for n, (g, item) in enumerate(zip(given, items))
        ):
            return Ref(step)
    return items


def _holds(source: Source, value: Any, results: Sequence[Any]) -> bool:
    """Return whether the steps give that value (one of another schedule may come along)."""
    try:
        return bool(resolved(source, results) == value)
    except (LookupError, ArithmeticError, TypeError):
        return False


class BoundPrimitive(functools.partial[Any]):
    """A primitive of one schedule, to be called."""

    def __repr__(self) -> str:
        return f"{self.args[0]!r} of a schedule"
