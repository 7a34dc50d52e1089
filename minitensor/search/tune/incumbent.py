"""The incumbent of a search, the fastest until now, is measured again in each round: what it takes
more than before is due to the machine, and is taken out of what the model learns.

Its own time is no measure, for it is the least of many, and so too short more often than too long.
What is compared is what it takes when it is measured again, in one round and in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from minitensor.schedule import Trace
from minitensor.search.records import STEADY
from minitensor.search.runner import Result
from minitensor.search.tried import Tried

NOISE: Final = 0.05
"""A machine whose speed differs by less is as fast as it was: measuring is no more exact."""


@dataclass
class Incumbent:
    """Measures the fastest candidate again.

    measure  what is called with its trace
    drift    how many times as long as at first a call takes now
    """

    measure: Callable[[Trace], Result]
    drift: float = STEADY
    _trace: Trace | None = None
    _steady: float = 0.0
    """Of the candidate that was the incumbent in the last round: seconds without drift."""

    def again(self, best: Tried) -> float | None:
        """Measure the fastest candidate in a new round; its seconds per call now. None if it fails,
        or if other programs did not leave the machine alone for one call.

        Where it is another than in the last round, that one comes first.
        """
        if self._trace is None:
            self._trace, self._steady = best.trace, best.steady
        seconds = self._now(self._trace)
        if seconds is not None:
            drift = seconds / self._steady
            self.drift = STEADY if 1 / (1 + NOISE) < drift < 1 + NOISE else drift
        if best.trace != self._trace:
            seconds = self._now(best.trace)
            if seconds is not None:
                self._trace, self._steady = best.trace, seconds / self.drift
        return seconds

    def _now(self, trace: Trace) -> float | None:
        result = self.measure(trace)
        return result.median if result.ok and not result.disturbed else None
