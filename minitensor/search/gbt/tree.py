"""One tree, to be read: as text, as positions for a drawing, as arrays.

A tree is a complete binary tree in arrays: the children of node i are 2i + 1 and 2i + 2. There are
no pointers that could be wrong, and a path is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, printable, unexpected

DEEPEST: Final = 12
MOST_NODES: Final = 1 << 18
"""Of all trees of a model."""
LARGEST_VALUE: Final = 1e60
"""Of a value, gain or cover, such that no sum of them overflows."""


@dataclass(frozen=True)
class Place:
    """Where a node is drawn: x counts leaves from the left, y levels from the top.

    `text` says what it asks or gives; `parent` is a node, None for the root (node 0).
    """

    node: int
    parent: int | None
    x: float
    y: int
    text: str


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree. All arrays are (nodes,), with nodes = 2**(levels) - 1.

    feature       int32: the column that is asked for; -1 for a leaf, and for what is under a leaf
    threshold     float32: rows with value <= threshold go left, to 2i + 1
    missing_left  bool: rows whose value is NaN go left
    value         float64: the score that a leaf gives; of other nodes, what it would be as a leaf
    gain          float64: what the split took off the loss, 0 for a leaf
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
        """The number of questions on the longest path."""
        return len(self.feature).bit_length() - 1

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return int(np.count_nonzero(self.feature >= 0)) + 1

    def text(self, names: Sequence[str] | None = None) -> str:
        """The tree drawn with lines; `names` are those of the columns. Raises ArgumentError."""
        return "\n".join(self._lines(0, "", "", _namer(names, self.feature)))

    def _lines(self, node: int, head: str, rest: str, name: Any) -> Iterator[str]:
        if self.feature[node] < 0:
            yield f"{head}{self.value[node]:+.5g}  ({self.rows[node]:,} rows)"
            return
        size = f"({self.rows[node]:,} rows, gain {self.gain[node]:.4g})"
        yield f"{head}{self._question(node, name)}  {size}"
        yield from self._lines(2 * node + 1, f"{rest}├─ yes: ", f"{rest}│  ", name)
        yield from self._lines(2 * node + 2, f"{rest}└─ no: ", f"{rest}   ", name)

    def _question(self, node: int, name: Any) -> str:
        missing = " or NaN" if self.missing_left[node] else ""
        return f"{name(int(self.feature[node]))} <= {self.threshold[node]:.6g}{missing}"

    def layout(self, names: Sequence[str] | None = None) -> list[Place]:
        """Where to draw the nodes, parents before their children. Raises ArgumentError."""
        name = _namer(names, self.feature)
        x: dict[int, float] = {}
        order: list[tuple[int, int | None, int]] = []
        stack: list[tuple[int, int | None, int]] = [(0, None, 0)]
        while stack:
            node, parent, y = stack.pop()
            order.append((node, parent, y))
            if self.feature[node] < 0:
                x[node] = float(len(x))
            else:
                stack += [(2 * node + 2, node, y + 1), (2 * node + 1, node, y + 1)]
        for node, _, _ in reversed(order):
            if node not in x:
                x[node] = (x[2 * node + 1] + x[2 * node + 2]) / 2
        return [
            Place(node, parent, x[node], y, self._label(node, name)) for node, parent, y in order
        ]

    def _label(self, node: int, name: Any) -> str:
        if self.feature[node] < 0:
            return f"{self.value[node]:+.3g}"
        return self._question(node, name)


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
    """Raise ValueError if the arrays, of the right types, are no tree over so many columns."""
    nodes = len(tree.feature)
    levels = nodes.bit_length()
    if nodes != 2**levels - 1 or not 2 <= levels <= DEEPEST + 1:
        raise ValueError(f"a tree of {nodes} nodes: expected 2**n - 1, n from 2 to {DEEPEST + 1}")
    for name, dtype in FIELDS.items():
        values = getattr(tree, name)
        if values.shape != (nodes,) or values.dtype != dtype:
            raise ValueError(f"{name} is {values.dtype}{values.shape}, not {dtype}({nodes},)")
    if tree.feature.min() < -1 or tree.feature.max() >= columns:
        raise ValueError(f"a feature that is none of {columns} columns")
    splits = tree.feature >= 0
    if not splits[0] or splits[nodes // 2 :].any():
        raise ValueError("a tree that does not begin with a question, or ends with one")
    if (splits[1:] & ~splits[(np.arange(1, nodes) - 1) // 2]).any():
        raise ValueError("a question under a leaf")
    for name in ("threshold", "value", "gain", "cover"):
        values = getattr(tree, name)
        if not np.isfinite(values).all():
            raise ValueError(f"a {name} that is not finite")
        if name != "threshold" and np.abs(values).max() > LARGEST_VALUE:
            raise ValueError(f"a {name} beyond {LARGEST_VALUE:g}")
    if tree.rows.min() < 0:
        raise ValueError("a negative number of rows")


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
