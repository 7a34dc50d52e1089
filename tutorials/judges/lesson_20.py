"""Judges of lesson 20: mutations, a bandit, and a search that is played on a table."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np

from minitensor.errors import shown

from ..course.costs import table
from ..course.tasks import Case, LackingError, Task
from ..course.wire import Other
from ..replay import TableSpace

TRIALS: Final = 40
SEARCHES: Final = 48
MARGIN: Final = 0.75
"""The part of random search's mean regret that an answer may have."""
UNROLLED: Final = 64
TURNS: Final = 400


class Mutate(Task):
    """A prime factor moves."""

    name, text = "mutate", "mutate a tile, and keep its product"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        tiles = [(1, 1, 1), (1, 8), (4, 6, 1), (7, 1, 1)]
        for length in (2, 3, 4):
            tiles.append(tuple(draw.choice((1, 2, 3, 4, 5, 6, 9, 12)) for _ in range(length)))
        return [(tile, draw.randrange(1 << 30)) for tile in tiles]

    def ask(self, answer: Any, case: Case) -> Any:
        """Many of its mutations of one tile."""
        tile, seed = case
        rng = random.Random(seed)
        return [answer(tile, rng) for _ in range(TURNS)]

    def judge(self, case: Case, got: Any) -> None:
        tile = case[0]
        every = set(_neighbours(tile)) or {tile}
        if not isinstance(got, list):
            raise LackingError("a tuple is wanted for each call")
        seen = set()
        for one in got:
            if not _is_tile(one, len(tile)):
                text = f"mutate({tile}, rng) gives {shown(_plain(one))}; a tuple of {len(tile)} "
                lines = [
                    f"assert all(isinstance(one, tuple) and len(one) == {len(tile)} for one in got)"
                ]
                raise LackingError(f"{text}integers is wanted", lines + _all_in(every))
            if math.prod(one) != math.prod(tile):
                text = f"mutate({tile}, rng) gives {one}, whose product is not {math.prod(tile)}"
                lines = [f"assert {{int(np.prod(one)) for one in got}} == {{{math.prod(tile)}}}"]
                raise LackingError(text, lines)
            if one not in every:
                same = (
                    "which is the tile itself" if one == tile else "more than a prime factor moves"
                )
                text = f"mutate({tile}, rng) gives {one}: {same}"
                raise LackingError(text, _all_in(every))
            seen.add(one)
        if seen != every:
            text = f"of {tile}, the neighbour {min(every - seen)} never comes up in {TURNS} calls"
            raise LackingError(text, [f"assert set(got) == {every!r}, set(got)"])

    def script(self, case: Case) -> list[str]:
        tile, seed = case
        return [
            "import random",
            f"rng = random.Random({seed})",
            f"got = [answer({tile!r}, rng) for _ in range({TURNS})]",
        ]


def _all_in(every: set[tuple[int, ...]]) -> list[str]:
    return [f"assert set(map(tuple, got)) <= {every!r}, set(map(tuple, got)) - {every!r}"]


def _is_tile(value: Any, length: int) -> bool:
    whole = (int, np.integer)
    fits = isinstance(value, tuple) and len(value) == length
    return fits and all(isinstance(v, whole) and type(v) is not bool and v >= 1 for v in value)


def _plain(value: Any) -> Any:
    return value.text if isinstance(value, Other) else value


def _neighbours(tile: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for source, factor in enumerate(tile):
        for prime in (p for p in range(2, factor + 1) if factor % p == 0 and _is_prime(p)):
            for target in range(len(tile)):
                if target != source:
                    made = list(tile)
                    made[source] //= prime
                    made[target] *= prime
                    yield tuple(made)


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, number))


