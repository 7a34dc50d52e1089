"""The signature of a primitive, read: its parameters, and how each argument is made canonical."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from minitensor import ir
from minitensor.errors import ArgumentError, shown, unexpected
from minitensor.schedule.refusal import refuse


@dataclass(frozen=True, slots=True)
class Argument:
    """The conversion of an argument to its canonical form; stands in an Annotated annotation."""

    convert: Callable[[ir.Program, str, Any], Any]
    names: Callable[[ir.Program], Collection[str]] | None = None
    """Of a handle: all names there are."""


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function after the program, their annotations evaluated."""
    if not inspect.isfunction(function):
        raise unexpected("a function of a program and arguments", "primitive", function)
    try:
        whole = list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception as problem:  # an annotation may be any expression
        text = f"an annotation of {function.__qualname__} cannot be evaluated: {problem}"
        raise ArgumentError(text) from None
    if not whole or whole[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise unexpected("a function whose first parameter is the program", "primitive", function)
    if whole[-1].kind is inspect.Parameter.VAR_KEYWORD:
        raise unexpected(f"a function without **{whole[-1].name}", "primitive", function)
    return whole[1:]


def recordable_value(program: ir.Program, name: str, value: Any) -> Any:
    """A value as a trace records it, where the annotation of an argument says nothing."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (list, tuple)):
        return tuple(recordable_value(program, name, item) for item in value)
    expected = "expected numbers, strings and lists of them"
    return refuse("A2", f"{expected}, but got {name}={shown(value)}")


def _each(one: Argument) -> Argument:
    """The converter of *arguments, from that of one of them."""
    return Argument(
        lambda program, name, values: tuple(one.convert(program, name, v) for v in values),
        one.names,
    )


def converter_of(parameter: inspect.Parameter) -> Argument:
    """The conversion that an annotation names, of each of *arguments alone."""
    for found in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(found, Argument):
            if parameter.kind is not parameter.VAR_POSITIONAL:
                return found
            return _each(found)
    return Argument(recordable_value)
