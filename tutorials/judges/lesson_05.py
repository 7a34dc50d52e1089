"""Judges of lesson 5, from the loop nest to C."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor import codegen, ir, lang
from minitensor.errors import shown
from minitensor.lang import definition_as_python

from ..course.tasks import (
    Case,
    FunctionTask,
    LackingError,
    Task,
    as_python,
    described,
    small_arrays,
)
from . import tiny_c
from .values import brief

_TARGET = codegen.Target("c", num_cores=1, vector_bits=0)
_OPTIONAL = [name for name, _ in codegen.PASSES if name not in codegen.REQUIRED]
_NEEDED = codegen.passes_without(_OPTIONAL)


def shapes(draw: random.Random) -> Sequence[tuple[int, ...]]:
    """Shapes of no axis to four, with an extent of 1 among them."""
    found = [tuple(draw.randint(2, 9) for _ in range(axes)) for axes in (1, 2, 3, 4, 2, 3)]
    return [(), *found, (draw.randint(2, 5), 1, draw.randint(2, 5))]


class Offset(FunctionTask):
    """Index times stride."""

    name, text = "offset", "find the place of an element"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = [(s, tuple(draw.randrange(n) for n in s)) for s in shapes(draw)]
        shape = (*(draw.randint(2, 9) for _ in range(3)), 10)
        return [*found, (shape, tuple(n - 1 for n in shape)), (shape, (0, 0, 1, 0))]

    def expected(self, shape: tuple[int, ...], index: tuple[int, ...]) -> int:
        return int(np.arange(math.prod(shape)).reshape(shape)[index])


class Unflatten(FunctionTask):
    """The way back, by division."""

    name, text = "unflatten", "find the element at a place"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = [(s, draw.randrange(math.prod(s))) for s in shapes(draw)]
        shape = tuple(draw.sample(range(2, 9), 3))
        return [*found, (shape, math.prod(shape) - 1), (shape, shape[2])]

    def expected(self, shape: tuple[int, ...], place: int) -> tuple[int, ...]:
        return tuple(int(n) for n in np.unravel_index(place, shape)) if shape else ()


class Stored(FunctionTask):
    """Wrapping, as the interpreter does it."""

    name, text = "stored", "store to a narrow type"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for bits in (8, 16, 32):
            half = 1 << (bits - 1)
            for signed in (True, False):
                edges = draw.sample([half, -half, half - 1, -half - 1, 2 * half, -1], 3)
                far = draw.randint(-40 * half, 40 * half)
                found += [(v, bits, signed) for v in (*edges, far, draw.randint(0, half - 1))]
        return found

    def expected(self, value: int, bits: int, signed: bool) -> int:
        wide = lang.placeholder((1,), "int64", name="wide")
        narrow = f"{'int' if signed else 'uint'}{bits}"
        program = lang.lower([wide, lang.compute((1,), lambda i: wide[i].astype(narrow), name="n")])
        (found,), _ = ir.interpret(program, [np.array([value], "int64")])
        return int(found[0])


class Emit(Task):
    """A text that is read and followed, and compared with the interpreter."""

    name, text = "emit", "write the C of loops and stores"
    points = 2
    without = ("codegen.generate", "codegen.generate_together", "build")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        makers = (copied, stencil, row_sums, in_two_steps, mirrored, total)
        return [(maker(draw),) for maker in makers]

    def ask(self, answer: Any, case: Case) -> Any:
        return answer(codegen.lowered(case[0], _TARGET, _NEEDED))

    def judge(self, case: Case, got: Any) -> None:
        (program,) = case
        if not isinstance(got, str):
            raise LackingError(
                f"a text is wanted, not {brief(got)}", ["assert isinstance(got, str)"]
            )
        arrays = small_arrays(program)
        want, _ = ir.interpret(program, arrays, [b.name for b in program.outputs])
        try:
            found = outcome(got, program, arrays)
        except tiny_c.WrongTextError as wrong:
            text = f"of {described(program)}: {wrong}{_line_of(got, str(wrong))}"
            raise LackingError(text, _LINES) from None
        for buffer, right in zip(program.outputs, want):
            flat = right.reshape(-1).tolist()
            for place, (a, b) in enumerate(zip(found[buffer.name], flat)):
                if a != b:
                    left = "is not stored to" if a is None else f"is {a}"
                    text = f"of {described(program)}: {buffer.name}[{place}] {left}; right is {b}"
                    raise LackingError(text, _LINES)

    def script(self, case: Case) -> list[str]:
        (program,) = case
        return [
            f"from {__name__} import outcome",
            definition_as_python(program),
            f"arrays = [{', '.join(as_python(a) for a in small_arrays(program))}]",
            f"needed = mt.codegen.passes_without({_OPTIONAL!r})",
            "plain = mt.codegen.lowered(program, mt.Target('c', 1, 0), needed)",
            "got = answer(plain)",
        ]


_LINES = (
    "print(plain, got, sep='\\n')",
    "found = outcome(got, program, arrays)",
    "want, _ = ir.interpret(program, arrays, [b.name for b in program.outputs])",
    "for b, right in zip(program.outputs, want):",
    "    assert found[b.name] == right.reshape(-1).tolist(), (b.name, found[b.name], right)",
)


def _line_of(text: str, fault: str) -> str:
    """The line of a text that a fault names, for the end of a message."""
    named = re.match(r"line (\d+):", fault)
    lines = text.split("\n")
    if named is None or int(named[1]) > len(lines):
        return ""
    return f", in {shown(lines[int(named[1]) - 1].strip())}"


def outcome(
    text: str, program: ir.Program, arrays: Sequence[np.ndarray]
) -> dict[str, list[float | int | None]]:
    """The outputs after a text ran, flat, with None for what it did not store to.

    Raises WrongTextError.
    """
    rows: dict[str, list[Any]] = {b.name: [None] * math.prod(b.shape) for b in program.outputs}
    given = {b.name: a.reshape(-1).tolist() for b, a in zip(program.inputs, arrays)}
    tiny_c.run(tiny_c.parse(text), {**rows, **given})
    return rows


def copied(draw: random.Random) -> ir.Program:
    """A copy whose axes change places."""
    shape = draw.sample(range(2, 7), 3)
    A = lang.placeholder(tuple(shape), "int32", name="A")
    B = lang.compute((shape[2], shape[0], shape[1]), lambda i, j, k: A[j, k, i], name="B")
    return lang.lower([A, B], name="transpose")


def stencil(draw: random.Random) -> ir.Program:
    """Differences of differences, whose brackets count."""
    m, n = draw.sample(range(3, 9), 2)
    A = lang.placeholder((m + 1, 2 * n + 2), "float32", name="A")
    B = lang.compute(
        (m, n),
        lambda i, j: A[i, 2 * j] - (A[i + 1, 2 * j + 1] - (A[i, j + 2] - 2)) * (3 - A[i, 0]),
        name="B",
    )
    return lang.lower([A, B], name="differences")


def row_sums(draw: random.Random) -> ir.Program:
    """A reduction, whose init stands in front of its loop."""
    m, n, k = draw.sample(range(2, 7), 3)
    A = lang.placeholder((m, k), "float32", name="A")
    B = lang.placeholder((k, n), "float32", name="B")
    r = lang.reduce_axis(k, name="r")
    C = lang.compute((m, n), lambda i, j: lang.sum_(A[i, r] * B[r, j], axis=r), name="C")
    return lang.lower([A, B, C], name="product")


def in_two_steps(draw: random.Random) -> ir.Program:
    """Two nests, of which the second reads what the first one stored."""
    m, n = draw.sample(range(2, 8), 2)
    A = lang.placeholder((m, n), "int32", name="A")
    P = lang.compute((m, n), lambda i, j: A[i, j] * A[i, j] - 1, name="P")
    Q = lang.compute((n, m), lambda i, j: P[j, i] + P[0, n - 1 - i], name="Q")
    return lang.lower([A, P, Q], name="steps")


def mirrored(draw: random.Random) -> ir.Program:
    """An index that runs backwards, an axis of one element, and a constant below zero."""
    n = draw.randint(3, 9)
    A = lang.placeholder((n, 1), "int32", name="A")
    B = lang.compute(
        (n, 1), lambda i, j: (A[n - 1 - i, j] - 5 - A[i, 0]) * (A[i, j] - -4), name="B"
    )
    return lang.lower([A, B], name="mirror")


def total(draw: random.Random) -> ir.Program:
    """A sum to an array of no axes."""
    n = draw.randint(2, 9)
    A = lang.placeholder((n,), "float32", name="A")
    r = lang.reduce_axis(n, name="r")
    return lang.lower(
        [A, lang.compute((), lambda: lang.sum_(A[r], axis=r), name="T")], name="total"
    )


TASKS: Sequence[Task] = (Offset(), Unflatten(), Stored(), Emit())
