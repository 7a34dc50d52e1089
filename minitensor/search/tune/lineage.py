"""The lineage of candidates: which of those that were measured one comes from, and what changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from minitensor.search.records import LONGEST_TEXT, MOST_PARENTS
from minitensor.search.space import Candidate, Space, changes


@dataclass
class Lineage:
    """The candidates that were measured, by the keys of their traces."""

    space: Space
    _measured: dict[str, Candidate] = field(default_factory=dict)

    def add(self, key: str, candidate: Candidate) -> Candidate:
        """The candidate, measured now: what is made of it comes from it."""
        self._measured[key] = replace(candidate, origin=(key,))
        return self._measured[key]

    def of(self, candidate: Candidate) -> tuple[tuple[str, ...], str]:
        """The parents of a candidate and what changed (see `Tried`)."""
        parents = tuple(k for k in candidate.origin if k in self._measured)[:MOST_PARENTS]
        if not parents:
            return (), ""
        change = changes(self.space, self._measured[parents[0]], candidate)
        return parents, (f"crossed; {change}" if len(parents) > 1 else change)[:LONGEST_TEXT]
