"""The learner with the interface that libraries of trees have: fit, predict, one row a sample.

    trees = GradientBoostedTrees(objective="rank", n_trees=50, seed=0).fit(X, y, group=workloads)
    order = np.argsort(-trees.predict(X_new))

It is `Booster` with other names, for any labels: those need not be throughputs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, unexpected
from minitensor.search.gbt import arguments
from minitensor.search.gbt.booster import LOSSES, Booster
from minitensor.search.gbt.model import Model
from minitensor.search.gbt.tree import DEEPEST, MOST_NODES

Doubles = npt.NDArray[np.float64]
Samples: TypeAlias = npt.ArrayLike | Sequence[npt.ArrayLike]

LARGEST: Final = 1e300
"""Labels beyond count as this, so that none are too far apart for a float."""
WORSE: Final = 0.05
"""How far below the least label a failure is, where that is not above 0: as a part of their range,
or of the label."""
TINY: Final = 1e-300


@dataclass
class GradientBoostedTrees:
    """Histogram gradient-boosted trees. Raises ArgumentError for values out of range.

    objective      "squared": predictions estimate labels; "rank": they put samples in the order of
                   their labels, and mean nothing else
    n_trees        how many at the most; fewer if there is nothing left to learn
    max_depth      questions on a path, at the most
    learning_rate  the part of a tree's values that is used
    seed           draws the pairs of "rank"; nothing else is drawn
    model          what `fit` learnt from labels brought to the range 0 to 1; None before
    """

    objective: str = "squared"
    n_trees: int = 50
    max_depth: int = 6
    learning_rate: float = 0.3
    seed: int = 0
    model: Model | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.objective not in LOSSES:
            raise unexpected(f"one of {', '.join(LOSSES)}", "objective", self.objective)
        arguments.integer("max_depth", self.max_depth, 1, DEEPEST)
        arguments.integer("n_trees", self.n_trees, 0, MOST_NODES >> (self.max_depth + 1))
        self._booster = Booster(
            trees=self.n_trees,
            depth=self.max_depth,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        self._least, self._range = 0.0, 1.0

    def fit(
        self,
        X: Samples,
        y: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> GradientBoostedTrees:
        """Learn, and return itself. The same arguments give the same bits.

        X       (samples, columns) numbers, NaN and infinities allowed; or for each sample a table
                (statements, columns), such as `extract_features` gives: its prediction is then the
                sum over its statements
        y       (samples,) labels, higher is better; NaN and infinities are failures, which count as
                0, or as less than the least label where that is below 0
        weight  (samples,) from 0 to 1e6; all 1 if None. With throughputs as labels and as weights
                it is Ansor's loss (OSDI 2020, section 5.2)
        group   (samples,) integers or texts: "rank" compares within a group only

        Labels never make it raise: where all are alike, or there are none, all predictions are
        alike. Raises ArgumentError for other arguments.
        """
        table, owners, count = _joined(X)
        found = arguments.labels(y)
        if len(found) != count:
            raise unexpected(f"a label for each of {count} samples", "y", found.shape)
        weights = arguments.weights(weight, count)
        groups = arguments.groups(group, count)
        scaled, least, span = _scaled(found)
        model = self._booster.towards(table, owners, scaled, groups, weights, self.objective)
        self.model, self._least, self._range = model, least, span
        return self

    def predict(self, X: Samples) -> Doubles:
        """A finite number (samples,) for each sample. X as in `fit`. Raises ArgumentError."""
        model = self._learnt()
        table, owners, count = _joined(X)
        scores = model.predict(table, owners, count)
        return scores if self.objective == "rank" else self._least + self._range * scores

    def importance(self, kind: str = "gain") -> Doubles:
        """How much each column (columns,) matters; see `Model.importance`."""
        return self._learnt().importance(kind)

    def _learnt(self) -> Model:
        if self.model is None:
            raise ArgumentError("there is nothing learnt yet; call fit(X, y) first")
        return self.model


def _joined(X: Samples) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], int]:
    """One table, the sample of each row, and how many samples there are."""
    if isinstance(X, (list, tuple)) and X and all(map(_is_table, X)):
        tables = [arguments.features(table) for table in X]
        widths = {table.shape[1] for table in tables}
        if len(widths) > 1:
            raise unexpected("tables of the same number of columns", "X", sorted(widths))
        owners = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        return arguments.training(np.concatenate(tables)), owners, len(tables)
    empty = isinstance(X, (list, tuple)) and not X
    table = arguments.training(np.zeros((0, 0)) if empty else arguments.features(X))  # type: ignore[arg-type]
    return table, np.arange(len(table)), len(table)


def _is_table(value: object) -> bool:
    try:
        return np.ndim(value) == 2  # type: ignore[arg-type]
    except ValueError:  # of ragged lists
        return False


def _scaled(labels: Doubles) -> tuple[Doubles, float, float]:
    """Labels brought to 0 to 1; what is 0, and how much is 1."""
    finite = np.isfinite(labels)
    if not finite.any():
        return np.zeros(len(labels)), 0.0, 1.0
    kept = np.clip(labels, -LARGEST, LARGEST)
    least, most = float(kept[finite].min()), float(kept[finite].max())
    if not finite.all():
        least = 0.0 if least > 0 else least - WORSE * max(most - least, abs(least), TINY)
    span = most - least
    if span <= 0:
        return np.zeros(len(labels)), least, 1.0
    return np.where(finite, (kept - least) / span, 0.0), least, span
