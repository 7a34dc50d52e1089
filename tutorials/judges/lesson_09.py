"""Judges of lesson 9, where to compute."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from minitensor import ir, lang
from minitensor.schedule import Schedule

from ..course.requirements import accesses, held, held_by
from ..course.tasks import (
    Case,
    FunctionTask,
    Requirement,
    ScheduleTask,
    Task,
    small_arrays,
)


def windows(n: int, m: int, radius: int, dtype: str) -> ir.Program:
    """Sums of square windows of the squares of an array."""
    wide = 2 * radius + 1
    shape = (n + 2 * radius, m + 2 * radius)
    A = lang.placeholder(shape, dtype, name="A")
    P = lang.compute(shape, lambda y, x: A[y, x] * A[y, x], name="P")
    dy, dx = lang.reduce_axis(wide, name="dy"), lang.reduce_axis(wide, name="dx")
    Q = lang.compute((n, m), lambda i, j: lang.sum_(P[i + dy, j + dx], axis=[dy, dx]), name="Q")
    return lang.lower([A, Q], name="windows")


def in_tiles(s: Schedule, tile: int) -> Schedule:
    """The schedule with P computed for one square tile of Q at a time."""
    i, j, *_ = s.get_loops("Q")
    i_0, i_1 = s.split(i, [None, tile])
    j_0, j_1 = s.split(j, [None, tile])
    s.reorder(i_0, j_0, i_1, j_1)
    s.compute_at("P", j_0)
    return s


@cache
def loads_of(program: ir.Program) -> int:
    """The loads of A in one run."""
    _, counts = ir.interpret(program, small_arrays(program))
    return counts.loads["A"]


class HaloStores(FunctionTask):
    """The work of tiles, counted in small sizes by the interpreter, and in large ones by tiles."""

    name, text = "halo_stores", "count what tiles and their halos compute"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        small = [
            (draw.randint(1, 9), draw.randint(1, 9), draw.randint(1, 5), draw.randint(0, 2))
            for _ in range(5)
        ]
        tile = draw.randint(3, 9)
        even = (tile * draw.randint(2, 9), tile * draw.randint(2, 9), tile, 1)
        n, m = draw.randint(10_000, 90_000), draw.randint(10_000, 90_000)
        return [even, *small, (3, 5, 8, 1), (n, m, draw.randint(20, 90), draw.randint(3, 9))]

    def expected(self, *case: Any) -> int:
        n, m, tile, radius = map(int, case)
        if max(n, m) < 10:
            s = Schedule(windows(n, m, radius, "int32"))
            return loads_of(in_tiles(s, tile).program) // 2
        along = [
            sum(min(tile, extent - start) + 2 * radius for start in range(0, extent, tile))
            for extent in (n, m)
        ]
        return along[0] * along[1]


class Within(ScheduleTask):
    """A bound on work, and one on memory, that a tile keeps."""

    name, text, points = "within", "keep a bound on work and one on memory", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        types = ["float32", "float64", "int8"]
        draw.shuffle(types)
        for dtype, radius, tile in zip(types, (1, 2, 1), draw.sample(range(2, 6), 3)):
            n, m = draw.randint(2 * tile, 10), draw.randint(2 * tile, 10)
            program = windows(n, m, radius, dtype)
            s = in_tiles(Schedule(program), tile)
            found.append((program, loads_of(s.program), held_by(s.program)))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        loads, size = arguments
        return [accesses("loads", "A", loads), held(size)]


def neighbours(shape: tuple[int, ...], dtype: str) -> ir.Program:
    """Sums of an element of P and its next one along each axis."""
    whole = tuple(n + 1 for n in shape)
    A = lang.placeholder(whole, dtype, name="A")
    P = lang.compute(whole, lambda *y: A[y] + 1, name="P")

    def total(*i: Any) -> Any:
        value = P[i]
        for axis in range(len(shape)):
            value = value + P[tuple(x + 1 if n == axis else x for n, x in enumerate(i))]
        return value

    return lang.lower([A, lang.compute(shape, total, name="Q")], name="neighbours")


def places(program: ir.Program) -> list[tuple[int, int]]:
    """The bytes and the loads of A for each place of P: where it is, and at each loop of Q."""
    found = [(held_by(program), loads_of(program))]
    for loop in Schedule(program).get_loops("Q"):
        s = Schedule(program)
        s.compute_at("P", loop)
        found.append((held_by(s.program), loads_of(s.program)))
    return found


class Fitting(ScheduleTask):
    """The place that fits."""

    name, text = "fitting", "choose the place that fits a cache"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        types = ["float32", "float64", "int8", "float32", "float64"]
        for dtype, axes, depth in zip(types, (1, 2, 2, 3, 3), (1, 0, 1, 1, 2)):
            program = neighbours(tuple(draw.randint(3, 6) for _ in range(axes)), dtype)
            every = places(program)
            least = every[depth][0]
            most = every[depth - 1][0] - 1 if depth else least + 99
            found.append((program, least if axes + depth == 5 else most))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (size,) = arguments
        return [held(size), accesses("loads", "A", fewest(program, size))]


@cache
def fewest(program: ir.Program, size: int) -> int:
    """The fewest loads of A at a place that takes at most so many bytes."""
    return min(loads for held, loads in places(program) if held <= size)


TASKS: Sequence[Task] = (HaloStores(), Within(), Fitting())
