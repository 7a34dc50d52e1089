"""The proposals of a strategy: those of a round that are legal and new, under whatever name; and
their lineage, which of those that were measured one comes from, and what changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from minitensor.errors import ArgumentError, unexpected
from minitensor.ir import Program, structural_hash
from minitensor.schedule import Schedule, Trace
from minitensor.search.alike import ALIKE
from minitensor.search.records import LONGEST_TEXT, MOST_PARENTS, trace_key
from minitensor.search.space import Candidate, Space, adapted, changes
from minitensor.search.strategy import Round, Strategy
from minitensor.search.unmade import Unmade

ATTEMPTS: Final = 8
"""Times that a strategy is asked for the first candidates, where all that it proposes is refused.
"""
MOST_PROPOSED: Final = 1 << 14
"""Candidates of a round that are looked at, of a strategy that never stops proposing."""
FIRST: Final = 8
"""Candidates of the first rounds; those of later ones grow with what is known."""


def size_of_round(tried: int, most: int) -> int:
    """The candidates of a round, where so many were tried before."""
    return min(most, max(FIRST, tried // 2))


@dataclass
class Proposals:
    """The candidates that a strategy proposes in a space, without those that are known.

    unmade   proposals of which no schedule could be made
    untuned  a function that gives the schedule that is to be beaten: it is the first candidate, if
             it is one that was not tried yet
    alike    a function that gives schedules of other programs: half of the first round, and a
             quarter of each later one, are the candidates nearest to new ones of them
    sources  the keys of these schedules
    begun    the trace of the first of `untuned`, once it was proposed
    """

    space: Space
    strategy: Strategy
    unmade: Unmade = field(default_factory=Unmade)
    untuned: Callable[[], Schedule] | None = None
    alike: Callable[[], Iterable[Trace]] = tuple
    sources: set[str] = field(default_factory=set)
    begun: Trace | None = None
    _keys: set[str] = field(default_factory=set)
    _programs: set[str] = field(default_factory=set)
    _identities: set[Hashable] = field(default_factory=set)
    _adapted: dict[int, Trace] = field(default_factory=dict)

    def know(self, key: str, program: Program | None = None) -> None:
        """Leave out from now on what has this trace, or this program."""
        self._keys.add(key)
        if program is not None:
            self._programs.add(structural_hash(program))

    def _ahead(self, count: int) -> Iterator[Candidate]:
        """The candidate that is to be beaten, once, if it is of this space; then those that are
        nearest to schedules of alike programs, until enough of them are taken.
        """
        left = count // (4 if self._keys else 2)
        if self.untuned is not None:
            trace, self.untuned = self.untuned().trace, None
            found = self.space.decode(trace)
            if found is not None:
                self.begun = trace
                yield found
        for trace in self.alike():
            if not left:
                break
            if id(trace) not in self._adapted:
                self._adapted[id(trace)] = trace
                found = adapted(self.space, trace)
                if found is not None:
                    source, known = trace_key(trace), len(self._keys)
                    self.sources.add(source)
                    yield replace(found, origin=(source,))
                    left -= len(self._keys) - known  # one that a log has is no new one

    def take(self, now: Round, count: int, seed: str) -> list[tuple[Candidate, Schedule]]:
        """Up to `count` new candidates of a round. None ends the search.

        seed  of the round's draws; where the strategy is asked again, they are others

        Raises ArgumentError for what is no list of candidates; what the strategy raises.
        """
        ahead = self._ahead(count) if count else iter(())
        for attempt in range(ATTEMPTS):
            rng, before = random.Random(f"{seed}/{attempt}" if attempt else seed), len(self.unmade)
            proposed = self.strategy.propose(replace(now, rng=rng))
            if not isinstance(proposed, Iterable):
                raise unexpected("candidates from strategy.propose", "proposed", proposed)
            found = self._new(chain(ahead, proposed), count)
            if found or self._keys or len(self.unmade) == before:
                return found
        return []

    def _new(self, proposed: Iterable[Candidate], count: int) -> list[tuple[Candidate, Schedule]]:
        found: list[tuple[Candidate, Schedule]] = []
        seen: set[Candidate] = set()
        for candidate in islice(proposed, MOST_PROPOSED):
            if len(found) == count:
                break
            try:
                self.space.check(candidate)
            except ArgumentError as failure:
                self.unmade.add("strategy.propose", failure)
                continue
            if candidate in seen:
                continue
            seen.add(candidate)
            identity = self.space.identity(candidate)
            if identity in self._identities:
                continue
            self._identities.add(identity)
            try:
                made, schedule = self.space.realized(candidate)
                key, program = trace_key(schedule.trace), structural_hash(schedule.program)
            except Exception as failure:
                self.unmade.add("a candidate", failure)
                continue
            if key not in self._keys and program not in self._programs:
                self._keys.add(key)
                self._programs.add(program)
                found.append((made, schedule))
        return found


@dataclass
class Lineage:
    """The candidates that were measured, by the keys of their traces.

    sources  the keys of schedules of other programs that candidates may come from
    """

    space: Space
    sources: Set[str] = frozenset()
    _measured: dict[str, Candidate] = field(default_factory=dict)

    def add(self, key: str, candidate: Candidate) -> Candidate:
        """The candidate, measured now: what is made of it comes from it."""
        self._measured[key] = replace(candidate, origin=(key,))
        return self._measured[key]

    def of(self, candidate: Candidate) -> tuple[tuple[str, ...], str]:
        """The parents of a candidate and what changed (see `Tried`)."""
        parents = tuple(k for k in candidate.origin if k in self._measured)[:MOST_PARENTS]
        if not parents:
            return (), ALIKE if self.sources & {*candidate.origin} else ""
        change = changes(self.space, self._measured[parents[0]], candidate)
        return parents, (f"crossed; {change}" if len(parents) > 1 else change)[:LONGEST_TEXT]
