"""Judges of lesson 7: legality, and what to do where a step is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from minitensor import ir, lang
from minitensor.errors import ScheduleError, shown
from minitensor.schedule import Schedule

from ..course.layouts import reads
from ..course.requirements import accesses
from ..course.tasks import (
    Case,
    LackingError,
    Requirement,
    ScheduleTask,
    Task,
    as_python,
    described,
)


class Conflicts(Task):
    """Two iterations that touch one element, one of them writing."""

    name, text = "conflicts", "find two iterations that conflict"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        near, step = draw.randint(1, 4), draw.randint(2, 4)
        found: list[Case] = [
            ([(1, 0)], [(1, 0)], draw.randint(5, 30)),  # each its own element
            ([(1, near)], [(1, 0)], 20),  # a neighbour is read
            ([(1, 30)], [(1, 0)], 30),  # too far away: just past the last iteration
            ([(1, 29)], [(1, 0)], 30),  # the first reads what the last writes
            ([(1, 0), (1, 1), (0, 3)], [], 9),  # nothing is written
            ([], [(0, near)], 12),  # one element for all
            ([], [(0, near)], 1),  # a single iteration
            ([(step, 1)], [(step, 0)], 25),  # they interleave
            ([], [(step, 0), (step, step * near)], 25),  # two stores meet
            ([(-1, 20)], [(1, 0)], 21),  # towards each other
            ([(-1, 10)], [(1, 0)], 5),  # towards each other, and never meet
            ([(0, 7)], [(1, 0)], 5),  # an element that is not reached
            ([], [(1, 0)], 0),
        ]
        for _ in range(6):
            pairs = [(draw.randint(-3, 4), draw.randint(-5, 40)) for _ in range(3)]
            found.append((pairs[1:], pairs[:1], draw.randint(2, 15)))
        return found

    def judge(self, case: Case, got: Any) -> None:
        reads, writes, extent = case
        call = f"conflicts({reads}, {writes}, {extent})"
        right = conflict(reads, writes, extent)
        if got is None and right is None:
            return
        if got is None:
            assert right is not None
            text = f"{call} gives None, but iterations {right[0]} and {right[1]} conflict"
            raise LackingError(text, (f"assert got is not None, {right}",))
        pair = tuple(got) if isinstance(got, (list, tuple)) else ()
        if len(pair) != 2 or not all(_is_number(n) for n in pair):
            text = f"{call} gives {shown(got)}; wanted are two iterations, or None"
            lines: tuple[str, ...] = (
                "assert isinstance(got, (list, tuple)) and len(got) == 2, got",
                "assert all(isinstance(n, (int, np.integer)) for n in got), got",
                "assert not any(isinstance(n, bool) for n in got), got",
            )
            raise LackingError(text, lines)
        i, j = (int(n) for n in pair)
        if i == j or not (0 <= i < extent and 0 <= j < extent):
            text = f"{call} gives {shown(pair)}, which are not two iterations of the loop"
            lines = ("i, j = got", f"assert i != j and {{i, j}} <= {{*range({extent})}}, got")
            raise LackingError(text, lines)
        by_i, by_j = touched(writes, i), touched(writes, j)
        if by_i & (by_j | touched(reads, j)) or by_j & touched(reads, i):
            return
        text = f"{call} gives {i} and {j}, of which neither touches what the other writes"
        lines = (
            f"reads, writes = {as_python(reads)}, {as_python(writes)}",
            "at = lambda pairs, i: {c * i + d for c, d in pairs}",
            "i, j = got",
            "assert at(writes, i) & at(reads + writes, j) or at(writes, j) & at(reads, i)",
        )
        raise LackingError(text, lines)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, np.integer))


def touched(pairs: Sequence[tuple[int, int]], i: int) -> set[int]:
    """The elements that an iteration touches."""
    return {c * i + d for c, d in pairs}


def conflict(
    reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]], extent: int
) -> tuple[int, int] | None:
    """The first conflict, found by trying all pairs of iterations."""
    written = [touched(writes, i) for i in range(extent)]
    every = [touched(reads, i) | written[i] for i in range(extent)]
    for j in range(extent):
        for i in range(j):
            if written[i] & every[j] or written[j] & every[i]:
                return i, j
    return None


def sums(rows: int, columns: int) -> ir.Program:
    """Sums of rows."""
    A = lang.placeholder((rows, columns), name="A")
    k = lang.reduce_axis(columns, name="k")
    C = lang.compute((rows,), lambda i: lang.sum_(A[i, k], axis=k), name="C")
    return lang.lower([A, C], name="sums")


def product(m: int, n: int, k: int) -> ir.Program:
    """A matrix product, and its positive part."""
    A, B = lang.placeholder((m, k), name="A"), lang.placeholder((k, n), name="B")
    r = lang.reduce_axis(k, name="k")
    C = lang.compute((m, n), lambda i, j: lang.sum_(A[i, r] * B[r, j], axis=r), name="C")
    D = lang.compute((m, n), lambda x, y: lang.maximum(C[x, y], 0.0), name="D")
    return lang.lower([A, B, D], name="product")


def scan(shape: Sequence[int], back: Sequence[int], dtype: str, plain: bool = True) -> ir.Program:
    """Each element and the one so far back, added up; its loops are called in one of two ways."""
    A = lang.placeholder(tuple(shape), dtype, name="A")

    def value(W: Any, index: tuple[Any, ...]) -> Any:
        there = lang.logical_and(*(i >= b for i, b in zip(index, back) if b), True)
        before = W[tuple(i - b if b else i for i, b in zip(index, back))]
        return A[index] + lang.if_then_else(there, before, 0)

    if len(shape) == 3:
        W = lang.update(shape, lambda W, a, b, c: value(W, (a, b, c)), dtype=dtype, name="W")
    elif plain:
        W = lang.update(shape, lambda W, t, i: value(W, (t, i)), dtype=dtype, name="W")
    else:
        W = lang.update(shape, lambda W, row, col: value(W, (row, col)), dtype=dtype, name="W")
    return lang.lower([A, W], name="scan")


class LegalLoops(Task):
    """The loops that may be parallel, from the kinds and bindings of iters."""

    name, text = "legal_loops", "the loops that parallel would accept"
    without: ClassVar[Sequence[str]] = ("Schedule.parallel", "Schedule.vectorize", "Schedule.bind")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        rows, columns, third = draw.sample(range(3, 9), 3)
        found = [Schedule(program) for program in self._programs(rows, columns, third)]
        tiled, mixed, apart, moved, halves, cut = found[:6]
        j_0, j_1 = tiled.split("j", [None, 2])
        k_0, k_1 = tiled.split("k", [None, 2])
        tiled.reorder(k_0, "i", j_0, k_1, j_1)
        mixed.split(mixed.fuse("i", "k"), [None, columns - 1])
        apart.split(apart.fuse("i", "k"), [rows, columns])
        moved.compute_at("C", "x")
        halves.decompose_reduction("C", "j")
        cut.split("k", [None, 2], tail="cut")
        return [(s.program if not len(s.trace) else s.history[0], s.trace) for s in found]

    def _programs(self, rows: int, columns: int, third: int) -> list[ir.Program]:
        return [
            *(product(rows, columns, third), sums(rows, columns), sums(rows, columns)),
            *(product(rows, columns, third), product(rows, columns, third), sums(rows, 7)),
            *(sums(third, columns), scan((rows, columns), (1, 0), "float32")),
            *(scan((rows, columns), (1, 1), "int64"), scan((rows, 4, 2), (0, 2, 0), "float32")),
        ]

    def ask(self, answer: Any, case: Case) -> Any:
        program, trace = case
        return answer(trace.apply(program))

    def judge(self, case: Case, got: Any) -> None:
        program, trace = case
        s = trace.apply(program)
        right, why = {}, {}
        for loop in ir.loop_sites(s.program):
            try:
                s.copy().parallel(loop)
                right[loop] = True
            except ScheduleError as refused:
                why[loop] = refused.message
        listed = isinstance(got, (list, tuple, set, frozenset))
        lines = (f"assert {{*got}} == {{*{sorted(right)!r}}}, got",)
        if not listed or not all(isinstance(name, str) for name in got):
            text = f"wanted are names of loops, as ['i', 'j'], but it gives {shown(got)}"
            raise LackingError(
                text, ("assert isinstance(got, (list, tuple, set, frozenset)), got", *lines)
            )
        of = f"of {described(program)} after {len(trace)} steps"
        for loop in got:
            if loop not in right:
                text = why.get(loop, f"there is no loop {shown(loop)}")
                raise LackingError(f"{of}: it names {shown(loop)}, but {text}", lines)
        for loop in right:
            if loop not in got:
                raise LackingError(f"{of}: {shown(loop)} is legal, and it does not name it", lines)

    def script(self, case: Case) -> list[str]:
        program, trace = case
        return [
            lang.definition_as_python(program),
            "s = mt.Schedule(program)",
            *trace.as_python().splitlines(),
            "got = answer(s)",
        ]


class Outermost(ScheduleTask):
    """A loop that the scan does not carry, outside and parallel."""

    name, text = "outermost", "a parallel loop around a scan"
    most_steps: ClassVar[int] = 20_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        a, b, c = draw.sample(range(3, 8), 3)
        return [
            (scan((a, b), (1, 0), "float32"),),
            (scan((a, b), (0, draw.randint(1, 2)), "int64", plain=False),),
            (scan((b, a), (draw.randint(1, 2), 0), "float64", plain=False),),
            (scan((a, b, c), (1, 1, 0), "int64"),),
            (scan((a, b, c), (1, 0, 1), "float32"),),
        ]

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        def look(s: Schedule) -> str | None:
            loops = ir.paths(s.program).get("W", ())
            if not loops:
                return "there is no loop around W"
            first = loops[0]
            right = first.kind is ir.LoopKind.PARALLEL and first.extent >= 2
            return None if right else f"it is {first.var}, {first.kind.value}, of {first.extent}"

        lines = (
            'first = ir.paths(s.program)["W"][0]',
            "assert first.kind is ir.LoopKind.PARALLEL and first.extent >= 2, first",
        )
        text = "the outermost loop around W is parallel, of at least two iterations"
        return [Requirement(text, look, lines)]


def total(n: int, dtype: str, largest: bool) -> ir.Program:
    """The sum of a vector, or its largest element."""
    A = lang.placeholder((n,), dtype, name="A")
    k = lang.reduce_axis(n, name="k")
    reduce = lang.max_ if largest else lang.sum_
    S = lang.compute((), lambda: reduce(A[k], axis=k), name="S")
    return lang.lower([A, S], name="total")


class InParts(ScheduleTask):
    """Partial results, one for each thread."""

    name, text = "in_parts", "a sum on several threads"
    most_steps: ClassVar[int] = 20_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        parts = draw.randint(3, 6)
        return [
            (total(parts * draw.randint(2, 9), "int64", False), parts),
            (total(draw.choice((37, 41, 53)), "float32", False), parts),
            (total(draw.choice((29, 31, 47)), "float64", True), parts),
            (total(parts, "int32", False), parts),
        ]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (parts,) = arguments

        def look(s: Schedule) -> str | None:
            found = [loop for block in readers(s.program) for loop in ir.paths(s.program)[block]]
            there = [loop for loop in found if loop.kind is ir.LoopKind.PARALLEL]
            if not any(loop.extent == parts for loop in there):
                return f"it has {there[0].extent}" if there else "there is no parallel loop"
            most = max(sharing(s.program))
            return None if 2 * most >= parts else f"only {most} of them read some of it"

        lines = (
            'readers = [b.name for b in ir.readers(s.program, "A")]',
            "loops = [loop for name in readers for loop in ir.paths(s.program)[name]]",
            "found = [loop.extent for loop in loops if loop.kind is ir.LoopKind.PARALLEL]",
            f"assert {parts} in found, found",
            f"from {__name__} import sharing",
            f"assert 2 * max(sharing(s.program)) >= {parts}, sharing(s.program)",
        )
        text = f"A is read under a parallel loop of {parts} iterations"
        return [Requirement(text, look, lines), accesses("loads", "A", program.inputs[0].shape[0])]


def sharing(program: ir.Program) -> list[int]:
    """The iterations that read some of A, of each parallel loop around a block that does."""
    return [
        len({read.loops[loop.var] for read in reads(program, block, "A")})
        for block in readers(program)
        for loop in ir.paths(program)[block]
        if loop.kind is ir.LoopKind.PARALLEL
    ]


def readers(program: ir.Program) -> list[str]:
    """The blocks that read A."""
    return [block.name for block in ir.readers(program, "A")]


TASKS: Sequence[Task] = (Conflicts(), LegalLoops(), Outermost(), InParts())
