"""Judges of lesson 10, caches, packing and layouts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from minitensor import ir
from minitensor.pictures import footprints
from minitensor.schedule import Schedule

from ..course.layouts import reads
from ..course.place import import_line
from ..course.requirements import accesses
from ..course.tasks import Case, FunctionTask, Requirement, ScheduleTask, Task
from .programs import product


class Misses(FunctionTask):
    """A cache, judged by reuse distances."""

    name, text, points = "misses", "write a cache that gives up the least recently used line", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        row = draw.choice((64, 96, 256))
        column = [i * row + 4 * j for j in range(6) for i in range(12)]
        around = [32 * i for _ in range(4) for i in range(9)]
        found: list[Case] = [([], 64, 4), (column, 64, 11), (column, 64, 12)]
        found += [(around, 32, 8), (around, 32, 9)]
        for lines in (1, 2, draw.randint(3, 6), draw.randint(7, 12)):
            line = draw.choice((16, 32, 48, 64))
            addresses = [draw.randint(0, 16 * line) for _ in range(draw.randint(60, 120))]
            found.append((addresses, line, lines))
        return found

    def expected(self, *case: Any) -> int:
        """The accesses to a line that was never touched, or since which so many others were."""
        addresses, line, lines = case
        touched = [address // line for address in addresses]
        found = 0
        for at, one in enumerate(touched):
            before = [n for n in range(at) if touched[n] == one]
            found += not before or len(set(touched[before[-1] + 1 : at])) >= lines
        return found


class BestTile(FunctionTask):
    """The largest tile whose footprint fits."""

    name, text = "best_tile", "choose the tile that fits a cache"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [(13, 3 * 13 * 13 * 4 - 1, 4), (1, 64, 8)]
        for n, itemsize in zip(draw.sample((12, 24, 30, 36, 48, 60), 4), (4, 8, 2, 1)):
            tile = draw.choice([t for t in range(2, n) if n % t == 0])
            need = 3 * tile * tile * itemsize
            found += [(n, need, itemsize), (n, need + draw.randint(-3, -1), itemsize)]
        return found

    def expected(self, *case: Any) -> int:
        n, cache_bytes, itemsize = map(int, case)
        tiles = (tile for tile in range(n, 0, -1) if n % tile == 0)
        return next(tile for tile in tiles if _touched(n, tile, itemsize) <= cache_bytes)


@cache
def _touched(n: int, tile: int, itemsize: int) -> int:
    """The bytes that one iteration of k_0 touches in tiles of a size."""
    dtype = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}[itemsize]
    s = Schedule(product(n, n, n, dtype))
    loops = [s.split(loop, [None, tile]) for loop in s.get_loops("C")]
    s.reorder(*(outer for outer, _ in loops), *(inner for _, inner in loops))
    found: int = footprints(s.program, "C")[3].total
    return found


class Pack(ScheduleTask):
    """B in panels, which are read in order."""

    name, text, points = "pack", "pack a matrix into panels that are read in order", 2
    most_steps = 20_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for dtype, whole in (("float32", True), ("int32", True), ("float64", False)):
            width = draw.randint(2, 4)
            n = width * draw.randint(2, 4) + (0 if whole else draw.randint(1, width - 1))
            found.append((product(draw.randint(2, 5), n, draw.randint(3, 7), dtype), width))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (width,) = arguments
        rows, columns = program.buffers["B"].shape
        return [
            accesses("loads", "B", rows * columns),
            in_panels(rows, width),
            in_order(),
        ]


_READS = (
    import_line(reads),
    "found = reads(s.program, 'C', 'B')  # (place in the buffer, iters of C, loops) of each read",
)


def in_panels(rows: int, width: int) -> Requirement:
    """Elements of B that lie in panels of so many columns, row after row."""

    def look(s: Schedule) -> str | None:
        if "C" not in s.program.blocks or len(s.program.blocks["C"].iters) != 3:
            return "there is no block C with the axes i, j and k"
        found = reads(s.program, "C", "B")
        if not found:
            return "C reads no copy of B"
        _, jj, kk = (i.var for i in s.program.blocks["C"].iters)
        for place, values, _ in found:
            k, j = values[kk], values[jj]
            if place != (j // width * rows + k) * width + j % width:
                return f"B[{k}, {j}] is read at {place}"
        return None

    lines = (
        *_READS,
        "_, jj, kk = (i.var for i in s.program.blocks['C'].iters)",
        "for place, values, _ in found:",
        "    k, j = values[kk], values[jj]",
        f"    want = (j // {width} * {rows} + k) * {width} + j % {width}",
        "    assert place == want, f'B[{k}, {j}] is read at {place}, not at {want}'",
        "assert found",
    )
    text = f"B[k, j] lies at (j // {width} * {rows} + k) * {width} + j % {width} where C reads it"
    return Requirement(text, look, lines)


def in_order() -> Requirement:
    """Places that are read for the first time one after the other."""

    def look(s: Schedule) -> str | None:
        first = list(dict.fromkeys(place for place, *_ in reads(s.program, "C", "B")))
        for one, following in itertools.pairwise(first):
            if following < one:
                return f"place {following} is first read after place {one}"
        return None

    lines = (
        *_READS,
        "first = list(dict.fromkeys(place for place, *_ in found))",
        "assert first == sorted(first), first",
    )
    text = "the nest of C reads the panels from the first address to the last"
    return Requirement(text, look, lines)


TASKS: Sequence[Task] = (Misses(), BestTile(), Pack())
