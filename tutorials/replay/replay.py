"""One search on a table: a strategy is asked as in a search, and what it proposes costs what the
table says. So noise cannot decide between two strategies, and a search takes a second.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from minitensor.errors import unexpected, whole
from minitensor.schedule import Trace
from minitensor.search.gbt import GradientBoostedTrees, Samples
from minitensor.search.space import Candidate
from minitensor.search.strategy import Doubles, Round, Strategy
from minitensor.search.transfer import Pretrained
from minitensor.search.tried import Tried
from minitensor.search.tune.learner import Floats, Learner, usual_model
from minitensor.search.tune.proposals import FIRST, MOST_PROPOSED
from minitensor.search.tuners import STRATEGIES

from .space import TableSpace
from .table import Table

BUILDING, BUDGET, REPEATS, HOPELESS = 0.12, 0.025, 4, 4.0
"""Of a candidate that a table stands for: seconds until it is built, two at a time; seconds of a
repeat; repeats; and how many times as slow as the best it is if there is but one. (As a search has
it on two cores of the machine of the tables.)"""
BATCH: Final = 64
"""The most candidates of a round."""
Features: TypeAlias = "dict[Candidate, Floats | None]"


class Remembered(Learner):
    """A learner for a table: the features of a program are computed once."""

    def __init__(
        self,
        space: TableSpace,
        model: GradientBoostedTrees,
        known: Features,
        history: Pretrained | None = None,
    ) -> None:
        super().__init__(space, model, history)
        self.known = known
        self.scores: dict[Candidate, float] = {}

    def fit(self) -> None:
        """See Learner."""
        super().fit()
        self.scores = {}

    def features(self, batch: Sequence[Candidate]) -> list[Floats | None]:
        """See Learner."""
        news = [c for c in dict.fromkeys(batch) if c not in self.known]
        self.known.update(zip(news, super().features(news)))
        return [self.known[c] for c in batch]

    def score(self, batch: Sequence[Candidate]) -> Doubles:
        """See Learner."""
        if not self.fitted:
            return super().score(batch)
        news = [c for c in dict.fromkeys(batch) if c not in self.scores]
        rows = self.features(news)
        made = [(c, r) for c, r in zip(news, rows) if r is not None]
        self.scores.update(dict.fromkeys(news, -np.inf))
        if made:
            table = np.concatenate([r for _, r in made])
            samples = Samples(table, [len(r) for _, r in made])
            self.scores.update(zip((c for c, _ in made), self._predicted(samples).tolist()))
        return np.array([self.scores[c] for c in batch])


@dataclass(frozen=True, slots=True)
class Replayed(Tried):
    """A candidate of a table, by the number of its program."""

    program: int = 0

    @property
    def key(self) -> str:
        """The number of its program, as text."""
        return str(self.program)


@dataclass(frozen=True)
class Replay:
    """A search on a table.

    table  what it was replayed on
    tried  the candidates in order, no program twice
    times  the seconds until it had each: proposing and learning as long as they took, building and
           running as long as they would (see `spent`)
    """

    table: Table
    tried: Sequence[Replayed]
    times: Sequence[float]

    @property
    def curve(self) -> list[float]:
        """For each trial, the speed of the fastest until then, as a part of the table's best."""
        found = np.minimum.accumulate([t.seconds for t in self.tried] or [np.inf])
        return [self.table.best / seconds for seconds in found][: len(self.tried)]


def replay(
    table: Table | TableSpace,
    strategy: str | Strategy = "evolution",
    trials: int = 64,
    seed: int = 0,
    objective: str | None = None,
    history: Pretrained | None = None,
    known: Features | None = None,
    batch: int | None = None,
) -> Replay:
    """One search on a table, or on a space of it; the same arguments give the same candidates.

    strategy   a name of `STRATEGIES`, or an object
    trials     the programs that it may try; fewer are tried if it proposes nothing new
    seed       of all that is drawn
    objective  of the model: "squared" or "rank"; the strategy's own if None
    history    a model that has learnt from other workloads
    known      features of candidates, to be kept from one replay to the next
    batch      candidates of each round, as many workers measure at once; None for rounds that grow

    Raises ArgumentError.
    """
    whole("trials", trials, 1)
    whole("seed", seed, 0)
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            raise unexpected(f"one of {', '.join(STRATEGIES)}", "strategy", strategy)
        strategy = STRATEGIES[strategy]
    objective = objective or str(getattr(strategy, "objective", "squared"))
    space = table if isinstance(table, TableSpace) else TableSpace(table)
    kept: Features = {} if known is None else known
    learner = Remembered(space, usual_model(seed, objective), kept, history)
    if batch is not None:
        whole("batch", batch, 1)
    return _searched(space, learner, strategy, seed, trials, batch)


def _searched(
    space: TableSpace,
    learner: Remembered,
    strategy: Strategy,
    seed: int,
    trials: int,
    batch: int | None,
) -> Replay:
    tried: list[Replayed] = []
    clock, times = 0.0, []
    most = min(BATCH, max(FIRST, trials // 8))
    while len(tried) < trials:
        start = time.perf_counter()
        size = min(batch or min(most, max(FIRST, len(tried) // 2)), trials - len(tried))
        ranked = sorted((t for t in tried if t.seconds < np.inf), key=lambda t: t.seconds)
        name = f"{seed}/{len(tried)}"
        best = [t.candidate for t in ranked if t.candidate is not None]
        rng, before = random.Random(name), tuple(tried)
        trusted = learner.trusted
        now = Round(space, best, learner.score, rng, size, before, name, trusted=trusted)
        proposed = islice(strategy.propose(now), MOST_PROPOSED)
        clock += time.perf_counter() - start
        news: list[Replayed] = []
        for one in _new(space, proposed, tried, ranked, size):
            news.append(one)
            clock += one.spent
            times.append(clock)
        if not news:
            break
        start = time.perf_counter()
        tried += news
        learner.learn([t.candidate for t in news if t.candidate], [1 / t.seconds for t in news])
        if getattr(strategy, "uses_model", True):
            learner.fit()
        clock += time.perf_counter() - start
    return Replay(space.table, tried, times)


def _new(
    space: TableSpace,
    proposed: Iterable[Candidate],
    tried: Sequence[Replayed],
    ranked: Sequence[Replayed],
    most: int,
) -> Iterator[Replayed]:
    """The first so many that are in the table, and whose programs were not tried."""
    seen, number = {t.program for t in tried}, len(tried)
    for given in proposed:
        if number == len(tried) + most:
            break
        candidate = space.alike(given)
        program = space.names.get(candidate, -1)
        if program in seen or program < 0:
            continue
        seen.add(program)
        number += 1
        cost = float(space.table.seconds[program])
        yield Replayed(
            number,
            Trace(()),
            replace(candidate, origin=(str(program),)),
            "ok" if cost < np.inf else "failed",
            cost,
            parents=candidate.origin[:2],
            spent=spent(cost, ranked[0].seconds if ranked else cost),
            program=program,
        )


def spent(cost: float, best: float) -> float:
    """Seconds that it takes to build and to run a candidate of a table, of so many seconds a call:
    building, the check of its result, and repeats that fill a budget. What is far slower than the
    best is stopped after its first calls, and a failure after building.
    """
    if not cost < np.inf:
        return BUILDING
    repeats = 1 if cost > HOPELESS * best else REPEATS
    return BUILDING + 2 * cost + repeats * max(cost, BUDGET)
