"""Judges of lesson 1, the first kernel."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor import ir, lang

from ..course.requirements import accesses, gone, inside
from ..course.tasks import Case, Requirement, ScheduleTask, Task
from .defined import require_parameters, require_results


class Define(Task):
    """A definition of three neighbours."""

    name, text = "define", "define a stencil"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(n,) for n in (1, *draw.sample(range(2, 40), 3))]

    def judge(self, case: Case, got: Any) -> None:
        (n,) = case
        require_parameters(got, [("A", (n + 2,), "float32"), ("R", (n,), "float32")])
        a = np.arange(n + 2, dtype="float32") ** 2
        require_results(got, [a], [3 * a[1:-1] - a[:-2] - a[2:]])


def blur(n: int, neighbours: int, dtype: str) -> ir.Program:
    """Sums of so many neighbours of twice an array."""
    A = lang.placeholder((n + neighbours - 1,), dtype, name="A")
    P = lang.compute((n + neighbours - 1,), lambda x: A[x] * 2, name="P")

    def total(y: Any) -> Any:
        value = P[y]
        for near in range(1, neighbours):
            value = value + P[y + near]
        return value

    return lang.lower([A, lang.compute((n,), total, name="Q")], name="blur")


class Recompute(ScheduleTask):
    """Inlining."""

    name, text = "recompute", "compute a stage again wherever it is read"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        types = ("float32", "int64")
        return [(blur(draw.randint(5, 40), draw.randint(2, 6), dtype),) for dtype in types]

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        loads = program.outputs[0].shape[0] * _neighbours(program)
        return [gone("P"), accesses("loads", "A", loads)]


class Tiles(ScheduleTask):
    """A stage in tiles, with its halo."""

    name, text = "tiles", "compute a stage in tiles"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = draw.sample(range(2, 10), 3)
        drawn = [(size * (size + 2), draw.randint(2, 5), size) for size in sizes]
        return [(blur(n, neighbours, "float32"), size) for n, neighbours, size in drawn]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        size, n = arguments[0], program.outputs[0].shape[0]
        stores = n // size * (size + _neighbours(program) - 1)
        return [inside("P", "Q"), accesses("stores", "P", stores, least=stores)]


def _neighbours(program: ir.Program) -> int:
    """The number of elements of P that an element of Q reads."""
    return int(program.inputs[0].shape[0] - program.outputs[0].shape[0] + 1)


TASKS: Sequence[Task] = (Define(), Recompute(), Tiles())
