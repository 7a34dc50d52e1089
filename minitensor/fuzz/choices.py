"""Where random decisions come from: one interface, so that the same generator serves Hypothesis,
a campaign of millions of draws, and the reduction of what it found.

A generator asks for numbers in ranges and for nothing else, and 0 of a range (its lowest number) is
the simplest answer everywhere. So a case is the list of its answers, and a smaller case is a list
that is shorter or has smaller numbers in it (MacIver and Donaldson, "Test-Case Reduction via
Test-Case Generation", ECOOP 2020).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Choices(ABC):
    """Answers to questions."""

    @abstractmethod
    def number(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""

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

    @contextmanager
    def span(self) -> Iterator[None]:
        """Around questions that belong together: a stage, a step."""
        yield

    def group(self, ask: Callable[[], None]) -> None:
        """Ask questions in a group: such groups nest, and what is in one may stand in for it."""
        ask()

    def repeat(self, low: int, high: int, percent: int, ask: Callable[[int], None]) -> None:
        """Call `ask` with 0, 1, … `low` to `high` times, each time going on with `percent`.

        Each is in a group with all that follow: the group of a later one in its place leaves out
        those between.
        """

        def rest(n: int) -> None:
            with self.span():
                if not self.chance(percent) and n >= low:  # asked always, so that all are alike
                    return
                ask(n)
            if n + 1 < high:
                self.group(lambda: rest(n + 1))

        if high > 0:
            self.group(lambda: rest(0))


class Drawn(Choices):
    """Answers that a function gives: that of Hypothesis, for one.

    number  gives an integer from a range
    group   asks what it is called with, as a group
    """

    def __init__(
        self,
        number: Callable[[int, int], int],
        group: Callable[[Callable[[], None]], None] = lambda ask: ask(),
    ) -> None:
        self._number = number
        self._group = group

    def number(self, low: int, high: int) -> int:
        """An integer in the range."""
        return self._number(low, high)

    def group(self, ask: Callable[[], None]) -> None:
        """Ask questions in a group."""
        self._group(ask)


class Recorded(Choices):
    """Answers that are kept: those given, then random ones if there is a seed, then the simplest.

    answers  how far above the lowest number each answer is
    spans    (start, end) of the questions that belong together, in the order of their ends
    """

    def __init__(self, given: Sequence[int] = (), seed: int | str | None = None) -> None:
        self.given = given
        self.random = None if seed is None else random.Random(seed)
        self.answers: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def number(self, low: int, high: int) -> int:
        """An integer in the range."""
        position = len(self.answers)
        if position < len(self.given):
            answer = min(self.given[position], high - low)
        elif self.random is not None:
            answer = self.random.randrange(high - low + 1)
        else:
            answer = 0
        self.answers.append(answer)
        return low + answer

    @contextmanager
    def span(self) -> Iterator[None]:
        """Around questions that belong together."""
        start = len(self.answers)
        yield
        self.spans.append((start, len(self.answers)))
