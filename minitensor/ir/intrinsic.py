"""Intrinsics: small pieces of computation with a meaning in the language and a body in C.

The meaning is a program of one block. It is what counts: a loop nest that an intrinsic replaces
keeps its own statements, which every analysis reads and the interpreter executes; the body is only
what code generation writes in their place. A loop nest names its intrinsic by `key`, which holds a
digest of all of it, so that a trace of another process cannot come to mean another body.

Not here: declaring one and what is asked of it (`lang.intrinsic`), finding out whether a loop nest
computes it (`arith.tensorized`), its text in C (`codegen.intrinsics`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from minitensor.ir.program import Program, stored_buffers
from minitensor.ir.stmt import Block, Buffer, Reduce, Store

NOTE: Final = "intrinsic"
"""The annotation with which the outermost loop of a tensorized nest names its intrinsic."""
SEPARATOR: Final = ":"
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Body:
    """The text between the braces of a C function, and the preprocessor condition under which
    it is compiled (None for the one that always can be).
    """

    condition: str | None
    text: str


@dataclass(frozen=True)
class Intrinsic:
    """A declared intrinsic; see `mt.intrinsic`.

    meaning   a program of one block; its parameters are the operands, in the order of the call
    bodies    the alternatives in C, the first whose condition holds is compiled
    strides   for each operand and axis, in elements, what the body relies on; None for any
    includes  the C headers that the bodies need
    cuda      the body in CUDA, which a warp executes together; empty for an intrinsic of a CPU
    fragments the operands that the registers of a warp hold, each thread its part
    """

    name: str
    meaning: Program
    bodies: tuple[Body, ...]
    strides: tuple[tuple[int | None, ...], ...]
    includes: tuple[str, ...] = ()
    cuda: str = ""
    fragments: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The name and a digest of meaning, bodies and strides."""
        meaning = (self.meaning.params, self.meaning.body)
        of_gpu = ((self.cuda, self.fragments),) if self.cuda else ()
        facts = repr((meaning, self.bodies, self.strides, self.includes, *of_gpu))
        digest = hashlib.sha256(facts.encode("utf-8", "backslashreplace")).hexdigest()
        return f"{self.name}{SEPARATOR}{digest[:_DIGITS]}"

    @property
    def block(self) -> Block:
        """The block of the meaning."""
        (block,) = self.meaning.blocks.values()
        return block

    @property
    def statement(self) -> Store | Reduce:
        """The statement that the meaning executes for each combination of its axes."""
        body = self.block.body
        assert isinstance(body, (Store, Reduce))
        return body

    @property
    def axes(self) -> Mapping[str, int]:
        """The axes of the meaning with their extents: those of the output first."""
        return {i.var: i.extent for i in self.block.iters}

    @property
    def operands(self) -> tuple[Buffer, ...]:
        """The parameters of the body, in order."""
        return self.meaning.params

    @property
    def output(self) -> str:
        """The operand that is written."""
        (name,) = stored_buffers(self.block.body)
        return name

    def __repr__(self) -> str:
        operands = ", ".join(f"{b.name}: {b.dtype}{list(b.shape)}" for b in self.operands)
        return f"<Intrinsic {self.key}({operands})>"


DECLARED: Final[dict[str, Intrinsic]] = {}
"""The intrinsics that this process has declared, by key."""
READY: Final[dict[str, Callable[[], Intrinsic]]] = {}
"""Declarations that come with the language, by name; each is made when it is first asked for."""


def known_intrinsic(key: str) -> Intrinsic | None:
    """The intrinsic with that key, or with that name if it comes with the language; None if this
    process knows none.
    """
    make = READY.get(key.partition(SEPARATOR)[0])
    if key not in DECLARED and make is not None:
        made = make()
        return made if key in (made.key, made.name) else None
    return DECLARED.get(key)
