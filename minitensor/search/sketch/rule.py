"""Rules of a derivation, and the states between which they lead.

A rule decides whether it applies to the block that is visited, and if so which states come of it.
A rule of a user's own is an object with the same methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Protocol, TypeAlias

from minitensor import ir
from minitensor.codegen import Target, usual_registers
from minitensor.errors import ScheduleError
from minitensor.runtime import USUAL_CACHES, Caches
from minitensor.schedule import Schedule

DEFAULT_TARGET: Final = Target("c", num_cores=1, vector_bits=128)
"""The least of any CPU of today."""


@dataclass(frozen=True)
class Derived:
    """One application of a rule.

    costly  whether it knows that another of its ways costs less
    """

    block: str
    rule: str
    what: str
    costly: bool = False


@dataclass(frozen=True, slots=True)
class Team:
    """Threads of a GPU's block that share reductions.

    loop     over the blocks
    threads  how many there are
    reader   that is computed there from what they combine
    """

    loop: str
    threads: int
    reader: str


@dataclass(frozen=True)
class State:
    """A node of the derivation tree (Ansor's pair of a program and a working node).

    schedule  what has been done; it is not changed any more
    pending   the blocks to be visited, the next one first
    cached    the blocks whose results are collected in a cache
    history   the rules that led here
    teams     the threads of a GPU that share reductions, by the loop over their blocks
    target    for what; its number of cores and the width of its vectors are known
    caches    the sizes of those of a core
    """

    schedule: Schedule
    pending: tuple[str, ...]
    cached: frozenset[str] = frozenset()
    history: tuple[Derived, ...] = ()
    teams: Mapping[str, Team] = field(default_factory=dict)
    target: Target = DEFAULT_TARGET
    caches: Caches = USUAL_CACHES

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
        """The number of elements in a vector, of the narrowest type that the block writes: what it
        writes besides may be positions, which are narrow in registers.
        """
        written = ir.accessed_buffers(self.block)[1]
        bits = min(self.program.buffers[name].dtype.bits for name in written)
        return max(1, (self.target.vector_bits or 128) // bits)

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return usual_registers(self.target.vector_bits or 128)

    def after(
        self,
        rule: str,
        what: str,
        schedule: Schedule | None = None,
        stay: bool = False,
        also: Collection[str] = (),
        costly: bool = False,
    ) -> State:
        """The state after a rule.

        what      in a few words
        schedule  what the rule made; None for a rule that does nothing
        stay      whether the block is looked at again
        also      other blocks that need not be looked at any more
        costly    whether the rule knows a way that costs less
        """
        return replace(
            self,
            schedule=schedule or self.schedule,
            pending=tuple(b for b in self.pending if b not in also and (stay or b != self.name)),
            history=(*self.history, Derived(self.name, rule, what, costly)),
        )


class Verdict(Enum):
    """The verdict of a rule on a state."""

    SKIP = "skip"
    """It does not apply."""
    APPLY = "apply"
    """It applies, and so may the rules after it: the derivation branches."""
    APPLY_AND_STOP = "apply and stop"
    """It applies, and the rules after it do not, unless no state comes of it."""


Judge: TypeAlias = Callable[[State, int], Verdict]


class SketchRule(Protocol):
    """A rule of a derivation: any object with these two methods."""

    def judge(self, state: State, cores: int) -> Verdict:
        """Return whether the rule applies to the block that is visited (`state.block`)."""
        ...

    def apply(self, state: State, cores: int) -> Iterable[State]:
        """The states that come of it, from `state.after`: a list, or a generator, which is asked
        for one after the other as far as they are needed; none where each way is refused.
        """
        ...


@dataclass(frozen=True)
class Rule:
    """A rule made of two functions (see SketchRule)."""

    name: str
    judge: Judge
    apply: Callable[[State, int], Iterable[State]]


def always(state: State, cores: int) -> Verdict:
    """The verdict of a rule whose `apply` gives no state where the rule does not apply."""
    return Verdict.APPLY


def where(test: Callable[[State], bool], verdict: Verdict = Verdict.APPLY_AND_STOP) -> Judge:
    """The `judge` of a rule with this verdict where a test holds."""
    return lambda state, cores: verdict if test(state) else Verdict.SKIP


def unless_refused(
    apply: Callable[[State, int], Sequence[State]],
) -> Callable[[State, int], Sequence[State]]:
    """The `apply` of a rule that does not apply where one of its steps is refused."""

    def applied(state: State, cores: int) -> Sequence[State]:
        try:
            return apply(state, cores)
        except ScheduleError:
            return []

    return applied


def inline(name: str, judge: Judge, what: str = "computed where it is read") -> Rule:
    """The rule that computes a block in the place of what reads it."""

    @unless_refused
    def apply(state: State, cores: int) -> list[State]:
        schedule = state.schedule.copy()
        schedule.compute_inline(state.name)
        return [state.after(name, what, schedule)]

    return Rule(name, judge, apply)
