"""Where a derivation stands: a partly scheduled program, and the blocks still to be looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from minitensor.ir import Block, Program
from minitensor.schedule import Schedule


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
    """

    schedule: Schedule
    pending: tuple[str, ...]
    cached: frozenset[str] = frozenset()
    history: tuple[Derived, ...] = ()

    @property
    def program(self) -> Program:
        """The program as it is now."""
        return self.schedule.program

    @property
    def name(self) -> str:
        """The block that is looked at."""
        return self.pending[0]

    @property
    def block(self) -> Block:
        """The block that is looked at."""
        return self.program.blocks[self.name]

    def after(
        self, rule: str, what: str, schedule: Schedule | None = None, stay: bool = False
    ) -> State:
        """The state after a rule.

        what      in a few words
        schedule  what the rule made; None for a rule that does nothing
        stay      whether the block is looked at again
        """
        return replace(
            self,
            schedule=schedule or self.schedule,
            pending=self.pending if stay else self.pending[1:],
            history=(*self.history, Derived(self.name, rule, what)),
        )
