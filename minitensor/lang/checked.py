"""Names, shapes and functions that a user gives for a tensor, checked."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Sequence
from typing import Final

from minitensor.errors import ArgumentError, is_integer, unexpected
from minitensor.lang.scalar import Scalar

LARGEST: Final = 1 << 40
"""The most elements a tensor may have."""
LONGEST_NAME: Final = 10_000
"""The most characters of a name."""
MOST_AXES: Final = 32
"""The most axes a tensor may have: numpy had no more for long."""


def checked_name(name: object, default: str) -> str:
    """A name as given, or the default for None and the empty string."""
    if name is None or name == "":
        return default
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise unexpected(f"a string of at most {LONGEST_NAME} characters", "name", name)
    return name


def checked_titles(name: object, default: str, count: int) -> list[str]:
    """The names of the tensors that one call makes: as given, or one name and numbers."""
    if count == 1 or not isinstance(name, (tuple, list)):
        title = checked_name(name, default)
        return [title] if count == 1 else [f"{title}_{n}" for n in range(count)]
    if len(name) != count:
        raise unexpected(f"one name, or {count}: one for each value", "name", name)
    return [checked_name(one, default) for one in name]


def refuse_symbolic(extent: object) -> None:
    """Raise ArgumentError for an extent that is symbolic."""
    if isinstance(extent, Scalar):
        raise ArgumentError(
            f"the extent {extent!r} is symbolic, which is not supported: a kernel is built for one "
            "size; give a number, and build one for each size"
        )


def checked_shape(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of ints; one int stands for one axis."""
    given = (shape,) if isinstance(shape, numbers.Integral) else shape
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise unexpected("a tuple of extents", "shape", shape)
    for extent in given:
        refuse_symbolic(extent)
        if not is_integer(extent, 0):
            raise unexpected("extents that are integers >= 0", "shape", shape)
    result = tuple(int(n) for n in given)
    if len(result) > MOST_AXES:
        raise unexpected(f"at most {MOST_AXES} axes", "shape", shape)
    if math.prod(max(1, n) for n in result) > LARGEST:
        raise unexpected(f"at most 2**{LARGEST.bit_length() - 1} elements", "shape", shape)
    return result


def parameters_of(function: object, count: int, skip: int = 0) -> list[str]:
    """The names of a function's parameters after the first `skip`, checked to be `count`."""
    if not callable(function):
        raise unexpected("a function of the indices", "fcompute", function)
    try:
        every = list(inspect.signature(function).parameters.values())
        parameters = [p for p in every[:skip] if p.kind is p.VAR_POSITIONAL] + every[skip:]
    except (TypeError, ValueError):
        return [f"i{n}" for n in range(count)]
    variadic = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not required <= count or (len(named) < count and not variadic) or keywords:
        names = ", ".join(p.name for p in every)
        first = ("the tensor and " if skip == 1 else f"{skip} tensors and ") if skip else ""
        raise ArgumentError(
            f"expected a function of {first}{count} indices (one for each axis of the shape), "
            f"but got one of {len(every)}: ({names})"
        )
    return (named + [f"{variadic[0].name}{n}" if variadic else "" for n in range(count)])[:count]
