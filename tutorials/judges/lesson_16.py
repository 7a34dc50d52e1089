"""Judges of lesson 16, GPU mapping: what a kernel asks of memory, as its cost counts it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

from minitensor import gpu, ir, lang
from minitensor.api import gpu_cost
from minitensor.errors import MinitensorError
from minitensor.schedule import Schedule

from ..course.tasks import Case, LackingError, Requirement, ScheduleTask, Task

Steps: TypeAlias = "list[tuple[list[list[int]], list[list[int]]]]"
"""Of each step, and of each thread: the elements that are read, and those that are written."""
_LANES: Final = 32


# ---- what a kernel asks of memory


def accesses_of(
    s: Schedule, space: str, names: Iterable[str] = (), writes: bool | None = None
) -> list[gpu.Traffic]:
    """The accesses of a schedule to a kind of memory; of some arrays only, of one direction only.

    Raises what `gpu_cost` raises for a program that no GPU runs.
    """
    wanted = set(names)
    return [
        one
        for kernel in gpu_cost(s).kernels
        for one in kernel.accesses
        if one.space == space
        and (not wanted or one.buffer in wanted)
        and (writes is None or one.site.writes is writes)
    ]


def _counted(what: str, look: Callable[[Schedule], str | None], *lines: str) -> Requirement:
    """A requirement on the cost; a program that no GPU runs lacks it."""

    def looked(s: Schedule) -> str | None:
        try:
            return look(s)
        except MinitensorError as refused:
            return f"no GPU runs it: {refused.message}"

    imported = f"from {__name__} import accesses_of"
    return Requirement(what, looked, (imported, *lines))


def moves(word: Literal["loads", "stores"], names: tuple[str, ...], most: int) -> Requirement:
    """So many sectors of device memory that the loads or stores of arrays move, in all."""
    writes = word == "stores"

    def look(s: Schedule) -> str | None:
        found = accesses_of(s, "global", names, writes)
        total = sum(one.sectors for one in found)
        if not found:
            return "there are none"
        return None if total <= most else f"they move {total:,.0f}"

    return _counted(
        f"the {word} of {' and '.join(names)} move at most {most:,} sectors",
        look,
        f"found = accesses_of(s, 'global', {names!r}, writes={writes})",
        "total = sum(one.sectors for one in found)",
        f"assert found and total <= {most}, total",
    )


def no_conflict() -> Requirement:
    """No bank conflict: each access to shared memory takes as few turns as it could."""

    def look(s: Schedule) -> str | None:
        for one in accesses_of(s, "shared"):
            if one.ways > 1:
                word = "a store to" if one.site.writes else "a load of"
                return f"{word} {ir.print_name(one.buffer)} takes {one.ways:.3g} times as many"
        return None

    return _counted(
        "no access to shared memory takes more turns of the banks than it must",
        look,
        "ways = {one.buffer: one.ways for one in accesses_of(s, 'shared') if one.ways > 1}",
        "assert not ways, ways",
    )


def few_turns(most: int) -> Requirement:
    """So many turns of the banks that the loads of shared memory take, in all."""

    def look(s: Schedule) -> str | None:
        found = accesses_of(s, "shared", writes=False)
        total = sum(one.cycles for one in found)
        if not found:
            return "there are none"
        return None if total <= most else f"they take {total:,.0f}"

    return _counted(
        f"the loads of shared memory take at most {most:,} turns of the banks",
        look,
        "found = accesses_of(s, 'shared', writes=False)",
        "total = sum(one.cycles for one in found)",
        f"assert found and total <= {most}, total",
    )


def wide_blocks(least: int) -> Requirement:
    """So many threads in each block."""

    def look(s: Schedule) -> str | None:
        for kernel in gpu_cost(s).kernels:
            if kernel.kernel.threads < least:
                return f"one has {kernel.kernel.threads}"
        return None

    return _counted(
        f"blocks have at least {least} threads",
        look,
        "found = [one.kernel.threads for one in mt.gpu_cost(s).kernels]",
        f"assert min(found) >= {least}, found",
    )


# ---- transposed


class Transposed(ScheduleTask):
    """A transposition through shared memory."""

    name, text = "transposed", "transpose through shared memory"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = [(64, 96), (draw.randint(33, 60), draw.randint(65, 90)), (draw.randint(70, 99), 40)]
        dtypes = ["float32", draw.choice(["float64", "int32"]), "int16"]
        return [(transposition(*size, dtype),) for size, dtype in zip(sizes, dtypes)]

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        rows, columns = program.inputs[0].shape
        size = program.inputs[0].dtype.bits // 8
        loads, stores = _in_rows(rows, columns, size), _in_rows(columns, rows, size)
        few = [moves("loads", ("A",), loads), moves("stores", ("B",), stores)]
        return [wide_blocks(_LANES), *few, no_conflict()]


def transposition(rows: int, columns: int, dtype: str) -> ir.Program:
    """B, the transposed A."""
    A = lang.placeholder((rows, columns), dtype, name="A")
    B = lang.compute((columns, rows), lambda i, j: A[j, i], name="B")
    return lang.lower([A, B], name="transposed")


def _in_rows(rows: int, columns: int, size: int) -> int:
    """The most sectors of all rows, if requests are for 32 neighbours, and begin anywhere."""
    return rows * -(-columns // _LANES) * (size + 1)


# ---- barriers


class Barriers(Task):
    """The fewest barriers of a loop."""

    name, text = "barriers", "place the fewest barriers in a loop"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        fill: Any = ([[], []], [[0], [1]])
        use: Any = ([[0, 1], [0, 1]], [[], []])
        own: Any = ([[0], [1]], [[0], [1]])
        known: list[Case] = [([fill, use],), ([own, own],), ([use, fill, own, use],), ([fill],)]
        drawn = [(steps(draw, draw.randint(3, 6)),) for _ in range(8)]
        return [*known, *drawn]

    def judge(self, case: Case, got: Any) -> None:
        (given,) = case
        places = _places(got, len(given))
        if places is None:
            lines = [
                "assert isinstance(got, (list, tuple, set)), got",
                f"assert all(type(n) is int and 0 <= n < {len(given)} for n in got), got",
                "assert len(set(got)) == len(got), got",
            ]
            raise LackingError(
                f"barriers has to give different places from 0 to {len(given) - 1}", lines
            )
        imported = f"from {__name__} import race"
        found = race(given, places)
        if found is not None:
            lines = [imported, f"assert race({given!r}, set(got)) is None, got"]
            raise LackingError(f"with barriers at {sorted(places)} {found}", lines)
        fewest = next(
            n
            for n in range(len(given) + 1)
            if any(
                race(given, set(few)) is None
                for few in itertools.combinations(range(len(given)), n)
            )
        )
        if len(places) > fewest:
            text = f"barriers gives {len(places)} places for {len(given)} steps; {fewest} will do"
            raise LackingError(text, (f"assert len(got) <= {fewest}, got",))


def _places(got: Any, count: int) -> set[int] | None:
    """The places of an answer; None if they are none."""
    if not isinstance(got, (list, tuple, set, frozenset)):
        return None
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < count for n in got)
    return set(got) if whole and len(set(got)) == len(got) else None


def steps(draw: random.Random, count: int) -> Steps:
    """Steps of which none races with itself: threads write each their own elements, and read what
    no other one writes.
    """
    threads, elements = draw.randint(2, 3), 2 * count
    found: Steps = []
    for _ in range(count):
        free = draw.sample(range(elements), elements)
        writes = [[free.pop()] if draw.random() < 0.5 else [] for _ in range(threads)]
        reads = [
            draw.sample([*free, *own], draw.choice((0, 0, 1, 2))) if draw.random() < 0.7 else []
            for own in writes
        ]
        found.append((reads, writes))
    return found


def race(given: Steps, places: set[int]) -> str | None:
    """A race of a loop with barriers at some places, in words; None if there is none.

    Two iterations show all of them: what follows the last barrier meets what is before the first.
    """
    touched: dict[int, list[tuple[int, int, bool]]] = {}
    for number in range(2 * len(given)):
        at = number % len(given)
        if at in places:
            touched.clear()
        for writes, by_thread in enumerate(given[at]):
            for thread, elements in enumerate(by_thread):
                for element in elements:
                    for other, where, wrote in touched.get(element, ()):
                        if other != thread and (wrote or writes):
                            which = "next" if number >= len(given) else "same"
                            return (
                                f"thread {other} in step {where} and thread {thread} in step {at} "
                                f"of the {which} iteration race for element {element}"
                            )
                    touched.setdefault(element, []).append((thread, at, bool(writes)))
    return None


# ---- rows


class RowReduction(ScheduleTask):
    """A reduction across threads."""

    name, text = "row_reduction", "combine the parts of threads"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        lengths = [128, draw.randint(65, 95), draw.randint(100, 250)]
        kinds = draw.sample(["sum", "max", "min"], 3)
        return [(rows(draw.randint(2, 6), n, kind),) for n, kind in zip(lengths, kinds)]

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        count, length = program.inputs[0].shape
        few = moves("loads", ("A",), _in_rows(count, length, 4))
        return [combined(_LANES), few]


def rows(count: int, length: int, kind: str) -> ir.Program:
    """A reduction of each row."""
    A = lang.placeholder((count, length), "float32", name="A")
    k = lang.reduce_axis(length, name="k")

    def element(i: Any) -> Any:
        return {"sum": lang.sum_, "max": lang.max_, "min": lang.min_}[kind](A[i, k], axis=k)

    return lang.lower([A, lang.compute((count,), element, name="S")], name="row_reduction")


def combined(least: int) -> Requirement:
    """A reduction across so many threads."""

    def look(s: Schedule) -> str | None:
        found = combining(s)
        if not found:
            return "threads combine nothing"
        return None if min(found) >= least else f"{min(found)} do"

    return _counted(
        f"at least {least} threads combine what they have of a row",
        look,
        f"from {__name__} import combining",
        "found = combining(s)",
        f"assert found and min(found) >= {least}, found",
    )


def combining(s: Schedule) -> list[int]:
    """The threads along x that combine, of each reduction across threads."""
    return [
        kernel.kernel.parts.block[0]
        for kernel in gpu_cost(s).kernels
        for stmt in ir.stmts_of(kernel.kernel.parts.body)
        if isinstance(stmt, ir.ThreadReduce)
    ]


# ---- tiled


class Tiled(ScheduleTask):
    """A product in tiles, of blocks and of threads."""

    name, text, points = "tiled", "tile a product for a GPU", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        whole = (64, 64, 8 * draw.randint(1, 2))
        ragged = (draw.randint(33, 50), 8 * draw.randint(5, 6), 8 * draw.randint(1, 2))
        return [_product(*sizes) for sizes in (whole, ragged)]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        most_sectors, most_turns = arguments
        return [moves("loads", ("A", "B"), most_sectors), few_turns(most_turns)]


def _product(m: int, n: int, k: int) -> Case:
    """A product, and what its tiles take."""
    program = lang.lower(list(lang.workloads.matmul(m, n, k)), name="product")
    down, across = -(-m // 32), -(-n // 32)
    sectors = (across * m * k + down * k * n) // 8
    return program, sectors, down * across * 36 * k  # an eighth to spare


TASKS: Sequence[Task] = (Transposed(), Barriers(), RowReduction(), Tiled())
