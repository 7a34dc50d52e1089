"""Where a derivation stands: a partly scheduled program, and the blocks still to be looked at."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from minitensor import ir
from minitensor.codegen import Target
from minitensor.schedule import Schedule

DEFAULT_TARGET: Final = Target("c", num_cores=1, vector_bits=128)
"""What every CPU of today offers."""


@dataclass(frozen=True)
class Derived:
    """One application of a rule."""

    block: str
    rule: str
    what: str


@dataclass(frozen=True)
class State:
    """A node of the derivation tree (Ansor's pair of a program and a working node).

    schedule  what has been done; it is not changed any more
    pending   the blocks to be visited, the next one first
    cached    the blocks whose results are collected in a cache
    history   the rules that led here
    target    for what; its number of cores and the width of its vectors are known
    """

    schedule: Schedule
    pending: tuple[str, ...]
    cached: frozenset[str] = frozenset()
    history: tuple[Derived, ...] = ()
    target: Target = DEFAULT_TARGET

    @property
    def program(self) -> ir.Program:
        """The program as it is now."""
        return self.schedule.program

    @property
    def name(self) -> str:
        """The block that is looked at."""
        return self.pending[0]

    @property
    def block(self) -> ir.Block:
        """The block that is looked at."""
        return self.program.blocks[self.name]

    @property
    def lanes(self) -> int:
        """How many numbers of the type that the block writes a vector holds."""
        written = min(ir.accessed_buffers(self.block)[1])
        dtype = self.program.buffers[written].dtype
        return max(1, (self.target.vector_bits or 128) // dtype.bits)

    @property
    def registers(self) -> int:
        """How many vector registers there are."""
        return 32 if (self.target.vector_bits or 128) >= 512 else 16

    def after(
        self,
        rule: str,
        what: str,
        schedule: Schedule | None = None,
        stay: bool = False,
        also: Collection[str] = (),
    ) -> State:
        """The state after a rule.

        what      in a few words
        schedule  what the rule made; None for a rule that does nothing
        stay      whether the block is looked at again
        also      other blocks that need not be looked at any more
        """
        return replace(
            self,
            schedule=schedule or self.schedule,
            pending=tuple(b for b in self.pending if b not in also and (stay or b != self.name)),
            history=(*self.history, Derived(self.name, rule, what)),
        )
