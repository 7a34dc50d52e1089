"""Cost models in a search: features of candidates, and a model of what was measured."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, printable, shown, unexpected
from minitensor.search.features import (
    FEATURE_NAMES,
    BatchError,
    Job,
    extract_features,
    features_of,
)
from minitensor.search.gbt import GradientBoostedTrees, Samples
from minitensor.search.space import Candidate, Plan, Space
from minitensor.search.strategy import Doubles
from minitensor.search.transfer import LEAST_WEIGHT, Pretrained
from minitensor.search.unmade import Unmade

Floats = npt.NDArray[np.float32]

SLOW: Final = 64
"""Candidates of a batch that are replayed for their features, where arrays cannot compute them."""


class Model(Protocol):
    """A cost model: learns throughputs of programs from features of their statements.

    X is a sequence of tables (statements, 164), one for each program (see `Samples`); as an array
    (`np.asarray(X)`) it is a row for each program, the sum over its statements. So a model may give
    each statement a score and add them up, as `GradientBoostedTrees` does, or see a program as one
    row.

    `fit` is called with all programs measured so far, whenever there are new ones. A model whose
    `fit` has a parameter `weight` is given one for each program, larger for faster ones. In a
    search with a history the throughputs are what the model of the history leaves over, and its
    part is added to what `predict` gives (see `Pretrained`).
    """

    def fit(self, X: Samples, y: Doubles) -> object:
        """Learn throughputs (programs,): 1 for the fastest, 0 for a failure."""
        ...

    def predict(self, X: Samples) -> Any:
        """A number (programs,) for each program: the higher, the faster. NaN is the last."""
        ...


def usual_model(seed: int = 0, objective: str = "squared") -> GradientBoostedTrees:
    """The model of a search. It learns from a few hundred programs at most: fewer and flatter trees
    with wider bins rank what they have not seen as well as the defaults of `GradientBoostedTrees`
    (docs/cost_model.md), and are learnt in a third of the time.
    """
    return GradientBoostedTrees(objective, n_trees=30, max_depth=4, bins=31, seed=seed)


def check_model(model: Any) -> None:
    """Raise ArgumentError for an object that is no Model."""
    for name in ("fit", "predict"):
        if isinstance(model, type) or not callable(getattr(model, name, None)):
            raise unexpected("an object with fit(X, y) and predict(X), or None", "model", model)
    weight = {"weight": None} if _takes_weight(model) else {}
    _check_call("model.predict(X)", model.predict, None)
    _check_call("model.fit(X, y), or (X, y, weight=weight)", model.fit, None, None, **weight)


def _takes_weight(model: Model) -> bool:
    signature = _signature(model.fit)
    return signature is not None and "weight" in signature.parameters


def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    """The parameters of a function; None for one in C that does not list them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _check_call(call: str, method: Callable[..., object], *given: object, **named: object) -> None:
    """Raise ArgumentError for a method that does not take what the search gives."""
    signature = _signature(method)
    try:
        if signature is not None:
            signature.bind(*given, **named)
    except TypeError as problem:
        raise ArgumentError(
            f"expected a method to be called as {call}, but its parameters are "
            f"{printable(str(signature))}: {problem}"
        ) from None


