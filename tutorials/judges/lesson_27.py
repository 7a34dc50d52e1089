"""Judges of lesson 27: a layout, the loops of an instruction, signs, and products of any size."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor import ir, lang
from minitensor.errors import is_integer, shown

from ..course.tasks import Case, FunctionTask, LackingError, Requirement, ScheduleTask, Task
from .lesson_15 import done_by

Operands: TypeAlias = Mapping[str, Sequence[str]]
"""The loops that index each operand: two factors, and then the result."""


class Grouped(FunctionTask):
    """The layout of an operand."""

    name, text = "grouped", "lay a matrix out as an instruction reads it"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for rows, columns, lanes, group in (
            (8, 8, 4, 4), (4, 4, 4, 4), (7, 6, 4, 2), (1, 9, 8, 4),
            (draw.randint(2, 9), draw.randint(2, 9), 3, draw.randint(1, 5)),
        ):  # fmt: skip
            b = [[draw.randint(-128, 127) for _ in range(columns)] for _ in range(rows)]
            found.append((b, lanes, group))
        return found

    def expected(self, *case: Any) -> Any:
        b, lanes, group = case
        matrix = np.array(b)
        rows, columns = matrix.shape
        matrix = np.pad(matrix, ((0, -rows % group), (0, -columns % lanes)))
        blocks = matrix.reshape(-1, group, matrix.shape[1] // lanes, lanes)
        return blocks.transpose(2, 0, 3, 1).tolist()


# ---- the loops of an instruction


DOT: Final[Operands] = {"a": ("k",), "b": ("j", "k"), "c": ("j",)}
OUTER: Final[Operands] = {"p": ("i",), "q": ("j",), "r": ("i", "j")}
TILE: Final[Operands] = {"a": ("i", "l"), "b": ("l", "j"), "c": ("i", "j")}
PRODUCTS: Final[Sequence[Operands]] = (
    {"A": ("i", "k"), "B": ("k", "j"), "C": ("i", "j")},
    {"B": ("col", "red"), "A": ("red",), "C": ("col",)},
    {"x": ("n", "rc", "y", "ry"), "w": ("f", "rc", "ry"), "out": ("n", "f", "y")},
    {"A": ("b", "i", "k"), "B": ("b", "k", "j"), "C": ("b", "i", "j")},
    {"A": ("i",), "B": ("i",), "C": ("i",)},
    {"x": ("c", "y", "ry"), "w": ("c",), "out": ("c", "y", "ry")},
    {"u": ("i",), "v": ("j",), "P": ("i", "j")},
)
"""Products of matrices, a convolution, and some of which not every instruction does a part."""


def places(own: Operands, swapped: bool) -> dict[str, tuple[bool, ...]]:
    """For each loop: does it index the first factor, the second, the result?"""
    first, second, result = own.values()
    operands = (second, first, result) if swapped else (first, second, result)
    loops = sorted({loop for operand in operands for loop in operand})
    return {loop: tuple(loop in operand for operand in operands) for loop in loops}


def fits(found: Mapping[str, str], instruction: Operands, product: Operands) -> bool:
    """Tell whether loops can stand for the axes of an instruction."""
    wanted = places(instruction, False)
    if set(found) != set(wanted) or len(set(found.values())) != len(wanted):
        return False
    for swapped in (False, True):
        there = places(product, swapped)
        if all(there.get(found[axis]) == place for axis, place in wanted.items()):
            return True
    return False


def assignments(instruction: Operands, product: Operands) -> list[dict[str, str]]:
    """Every assignment of loops to the axes of an instruction."""
    axes = list(places(instruction, False))
    drawn = itertools.permutations(places(product, False), len(axes))
    every = [dict(zip(axes, loops)) for loops in drawn]
    return [one for one in every if fits(one, instruction, product)]


class Assign(Task):
    """A matcher."""

    name, text = "assign", "find the loops that an instruction can do"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for instruction, product in itertools.product((DOT, OUTER, TILE), PRODUCTS):
            renamed = {
                loop: f"{loop}_{draw.randint(0, 9)}" for loops in product.values() for loop in loops
            }
            own = {
                name: tuple(draw.sample([renamed[loop] for loop in loops], len(loops)))
                for name, loops in product.items()
            }
            found.append((dict(instruction), own))
        return draw.sample(found, len(found))

    def judge(self, case: Case, got: Any) -> None:
        instruction, product = case
        right = assignments(instruction, product)
        given = f" (instruction {shown(instruction)}, product {shown(product)})"
        shows = [f"assert got in {right or [None]!r}, got"]
        if got is None and right:
            text = f"None for an instruction that can do {shown(right[0])}"
            raise LackingError(text + given, shows)
        if got is None:
            return
        named = isinstance(got, dict) and all(isinstance(n, str) for n in [*got, *got.values()])
        if not named:
            text = f"a dictionary of axes and loops is wanted, or None, not {shown(got)}"
            raise LackingError(text + given, shows)
        if got not in right:
            text = f"{shown(got)}: an axis and its loop do not index the same operands"
            raise LackingError(text + given, shows)


# ---- signs


def machine() -> tuple[Callable[[Any, Any], int], list[int]]:
    """An instruction for bytes without signs times bytes with signs; the list of its results."""
    results: list[int] = []

    def dot(x: Any, y: Any) -> int:
        x, y = list(x), list(y)
        fits = len(x) == len(y) == 4 and all(is_integer(n) for n in [*x, *y])
        if not (fits and all(0 <= n <= 255 for n in x) and all(-128 <= n <= 127 for n in y)):
            raise ValueError(f"dot({shown(x)}, {shown(y)}): x is of 0 … 255, y of -128 … 127")
        results.append(int(sum(p * q for p, q in zip(x, y))))
        return results[-1]

    return dot, results


class Signed(Task):
    """A product of bytes with signs."""

    name, text = "signed", "multiply bytes with signs by an instruction that takes one without"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        drawn = [tuple([draw.randint(-128, 127) for _ in range(4)] for _ in "ab") for _ in range(6)]
        return [([-128] * 4, [-128] * 4), ([127] * 4, [-128] * 4), ([0, 1, 2, 3], [1] * 4), *drawn]

    def ask(self, answer: Any, case: Case) -> Any:
        """The value, and how often the instruction was used."""
        dot, results = machine()
        return [answer(dot, *(list(own) for own in case)), len(results)]

    def script(self, case: Case) -> list[str]:
        """The call with the instruction of this module."""
        a, b = case
        lines = [f"from {__name__} import machine", "dot, results = machine()"]
        return [*lines, f"got = [answer(dot, {a!r}, {b!r}), len(results)]"]

    def judge(self, case: Case, got: Any) -> None:
        a, b = case
        want = sum(x * y for x, y in zip(a, b))
        fits = isinstance(got, list) and len(got) == 2 and is_integer(got[1])
        value, count = got if fits else (got, 0)
        call = f"signed(dot, {a}, {b})"
        if not is_integer(value) or value != want:
            text = f"{call} gives {shown(value)}; right is {want}"
            raise LackingError(text, [f"assert got[0] == {want}, got"])
        if not 1 <= count <= 2:
            text = f"{call} uses dot {count} times; once or twice is wanted"
            raise LackingError(text, ["assert 1 <= got[1] <= 2, got"])


# ---- products of any size


class Tensorized(ScheduleTask):
    """All work of a product of bytes, by an instruction."""

    name, text = "tensorized", "have an instruction do a product of any size"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for m, n, k, lanes in ((3, 8, 8, 4), (5, 6, 7, 8), (1, 9, 5, 4), (4, 3, 2, 8)):
            rows = m + draw.randint(0, 2)
            a = lang.placeholder((rows, k), "uint8", name="A")
            b = lang.placeholder((k, n), "int8", name="B")
            r = lang.reduce_axis(k, name="k")
            c = lang.compute((rows, n), _element(a, b, r), name="C")
            program = lang.lower([a, b, c], name="product")
            found.append((program, lang.intrinsics.dot("uint8", "int8", lanes)))
        return found

    def script(self, case: Case) -> list[str]:
        """The instruction is declared first."""
        *lines, call, taken = super().script(case[:1])
        declared = f'instruction = mt.intrinsics.dot("uint8", "int8", {case[1].axes["j"]})'
        return [*lines, declared, call.replace("(s", "(s, instruction"), taken]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (instruction,) = arguments
        return [done_by(instruction)]


def _element(a: Any, b: Any, r: Any) -> Callable[[Any, Any], Any]:
    return lambda i, j: lang.sum_(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r)


TASKS: Sequence[Task] = (Grouped(), Assign(), Signed(), Tensorized())
