"""Statements of several plans that are alike: their candidates are described in one go.

Plans of a space differ in a place or two. Most of their statements are the same in all of them, and
arrays over a few candidates cost as much as arrays over many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from minitensor import arith
from minitensor.arith import Linear, Num
from minitensor.search.features.names import MARKS
from minitensor.search.features.nest import Marks
from minitensor.search.features.statement import Statement


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