class UCB(Task):
    """UCB1 with a window."""

    name, text = "ucb", "choose an arm by its upper bound"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [([], 3, 5), ([(0, 0.5)], 1, 4), ([(1, 1.0), (0, 0.0)], 2, 1)]
        for _ in range(10):
            arms = draw.randint(2, 5)
            pulls = [(arm, draw.randint(0, 20) / 20) for arm in range(arms)]
            pulls += [
                (draw.randrange(arms), draw.randint(0, 20) / 20) for _ in range(draw.randint(5, 30))
            ]
            draw.shuffle(pulls)
            found.append((pulls, arms, draw.choice((4, 8, 12, 20, 100))))
        rare = [(0, 0.9)] * 5 + [(1, 0.1)] * 40 + [(0, 0.8), (2, 0.4)]
        return [*found, (rare, 3, 42), (rare, 3, 100)]

    def judge(self, case: Case, got: Any) -> None:
        history, arms, window = case
        last = history[-window:]
        own = [[reward for arm, reward in last if arm == n] for n in range(arms)]
        if not all(own):
            right, why = [own.index([])], "it was not tried in the trials that count"
        else:
            bounds = [np.mean(r) + math.sqrt(2 * math.log(len(last)) / len(r)) for r in own]
            right = [n for n, bound in enumerate(bounds) if bound > max(bounds) - 1e-9]
            why = f"the bounds are {np.round(bounds, 4).tolist()}"
        number = isinstance(got, (int, np.integer)) and type(got) is not bool
        if not number or int(got) not in right:
            text = (
                f"ucb({history}, {arms}, {window}) gives {shown(_plain(got))}; "
                f"right is {right[0]}: {why}"
            )
            raise LackingError(text, [f"assert got in {right} and got is not True, got"])


@cache
def landscape() -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Names of a sketch as tuples of choices, and the seconds of each: those of one unrolling, for
    neighbours to be found in no time.
    """
    whole = table("conv-1x1")
    first = replace(whole, sketches=whole.sketches[:1], allowed=whole.allowed[:1])
    space = TableSpace(first)
    options: list[tuple[int, ...]] = []
    programs = []
    for one, program in space.names.items():
        if one.unroll[0] == UNROLLED:
            chosen = [value for value in one.values if isinstance(value, int)]
            sizes = [knob.candidates[value] for knob, value in zip(space.knobs[0], chosen)]
            options.append((*(size for size in sizes if isinstance(size, int)), one.parallel[0]))
            programs.append(program)
    return options, whole.seconds[programs]


@cache
def random_regret() -> float:
    """The mean regret of random draws without repetition, exactly."""
    ordered = np.sort(landscape()[1])
    count = len(ordered)
    total = math.comb(count, TRIALS)
    return math.fsum(
        (1 - ordered[0] / ordered[n]) * math.comb(count - 1 - n, TRIALS - 1) / total
        for n in range(count - TRIALS + 1)
    )


class Propose(Task):
    """A search, played on a table."""

    name, text = "propose", "search better than at random"
    points = 2
    without = ("course.table",)

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(draw.randrange(1 << 30),) for _ in range(SEARCHES)]

    def ask(self, answer: Any, case: Case) -> Any:
        """The numbers that it proposes in one search; options are in another order each time."""
        rng = random.Random(case[0])
        known, seconds = landscape()
        order = rng.sample(range(len(known)), len(known))
        options = [known[n] for n in order]
        history: list[tuple[int, float]] = []
        numbers: list[int] = []
        for _ in range(TRIALS):
            number = answer(list(history), list(options), rng)
            whole = isinstance(number, (int, np.integer)) and 0 <= number < len(options)
            if not whole or isinstance(number, bool):
                return [number]
            numbers.append(order[int(number)])
            history.append((int(number), float(seconds[order[int(number)]])))
        return numbers

    def judge(self, case: Case, got: Any) -> None:
        """All searches are judged together."""

    def judge_all(self, cases: Sequence[Case], got: Sequence[Any]) -> None:
        _, seconds = landscape()
        best, regrets, different = seconds.min(), [], []
        for numbers in got:
            if not isinstance(numbers, list) or len(numbers) != TRIALS:
                one = numbers[0] if isinstance(numbers, list) and numbers else numbers
                text = f"the number of an option is wanted, 0 to {len(seconds) - 1}"
                raise LackingError(f"{text}, not {shown(_plain(one))}")
            if not all(type(n) is int and 0 <= n < len(seconds) for n in numbers):
                raise LackingError("the number of an option is wanted")
            regrets.append(1 - best / seconds[numbers].min())
            different.append(len(set(numbers)))
        mean, wanted = float(np.mean(regrets)), MARGIN * random_regret()
        if not mean <= wanted:
            again = ""
            if np.mean(different) < TRIALS - 1:
                again = f"; it proposes {TRIALS - np.mean(different):.0f} of {TRIALS} again"
            text = (
                f"its mean regret over {len(got)} searches is {mean:.3f}; random draws have "
                f"{random_regret():.3f}, and at most {wanted:.3f} is wanted{again}"
            )
            raise LackingError(text)


TASKS: Sequence[Task] = (Mutate(), UCB(), Propose())
