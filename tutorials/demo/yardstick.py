"""The yardstick of the demo: numpy's fastest time of the whole run, for all stages alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work
from minitensor.runtime import Pace, interleave


@dataclass(slots=True)
class Yardstick:
    """numpy on a work, and the fastest call of each of its turns so far, in seconds."""

    work: Work
    numpy: Implementation
    turns: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The fastest call of all turns."""
        return min(self.turns)

    def beside(self, others: Sequence[Implementation], pace: Pace) -> list[float]:
        """The fastest call of each of the others, in seconds, timed in turns with numpy."""
        turns = interleave([*others, self.numpy], pace)
        self.turns += turns[self.numpy.name].fastest
        return [min(turns[other.name].fastest) for other in others]

    def spread(self) -> float:
        """How many times as long as the fastest turn the slowest one took."""
        return max(self.turns) / self.seconds
