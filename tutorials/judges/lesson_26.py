"""Judges of lesson 26: tokens between queues, the missing one, the cycles, and a tile."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import minitensor as mt
from minitensor.errors import MinitensorError, is_integer, shown
from minitensor.search.sketch import Plan, accelerator_schedule

from ..course.tasks import Case, FunctionTask, LackingError, Task

Step: TypeAlias = "tuple[str, list[str], list[str]]"
"""The queue of an instruction, the buffers that it reads, and those that it writes."""
Token: TypeAlias = "tuple[int, int]"

QUEUES: Final = ("load", "execute", "store")
BEHIND: Final = 1.1
"""Of the cycles of the best tile that is known."""


# ---- streams


def meets(a: Step, b: Step) -> bool:
    """Tell whether two instructions share a buffer that one of them writes."""
    return bool({*a[2]} & {*b[1], *b[2]} or {*a[1]} & {*b[2]})


def needs(steps: Sequence[Step]) -> list[Token]:
    """The pairs of instructions of two queues whose order matters."""
    return [
        (first, second)
        for second in range(len(steps))
        for first in range(second)
        if steps[first][0] != steps[second][0] and meets(steps[first], steps[second])
    ]


def before(steps: Sequence[Step], tokens: Sequence[Token]) -> list[set[int]]:
    """The predecessors of each instruction in the order of tokens and queues (happens-before)."""
    found: list[set[int]] = []
    for number, (queue, _, _) in enumerate(steps):
        own = [n for n in range(number) if steps[n][0] == queue][-1:]
        direct = [*own, *(first for first, second in tokens if second == number)]
        found.append(set(direct).union(*(found[n] for n in direct)))
    return found


def fewest(steps: Sequence[Step]) -> list[Token]:
    """The needs that no others imply: the transitive reduction, of which there is one."""
    every = needs(steps)
    return [
        token
        for token in every
        if token[0] not in before(steps, [other for other in every if other != token])[token[1]]
    ]


def duration(steps: Sequence[Step], tokens: Sequence[Token], lengths: Sequence[int]) -> int:
    """The cycle in which the last instruction ends."""
    free, ends = dict.fromkeys(QUEUES, 0), [0] * len(steps)
    for number, (queue, _, _) in enumerate(steps):
        start = max([free[queue], *(ends[a] for a, b in tokens if b == number)])
        free[queue] = ends[number] = start + lengths[number]
    return max(ends, default=0)


def of_threads(tiles: int, terms: int, threads: int, apart: bool) -> list[Step]:
    """The stream of a product in tiles that virtual threads do in turns."""
    found: list[Step] = []
    for _ in range(tiles // threads):
        for _ in range(terms):
            for v in range(threads):
                a, b, c = f"A{v}", f"B{v}", f"C{v}"
                loads: list[Step] = [("load", [], [a]), ("load", [], [b])]
                found += loads if apart else [("load", [], [a, b])]
                found.append(("execute", [a, b, c], [c]))
        found += [("store", [f"C{v}"], []) for v in range(threads)]
    return found


def scattered(draw: random.Random, count: int) -> list[Step]:
    """Any instructions on a few buffers."""
    names = ["A", "B", "C", "D"]
    found: list[Step] = []
    for _ in range(count):
        reads, writes = draw.sample(names, draw.randint(0, 2)), draw.sample(names, 1)
        found.append((draw.choice(QUEUES), reads, writes if draw.random() < 0.7 else []))
    return found


def streams(draw: random.Random) -> list[list[Step]]:
    """Short ones by hand, of tiles, and drawn."""
    found: list[list[Step]] = [
        [("load", [], ["A"]), ("execute", ["A"], ["C"]), ("store", ["C"], [])],
        [("load", [], ["A"]), ("load", [], ["B"]), ("execute", ["A", "B"], ["C"])],
        [("load", [], ["A"]), ("execute", ["A"], ["C"]), ("load", [], ["A"])],
        [("load", [], ["A"]), ("execute", ["B"], ["C"]), ("store", ["A"], [])],
    ]
    for tiles, terms, threads, apart in ((2, 2, 1, True), (2, 2, 2, False), (4, 2, 2, True)):
        found.append(of_threads(tiles, terms, threads, apart))
    return [*found, *(scattered(draw, n) for n in (5, 7, 9, 12, 14))]


def _given(steps: Sequence[Step]) -> str:
    return f" (steps are {shown(steps)})"


def _pairs(got: Any, count: int) -> list[Token] | None:
    """Pairs of numbers of instructions, or None for anything else."""
    if not isinstance(got, (list, tuple, set, frozenset)):
        return None
    for one in got:
        if not (isinstance(one, (tuple, list)) and len(one) == 2):
            return None
        if not all(is_integer(n, 0, count - 1) for n in one):
            return None
    return [(int(a), int(b)) for a, b in got]


class TokensTask(Task):
    """The fewest tokens that order a stream."""

    name, text = "tokens", "order the queues by the fewest tokens"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(steps,) for steps in streams(draw)]

    def judge(self, case: Case, got: Any) -> None:
        (steps,) = case
        want = fewest(steps)
        shows = [f"assert sorted(map(tuple, got)) == {want!r}, got"]
        pairs = _pairs(got, len(steps))
        if pairs is None:
            text = "pairs (number that pushes, number that pops) are wanted, not "
            raise LackingError(text + shown(got) + _given(steps), shows)
        for a, b in pairs:
            if a >= b or steps[a][0] == steps[b][0]:
                text = f"({a}, {b}) is no token: it goes from one queue to another, and forwards"
                raise LackingError(text + _given(steps), shows)
        reached = before(steps, pairs)
        for a, b in needs(steps):
            if a not in reached[b]:
                text = f"nothing orders {a} before {b}, and one writes what the other touches"
                raise LackingError(text + _given(steps), shows)
        for number, token in enumerate(pairs):
            rest = [other for place, other in enumerate(pairs) if place != number]
            if token not in want or token in rest:
                why = "the others imply it" if token in needs(steps) else "these do not meet"
                raise LackingError(f"{token} is not needed: {why}" + _given(steps), shows)


class MissingTask(Task):
    """The pair that nothing orders."""

    name, text = "missing", "find two instructions that nothing orders"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for steps in streams(draw):
            tokens = fewest(steps)
            found.append((steps, tokens))
            if tokens:
                gone = draw.choice(tokens)
                found.append((steps, [token for token in tokens if token != gone]))
        return found

    def judge(self, case: Case, got: Any) -> None:
        steps, tokens = case
        reached = before(steps, tokens)
        open_ones = [(a, b) for a, b in needs(steps) if a not in reached[b]]
        given = f"{_given(steps)[:-1]}; tokens {shown(tokens)})"
        if not open_ones:
            if got is not None:
                text = f"all is in order, and None is wanted, not {shown(got)}"
                raise LackingError(text + given, ["assert got is None, got"])
            return
        shows = [f"assert tuple(got) in {open_ones!r}, got"]
        pairs = _pairs([got], len(steps))
        if pairs is None or pairs[0] not in open_ones:
            a, b = open_ones[0]
            text = f"nothing orders {a} before {b}; the answer is {shown(got)}"
            raise LackingError(text + given, shows)


class CyclesTask(FunctionTask):
    """The time of a stream."""

    name, text = "cycles", "say when the last instruction ends"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for steps in streams(draw):
            lengths = [draw.choice((1, 2, 3, 5, 8)) for _ in steps]
            found.append((steps, fewest(steps), lengths))
        return found

    def expected(self, *case: Any) -> int:
        return duration(*case)


# ---- a tile


@functools.cache
def product_of(m: int, n: int, k: int) -> mt.Program:
    """The product of int8 that tiles are chosen for."""
    return mt.accelerator.matmul(m, n, k)


def cycles_of(m: int, n: int, k: int, bandwidth: float, answer: Any) -> int:
    """The simulated cycles of a product in tiles (rows, columns, terms, virtual threads).

    Raises ValueError for an answer that is no tile, with the reason.
    """
    if not isinstance(answer, (tuple, list)) or len(answer) != 4:
        raise ValueError("four whole numbers are wanted: rows, columns, terms, virtual threads")
    if not all(is_integer(number, 1) for number in answer):
        raise ValueError("four whole numbers from 1 are wanted")
    rows, columns, terms, threads = (int(number) for number in answer)
    if columns % 16 or terms % 16:
        raise ValueError("columns and terms are multiples of 16, the array's")
    machine = mt.accelerator.Machine(dram_bytes_per_cycle=bandwidth)
    tiles = {"i": rows, "j": columns // 16, "k": terms // 16}
    try:
        s = accelerator_schedule(product_of(m, n, k), machine, Plan(tiles, "i", threads))
        return mt.build(s, machine).timing.cycles
    except MinitensorError as error:
        raise ValueError(error.message) from None


BEST: Final = {
    (256, 64, 256, 8): (128, 64, 32, 2),
    (784, 64, 576, 4): (196, 64, 64, 2),
    (784, 64, 576, 16): (196, 64, 64, 2),
    (98, 512, 512, 8): (49, 256, 32, 2),
    (512, 32, 1024, 2): (256, 32, 64, 2),
}
"""The best tiles that are known."""


class TileTask(Task):
    """A tile that hides latency."""

    name, text = "tile", "choose the tile and the number of virtual threads"
    points = 3
    seconds = 60.0

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return list(BEST)

    def judge(self, case: Case, got: Any) -> None:
        m, n, k, bandwidth = case
        best = cycles_of(m, n, k, bandwidth, BEST[m, n, k, bandwidth])
        shows = [f"assert cycles_of(m, n, k, bandwidth, got) <= {int(best * BEHIND)}"]
        given = f" (m, n, k = {case[:3]}, {case[3]} bytes a cycle)"
        try:
            found = cycles_of(m, n, k, bandwidth, got)
        except ValueError as error:
            raise LackingError(f"{shown(got)} is no tile: {error}{given}", shows) from None
        if found > best * BEHIND:
            text = f"{shown(got)} takes {found:,} cycles; at most {int(best * BEHIND):,} are wanted"
            raise LackingError(text + given, shows)

    def script(self, case: Case) -> list[str]:
        return [
            "from minitensor_course.judges.lesson_26 import cycles_of",
            f"m, n, k, bandwidth = {case!r}",
            "got = answer(m, n, k, bandwidth)",
        ]


TASKS: Sequence[Task] = (TokensTask(), MissingTask(), CyclesTask(), TileTask())
