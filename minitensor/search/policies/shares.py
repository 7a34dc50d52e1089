"""The protocol of sketch policies, and what a search makes of their answers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final, Protocol

from minitensor.errors import ArgumentError, is_real, shown, unexpected
from minitensor.search.policies.history import History

FLOOR: Final = 0.1
"""The part of all shares that all sketches have alike: none is given up."""


class SketchPolicy(Protocol):
    """Chooses how much of a round each sketch gets."""

    def shares(self, history: History, rng: random.Random) -> Sequence[float] | None:
        """A number >= 0 for each sketch of `history.space`, of any sum above 0; None for the
        search's own choice. It depends on the history and on what is drawn from `rng` only, so that
        a search that is resumed goes on as it would have.
        """
        ...


def checked_shares(given: Any, sketches: int) -> list[float]:
    """Shares of sum 1, each with its floor. Raises ArgumentError for what are none."""
    try:
        values = list(given)
    except TypeError:
        raise unexpected("a number for each sketch", "shares", given) from None
    if len(values) != sketches:
        raise ArgumentError(f"expected {sketches} shares, one for each sketch, got {len(values)}")
    for value in values:
        if not is_real(value, 0):
            raise ArgumentError(f"expected shares that are numbers >= 0, but one is {shown(value)}")
    numbers = [float(value) for value in values]
    total = sum(numbers)
    if not 0 < total < math.inf:
        raise ArgumentError(f"expected shares of a finite sum above 0, but theirs is {total:g}")
    return [(1 - FLOOR) * value / total + FLOOR / sketches for value in numbers]


def apportioned(shares: Sequence[float], count: int, rng: random.Random) -> list[int]:
    """So many candidates for each share, `count` in all: on average exactly its part.

    Systematic sampling: one number is drawn, and every place at a distance of 1 / count from it
    falls into some share.
    """
    bound, place, total = 0.0, 0, sum(shares)
    start, counts = rng.random(), []
    for share in shares:
        bound += share / total * count
        counts.append(0)
        while place + start < bound and place < count:
            counts[-1] += 1
            place += 1
    counts[-1] += count - place
    return counts
