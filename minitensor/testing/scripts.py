"""Reproduction scripts: a definition, a schedule and arrays as Python that compares them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError
from minitensor.ir import DECLARED, Program
from minitensor.lang import definition_as_python, intrinsic_as_python
from minitensor.schedule import Schedule

MOST_NUMBERS: Final = 4096
"""The most elements of arrays that are written out."""


def written(
    program: Program,
    schedule: Schedule,
    arrays: str,
    call: str = "",
    then: Sequence[Any] = (),
    target: str = "c",
) -> str:
    """Python text that makes a schedule of a definition, and runs both.

    arrays  the inputs, as Python: a call of `small_arrays`, or lists
    call    a call of a primitive, as Python, that comes last
    then    a user's transformation after it: a function, and its other arguments
    target  where it runs, besides the interpreter

    Raises ArgumentError for a program that is no definition.
    """
    keys = {str(a) for step in schedule.trace.steps for a in step.arguments.values()}
    needed = [i for key, i in DECLARED.items() if key in keys or key in call]
    lines = [
        "import numpy as np" if "np." in arrays else "",
        "import minitensor as mt",
        "from minitensor.testing import assert_equivalent, small_arrays",
        _imported(then[0]) if then else "",
        "",
        *[intrinsic_as_python(intrinsic) + "\n" for intrinsic in needed],
        definition_as_python(program),
        "",
        "s = mt.Schedule(program)",
        schedule.trace.as_python("s"),
        f"s.{call}" if call else "",
        "print(s.program)",
        f'assert_equivalent(program, s, ["interpreter", "{target}"], {arrays}{_applied(then)})',
    ]
    text = "\n".join(line for n, line in enumerate(lines) if line or n in (4, 7))
    return text.lstrip("\n") + "\n"


def _imported(transform: Callable[..., Any]) -> str:
    """The import of a user's function; a comment where no module has it."""
    module, name = transform.__module__, transform.__qualname__
    if name.isidentifier() and module != "__main__":
        return f"from {module} import {name}"
    return f"# put the definition of {transform.__name__} here"


def _applied(then: Sequence[Any]) -> str:
    """The last argument of a comparison with a user's transformation."""
    if not then:
        return ""
    given = "".join(f", {value!r}" for value in then[1:])
    return f", then=({then[0].__name__},{given[1:] if given else ''})"


def with_script(
    failure: BaseException,
    program: Program,
    schedule: Schedule,
    arrays: str,
    call: str = "",
    then: Sequence[Any] = (),
) -> str:
    """A failure's message, and the script of `written`, if the program is a definition."""
    try:
        script = written(program, schedule, arrays, call, then)
    except ArgumentError:
        return str(failure)
    return f"{failure}\n\nThis script shows it:\n\n{script}"


def arrays_as_python(arrays: Sequence[np.ndarray]) -> str:
    """Arrays as a list of calls of np.array; random ones in their place if they are large."""
    if sum(array.size for array in arrays) > MOST_NUMBERS:
        return "small_arrays(program, 0)"
    texts = [f"np.array({a.tolist()}, '{a.dtype}').reshape({a.shape})" for a in arrays]
    return f"[{', '.join(texts)}]"