class Learner:
    """Scores candidates of a space by a model, which corrects one of other workloads if there is
    such a one.
    """

    def __init__(self, space: Space, model: Model, history: Pretrained | None = None) -> None:
        check_model(model)
        self.space, self.model, self.history = space, model, history
        self.fitted = False
        self.seconds = 0.0
        """Spent on features and the model."""
        self._rows: list[Floats] = []
        self._speeds: list[float] = []
        self._weighted = _takes_weight(model)
        self.unmade = Unmade()
        """Fits, scores and features that could not be made."""

    def learn(self, batch: Sequence[Candidate], throughputs: Sequence[float]) -> None:
        """Remember candidates and how fast they were: calls a second, 0 for failures."""
        none = np.zeros((0, len(FEATURE_NAMES)), np.float32)
        self._rows += [none if r is None else r for r in self.features(batch)]
        self._speeds += list(throughputs)

    def fit(self) -> None:
        """Fit the model anew to all that is remembered."""
        start = time.perf_counter()
        if self._rows:
            table = Samples.of(self._rows)
            speeds = np.array(self._speeds)
            y = speeds / (speeds.max() or 1.0)
            more: dict[str, Doubles] = {}
            if self._weighted:
                more["weight"] = np.maximum(y, LEAST_WEIGHT)
            if self.history is not None:
                self.history.judge(table, y)
                y = y - self.history.margin(table)
            try:
                self.model.fit(table, y, **more)
                self.fitted = True
            except Exception as failure:
                self.unmade.add("model.fit", failure)
        self.seconds += time.perf_counter() - start

    @property
    def trusted(self) -> bool:
        """True while the scores have a part that was learnt from other workloads."""
        return self.history is not None and self.history.weight > 0

    def score(self, batch: Sequence[Candidate]) -> Doubles:
        """The model's scores of candidates: higher is faster; -inf for what is refused.

        Before anything is learnt, and without a history, all legal candidates score alike.
        """
        start = time.perf_counter()
        scores = np.full(len(batch), -np.inf)
        asked: list[int] = []
        parts: list[Job | Samples] = []
        slow = SLOW
        for plan, own in self._by_plan(batch):
            if plan is None:
                continue
            room = self.space.has_room(plan, [batch[p] for p in own])
            found = [place for place, enough in zip(own, room) if enough]
            if not self.fitted and not self.trusted:
                scores[found] = 0.0
                continue
            places = found if plan.structure is not None else found[:slow]
            slow -= len(places) if plan.structure is None else 0
            if not places:
                continue
            try:
                parts.append(self._numbered(plan, [batch[p] for p in places]))
                asked += places
            except Exception as failure:
                self.unmade.add("features of candidates", failure)
                scores[places] = 0.0
        if asked:
            try:
                scores[asked] = self._predicted(self._samples_of(parts))
            except Exception as failure:
                self.unmade.add("model.predict", failure)
                scores[asked] = 0.0
        self.seconds += time.perf_counter() - start
        return scores

    def _predicted(self, samples: Samples) -> Doubles:
        own = self._predicted_here(samples) if self.fitted else np.zeros(len(samples))
        return own if self.history is None else own + self.history.margin(samples)

    def _predicted_here(self, samples: Samples) -> Doubles:
        expected = f"expected a number from model.predict for each of {len(samples)} programs"
        predicted = self.model.predict(samples)
        try:
            found = np.asarray(predicted)
        except ValueError:  # lists of several lengths
            raise ArgumentError(f"{expected}, but got {shown(predicted)}") from None
        if found.shape != (len(samples),) or found.dtype.kind not in "biuf":
            got = f"an array of {found.dtype.name} and shape {found.shape}"
            raise ArgumentError(f"{expected}, but got {got}")
        scores = found.astype(np.float64, copy=False)
        finite = scores[np.isfinite(scores)]
        if len(finite) == len(scores):
            return scores
        if nans := int(np.isnan(scores).sum()):
            told = ArgumentError(f"{expected}, but got NaN for {nans}; they are taken for the last")
            self.unmade.add("model.predict", told)
        last, first = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        return np.where(np.isfinite(scores), scores, np.where(scores > 0, first, last))

    def features(self, batch: Sequence[Candidate]) -> list[Floats | None]:
        """The features (statements, columns) of each candidate; None for what is refused."""
        found: list[Floats | None] = [None] * len(batch)
        for plan, places in self._by_plan(batch):
            if plan is None:
                continue
            try:
                made = self._stacked(plan, [batch[p] for p in places])
            except Exception as failure:
                self.unmade.add("features of candidates", failure)
                continue
            for place, rows in zip(places, made):
                found[place] = rows
        return found

    def _by_plan(self, batch: Sequence[Candidate]) -> list[tuple[Plan | None, list[int]]]:
        groups: dict[tuple[int, tuple[str, ...]], list[int]] = {}
        for place, candidate in enumerate(batch):
            groups.setdefault((candidate.sketch, candidate.locations), []).append(place)
        return [(self.space.plan(*key), places) for key, places in groups.items()]

    def _stacked(self, plan: Plan, batch: Sequence[Candidate]) -> Samples:
        """The features of candidates that share a plan."""
        return self._samples_of([self._numbered(plan, batch)])

    def _numbered(self, plan: Plan, batch: Sequence[Candidate]) -> Job | Samples:
        """The job of `features_of` for candidates that share a plan; or their features, where
        schedules have to be made.
        """
        if plan.structure is None:
            return self._one_by_one(batch)
        try:
            return self.space.numbered(plan, batch)
        except (BatchError, ArgumentError):  # for some of them; or their tiles depend on others
            if len(batch) == 1:
                return self._one_by_one(batch)
            middle = len(batch) // 2
            halves = batch[:middle], batch[middle:]
            return Samples.joined([self._stacked(plan, half) for half in halves])

    def _one_by_one(self, batch: Sequence[Candidate]) -> Samples:
        """The same from schedules. (Loops that are fused to be parallel are one loop there, and
        several where marks say so: a few columns differ.)
        """
        rows = []
        for candidate in batch:
            try:
                found = extract_features(self.space.schedule(candidate), self.space.target)
            except Exception as failure:
                self.unmade.add("features of a candidate", failure)
                found = np.zeros((0, len(FEATURE_NAMES)), np.float32)
            rows.append(found)
        return Samples.of(rows)

    def _samples_of(self, parts: Sequence[Job | Samples]) -> Samples:
        """The features of all parts, one after the other."""
        jobs = [part for part in parts if not isinstance(part, Samples)]
        tables = iter(features_of(jobs, self.space.target))
        return Samples.joined(
            [part if isinstance(part, Samples) else _samples(next(tables)) for part in parts]
        )


def _samples(table: Floats) -> Samples:
    """Features (candidates, statements, columns) as samples."""
    count, statements, columns = table.shape
    return Samples(table.reshape(-1, columns), np.full(count, statements))
