"""A kernel against numpy, in turns: what else runs on the machine hits both alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from minitensor.cli.errors import CommandError
from minitensor.runtime import Kernel
from minitensor.search import TOLERANCE

SLOW_SECONDS: Final = 0.25
"""A kernel whose first call takes longer is not called again."""
TURN_SECONDS: Final = 0.05
"""How long each of the two is called in its turn."""
PAUSE_SECONDS: Final = 0.15
"""The pause before a kernel's turn.

The threads of numpy's OpenBLAS wait for more work in a busy loop, for 0.1 s after a call. A kernel
whose threads have to share the cores with them can take a hundred times as long.
"""


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel's time beside numpy's, in seconds: the fastest call of each in all rounds.

    What else runs on the machine only ever adds time.
    """

    seconds: float
    baseline: float

    @property
    def ratio(self) -> float:
        """How many times as fast as numpy the kernel is."""
        return self.baseline / self.seconds


@dataclass(slots=True)
class Race:
    """The baseline of one workload, and what it computes.

    inputs  one array for each input of the kernel
    baseline   computes the same with numpy, and returns it
    rounds  how often each of the two has its turn
    """

    inputs: Sequence[np.ndarray]
    baseline: Callable[[], np.ndarray]
    rounds: int
    expected: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.expected = self.baseline().copy()

    def run(self, kernel: Kernel) -> Timed:
        """Check the kernel's result against numpy's, and time both. Raises CommandError."""
        output = np.full_like(self.expected, np.nan)
        start = time.perf_counter()
        kernel(*self.inputs, output)
        first = time.perf_counter() - start
        self.check(output)
        if first > SLOW_SECONDS:
            return Timed(first, min(_fastest(self.baseline) for _ in range(self.rounds)))
        turns = [
            (_fastest(lambda: kernel(*self.inputs, output), PAUSE_SECONDS), _fastest(self.baseline))
            for _ in range(self.rounds)
        ]
        return Timed(min(own for own, _ in turns), min(baseline for _, baseline in turns))

    def check(self, output: np.ndarray) -> None:
        """Raise CommandError unless the output is what numpy computes, up to rounding."""
        largest = float(np.abs(self.expected).max())
        off = float(np.abs(output - self.expected).max())
        if not off <= TOLERANCE["float32"] * largest:  # also if it is NaN
            raise CommandError(
                f"the kernel is wrong: it differs from numpy by {off:g}, where the largest value "
                f"is {largest:g}; please report this"
            )


def _fastest(call: Callable[[], object], pause: float = 0.0) -> float:
    """Seconds of the fastest call within TURN_SECONDS, after a pause."""
    time.sleep(pause)
    fastest = float("inf")
    end = time.perf_counter() + TURN_SECONDS
    while True:
        start = time.perf_counter()
        call()
        stop = time.perf_counter()
        fastest = min(fastest, stop - start)
        if stop >= end:
            return fastest
