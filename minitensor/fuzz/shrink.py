"""Smaller lists of answers that fail in the same way, and so smaller programs and schedules.

Answers that belong together (a stage, a step) are left out, then runs of neighbours, then single
answers are made as small as they go. See `choices`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

Answers = tuple[int, ...]

_RUNS: Final = (16, 8, 4, 2, 1)


def shrink(
    answers: Sequence[int],
    spans: Callable[[Answers], Sequence[tuple[int, int]]],
    fails: Callable[[Answers], bool],
    most: int = 400,
) -> Answers:
    """The smallest list that was found to fail, by length and then by its numbers.

    spans  (start, end) of answers that belong together, for a list that fails
    fails  whether a list fails in the same way
    most   how many lists are tried
    """
    search = _Search(_without_end(answers), fails, most)
    sweeps = (lambda best: _without_spans(best, spans(best)), _without_runs, _lowered)
    while any(search.sweep(smaller) for smaller in sweeps):
        pass
    return search.best


class _Search:
    """The best list so far, and how many may still be tried."""

    def __init__(self, best: Answers, fails: Callable[[Answers], bool], most: int) -> None:
        self.best, self.fails, self.left = best, fails, most
        self.tried = {best}

    def sweep(self, smaller: Callable[[Answers], Iterable[Answers]]) -> bool:
        """Try all lists that `smaller` makes of the best one, again where one becomes the best;
        whether one did.
        """
        place, improved = 0, False
        while True:
            options = list(smaller(self.best))
            if place >= len(options) or self.left <= 0:
                return improved
            if self.accepts(_without_end(options[place])):
                improved = True
            else:
                place += 1

    def accepts(self, candidate: Answers) -> bool:
        smaller = (len(candidate), candidate) < (len(self.best), self.best)
        if candidate in self.tried or not smaller:
            return False
        self.tried.add(candidate)
        self.left -= 1
        if not self.fails(candidate):
            return False
        self.best = candidate
        return True


def _without_end(answers: Sequence[int]) -> Answers:
    """Without the zeros at the end, which is what is answered there anyway."""
    last = max((n for n, answer in enumerate(answers) if answer), default=-1)
    return tuple(answers[: last + 1])


def _without_spans(answers: Answers, spans: Sequence[tuple[int, int]]) -> Iterator[Answers]:
    for start, end in sorted(set(spans), key=lambda span: span[0] - span[1]):
        if start < len(answers):
            yield answers[:start] + answers[end:]


def _without_runs(answers: Answers) -> Iterator[Answers]:
    for length in _RUNS:
        for start in reversed(range(0, max(0, len(answers) - length + 1), max(1, length // 2))):
            yield answers[:start] + answers[start + length :]


def _lowered(answers: Answers) -> Iterator[Answers]:
    for n, answer in enumerate(answers):
        for smaller in dict.fromkeys((0, answer // 2, answer - 1)):
            if 0 <= smaller < answer:
                yield (*answers[:n], smaller, *answers[n + 1 :])
