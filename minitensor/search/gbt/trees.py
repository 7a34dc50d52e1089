"""Gradient-boosted trees: one tree after the other, each towards what those before left over.

trees = GradientBoostedTrees(objective="rank", n_trees=50, seed=0).fit(X, y, group=workloads)
order = np.argsort(-trees.predict(X_new))
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, real, unexpected, whole
from minitensor.search.gbt import bins as binning
from minitensor.search.gbt import grow, loss
from minitensor.search.gbt.bins import Doubles, Integers
from minitensor.search.gbt.tree import DEEPEST, FIELDS, Tree, check, predict

Rows: TypeAlias = "Samples | npt.ArrayLike | Sequence[npt.ArrayLike]"

OBJECTIVES: Final = ("squared", "rank")
MOST_NODES: Final = 1 << 18
"""Of all trees together."""
MOST_COLUMNS: Final = 1 << 16
LARGEST_WEIGHT: Final = 1e6
LARGEST: Final = 1e300
"""Labels beyond are cut to this, so that no difference of two overflows."""
WORSE: Final = 0.05
"""The distance of a failure from the least label, where that is not above 0: as a part of the
labels' range, or of the label."""
TINY: Final = 1e-300
NARROW: Final = 1 / 64
"""Labels whose range is a smaller part of the largest one are scaled by their range."""
FORMAT: Final = "minitensor trees"
VERSION: Final = 2
PARAMETERS: Final = {
    "learning_rate": (1e-6, 1.0),
    "lambda_": (1e-6, 1e6),
    "gain": (0.0, 1e9),
    "cover": (0.0, 1e9),
}
"""Parameters that are real numbers, and their ranges."""


