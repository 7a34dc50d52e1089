"""Structure once, numbers many: extents and features of schedules that differ in numbers only.

Plans of a space differ in a place or two. Most of their statements are the same in all of them, and
arrays over a few candidates cost as much as arrays over many: so the candidates of statements that
are alike are described in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import arith
from minitensor.arith import BatchError, Integers, Linear, Num
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.ir import Program, loop_sites
from minitensor.schedule import REGISTRY, Batch, Bodies, Effect, Schedule, StepView, Trace
from minitensor.search.features.names import MARKS, WIDTH
from minitensor.search.features.nest import Marks
from minitensor.search.features.rows import fill
from minitensor.search.features.statement import Statement, statement_of

Decisions: TypeAlias = Mapping[int, npt.ArrayLike]
TILES, CATEGORY = ("sample_perfect_tile", "sample_tile"), "sample_categorical"


class Structure:
    """All schedules that differ from one in the numbers of its decisions only.

    schedule  one of them, its decisions taken

    Raises BatchError if the numbers of another one cannot be computed without replaying its
    trace. Then, and where `extents` or `features` raise it, replay.

    program  the scheduled program, of that one
    trace    its steps
    blocks   the names of its blocks, in the order of the text
    """

    def __init__(self, schedule: Schedule) -> None:
        if not isinstance(schedule, Schedule):
            raise unexpected("a schedule", "schedule", schedule)
        self.trace: Trace = schedule.trace
        self.program: Program = schedule.program
        self.blocks: tuple[str, ...] = tuple(self.program.blocks)
        self._original = schedule.history[0]
        if any(site.loop.extent == 0 for site in loop_sites(self._original).values()):
            raise BatchError("regions of loops that never run are not known")
        self._effects, bodies = self._looked_at(schedule.history)
        self._statements: list[Statement] = [
            statement_of(self.program, block, bodies.checked(block))
            for block in self.program.blocks.values()
        ]
        self._written = list(map(repr, self._statements))
        self.extents({})

    def loops_of(self, block: str) -> tuple[str, ...]:
        """The names of the loops around a block, outermost first."""
        if block not in self.blocks:
            raise unexpected("one of " + ", ".join(map(repr, self.blocks)), "block", block)
        return self._statements[self.blocks.index(block)].loops

    def numbers(self, decisions: Decisions, count: int | None = None) -> Batch:
        """The numbers of many candidates, of which `extents` and `features` are made.

        decisions  what steps decide, by their numbers: for a tile its factors, integers
                   (candidates, parts), for a choice among integers the one that is chosen,
                   (candidates, 1); what is left out is as in the schedule that this was made from
        count      the number of candidates, where no decision says it
        """
        given = {number: self._decision(number, value) for number, value in decisions.items()}
        counts = {len(value) for value in given.values()}
        counts |= set() if count is None else {count}
        if len(counts) > 1:
            raise unexpected("decisions of as many candidates each", "decisions", sorted(counts))
        numbers = Batch.of(self._original, max(counts, default=1), self._decided(given))
        for effect in self._effects:
            effect(numbers)
        return numbers

    def extents(self, decisions: Decisions, count: int | None = None) -> Mapping[str, Integers]:
        """The extent of every loop, int64 (candidates,), for each of many candidates.

        See `numbers` for the arguments.
        """
        numbers = self.numbers(decisions, count)
        names = loop_sites(self.program)
        return {
            name: np.broadcast_to(np.asarray(numbers.extents[name], np.int64), (numbers.count,))
            for name in names
        }

    def features(
        self,
        decisions: Decisions | Batch,
        marks: Mapping[str, Marks] | None = None,
        target: str | Target = "c",
        count: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """The features of many candidates, float32 (candidates, blocks, 164).

        decisions  see `numbers`; or what that returned
        marks      which of the loops around each block are parallel, vectorized and unrolled,
                   besides those that are in the schedule
        count      the number of candidates, where neither decisions nor marks say it

        A row is what `extract_features` gives for the program of that candidate with its loops
        marked so. In memory, candidates are the last axis: the array is a transposed view.
        """
        counts = {self._marked(block, found) for block, found in (marks or {}).items()}
        if len(counts) > 1 or (count is not None and counts - {count}):
            raise unexpected("marks of as many candidates each", "marks", sorted(counts))
        count = counts.pop() if counts else count
        numbers = decisions if isinstance(decisions, Batch) else self.numbers(decisions, count)
        if count not in (None, numbers.count):
            raise unexpected(f"marks of {numbers.count} candidates", "marks", count)
        (found,) = features_of([(self, numbers, marks or {})], target)
        return found

    def described(
        self, numbers: Batch, marks: Mapping[str, Marks]
    ) -> tuple[npt.NDArray[np.float32], list[Described]]:
        """An array as `features` gives, of zeros, and what is to be written into it."""
        found = np.zeros((len(self.blocks), WIDTH, numbers.count), np.float32)
        parts = [
            Described(
                rows,
                replace(statement, iters=_iters(statement, numbers)),
                numbers.extents,
                numbers.values(statement.block),
                numbers.shapes,
                marks.get(statement.block),
                written,
            )
            for rows, statement, written in zip(found, self._statements, self._written)
        ]
        return found.transpose(2, 0, 1), parts

    def _looked_at(self, history: Sequence[Program]) -> tuple[list[Effect], Bodies]:
        """The effects of all steps, and the bodies that hold numbers at the end."""
        steps, bodies, effects = self.trace.steps, Bodies(), []
        for number, step in enumerate(steps):
            look = REGISTRY[step.primitive].batch if step.primitive in REGISTRY else None
            if look is None:
                raise BatchError(f"the effect of {step.primitive} on a batch is not declared")
            view = StepView(number, steps, history[number], history[number + 1], bodies)
            effect = look(view)
            if effect is not None:
                effects.append(effect)
        return effects, bodies

    def _decision(self, number: int, value: npt.ArrayLike) -> Integers:
        """The decisions of a step, int64 (candidates, parts)."""
        steps = self.trace.steps
        step = steps[number] if 0 <= number < len(steps) else None
        if step is None or step.primitive not in (*TILES, CATEGORY):
            raise unexpected("the number of a step that decides numbers", "step", number)
        found = np.asarray(value)
        parts = len(step.result) if step.primitive in TILES else 1
        if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != parts:
            raise unexpected(f"integers (candidates, {parts})", f"decisions[{number}]", value)
        if step.primitive == CATEGORY:
            candidates = step.arguments["candidates"]
            if not set(found[:, 0].tolist()) <= set(candidates):
                raise unexpected(f"some of {list(candidates)}", f"decisions[{number}]", value)
        return found.astype(np.int64, copy=False)

    def _marked(self, block: str, marks: Marks) -> int:
        """The number of candidates of some marks."""
        loops = len(self.loops_of(block))
        shapes = {np.shape(getattr(marks, kind)) for kind in MARKS}
        one = shapes.pop()
        if shapes or len(one) != 2 or one[1] != loops:
            raise unexpected(f"bool arrays (candidates, {loops})", f"marks[{block!r}]", marks)
        return int(one[0])

    def _decided(self, given: Mapping[int, Integers]) -> dict[int, Any]:
        """The results of all decisions, by step."""
        found: dict[int, Any] = {}
        for number, step in enumerate(self.trace.steps):
            parts = given.get(number)
            if step.primitive in TILES:
                result: tuple[Num, ...] = tuple(step.result)
                found[number] = result if parts is None else tuple(np.ascontiguousarray(parts.T))
            elif step.primitive == CATEGORY and parts is not None:
                found[number] = np.ascontiguousarray(parts[:, 0])
            elif step.primitive == CATEGORY and isinstance(step.result, int):
                found[number] = int(step.result)
        return found


Job: TypeAlias = tuple[Structure, Batch, Mapping[str, Marks]]
"""A structure, the numbers of some candidates (see `Structure.numbers`), and their marks."""


def features_of(jobs: Sequence[Job], target: str | Target = "c") -> list[npt.NDArray[np.float32]]:
    """`Structure.features` for each job. Statements that are alike in several of them are
    described in one go.
    """
    gpu, made, parts = Target.of(target).is_gpu, [], []
    for structure, numbers, marks in jobs:
        found, described = structure.described(numbers, marks)
        made.append(found)
        parts += described
    for group in grouped(parts):
        whole = group[0] if len(group) == 1 else joined(group)
        own = None if whole.marks is None else {whole.statement.block: whole.marks}
        fill(whole.rows, whole.statement, whole.extents, whole.forms, whole.shapes, own, gpu)
        start = 0
        for part in group if len(group) > 1 else ():
            count = part.rows.shape[1]
            part.rows[:] = whole.rows[:, start : start + count]
            start += count
    return made


def _iters(statement: Statement, numbers: Batch) -> tuple[tuple[str, bool], ...]:
    """The iters of a block, and which reduce.

    Partial results may have more than in the schedule that the structure was made of: one for each
    loop of an axis that was split.
    """
    known = dict(statement.iters)
    return tuple((name, known.get(name, True)) for name in numbers.bound[statement.block])


# ---- statements that are alike


@dataclass(frozen=True, eq=False)
class Described:
    """A statement, its numbers for some candidates, and where its features go.

    rows     float32 (columns, candidates), which hold 0
    extents  of the loops around it
    forms    of its iters in terms of those loops
    shapes   of its buffers
    marks    of its loops; None for what the program says
    written  a text that is the same for statements that are alike, but for their iters
    """

    rows: npt.NDArray[np.float32]
    statement: Statement
    extents: Mapping[str, Num]
    forms: Mapping[str, Linear]
    shapes: Mapping[str, Sequence[Num]]
    marks: Marks | None
    written: str

    @property
    def key(self) -> object:
        """Equal for those that `joined` can join: they differ in nothing but numbers."""
        forms = []
        for name, form in self.forms.items():
            if arith.operations(form):
                return id(self)
            forms.append((name, frozenset(form.terms)))
        return self.written, self.statement.iters, tuple(forms), self.marks is None


def joined(parts: Sequence[Described]) -> Described:
    """The candidates of some that are alike, one after the other."""
    counts = [part.rows.shape[1] for part in parts]
    ends = np.cumsum(counts).tolist()
    first = parts[0]

    def one(numbers: Sequence[Num]) -> Num:
        if type(numbers[0]) is int and all(type(n) is int and n == numbers[0] for n in numbers):
            return numbers[0]
        found = np.empty(ends[-1], np.int64)
        for value, end, count in zip(numbers, ends, counts):
            found[end - count : end] = value
        return found

    def form(forms: Sequence[Linear]) -> Linear:
        terms = {atom: one([f.terms[atom] for f in forms]) for atom in forms[0].terms}
        return Linear(terms, one([f.constant for f in forms]))

    buffers = [touch.buffer.name for touch in first.statement.touches]
    marks: Marks | None = None
    if first.marks is not None:
        every = [part.marks for part in parts]
        marks = Marks(**{way: np.concatenate([getattr(m, way) for m in every]) for way in MARKS})
    return Described(
        np.zeros((len(first.rows), ends[-1]), np.float32),
        first.statement,
        {name: one([p.extents[name] for p in parts]) for name in first.statement.loops},
        {name: form([p.forms[name] for p in parts]) for name in first.forms},
        {name: list(map(one, zip(*(p.shapes[name] for p in parts)))) for name in buffers},
        marks,
        first.written,
    )


def grouped(parts: Sequence[Described]) -> list[list[Described]]:
    """Those that `joined` can join."""
    groups: dict[object, list[Described]] = {}
    for part in parts:
        groups.setdefault(part.key, []).append(part)
    return list(groups.values())
