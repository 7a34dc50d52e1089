"""The kinds of arguments that primitives take: how each is checked and made canonical.

Canonical values are strings, ints, floats, bools, None, tuples of them, and IndexMap: what a trace
can write to JSON and read back.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from minitensor import ir
from minitensor.errors import shown
from minitensor.schedule.refusal import refuse
from minitensor.schedule.signature import Argument

LARGEST_INT: Final = 1 << 40


def unexpected(expected: str, name: str, value: object) -> str:
    """The phrasing for `name=value` where `expected` was wanted."""
    return f"expected {expected}, but got {name}={shown(value)} ({type(value).__name__})"


def _meant(close: Sequence[str]) -> str:
    """The end of a message on a name that is misspelt."""
    return f"; did you mean {shown(close[0])}?" if close else ""


def _named(kind: str, known: Callable[[ir.Program], Collection[str]]) -> Argument:
    """A handle: the name of one of the program's loops, blocks or buffers."""

    def convert(program: ir.Program, name: str, value: Any) -> str:
        value = getattr(value, "name", value)  # of a tensor
        names = known(program)
        if not isinstance(value, str):
            some = ", ".join(map(shown, list(names)[:4]))
            refuse("A2", unexpected(f"the name of a {kind}, such as {some}", name, value))
        if value not in names:
            close = difflib.get_close_matches(value, names, 3) if len(value) < 80 else []
            refuse(
                "A1",
                f"there is no {kind} {shown(value)}{_meant(close)}",
                choices=close or sorted(names)[:20],
            )
        return str(value)

    return Argument(convert, known)


LoopName: TypeAlias = Annotated[str, _named("loop", ir.loop_sites)]
"""The name of a loop."""
BlockName: TypeAlias = Annotated[str, _named("block", lambda program: program.blocks)]
"""The name of a block."""
BufferName: TypeAlias = Annotated[str, _named("buffer", lambda program: program.buffers)]
"""The name of a buffer: a parameter or a temporary."""


def _loop_or_root(program: ir.Program, name: str, value: Any) -> str:
    if isinstance(value, str) and value == "root":
        return "root"
    convert = _named("loop", ir.loop_sites).convert
    return str(convert(program, name, value))


Location: TypeAlias = Annotated[str, Argument(_loop_or_root, ir.loop_sites)]
"""The name of a loop, or "root" for no loop."""


def _loop_or_block(program: ir.Program, name: str, value: Any) -> str:
    known = {**ir.loop_sites(program), **program.blocks}
    convert = _named("loop or block", lambda _: known).convert
    return str(convert(program, name, value))


LoopOrBlockName: TypeAlias = Annotated[
    str, Argument(_loop_or_block, lambda program: {**ir.loop_sites(program), **program.blocks})
]
"""The name of a loop, or of a block where no loop is so called."""


def integer(name: str, value: object, lo: int, hi: int, expected: str = "") -> int:
    """An argument that must be an integer in [lo, hi]."""
    if isinstance(value, bool) or not (
        isinstance(value, numbers.Integral) and lo <= int(value) <= hi
    ):
        refuse("A2", unexpected(expected or f"an integer from {lo} to {hi}", name, value))
    return int(value)


def ints(lo: int, hi: int) -> Argument:
    """An integer in [lo, hi]."""
    return Argument(lambda program, name, value: integer(name, value, lo, hi))


Axis: TypeAlias = Annotated[int, ints(-64, 64)]
"""The number of an axis; negative ones count from the end."""


def _place(program: ir.Program, name: str, value: Any) -> int | None:
    return None if value is None else integer(name, value, 0, LARGEST_INT)


Place: TypeAlias = Annotated[int | None, Argument(_place)]
"""The number of one of several, or None for all of them."""


Stride: TypeAlias = Annotated[int, ints(0, 1 << 20)]
"""A number of elements."""


def is_list(value: object) -> bool:
    """Return whether it is a sequence of values, and not a text."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


MOST_FACTORS: Final = 128
"""The most loops that may nest (rule K2)."""
FACTORS: Final = "factors that are integers >= 1 (0 only for a loop of extent 0)"


def _factors(program: ir.Program, name: str, value: Any) -> tuple[int | None, ...]:
    if not is_list(value) or not value:
        refuse("A2", unexpected("a list of factors, such as [None, 8]", name, value))
    if len(value) > MOST_FACTORS:
        refuse("A2", unexpected(f"at most {MOST_FACTORS} factors", name, value))
    if sum(factor is None for factor in value) > 1:
        refuse("A2", unexpected("at most one None among the factors", name, value))
    factors = tuple(None if f is None else integer(name, f, 0, LARGEST_INT, FACTORS) for f in value)
    if math.prod(f or 1 for f in factors) > LARGEST_INT:
        refuse("A2", unexpected("factors with a product of at most 2**40", name, value))
    return factors


Factors: TypeAlias = Annotated[Sequence[int | None], Argument(_factors)]
"""Integers >= 1, at most one of them None: that one is inferred. (Of an empty loop also 0.)"""


def choice(*options: str) -> Argument:
    """One of a few strings."""

    def convert(program: ir.Program, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            quoted = ", ".join(f'"{option}"' for option in options)
            text = value if isinstance(value, str) and len(value) < 80 else ""
            hint = _meant(difflib.get_close_matches(text, options, 1))
            refuse("A2", unexpected(f"one of {quoted}", name, value) + hint, choices=options)
        return str(value)

    return Argument(convert)


Tail: TypeAlias = Annotated[Literal["guard", "exact", "cut"], choice("guard", "exact", "cut")]
"""The way in which `split` handles factors that do not divide the extent."""
THREADS: Final = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
)
ThreadName: TypeAlias = Annotated[str, choice(*THREADS)]
"""A GPU index that a loop can be bound to."""
ScopeName: TypeAlias = Annotated[str, choice(*[scope.value for scope in ir.Scope])]
"""The memory of a buffer; see `Scope`."""


def _annotation_key(program: ir.Program, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        refuse("A2", unexpected("a non-empty string of at most 200 characters", name, value))
    return str(value)


AnnotationKey: TypeAlias = Annotated[str, Argument(_annotation_key)]
"""The key of an annotation."""


def plain_value(name: str, value: object) -> str | int | float | bool:
    """A string, a bool, an integer of 64 bits or a finite number, as Python's own type."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral):
        return integer(name, value, -(1 << 63), (1 << 63) - 1, "an integer of 64 bits")
    if not (isinstance(value, numbers.Real) and math.isfinite(value)):
        refuse("A2", unexpected("a string, a bool or a finite number", name, value))
    return float(value)


AnnotationValue: TypeAlias = Annotated[
    str | int | float | bool, Argument(lambda program, name, value: plain_value(name, value))
]
"""The value of an annotation."""
