"""Judges of lesson 12, a fast matrix product."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from minitensor import ir, lang

from ..course.requirements import innermost_strides, loads_in_code, loop_kind, no_remark
from ..course.tasks import (
    Case,
    FunctionTask,
    LackingError,
    Requirement,
    ScheduleTask,
    Task,
)

_AXES = {"A": "ik", "B": "kj", "C": "ij"}


def product(sizes: dict[str, int], turned: str = "", dtype: str = "float32") -> ir.Program:
    """C = A B; the matrices in `turned` are stored transposed."""
    axes = {name: of[::-1] if name in turned else of for name, of in _AXES.items()}
    A, B = (lang.placeholder([sizes[x] for x in axes[n]], dtype, name=n) for n in ("A", "B"))
    k = lang.reduce_axis(sizes["k"], name="k")

    def element(first: Any, second: Any) -> Any:
        at = {**dict(zip(axes["C"], (first, second))), "k": k}
        left, right = (t[tuple(at[x] for x in axes[n])] for n, t in (("A", A), ("B", B)))
        return lang.sum_(left * right, axis=k)

    def upright(i: Any, j: Any) -> Any:
        return element(i, j)

    def transposed(j: Any, i: Any) -> Any:
        return element(j, i)

    named = upright if axes["C"] == "ij" else transposed
    shape = tuple(sizes[x] for x in axes["C"])
    return lang.lower([A, B, lang.compute(shape, named, name="C")], name="product")


def strides(sizes: dict[str, int], turned: str) -> dict[str, dict[str, int]]:
    """Of each loop: the stride of each matrix."""
    found: dict[str, dict[str, int]] = {x: {} for x in "ijk"}
    for name, of in _AXES.items():
        slow, fast = reversed(of) if name in turned else list(of)
        for x in "ijk":
            found[x][name] = {slow: sizes[fast], fast: 1}.get(x, 0)
    return found


class Order(ScheduleTask):
    """The loop whose accesses are near each other."""

    name, text = "order", "choose the innermost loop by its strides"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        # these are all the ways to store the matrices that have such a loop: j, k, i
        found: list[Case] = []
        for ways in draw.sample([("", "A"), ("B", "BC"), ("AC", "ABC")], 3):
            turned = draw.choice(ways)
            sizes = dict(zip("ijk", draw.sample(range(3, 9), 3)))
            found.append((product(sizes, turned), strides(sizes, turned)))
        return found

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        return [innermost_strides("C", 1)]


class Registers(FunctionTask):
    """Vector registers of a tile."""

    name, text = "registers", "count the registers of a tile"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        lanes = draw.choice((4, 8, 16))
        whole = (draw.randint(2, 9), lanes * draw.randint(1, 4), lanes)
        partly = (draw.randint(2, 9), lanes * draw.randint(1, 3) + draw.randint(1, 3), lanes)
        return [whole, partly, (1, 1, 8), (draw.randint(2, 9), draw.randint(2, 7), 8)]

    def expected(self, rows: int, columns: int, lanes: int) -> int:
        row = -(-columns // lanes)
        return rows * row + row + 1


class BestRegisterTile(Task):
    """The tile that reuses most, among all that fit."""

    name, text = "best_register_tile", "find the tile with the fewest loads"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        drawn = draw.sample([n for n in range(4, 65) if n not in (16, 32)], 6)
        return [(n, draw.choice((4, 8, 16))) for n in (16, 32, 3, *drawn)]

    def judge(self, case: Case, got: Any) -> None:
        registers, lanes = case
        call = f"{self.name}({registers}, {lanes})"
        if not (isinstance(got, (tuple, list)) and len(got) == 2 and all(map(_is_size, got))):
            lines = [
                "assert len(got) == 2, got",
                "whole = [isinstance(n, (int, np.integer)) and 1 <= n <= 1 << 20 for n in got]",
                "assert all(whole), got",
            ]
            raise LackingError(f"{call} has to give two whole numbers of 1 or more", lines)
        rows, columns = map(int, got)
        if columns % lanes:
            lines = [f"assert got[1] % {lanes} == 0, got"]
            raise LackingError(f"{call} gives {columns} columns, no multiple of {lanes}", lines)
        row = columns // lanes
        taken = rows * row + row + 1
        lines = ["rows, columns = got", f"v = columns // {lanes}"]
        if taken > registers:
            lines += [f"assert rows * v + v + 1 <= {registers}, got"]
            text = f"{call} gives {rows} x {columns}, which takes {taken} registers"
            raise LackingError(text, lines)
        cost, least = _loads(rows, row), min(_loads(r, v) for r, v in _tiles(registers))
        if cost > least:
            lines += [
                f"assert (rows + v) / (rows * v) <= {least.numerator} / {least.denominator}, got"
            ]
            text = f"{call} gives {rows} x {columns}, with {cost} loads a multiply-add; a tile that"
            raise LackingError(f"{text} fits has {least}", lines)


def _is_size(value: Any) -> TypeGuard[int]:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and 1 <= value <= 1 << 20


def _loads(rows: int, row: int) -> Fraction:
    return Fraction(rows + row, rows * row)


def _tiles(registers: int) -> list[tuple[int, int]]:
    """Rows, and vectors in a row, of all tiles that fit."""
    some = range(1, registers)
    return [(r, v) for r in some for v in some if r * v + v + 1 <= registers]


class RegisterTile(ScheduleTask):
    """A tile that stays in vector registers."""

    name, text = "register_tile", "hold a tile in vector registers"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for rows, columns in draw.sample([(2, 32), (3, 24), (4, 16), (6, 16), (5, 8)], 3):
            m = draw.choice((7, 11)) if found else rows  # a prime number of rows leaves a tail
            n = columns + draw.choice((8, 16)) if found else 2 * columns
            sizes = {"i": m, "j": n, "k": draw.randint(3, 6)}
            found.append((product(sizes), rows, columns))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        rows, columns = arguments
        (m, n), (_, k) = program.outputs[0].shape, program.inputs[0].shape
        most = k * (m * -(-n // columns) + n * -(-m // rows))
        reasons = [no_remark(kind) for kind in ("promotion", "registers", "vector")]
        return [*reasons, loop_kind("C", "vectorize"), loads_in_code(most)]


TASKS: Sequence[Task] = (Order(), Registers(), BestRegisterTile(), RegisterTile())
