"""Judges of lesson 6: split, reorder and fuse."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from minitensor import ir, lang

from ..course.requirements import guards, order
from ..course.tasks import Case, FunctionTask, Requirement, ScheduleTask, Task


class Digits(FunctionTask):
    """A number in mixed radix."""

    name, text = "digits", "unfuse: the loops' values in an iteration of the fused loop"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = []
        for count in (1, 2, 3, 3, 5):
            sizes = [draw.randint(2, 12) for _ in range(count)]
            if count == 3:
                sizes[draw.randrange(3)] = 1
            found.append((draw.randrange(math.prod(sizes)), sizes))
        large = [draw.randint(1000, 5000) for _ in range(4)]
        return [*found, (0, [4, 2]), (math.prod(large) - draw.randint(1, 1000), large)]

    def expected(self, *case: Any) -> Any:
        number, sizes = case
        return [int(digit) for digit in np.unravel_index(number, sizes)]


class Visits(FunctionTask):
    """The order that split and reorder give."""

    name, text = "visits", "the order of indices after split and reorder"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for count, whole in ((2, True), (2, False), (3, True), (3, False), (4, False)):
            factors: list[int | None] = [draw.randint(2, 4) for _ in range(count)]
            product = math.prod(f for f in factors if f)
            n = product if whole else product - draw.randint(1, product // 2)
            if draw.random() < 0.5 or not found:
                factors[draw.randrange(count)] = None
            turned_by = draw.randrange(1, count)
            places = [(place + turned_by) % count for place in range(count)]
            found.append((n, factors, places))
        return [*found, (1, [None, 4], [1, 0]), (7, [None], [0])]

    def expected(self, *case: Any) -> Any:
        n, given, places = case
        inner = math.prod(f for f in given if f is not None)
        factors = [math.ceil(n / inner) if f is None else f for f in given]
        numbers = np.arange(math.prod(factors)).reshape(factors).transpose(places).ravel()
        return [int(number) for number in numbers if number < n]


def turned(rows: int, columns: int, dtype: str, plain: bool) -> ir.Program:
    """A transposed copy, each element doubled; its loops are called in one of two ways."""
    A = lang.placeholder((columns, rows), dtype, name="A")
    if plain:
        C = lang.compute((rows, columns), lambda i, j: A[j, i] * 2, name="C")
    else:
        C = lang.compute((rows, columns), lambda row, col: A[col, row] * 2, name="C")
    return lang.lower([A, C], name="turned")


class Tile(ScheduleTask):
    """Tiles row by row, and column by column inside."""

    name, text = "tile", "tiles of a matrix in a wanted order"
    most_steps: ClassVar[int] = 20_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        high, wide = draw.randint(2, 4), draw.randint(2, 4)
        prime, other = draw.sample((5, 7, 11, 13), 2)
        return [
            (turned(3 * high, 2 * wide, "float32", True), high, wide),
            (turned(prime, other, "int64", False), high, wide),
            (turned(2 * high, prime, "float64", True), high, wide),
            (turned(1, other, "float32", False), 2, 3),
        ]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        high, wide = arguments
        rows, columns = program.outputs[0].shape
        want = [
            (i, j)
            for top in range(0, rows, high)
            for left in range(0, columns, wide)
            for j in range(left, min(left + wide, columns))
            for i in range(top, min(top + high, rows))
        ]
        text = f"the elements of C come in tiles of {high} x {wide}, column by column inside"
        lines = (
            f"tops, lefts = range(0, {rows}, {high}), range(0, {columns}, {wide})",
            "want = [(i, j) for top in tops for left in lefts",
            f"        for j in range(left, min(left + {wide}, {columns}))",
            f"        for i in range(top, min(top + {high}, {rows}))]",
        )
        partial = (rows % high != 0) + (columns % wide != 0)
        return [order("C", want, text, lines), guards(partial)]


class Strips(ScheduleTask):
    """Strips of columns, and no guard."""

    name, text = "strips", "strips of columns without a guard"
    most_steps: ClassVar[int] = 20_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        wide = draw.randint(3, 5)
        rest = draw.randint(2, wide - 1)
        return [
            (turned(draw.randint(2, 7), 3 * wide, "float32", True), wide),
            (turned(draw.randint(2, 7), 2 * wide + rest, "int64", False), wide),
            (turned(draw.choice((5, 7)), 13, "float64", True), draw.choice((3, 4, 6))),
            (turned(3, wide, "float32", False), wide),
        ]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (wide,) = arguments
        rows, columns = program.outputs[0].shape
        want = [
            (i, j)
            for left in range(0, columns, wide)
            for i in range(rows)
            for j in range(left, min(left + wide, columns))
        ]
        text = f"the elements of C come in strips of {wide} columns, row by row inside"
        lines = (
            f"want = [(i, j) for left in range(0, {columns}, {wide}) for i in range({rows})",
            f"        for j in range(left, min(left + {wide}, {columns}))]",
        )
        return [order("C", want, text, lines), guards(0)]


TASKS: Sequence[Task] = (Digits(), Visits(), Tile(), Strips())