class Samples(Sequence[npt.NDArray[Any]]):
    """Samples of several rows each, such as programs of several statements.

    A sequence of the tables (rows, columns) of the samples. `np.asarray` gives one row a sample,
    the sum over its rows, for models that take a matrix.

    table   (rows, columns) of all samples, one below the other
    counts  (samples,) the number of rows of each
    """

    def __init__(self, table: npt.NDArray[Any], counts: Sequence[int] | Integers) -> None:
        self.table = table
        self.counts: Integers = np.asarray(counts, np.intp)
        self._ends = np.cumsum(self.counts)

    @staticmethod
    def of(tables: Sequence[npt.NDArray[Any]]) -> Samples:
        """The samples of some tables (rows, columns), one for each."""
        return Samples(np.concatenate(tables), [len(table) for table in tables])

    @staticmethod
    def joined(parts: Sequence[Samples]) -> Samples:
        """All samples of some, one after the other."""
        tables, counts = [part.table for part in parts], [part.counts for part in parts]
        return Samples(np.concatenate(tables), np.concatenate(counts))

    @property
    def owners(self) -> Integers:
        """The number of its sample for each row, (rows,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, number: int) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, number: slice) -> list[npt.NDArray[Any]]: ...

    def __getitem__(self, number: int | slice) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        end = self._ends[number]
        return self.table[end - self.counts[number] : end]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return iter(np.split(self.table, self._ends[:-1]) if len(self) else ())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        sums = np.zeros((len(self), self.table.shape[1]), self.table.dtype)
        np.add.at(sums, self.owners, self.table)
        return sums if dtype is None else sums.astype(dtype)


@dataclass(eq=False)
class GradientBoostedTrees:
    """Histogram gradient-boosted trees. Raises ArgumentError for values out of range.

    objective      "squared": predictions estimate labels; "rank": they put samples in the order of
                   their labels, and mean nothing else
    n_trees        the number of trees; fewer if there is nothing left to learn
    max_depth      splits on a path, at the most
    learning_rate  the part of a tree's values that is used
    seed           draws the pairs of "rank"; nothing else is drawn
    bins           of each column, NaN's not counted; with it, a power of two is fastest
    lambda_        is added to sums of curvatures: holds back leaves of few rows
    gain           that a split must exceed, in units of the loss
    cover          sum of curvatures that each child must have
    partners       of each sample, for "rank"

    After `fit`: `trees`, `columns` (of X), and `start`, the score of a sample before its rows. The
    unit of scores is the range of the labels.
    """

    objective: str = "squared"
    n_trees: int = 50
    max_depth: int = 6
    learning_rate: float = 0.3
    seed: int = 0
    bins: int = 127
    lambda_: float = 1.0
    gain: float = 1e-6
    cover: float = 0.0
    partners: int = 16
    trees: tuple[Tree, ...] = field(default=(), init=False, repr=False)
    columns: int | None = field(default=None, init=False, repr=False)
    start: float = field(default=0.0, init=False, repr=False)
    _origin: float = field(default=0.0, init=False, repr=False)
    _scale: float = field(default=1.0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise unexpected(f"one of {', '.join(OBJECTIVES)}", "objective", self.objective)
        whole("max_depth", self.max_depth, 1, DEEPEST)
        whole("n_trees", self.n_trees, 0, MOST_NODES >> (self.max_depth + 1))
        whole("bins", self.bins, 2, binning.MOST_BINS)
        whole("partners", self.partners, 1, 1 << 10)
        whole("seed", self.seed, 0, 2**64 - 1)
        for name, (least, most) in PARAMETERS.items():
            real(name, getattr(self, name), least, most)

    # ---- learning

    def fit(
        self,
        X: Rows,
        y: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> GradientBoostedTrees:
        """Learn, and return itself. The same arguments give the same bits.

        X       (samples, columns) numbers, NaN and infinities allowed; or for each sample a table
                (rows, columns), such as `extract_features` gives: its score is then the sum over
                its rows
        y       (samples,) labels, higher is better; NaN and infinities are failures, which count as
                0, or as less than the least label where that is below 0
        weight  (samples,) from 0 to 1e6; all 1 if None. With throughputs as labels and as weights
                "squared" is Ansor's loss (OSDI 2020, section 5.2)
        group   (samples,) integers or texts: "rank" compares within a group only

        Labels never make it raise: where all are alike, or there are none, all predictions are
        alike. Raises ArgumentError for other arguments.
        """
        samples = _samples(X)
        labels = _for_each("y", y, "biuf", len(samples))
        if len(samples.table) > grow.MOST_ROWS:
            raise unexpected(f"at most {grow.MOST_ROWS} rows", "shape", samples.table.shape)
        weights, groups = _weights(weight, len(samples)), _groups(group, len(samples))
        with np.errstate(over="ignore"):  # of a longer type: too large is infinite
            targets, self._origin, self._scale = _scaled(labels.astype(np.float64))
        goal: loss.Loss
        if self.objective == "squared":
            goal = loss.Squared(targets, weights, samples.counts)
        else:
            goal = loss.Rank(targets, weights, groups, self.partners, self.seed)
        self._boost(samples, goal)
        return self

    def _boost(self, samples: Samples, goal: loss.Loss) -> None:
        data = binning.binned(binning.finite(samples.table), self.bins)
        limits = grow.Growth(self.max_depth, self.lambda_, self.gain, self.cover)
        owners, scores = samples.owners, np.zeros(len(samples.table))
        self.columns, self.start = samples.table.shape[1], goal.start()
        trees: list[Tree] = []
        for _ in range(self.n_trees):
            total = self.start + loss.summed(owners, scores, len(samples))
            slope, curvature = (part[owners] for part in goal.derivatives(total))
            grown = grow.grow(data, slope, curvature, limits)
            if grown.column[0] < 0:
                break
            trees.append(self._tree(data, grown, slope, curvature))
            scores += trees[-1].value[grown.leaf]
        self.trees = tuple(trees)

    def _tree(
        self, data: binning.Binned, grown: grow.Grown, slope: Doubles, curvature: Doubles
    ) -> Tree:
        """The tree over values instead of bins, without the levels that are empty."""
        splits = np.flatnonzero(grown.column >= 0)
        nodes = 2 * (1 << int(splits[-1] + 1).bit_length()) - 1
        slopes = _over_nodes(loss.summed(grown.leaf, slope, nodes))
        covers = _over_nodes(loss.summed(grown.leaf, curvature, nodes))
        rows = _over_nodes(np.bincount(grown.leaf, minlength=nodes))
        feature = np.full(nodes, -1, np.int32)
        threshold = np.zeros(nodes, np.float32)
        for node in splits:
            column, code = grown.column[node], grown.code[node]
            cuts = data.cuts[column]
            feature[node] = data.origin[column]
            threshold[node] = cuts[code] if code < len(cuts) else binning.LARGEST  # all but NaN
        return Tree(
            feature,
            threshold,
            grown.missing_left[:nodes].copy(),
            -self.learning_rate * slopes / (covers + self.lambda_),
            grown.gain[:nodes].copy(),
            covers,
            rows.astype(np.int32),
        )

    # ---- asking

    def predict(self, X: Rows) -> Doubles:
        """A finite number (samples,) for each sample. X as in `fit`. Raises ArgumentError."""
        samples = _samples(X)
        sums = loss.summed(samples.owners, self.predict_rows(samples.table), len(samples))
        scores = self.start + sums
        return scores if self.objective == "rank" else self._origin + self._scale * scores

    def predict_rows(self, table: npt.ArrayLike) -> Doubles:
        """The part (rows,) of each row of a table in its sample's score. Raises ArgumentError."""
        rows = _table(table)
        if rows.shape[1] != self._learnt():
            raise unexpected(f"rows of {self.columns} columns", "shape", rows.shape)
        return predict(self.trees, rows)

    def importance(self) -> Doubles:
        """The weight of each column (columns,): what all splits of it took off the loss."""
        total = np.zeros(self._learnt())
        for tree in self.trees:
            splits = tree.feature >= 0
            np.add.at(total, tree.feature[splits], tree.gain[splits])
        return total

    def text(self, names: Sequence[str] | None = None) -> str:
        """All trees as text; `names` are those of the columns. Raises ArgumentError."""
        parts = [f"every sample starts at {self.start:.5g}"]
        for number, tree in enumerate(self.trees, start=1):
            parts.append(f"\ntree {number} of {len(self.trees)}\n{tree.text(names)}")
        return "\n".join(parts)

    def _learnt(self) -> int:
        """The number of columns. Raises ArgumentError before `fit`."""
        if self.columns is None:
            raise ArgumentError("there is nothing learnt yet; call fit(X, y) first")
        return self.columns

    # ---- files

    def to_json(self) -> str:
        """The trees as JSON. Those that `from_json` reads predict the same bits."""
        state = {"objective": self.objective, "columns": self._learnt(), "start": self.start}
        state |= {"origin": self._origin, "scale": self._scale}
        trees = [{name: getattr(tree, name).tolist() for name in FIELDS} for tree in self.trees]
        return json.dumps({"format": FORMAT, "version": VERSION, **state, "trees": trees})

    @staticmethod
    def from_json(text: str) -> GradientBoostedTrees:
        """Trees that predict as those of which `to_json` wrote. Raises ArgumentError."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT or data["version"] != VERSION:
                raise ValueError("another format, or another version of it; fit the trees again")
            found = GradientBoostedTrees(objective=data["objective"])
            found.columns, found.start = int(data["columns"]), float(data["start"])
            found._origin, found._scale = float(data["origin"]), float(data["scale"])
            found.trees = tuple(
                Tree(**{name: np.array(tree[name], dtype) for name, dtype in FIELDS.items()})
                for tree in data["trees"]
            )
            for tree in found.trees:
                check(tree, found.columns)
            if not np.isfinite([found.start, found._origin, found._scale]).all():
                raise ValueError("a number that is not finite")
            return found
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise ArgumentError(f"not {FORMAT}: {problem}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file; an existing one is replaced as a whole. Raises OSError."""
        target, text = Path(path), self.to_json()
        beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            beside.write_text(text, encoding="ascii")
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> GradientBoostedTrees:
        """The trees of a file that `save` wrote. Raises ArgumentError for another, OSError."""
        try:
            return GradientBoostedTrees.from_json(Path(path).read_text("ascii", "replace"))
        except ArgumentError as problem:
            raise ArgumentError(f"{path}: {problem.message}") from None


