"""How candidates are built and measured."""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from minitensor.errors import unexpected

PATIENCE: Final = 2.0
"""Seconds that the first call of any candidate may take: the machine may be busy."""

MOST_REPEATS: Final = 1_000
"""Times that a record may hold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and precision. Times are in seconds.

    time_limit     for one candidate in all: run, checked and timed
    compile_limit  for one run of the compiler
    memory         bytes that a candidate may take beyond its arrays and temporaries
    file_size      bytes of a file that a candidate writes
    batch          how many candidates are compiled together
    repeat         how long a repeat lasts at least: that many calls are made
    repeats        how many repeats at least
    most_repeats   and at most
    noise          no further repeats once the median is this certain, as a fraction
    budget         no further repeats after this time, but for `repeats`
    slower         a candidate whose first calls take this many times the best is not repeated
    hopeless       one whose very first call takes so many times the best, and PATIENCE, is stopped
    flush          whether caches are emptied before each call
    """

    time_limit: float = 10.0
    compile_limit: float = 20.0
    memory: int = 1 << 30
    file_size: int = 1 << 20
    batch: int = 8
    repeat: float = 0.005
    repeats: int = 3
    most_repeats: int = 20
    noise: float = 0.01
    budget: float = 0.2
    slower: float = 2.0
    hopeless: float = 50.0
    flush: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool":
                _check(isinstance(value, bool), "True or False", field.name, value)
                continue
            whole = field.type == "int"
            kind = numbers.Integral if whole else numbers.Real
            _check(
                isinstance(value, kind) and not isinstance(value, bool) and 0 < value < math.inf,  # type: ignore[operator]
                f"a positive {'integer' if whole else 'number'}",
                field.name,
                value,
            )
        for name in ("slower", "hopeless"):
            value = getattr(self, name)
            _check(value >= 1, "a number of at least 1", name, value)
        more = self.most_repeats >= self.repeats
        _check(more, f"at least repeats={self.repeats}", "most_repeats", self.most_repeats)
        few = self.most_repeats <= MOST_REPEATS
        _check(few, f"at most {MOST_REPEATS}", "most_repeats", self.most_repeats)

    def first_limit(self, best: float | None) -> float:
        """Seconds for the first call of a candidate, where the best so far takes `best`."""
        if best is None:
            return self.time_limit
        return min(self.time_limit, PATIENCE + self.hopeless * best)

    def as_json(self) -> dict[str, Any]:
        """All of it, for another process."""
        return asdict(self)


def _check(holds: bool, expected: str, name: str, value: object) -> None:
    if not holds:
        raise unexpected(expected, name, value)
