"""Random decisions of a generator, drawn by Hypothesis.

Every generator asks for numbers in ranges and for nothing else, and the number nearest 0 is the
simplest answer everywhere. So Hypothesis makes a case smaller by leaving out questions and by
lowering answers (MacIver and Donaldson, "Test-Case Reduction via Test-Case Generation", 2020).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from hypothesis import __version__ as version
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")

SEED_BYTES: Final = 1 << 13
"""Random bytes behind one value: several times what the largest one takes."""


class Draws:
    """The questions of a generator, answered by the `draw` of a strategy."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included.

        Counted from `low` where that is positive: bytes as the source of randomness, Hypothesis
        before 6.170 drew from 0 up to the length of the range, until a value happened to be in it.
        """
        start = max(low, 0)
        return start + self._draw(_integers(low - start, high - start))

    def chance(self, percent: int) -> bool:
        """True in about `percent` of 100 cases; the simplest answer is False."""
        return self.number(0, 99) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the simplest is the first."""
        return options[self.number(0, len(options) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order; the simplest is the one they have."""
        left = list(items)
        return [left.pop(self.number(0, len(left) - 1)) for _ in items]

    def repeat(self, low: int, high: int, percent: int, ask: Callable[[int], None]) -> None:
        """Call `ask` with 0, 1, … `low` to `high` times, each time going on with `percent`.

        Each is in a group with all that follow. Hypothesis puts a later group of the same strategy
        in place of an earlier one, which leaves out those between; it has no other way to leave out
        one of a list that takes more than five questions.
        """

        def rest(n: int) -> None:
            going_on = self.chance(percent)  # drawn always, so that all groups are alike
            if n < high and (going_on or n < low):
                ask(n)
                self._draw(_group(lambda _: rest(n + 1)))

        self._draw(_group(lambda _: rest(0)))


@st.composite
def _group(draw: DrawFn, ask: Callable[[DrawFn], None]) -> None:
    ask(draw)


@lru_cache(maxsize=1 << 10)
def _integers(low: int, high: int) -> SearchStrategy[int]:
    return st.integers(low, high)


def drawn(strategy: SearchStrategy[T], seed: int | str) -> T:
    """The value of a strategy that a seed names, for this version of Hypothesis.

    Raises what drawing it raises, and ValueError for a seed that names none: what it drew was
    assumed away, or asked for more than SEED_BYTES.
    """
    found: list[T] = []

    @settings(database=None)
    @given(strategy)
    def take(value: T) -> None:
        found.append(value)

    take.hypothesis.fuzz_one_input(seed_bytes(seed))  # type: ignore[attr-defined]
    if not found:
        raise ValueError(f"seed {seed!r} names no value, drawn by Hypothesis {version}")
    return found[0]


def seed_bytes(seed: int | str) -> bytes:
    """The bytes that stand for Hypothesis's own source of randomness."""
    return random.Random(seed).randbytes(SEED_BYTES)
