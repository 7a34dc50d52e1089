"""What passes say about what they did and did not do, for whoever listens.

    with listening() as heard:
        lowered(program, target)
    heard.notes                              # Note("vector", "j", "7 of 23 iterations …", …)

A decision is told where it falls, in one line of the pass that takes it, so that what is told stays
right when a pass changes. Nobody listens while a kernel is merely built: telling then costs a call.
Not here: what a user is shown of it (`account`), and what needs the compiler's assembly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

LOOP_KINDS: Final = ("vector", "lanes", "parallel", "unroll", "guard")
"""The kinds of notes that are about a loop; those of kind "math" are about a function, the others
about a buffer."""
_INSTRUCTIONS: Final = ("sqrt", "rsqrt", "abs", "floor", "ceil", "round")
"""Functions that the compiler turns into vector instructions when they are called lane by lane."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was not done as well as the schedule may have meant it.

    kind    vector     iterations of a vectorized loop that no full vector does
            lanes      an access or a statement that goes lane by lane
            gather     a buffer whose elements are collected one by one to make vectors
            math       a function that is called for each lane
            promotion  a result that is loaded and stored each time it is updated
            registers  a small array that is not in registers, or more of them than there are
            parallel   a parallel loop that runs on one thread, or on fewer than there are
            unroll     a loop that was not written out
            guard      a condition that is tested in every iteration
            spills     vectors that the compiler moves to and from the stack (told by the runtime)
    where   the loop, buffer or function, by the user's name
    text    what was not done, and why
    advice  what can be done about it; "" where nothing general can be said
    """

    kind: str
    where: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f"; {self.advice}" if self.advice else "")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lives while the kernel runs.

    place   "registers", "stack" or "workspace"
    size    bytes of one copy
    copies  one for each thread where threads have their own
    """

    buffer: str
    place: str
    size: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Heard:
    """What was told, in order, each thing once.

    notes     what was not done
    outcomes  (loop, what became of it)
    places    where buffers live
    origins   the buffer that a new one stands for, by the name of the new one
    """

    notes: dict[Note, None] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], None] = field(default_factory=dict)
    places: dict[Place, None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, buffer: str) -> str:
        """The user's buffer that a buffer made by a pass stands for."""
        while buffer in self.origins:
            buffer = self.origins[buffer]
        return buffer


_HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)


@contextmanager
def listening() -> Iterator[Heard]:
    """Collect what passes say in this thread until the end of the block."""
    heard = Heard()
    before = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(before)


def someone_listens() -> bool:
    """Whether a reason that takes time to find is worth finding."""
    return _HEARD.get() is not None


def missed(kind: str, where: str, text: str, advice: str = "") -> None:
    """Tell what was not done; see `Note`."""
    heard = _HEARD.get()
    if heard is not None:
        heard.notes[Note(kind, where, text, advice)] = None


def gathered(buffer: str, distance: int) -> None:
    """Tell that a vector of elements that are `distance` apart is collected one by one."""
    missed(
        "gather",
        buffer,
        f"vectors of it are collected element by element, for those are {distance} apart",
        "vectorize the loop of its last axis, or copy it to another layout (cache_read, "
        "transform_layout)",
    )


def called_for_each(function: str, call: str, lanes: int) -> None:
    """Tell that a function of vectors calls one of numbers."""
    if function not in _INSTRUCTIONS:
        missed("math", function, f"{call} is called for each of {lanes} lanes")


def became(loop: str, text: str) -> None:
    """Tell what became of a loop."""
    heard = _HEARD.get()
    if heard is not None:
        heard.outcomes[loop, text] = None


def stored(buffer: str, place: str, size: int, copies: int = 1) -> None:
    """Tell where a buffer lives; see `Place`."""
    heard = _HEARD.get()
    if heard is not None:
        heard.places[Place(buffer, place, size, copies)] = None


def stands_for(new: str, old: str) -> None:
    """Tell that a new buffer holds the elements of an old one."""
    heard = _HEARD.get()
    if heard is not None:
        heard.origins[new] = old