def _over_nodes(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums over the leaves (nodes,), to which those of the nodes above are added."""
    for level in range(len(sums).bit_length() - 2, -1, -1):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        sums[first:last] += sums[2 * first + 1 : 2 * last + 1].reshape(-1, 2).sum(axis=1)
    return sums


def _scaled(labels: Doubles) -> tuple[Doubles, float, float]:
    """Labels brought to the size of 1; the label that is 0, and how much is 1.

    Labels that are not negative keep their 0, unless they differ by little only.
    """
    finite = np.isfinite(labels)
    if not finite.any():
        return np.zeros(len(labels)), 0.0, 1.0
    kept = np.clip(labels, -LARGEST, LARGEST)
    least, most = float(kept[finite].min()), float(kept[finite].max())
    if not finite.all():
        least = 0.0 if least > 0 else least - WORSE * max(most - least, abs(least), TINY)
    if most == least:
        return np.zeros(len(labels)), least, 1.0
    origin = 0.0 if least >= 0 and most - least > NARROW * most else least
    scale = most - origin
    return np.where(finite, (kept - origin) / scale, (least - origin) / scale), origin, scale


# ---- arguments; each function raises ArgumentError


def _samples(X: Rows) -> Samples:
    if isinstance(X, Samples):
        return X
    if isinstance(X, (list, tuple)) and X and all(map(_is_table, X)):
        tables = [_table(table) for table in X]
        widths = {table.shape[1] for table in tables}
        if len(widths) > 1:
            raise unexpected("tables of the same number of columns", "X", sorted(widths))
        return Samples.of(tables)
    empty = isinstance(X, (list, tuple)) and not X
    table = np.zeros((0, 0)) if empty else _table(X)  # type: ignore[arg-type]
    return Samples(table, np.ones(len(table), np.intp))


def _is_table(value: object) -> bool:
    try:
        return np.ndim(value) == 2  # type: ignore[arg-type]
    except ValueError:  # of ragged lists
        return False


def _table(values: npt.ArrayLike) -> npt.NDArray[Any]:
    table = _array("features", values, "biuf", 2)
    if table.shape[1] > MOST_COLUMNS:
        raise unexpected(f"at most {MOST_COLUMNS} columns", "shape", table.shape)
    return table


def _groups(values: npt.ArrayLike | None, count: int) -> Integers:
    """For each sample the number of its group, from 0; all in one if None."""
    if values is None:
        return np.zeros(count, np.intp)
    found = _for_each("group", values, "biuU", count)
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.intp)


def _weights(values: npt.ArrayLike | None, count: int) -> Doubles:
    if values is None:
        return np.ones(count)
    found = _for_each("weight", values, "biuf", count)
    if not ((found >= 0) & (found <= LARGEST_WEIGHT)).all():
        raise unexpected(f"weights from 0 to {LARGEST_WEIGHT:g}", "weight", found)
    return found.astype(np.float64)


def _for_each(name: str, values: npt.ArrayLike, kinds: str, count: int) -> npt.NDArray[Any]:
    found = _array(name, values, kinds, 1)
    if len(found) != count:
        raise unexpected(f"one for each of {count} samples", name, found.shape)
    return found


def _array(name: str, values: npt.ArrayLike, kinds: str, axes: int) -> npt.NDArray[Any]:
    expected = f"{'numbers' if 'f' in kinds else 'integers'} in {axes} axes"
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, Warning):  # old numpy warns of ragged lists
        raise unexpected(expected, name, values) from None
    empty = array.size == 0 and array.dtype == np.float64  # what an empty list becomes
    if array.ndim != axes or (array.dtype.kind not in kinds and not empty):
        raise unexpected(expected, name, f"{array.dtype}{array.shape}")
    return array
