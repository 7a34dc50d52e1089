"""Judges of lesson 15, intrinsics."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor import ir, lang
from minitensor.schedule import Schedule

from ..course.tasks import (
    Case,
    LackingError,
    Requirement,
    ScheduleTask,
    Task,
)
from .defined import require_parameters, require_results

Body: TypeAlias = Callable[["list[int]", "list[int]", int, "list[int]"], None]
_LANES = range(4)


class Meaning(Task):
    """The loops of an instruction."""

    name, text = "meaning", "write the meaning of an instruction"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(draw.randint(2, 16), draw.randint(2, 5)), (8, 4), (draw.randint(2, 9), 1), (1, 3)]

    def judge(self, case: Case, got: Any) -> None:
        lanes, group = case
        call = f"meaning({lanes}, {group})"
        size = (lanes * group,)
        wanted = [("a", size, "uint8"), ("b", size, "int8"), ("c", (lanes,), "int32")]
        require_parameters(got, wanted)
        if len(got.blocks) != 1:
            text = f"{call} computes {len(got.blocks)} tensors; a meaning is one"
            raise LackingError(text, ("assert len(got.blocks) == 1, list(got.blocks)",))
        rng = np.random.default_rng(3)
        a = rng.integers(0, 256, size).astype("uint8")
        b = rng.integers(-128, 128, size).astype("int8")
        a[:group], b[:group] = 255, -128  # the largest product of all
        want = (a.astype("int32") * b).reshape(lanes, group).sum(1, dtype="int32")
        require_results(got, [a, b], [want])


# ---- bodies, most of them wrong


def _products(a: list[int], b: list[int], stride: int, j: int) -> list[int]:
    return [a[k] * b[j * stride + k] for k in range(4)]


def _clipped(value: int, bits: int) -> int:
    return max(-(1 << bits - 1), min(value, (1 << bits - 1) - 1))


def _plain(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    for j in _LANES:
        for k in range(4):
            c[j] += a[k] * b[j * b_stride0 + k]


def _backwards(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    for j in reversed(_LANES):
        p, q, r, s = _products(a, b, b_stride0, j)
        c[j] = (p + r) + (q + s) + c[j]


def _overwrites(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    c[:4] = [sum(_products(a, b, b_stride0, j)) for j in _LANES]


def _dense(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    _plain(a, b, 4, c)


def _narrow(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    for j in _LANES:
        c[j] += _clipped(sum(_products(a, b, b_stride0, j)), 16)


def _pairs(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    for j in _LANES:
        p, q, r, s = _products(a, b, b_stride0, j)
        c[j] += _clipped(p + q, 16) + _clipped(r + s, 16)


def _unsigned(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    _plain(a, [n & 255 for n in b], b_stride0, c)


def _three(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    for j in range(3):
        c[j] += sum(_products(a, b, b_stride0, j))


def _beyond(a: list[int], b: list[int], b_stride0: int, c: list[int]) -> None:
    _plain(a, b, b_stride0, c)
    c[4:5] = [0] * len(c[4:5])


BODIES: Final[Mapping[str, Body]] = {
    "plain": _plain,
    "backwards": _backwards,
    "overwrites": _overwrites,
    "dense": _dense,
    "narrow": _narrow,
    "pairs": _pairs,
    "unsigned": _unsigned,
    "three": _three,
    "beyond": _beyond,
}
"""Bodies by their names; the first two are right."""
RIGHT: Final = ("plain", "backwards")
WRONG_FOR: Final[Mapping[str, str]] = {
    "overwrites": "an accumulator that is not zero",
    "dense": "rows of b with gaps between them",
    "narrow": "sums that need more than 16 bits",
    "pairs": "the largest sums of two products, which need 17 bits",
    "unsigned": "negative numbers in b",
    "three": "the last lane",
    "beyond": "a c of more than four elements",
}


def differs(name: str, operands: Sequence[Any]) -> bool:
    """Run a body on copies of operands: does it differ from the meaning?"""
    a, b, stride, c = operands
    a, b, c = list(a), list(b), list(c)
    want = [*(c[j] + sum(_products(a, b, stride, j)) for j in _LANES), *c[4:]]
    BODIES[name](a, b, stride, c)
    return c != want


class Difference(Task):
    """A test of bodies."""

    name, text = "difference", "find the operands on which a body is wrong"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        names = draw.sample([*BODIES], len(BODIES))
        return [(name,) for name in names]

    def ask(self, answer: Any, case: Case) -> Any:
        """The operands for the body of a name."""
        return answer(BODIES[case[0]])

    def script(self, case: Case) -> list[str]:
        """The call with a body of this module."""
        start = f"from {__name__} import BODIES, differs"
        return [start, f"got = answer(BODIES[{case[0]!r}])"]

    def judge(self, case: Case, got: Any) -> None:
        (name,) = case
        if got is None:
            if name not in RIGHT:
                text = f"difference gives None for a body that is wrong for {WRONG_FOR[name]}"
                raise LackingError(text, ("assert got is not None",))
            return
        operands = _operands(got)
        if operands is None:
            text = "difference has to give None, or (a, b, b_stride0, c) within the limits of the "
            lines = [
                "a, b, b_stride0, c = got",
                "assert len(a) == 4 and 4 <= b_stride0 <= 32 and 4 <= len(c) <= 1000",
                "assert 3 * b_stride0 + 4 <= len(b) <= 1000",
                "assert all(-128 <= n <= 127 for n in [*a, *b])",
                "assert all(abs(n) <= 1_000_000 for n in c)",
                "assert all(isinstance(n, (int, np.integer)) for n in [b_stride0, *a, *b, *c])",
            ]
            raise LackingError(f"{text}task", lines)
        if not differs(name, operands):
            what = (
                "a right body" if name in RIGHT else f"a body that is wrong for {WRONG_FOR[name]}"
            )
            lines = [f"assert differs({name!r}, got), got"]
            text = f"on the operands that difference gives, {what} does what it means"
            raise LackingError(text, lines)


def _operands(got: Any) -> tuple[list[int], list[int], int, list[int]] | None:
    """The operands as integers of Python; None if they are none."""
    if not isinstance(got, (tuple, list)) or len(got) != 4:
        return None
    a, b, c = (_integers(values, most) for values, most in zip((got[0], got[1], got[3]), _MOST))
    stride = _integers([got[2]], 32)
    if a is None or b is None or c is None or stride is None:
        return None
    fits = len(a) == 4 and stride[0] >= 4 and 3 * stride[0] + 4 <= len(b) and len(c) >= 4
    return (a, b, stride[0], c) if fits and max(*a, *b) <= 127 else None


_MOST: Final = (128, 128, 1_000_000)


def _integers(values: Any, most: int) -> list[int] | None:
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.ndim == 1 and values.dtype.kind in "iu" else None
    if not isinstance(values, (list, tuple)) or len(values) > 1000:
        return None
    right = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in values)
    return [int(n) for n in values] if right and all(-most <= n <= most for n in values) else None


# ---- tensorize


class Tensorized(ScheduleTask):
    """All work of a product, by an instruction."""

    name, text = "tensorized", "have an instruction do a product"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for n in (4, 8, 8):
            m, k = draw.sample(range(2, 6), 2)
            instruction = lang.intrinsics.matmul_f32(m, n, k, lanes=4)
            times = draw.sample(range(1, 4), 3)
            rows, columns, depth = (size * count for size, count in zip((m, n, k), times))
            tensors = lang.workloads.matmul(rows, columns, depth)
            program = lang.lower(list(tensors), name="product")
            found.append((program, instruction))
        return found

    def script(self, case: Case) -> list[str]:
        """The instruction is declared first."""
        *lines, call, taken = super().script(case[:1])
        m, n, k = case[1].axes.values()
        declared = f"instruction = mt.intrinsics.matmul_f32({m}, {n}, {k}, lanes=4)"
        return [*lines, declared, call.replace("(s", "(s, instruction"), taken]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (instruction,) = arguments
        return [done_by(instruction)]


def done_by(instruction: ir.Intrinsic) -> Requirement:
    """All reductions are done by an intrinsic."""

    def look(s: Schedule) -> str | None:
        for name, loops in ir.paths(s.program).items():
            if isinstance(s.program.blocks[name].body, ir.Reduce):
                marked = [loop for loop in loops if loop.kind is ir.LoopKind.TENSORIZE]
                notes = [dict(loop.annotations).get(ir.NOTE) for loop in marked]
                if instruction.key not in notes:
                    kinds = ", ".join(f"{ir.print_name(x.var)} {x.kind.value}" for x in loops)
                    return f"{ir.print_name(name)} stands in the loops {kinds or 'none'}"
        return None

    lines = (
        "blocks = [n for n, b in s.program.blocks.items() if isinstance(b.body, ir.Reduce)]",
        "around = [ir.paths(s.program)[n] for n in blocks]",
        "done = [[x for x in loops if x.kind is ir.LoopKind.TENSORIZE] for loops in around]",
        "notes = [[dict(x.annotations).get(ir.NOTE) for x in loops] for loops in done]",
        "assert all(instruction.key in found for found in notes), notes",
    )
    return Requirement(f"every sum is done by {instruction.name}", look, lines)


TASKS: Sequence[Task] = (Meaning(), Difference(), Tensorized())
