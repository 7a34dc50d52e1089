"""What a search has learnt: features of candidates, and a model of what was measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, MinitensorError
from minitensor.search.features import FEATURE_NAMES, BatchError, extract_features
from minitensor.search.gbt import Booster, Model
from minitensor.search.space import Choices, Plan, Space

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


SLOW: Final = 64
"""How many candidates at a time are replayed for their features, where no arrays will do."""


class Learner:
    """Scores candidates of a space.

    booster  how trees are grown
    loss     "squared" or "rank" (see `gbt`)
    """

    def __init__(self, space: Space, booster: Booster, loss: str) -> None:
        self.space, self.booster, self.loss = space, booster, loss
        self.model: Model | None = None
        self.seconds = 0.0
        """Spent on features and trees."""
        self._rows: list[Floats] = []
        self._labels: list[float] = []

    def learn(self, batch: Sequence[Choices], throughputs: Sequence[float]) -> None:
        """Remember candidates and how fast they were: operations a second in any unit, 0 for
        failures.
        """
        rows = self.features(batch)
        self._rows += [
            r if r is not None else np.zeros((0, len(FEATURE_NAMES)), np.float32) for r in rows
        ]
        self._labels += list(throughputs)

    def fit(self) -> None:
        """Grow the trees anew from all that is remembered."""
        start = time.perf_counter()
        if self._rows:
            owners = np.repeat(np.arange(len(self._rows)), [len(r) for r in self._rows])
            table = np.concatenate(self._rows)
            self.model = self.booster.fit(table, owners, self._labels, loss=self.loss)
        self.seconds += time.perf_counter() - start

    def score(self, batch: Sequence[Choices]) -> Doubles:
        """What the model gives each candidate: higher is faster; -inf for what is refused.

        Without a model all legal candidates score alike.
        """
        start = time.perf_counter()
        scores = np.full(len(batch), -np.inf)
        slow = SLOW
        for plan, found in self._by_plan(batch):
            if plan is None:
                continue
            if self.model is None:
                scores[found] = 0.0
                continue
            places = found if plan.structure is not None else found[:slow]
            slow -= len(places) if plan.structure is None else 0
            rows, owners = self._stacked(plan, [batch[p] for p in places])
            scores[places] = self.model.predict(rows, owners, len(places))
        self.seconds += time.perf_counter() - start
        return scores

    def features(self, batch: Sequence[Choices]) -> list[Floats | None]:
        """The features (statements, columns) of each candidate; None for what is refused."""
        found: list[Floats | None] = [None] * len(batch)
        for plan, places in self._by_plan(batch):
            if plan is not None:
                rows, owners = self._stacked(plan, [batch[p] for p in places])
                for number, place in enumerate(places):
                    found[place] = rows[owners == number]
        return found

    def _by_plan(self, batch: Sequence[Choices]) -> list[tuple[Plan | None, list[int]]]:
        groups: dict[tuple[int, tuple[str, ...]], list[int]] = {}
        for place, choices in enumerate(batch):
            groups.setdefault((choices.sketch, choices.locations), []).append(place)
        return [(self.space.plan(*key), places) for key, places in groups.items()]

    def _stacked(
        self, plan: Plan, batch: Sequence[Choices]
    ) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Rows of features, and whose they are, of candidates that share a plan."""
        if plan.structure is None:
            return self._one_by_one(batch)
        try:
            marks = self.space.marks(plan, batch)
            table = plan.structure.features(self.space.decisions(batch), marks)
        except (BatchError, ArgumentError):  # for some of them; or their tiles depend on others
            if len(batch) == 1:
                return self._one_by_one(batch)
            middle = len(batch) // 2
            (first, whose), (second, others) = (
                self._stacked(plan, half) for half in (batch[:middle], batch[middle:])
            )
            return np.concatenate([first, second]), np.concatenate([whose, others + middle])
        owners = np.repeat(np.arange(len(batch)), table.shape[1])
        return table.reshape(-1, table.shape[2]), owners

    def _one_by_one(self, batch: Sequence[Choices]) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The same from schedules. (Loops that are fused to be parallel are one loop there, and
        several where marks say so: a few columns differ.)
        """
        rows, owners = [], []
        for number, choices in enumerate(batch):
            try:
                found = extract_features(self.space.schedule(choices), self.space.target)
            except MinitensorError:
                continue
            rows.append(found)
            owners += [number] * len(found)
        if not rows:
            return np.zeros((0, len(FEATURE_NAMES)), np.float32), np.zeros(0, np.int64)
        return np.concatenate(rows), np.array(owners, np.int64)
