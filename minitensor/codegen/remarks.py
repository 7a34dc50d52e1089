"""Optimization remarks: a record of what passes did, and of the optimizations that they missed.

    with recording() as recorder:
        lowered(program, target)
    recorder.remarks                         # Remark("vector", "j", "7 of 23 iterations …", …)

A decision is recorded where it falls, in one line of the pass that takes it, so that a remark stays
right when a pass changes. Nothing is kept while a kernel is merely built: a remark then costs a
call. Not here: what a user is shown of it (`report`), and what needs the compiler's assembly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

LOOP_KINDS: Final = ("vector", "lanes", "parallel", "unroll", "guard", "pipeline")
"""The kinds of remarks that are about a loop; those of kind "math" are about a function, the others
about a buffer."""
_INSTRUCTIONS: Final = ("sqrt", "rsqrt", "abs", "floor", "ceil", "round")
"""Functions that the compiler turns into vector instructions when they are called lane by lane."""


@dataclass(frozen=True, slots=True)
class Remark:
    """An optimization that was missed, or done less well than the schedule may have meant it.

    kind    vector     iterations of a vectorized loop that no full vector does
            lanes      an access or a statement that goes lane by lane
            gather     a buffer whose elements are collected one by one to make vectors
            math       a function that is called for each lane
            promotion  a result that is loaded and stored each time it is updated
            registers  a small array that is not in registers, or more of them than there are
            parallel   a parallel loop that runs on one thread, or on fewer than there are
            unroll     a loop that was not written out
            guard      a condition that is tested in every iteration
            owner      a buffer that is not each thread's own on a GPU
            pipeline   a loop whose next tile is not copied ahead on a GPU
            spills     vectors that the compiler moves to and from the stack (from the runtime)
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
class Storage:
    """Memory of a buffer while the kernel runs.

    where   "registers", "stack", "workspace", or "output": in the memory of one
    size    bytes of one copy
    copies  one for each thread where threads have their own
    """

    buffer: str
    where: str
    size: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Recorder:
    """The record, in order, each thing once.

    remarks   missed optimizations
    outcomes  (loop, what became of it)
    storage   the memory of buffers
    origins   the buffer that a new one stands for, by the name of the new one
    """

    remarks: dict[Remark, None] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], None] = field(default_factory=dict)
    storage: dict[Storage, None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, buffer: str) -> str:
        """The user's buffer that a buffer made by a pass stands for."""
        while buffer in self.origins:
            buffer = self.origins[buffer]
        return buffer


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record the remarks of passes in this thread until the end of the block."""
    recorder = Recorder()
    before = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(before)


def is_recording() -> bool:
    """Tell whether a reason that takes time to find is worth finding."""
    return _RECORDER.get() is not None


def missed(kind: str, where: str, text: str, advice: str = "") -> None:
    """Record a missed optimization; see `Remark`."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.remarks[Remark(kind, where, text, advice)] = None


def missed_gather(buffer: str, distance: int) -> None:
    """Record that a vector of elements that are `distance` apart is collected one by one."""
    text = f"vectors of it are collected element by element, for those are {distance} apart"
    advice = "vectorize the loop of its last axis, or copy it to another layout (cache_read, "
    missed("gather", buffer, text, f"{advice}transform_layout)")


def missed_call(function: str, call: str, lanes: int) -> None:
    """Record that a function of vectors calls one of scalars."""
    if function not in _INSTRUCTIONS:
        missed("math", function, f"{call} is called for each of {lanes} lanes")


def became(loop: str, text: str) -> None:
    """Record the outcome of a loop."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.outcomes[loop, text] = None


def stored(buffer: str, where: str, size: int, copies: int = 1) -> None:
    """Record the memory of a buffer; see `Storage`."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.storage[Storage(buffer, where, size, copies)] = None


def stands_for(new: str, old: str) -> None:
    """Record that a new buffer holds the elements of an old one."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.origins[new] = old
