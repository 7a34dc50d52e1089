"""One tree: as arrays, as text, and walked by many rows at once.

A tree is a complete binary tree in arrays: the children of node i are 2i + 1 and 2i + 2. There are
no pointers that could be wrong, and a path is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, printable, unexpected
from minitensor.search.gbt.bins import LARGEST, Doubles, Floats, finite

DEEPEST: Final = 12
CHUNK: Final = 4096
"""Rows that are scored together: few enough for their features to stay in a core's cache."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree. All arrays are (nodes,), with nodes = 2**(levels) - 1.

    feature       int32: the column of the split; -1 for a leaf, and for what is under a leaf
    threshold     float32: rows with value <= threshold go left, to 2i + 1
    missing_left  bool: rows whose value is NaN go left
    value         float64: the score of a leaf; of other nodes, their score if they were leaves
    gain          float64: the decrease of the loss by the split, 0 for a leaf
    cover         float64: the sum of the curvatures of the rows that reached the node
    rows          int32: the number of rows of the training data that reached the node
    """

    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    value: npt.NDArray[np.float64]
    gain: npt.NDArray[np.float64]
    cover: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int32]

    @property
    def depth(self) -> int:
        """The number of splits on the longest path."""
        return len(self.feature).bit_length() - 1

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return int(np.count_nonzero(self.feature >= 0)) + 1

    @cached_property
    def walk(self) -> _Walk:
        """The tree made ready for many rows, once: a search predicts often."""
        return _walk(self)

    def questions(self, names: Sequence[str] | None = None) -> dict[int, str]:
        """The question of each split, by its node; `names` are those of the columns. Raises
        ArgumentError.
        """
        name = _namer(names, self.feature)
        return {
            node: f"{name(int(self.feature[node]))} <= {self.threshold[node]:.6g}"
            + " or NaN" * bool(self.missing_left[node])
            for node in np.flatnonzero(self.feature >= 0).tolist()
        }

    def text(self, names: Sequence[str] | None = None) -> str:
        """The tree drawn with lines; `names` are those of the columns. Raises ArgumentError."""
        return "\n".join(self._lines(0, "", "", self.questions(names)))

    def _lines(self, node: int, head: str, rest: str, asked: Mapping[int, str]) -> Iterator[str]:
        if node not in asked:
            yield f"{head}{self.value[node]:+.5g}  ({self.rows[node]:,} rows)"
            return
        yield f"{head}{asked[node]}  ({self.rows[node]:,} rows, gain {self.gain[node]:.4g})"
        yield from self._lines(2 * node + 1, f"{rest}├─ yes: ", f"{rest}│  ", asked)
        yield from self._lines(2 * node + 2, f"{rest}└─ no: ", f"{rest}   ", asked)


FIELDS: Final = {
    "feature": np.dtype(np.int32),
    "threshold": np.dtype(np.float32),
    "missing_left": np.dtype(np.bool_),
    "value": np.dtype(np.float64),
    "gain": np.dtype(np.float64),
    "cover": np.dtype(np.float64),
    "rows": np.dtype(np.int32),
}
"""The arrays of a tree."""


def check(tree: Tree, columns: int) -> None:
    """Raise ValueError if the arrays are no tree over so many columns."""
    nodes = len(tree.feature)
    levels = nodes.bit_length()
    if nodes != 2**levels - 1 or not 2 <= levels <= DEEPEST + 1:
        raise ValueError(f"a tree of {nodes} nodes: expected 2**n - 1, n from 2 to {DEEPEST + 1}")
    if any(getattr(tree, name).shape != (nodes,) for name in FIELDS):
        raise ValueError(f"arrays that are not all of {nodes} nodes")
    if tree.feature.min() < -1 or tree.feature.max() >= columns:
        raise ValueError(f"a feature that is none of {columns} columns")
    splits = tree.feature >= 0
    if splits[nodes // 2 :].any() or (splits[1:] & ~splits[(np.arange(1, nodes) - 1) // 2]).any():
        raise ValueError("a split under a leaf, or none under a split")
    for name in ("threshold", "value", "gain", "cover"):
        if not np.isfinite(getattr(tree, name)).all():
            raise ValueError(f"a {name} that is not finite")


@dataclass(frozen=True)
class _Walk:
    """A tree made ready for many rows: complete, so that each row takes the same number of steps.

    Under a leaf there are splits that send every row left; so a row ends in the leftmost node of
    the last level, which has the leaf's value. All arrays are (nodes,) but the last.

    feature   int64: the column of the split
    value     float64 (nodes of the last level,)
    """

    depth: int
    feature: npt.NDArray[np.int64]
    threshold: Floats
    missing_right: npt.NDArray[np.bool_]
    value: Doubles


def predict(trees: Sequence[Tree], table: npt.NDArray[Any]) -> Doubles:
    """The sum (rows,) of the values of the leaves in which each row (rows, columns) ends.

    Rows that are alike in all columns that a split asks for are scored once: of the statements of
    a search's candidates many are.
    """
    if not trees:
        return np.zeros(len(table))
    walks = [tree.walk for tree in trees]
    used = np.unique(np.concatenate([walk.feature for walk in walks]))
    rows, owners = _different(np.ascontiguousarray(finite(table[:, used])))
    scores = np.zeros(len(rows))
    for first in range(0, len(rows), CHUNK):
        columns = np.ascontiguousarray(rows[first : first + CHUNK].T)
        _score(columns, used, walks, scores[first : first + CHUNK])
    return scores[owners]


def _different(rows: Floats) -> tuple[Floats, list[int]]:
    """Rows of which no two are the same bits, and for each given one which of them it is."""
    width, data = rows.shape[1] * rows.itemsize, rows.tobytes()
    known: dict[bytes, int] = {}
    owners = [
        known.setdefault(data[at : at + width], len(known)) for at in range(0, len(data), width)
    ]
    return np.frombuffer(b"".join(known), rows.dtype).reshape(-1, rows.shape[1]), owners


def _walk(tree: Tree) -> _Walk:
    leaf = tree.feature < 0
    value = tree.value.copy()
    for level in range(tree.depth):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        left = value[2 * first + 1 : 2 * last : 2]
        np.copyto(left, value[first:last], where=leaf[first:last])
    return _Walk(
        tree.depth,
        np.where(leaf, 0, tree.feature).astype(np.intp),
        np.where(leaf, LARGEST, tree.threshold),
        ~tree.missing_left & ~leaf,
        value[len(value) // 2 :],
    )


def _score(
    columns: Floats, used: npt.NDArray[np.int64], walks: Sequence[_Walk], scores: Doubles
) -> None:
    """Add the values of the trees for the rows (rows,) of a table (columns, rows).

    used  the columns that are in the table, ascending
    """
    rows = columns.shape[1]
    lanes = np.arange(rows)
    flat = columns.reshape(-1)
    missing = np.isnan(flat).any()
    at, right = np.empty(rows, np.intp), np.empty(rows, np.bool_)
    value, bound = np.empty(rows, np.float32), np.empty(rows, np.float32)
    for walk in walks:
        node = np.zeros(rows, np.intp)  # its number in the level
        column = np.searchsorted(used, walk.feature)
        begins = column * rows  # of each node's column, in the flat table
        for level in range(walk.depth):
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            if level == 0:
                np.greater(columns[column[0]], walk.threshold[0], out=right)
            else:  # mode="clip" works without buffers; all numbers are in range
                begins[nodes].take(node, out=at, mode="clip")
                at += lanes
                flat.take(at, out=value, mode="clip")
                walk.threshold[nodes].take(node, out=bound, mode="clip")
                np.greater(value, bound, out=right)
            if missing:
                compared = columns[column[0]] if level == 0 else value
                right |= np.isnan(compared) & walk.missing_right[nodes].take(node)
            node *= 2
            node += right
        scores += walk.value.take(node)


def _namer(names: Sequence[str] | None, used: npt.NDArray[np.int32]) -> Any:
    """A function from the number of a column to its name."""
    if names is None:
        return "f{}".format
    wanted = int(used.max()) + 1
    if isinstance(names, str) or len(names) < wanted:
        raise unexpected(f"names of at least {wanted} columns", "names", names)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError("expected names as text")
    return lambda column: printable(names[column])
