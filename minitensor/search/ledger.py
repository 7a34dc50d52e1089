"""The ledger of a search: the phases in which its seconds were spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from minitensor.errors import real

LONGEST: Final = 1e9
"""Seconds that a phase may have."""
PHASES: Final = {
    "propose": "deriving, choosing and scoring candidates, and learning",
    "emit": "from schedules to C",
    "compile": "waiting for compilers",
    "check": "what is computed: the expected outputs, first runs, comparing",
    "run": "timing",
    "wait": "for other searches, for processes that start, and the rest",
}
"""The phases, each with what is done in it."""


@dataclass(frozen=True, slots=True)
class Ledger(Mapping[str, float]):
    """Seconds by phase (PHASES), as attributes and as a mapping. Each second of a search's clock
    counts once: what a compiler does while texts are emitted beside it is no second of `compile`.
    """

    propose: float = 0.0
    emit: float = 0.0
    compile: float = 0.0
    check: float = 0.0
    run: float = 0.0
    wait: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            real(field.name, getattr(self, field.name), 0, LONGEST)

    def __getitem__(self, phase: str) -> float:
        if phase not in PHASES:
            raise KeyError(phase)
        return float(getattr(self, phase))

    def __iter__(self) -> Iterator[str]:
        return iter(PHASES)

    def __len__(self) -> int:
        return len(PHASES)

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(*(a + b for a, b in zip(self.values(), other.values())))

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self.values())

    def rest_is(self, phase: str, total: float) -> Ledger:
        """The ledger with the seconds that it lacks of a total added to one phase."""
        missing = max(0.0, total - self.total)
        return Ledger(**{**self, phase: self[phase] + missing})

    def rounded(self) -> dict[str, float]:
        """The phases that took time, for JSON; to a tenth of a millisecond."""
        found = {phase: round(seconds, 4) for phase, seconds in self.items()}
        return {phase: seconds for phase, seconds in found.items() if seconds}

    @staticmethod
    def parsed(data: Any) -> Ledger:
        """The ledger that `rounded` returned; phases of later versions are left out. Raises
        ArgumentError for what are no seconds, TypeError for what is no mapping.
        """
        return Ledger(**{phase: data[phase] for phase in Ledger() if phase in data})

    def shares(self, most: int = len(PHASES)) -> str:
        """The phases that took most, each with its part of the whole: "compile 41%, run 30%"."""
        spent = sorted(self.items(), key=lambda item: -item[1])[:most]
        return ", ".join(f"{phase} {s / self.total:.0%}" for phase, s in spent if s)

    def __str__(self) -> str:
        return self.shares()


NO_SECONDS: Final = Ledger()
"""Of what took no time, or of which it is not known."""
