"""Advice: what policies said in a search, and what of it could not be used."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitensor.search.unmade import Unmade


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of a round that a sketch policy gave each sketch.

    after   the number of candidates that had been tried
    values  for each sketch of the space, of sum 1, its floor included
    """

    after: int
    values: tuple[float, ...]


@dataclass
class Advice:
    """The answers of the policies of a search, round by round.

    shares    of sketch policies
    odds      of mutation policies: for each sketch with parents, and each of its moves, how many
              times the fixed odds it had in the last generation, on average over parents
    unchosen  what could not be used
    """

    shares: list[Shares] = field(default_factory=list)
    odds: dict[int, list[float]] = field(default_factory=dict)
    unchosen: Unmade = field(default_factory=Unmade)
