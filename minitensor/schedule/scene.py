"""Random calls of primitives: what a test draws arguments from.

Each primitive declares below its rewrite how a random call of it looks (`@split.random_call`): a
function of a `Scene`, which knows the schedule so far and a source of choices. Arguments are drawn
so that most calls are plausible, a good part is legal, and every rule is broken now and then. The
choices are drawn by Hypothesis (`minitensor.testing`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from minitensor import ir

T = TypeVar("T")


class Scheduled(Protocol):
    """A Schedule, as far as a random call looks at it."""

    @property
    def program(self) -> ir.Program:
        """The program after the last step."""

    def get_blocks(self) -> tuple[str, ...]:
        """The names of all blocks."""

    def get_loops(self, block: str) -> tuple[str, ...]:
        """The names of the loops around a block, outermost first."""

    def get_producers(self, block: str) -> tuple[str, ...]:
        """The blocks that write what a block reads."""

    def get_consumers(self, block: str) -> tuple[str, ...]:
        """The blocks that read what a block writes."""


class Scene(ABC):
    """A schedule, and choices of what to do with it next."""

    @property
    @abstractmethod
    def schedule(self) -> Scheduled:
        """The schedule so far."""

    @abstractmethod
    def number(self, low: int, high: int) -> int:
        """An integer from low to high."""

    @abstractmethod
    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""

    @abstractmethod
    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in another order."""

    @abstractmethod
    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""

    @abstractmethod
    def do(self, primitive: str, *args: Any, **kwargs: Any) -> Any:
        """Call a primitive of the schedule; its result. Raises ScheduleError if it refuses."""

    @abstractmethod
    def example_intrinsic(self) -> ir.Intrinsic:
        """Some intrinsic."""

    @abstractmethod
    def matching_intrinsic(
        self, block: str, loops: Sequence[str], fixed: bool
    ) -> ir.Intrinsic | None:
        """An intrinsic that means what the innermost loops of a block do; None if there is none."""

    @property
    def program(self) -> ir.Program:
        """The program so far."""
        return self.schedule.program

    def block(self) -> str:
        """A block."""
        return self.pick(self.schedule.get_blocks() or ("none",))

    def loops(self, block: str | None = None) -> tuple[str, ...]:
        """The loops around a block, outermost first."""
        blocks = self.schedule.get_blocks()
        if not blocks:
            return ("none",)
        return self.schedule.get_loops(block or self.pick(blocks)) or ("none",)

    def loop(self) -> str:
        """A loop."""
        return self.pick(self.loops())

    def buffer(self) -> str:
        """A buffer, mostly one that is not a parameter."""
        own = [b.name for b in self.program.temporaries]
        return self.pick(own if own and not self.chance(25) else list(self.program.buffers))

    def producer(self) -> str:
        """A block, mostly one that writes a temporary."""
        return self._of_temporaries(written=True)

    def consumer(self) -> str:
        """A block, mostly one that reads a temporary."""
        return self._of_temporaries(written=False)

    def _of_temporaries(self, written: bool) -> str:
        own = {b.name for b in self.program.temporaries}
        blocks = self.program.blocks.items()
        found = [name for name, block in blocks if own & ir.accessed_buffers(block)[written]]
        return self.pick(found) if found and not self.chance(20) else self.block()

    def near(self, neighbours: Callable[[str], tuple[str, ...]], block: str) -> str:
        """A loop, mostly around one of the block's neighbours."""
        found = neighbours(block) if block in self.schedule.get_blocks() else ()
        if found and not self.chance(10):
            return self.pick(self.loops(self.pick(found)))
        return self.loop()
