"""What was learnt: trees that score statements, and sums of scores for programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import unexpected
from minitensor.search.gbt import arguments, files
from minitensor.search.gbt.bins import LARGEST, Floats, finite
from minitensor.search.gbt.labels import summed
from minitensor.search.gbt.tree import Tree

Doubles = npt.NDArray[np.float64]

CHUNK: Final = 4096
"""Rows that are scored together: few enough for their features to stay in a core's cache."""
KINDS: Final = ("gain", "count", "cover")


@dataclass(frozen=True)
class _Walk:
    """A tree made ready for many rows: complete, so that each row takes the same number of steps.

    Under a leaf there are questions that everything answers with yes; so a row ends in the leftmost
    place of the last level, which has the leaf's value. All arrays are (nodes,) but the last.

    feature   int64: the column that is asked for
    value     float64 (places of the last level,)
    """

    depth: int
    feature: npt.NDArray[np.int64]
    threshold: Floats
    missing_right: npt.NDArray[np.bool_]
    value: Doubles


@dataclass(frozen=True, eq=False)
class Model:
    """Trees, and the score that they start from.

    columns  the number of features of a statement
    start    the score of a program before its statements are seen
    trees    each adds to the score of every statement
    """

    columns: int
    start: float
    trees: tuple[Tree, ...]
    _walks: tuple[_Walk, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_walks", tuple(map(_walk, self.trees)))

    def predict(
        self, features: npt.ArrayLike, programs: npt.ArrayLike, count: int | None = None
    ) -> Doubles:
        """A score (programs,) for each program: higher is faster. Scores are finite.

        features  (rows, columns) numbers, a row for each statement; NaN and infinities are allowed
        programs  (rows,) the program that each row belongs to, counted from 0
        count     how many programs there are; one more than the highest number if None

        A program without rows has the score that the model starts from. Raises ArgumentError.
        """
        table = arguments.features(features)
        owners = arguments.programs(programs, len(table), count)
        least = int(owners.max(initial=-1)) + 1 if count is None else count
        return self.start + summed(owners, self.predict_rows(table), least)

    def predict_rows(self, features: npt.ArrayLike) -> Doubles:
        """What each statement (rows,) adds to the score of its program. Raises ArgumentError."""
        table = arguments.features(features)
        if table.shape[1] != self.columns:
            raise unexpected(f"features of {self.columns} columns", "shape", table.shape)
        scores = np.zeros(len(table))
        for first in range(0, len(table), CHUNK):
            columns = np.ascontiguousarray(finite(table[first : first + CHUNK]).T)
            _score(columns, self._walks, scores[first : first + CHUNK])
        return scores

    def importance(self, kind: str = "gain") -> Doubles:
        """How much each column (columns,) matters, over all questions that ask for it.

        kind  "gain": what they took off the loss; "count": how many there are; "cover": the
              curvature of the rows that they were asked, which for the squared loss is their weight
        """
        if kind not in KINDS:
            raise unexpected(f"one of {', '.join(KINDS)}", "kind", kind)
        total = np.zeros(self.columns)
        for tree in self.trees:
            splits = tree.feature >= 0
            amount = np.ones(len(splits)) if kind == "count" else getattr(tree, kind)
            np.add.at(total, tree.feature[splits], amount[splits])
        return total

    def text(self, names: Sequence[str] | None = None) -> str:
        """All trees as text; `names` are those of the columns. Raises ArgumentError."""
        parts = [f"every program starts at {self.start:.5g}"]
        for number, tree in enumerate(self.trees, start=1):
            parts.append(f"\ntree {number} of {len(self.trees)}\n{tree.text(names)}")
        return "\n".join(parts)

    def to_json(self) -> str:
        """The model as JSON. What `from_json` makes of it gives the same scores, bit for bit."""
        return files.to_json(self.columns, self.start, self.trees)

    @staticmethod
    def from_json(text: str) -> Model:
        """The model that `to_json` wrote. Raises ArgumentError for anything else."""
        return Model(*files.from_json(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, JSON or npz by its name's end. An existing file is replaced as a whole.

        Raises ArgumentError for another end, OSError if the file cannot be written.
        """
        files.save(path, self.columns, self.start, self.trees)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Model:
        """The model that `save` wrote.

        Raises ArgumentError if the file is no model, and OSError if it cannot be read.
        """
        return Model(*files.load(path))


def _walk(tree: Tree) -> _Walk:
    leaf = tree.feature < 0
    value = tree.value.copy()
    for level in range(tree.depth):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        left = value[2 * first + 1 : 2 * last : 2]
        np.copyto(left, value[first:last], where=leaf[first:last])
    return _Walk(
        tree.depth,
        np.where(leaf, 0, tree.feature).astype(np.int64),
        np.where(leaf, LARGEST, tree.threshold),
        ~tree.missing_left & ~leaf,
        value[len(value) // 2 :],
    )


def _score(columns: Floats, walks: Sequence[_Walk], scores: Doubles) -> None:
    """Add what the trees give to the rows (rows,) of a table (columns, rows)."""
    rows = columns.shape[1]
    lanes = np.arange(rows)
    flat = columns.reshape(-1)
    missing = np.isnan(flat).any()
    place, right = np.empty(rows, np.int64), np.empty(rows, np.bool_)
    value, bound = np.empty(rows, np.float32), np.empty(rows, np.float32)
    for walk in walks:
        node = np.zeros(rows, np.int64)  # its place in the level
        begins = walk.feature * rows  # of each node's column, in the flat table
        for level in range(walk.depth):
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            if level == 0:
                np.greater(columns[walk.feature[0]], walk.threshold[0], out=right)
            else:  # mode="clip" works without buffers; all places are in range
                begins[nodes].take(node, out=place, mode="clip")
                place += lanes
                flat.take(place, out=value, mode="clip")
                walk.threshold[nodes].take(node, out=bound, mode="clip")
                np.greater(value, bound, out=right)
            if missing:
                asked = columns[walk.feature[0]] if level == 0 else value
                right |= np.isnan(asked) & walk.missing_right[nodes].take(node)
            node *= 2
            node += right
        scores += walk.value.take(node)
