"""Seconds that the cost model takes for a population, and a round of evolution.

    python -m benchmarks.scoring                      five workloads
    python -m benchmarks.scoring matmul-1024          some of them

Nothing is built or run: the model learns made-up speeds. Plans (what candidates of one form have
in common) are worked out before the clock starts, as they are in all rounds but the first.
"""

from __future__ import annotations

import argparse
import random
import time
from statistics import median

import numpy as np

import minitensor as mt
from benchmarks.common import machine
from minitensor.runtime import native_target
from minitensor.search import Evolution, GradientBoostedTrees, Space
from minitensor.search.space import Candidate
from minitensor.search.strategy import Round
from minitensor.search.tune import Learner
from tutorials.schedules import HAND_SCHEDULES

NAMES = ("matmul-1024", "conv-64-56", "softmax", "depthwise", "layer-norm")
MEASURED = 512
"""Candidates that the model has learnt from."""
BATCH = 64


def learnt(space: Space) -> tuple[Learner, list[Candidate]]:
    """A learner that knows some candidates, and those, the fastest first.

    A speed is the nearer to 1, the nearer a sum of some features is to what is usual for it.
    """
    rng = random.Random(0)
    batch = list(dict.fromkeys(space.draw(rng) for _ in range(MEASURED)))
    learner = Learner(space, GradientBoostedTrees())
    tables = learner.features(batch)
    known = [(c, t.sum(0)) for c, t in zip(batch, tables) if t is not None]
    sums = np.array([row for _, row in known], np.float64)
    mixed = sums @ np.random.default_rng(0).normal(size=sums.shape[1])
    speeds = np.exp(-np.abs(mixed - np.median(mixed)) / (mixed.std() or 1.0))
    order = np.argsort(-speeds)
    best = [known[n][0] for n in order]
    learner.learn(best, speeds[order].tolist())
    learner.fit()
    return learner, best


def measured(name: str, repeats: int) -> str:
    """A line of figures for a workload."""
    space = Space.of(HAND_SCHEDULES[name].define(), native_target(mt.Target("c")))
    learner, best = learnt(space)
    strategy, rng = Evolution(learnt=0), random.Random(1)
    forms = list(space._plans)
    population = [space.draw(rng, *rng.choice(forms)) for _ in range(strategy.population)]

    def score() -> int:
        learner.score(population)
        return len(population)

    def propose() -> int:
        now = Round(space, best, learner.score, random.Random(2), BATCH)
        strategy.propose(now)
        return strategy.population * (strategy.generations + 1)

    parts = []
    for title, call in (("score", score), ("evolution", propose)):
        call()
        taken = []
        for _ in range(repeats):
            start = time.process_time()
            count = call()
            taken.append(time.process_time() - start)
        middle = median(taken)
        parts.append(f"{title} {middle:6.3f} s, {count / middle:8,.0f} candidates/s")
    return f"{name:12} {'; '.join(parts)}; {len(space._plans)} plans"


def main() -> None:
    parser = argparse.ArgumentParser(description="time scoring and evolution")
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print(machine())
    for name in given.names:
        print(measured(name, given.repeats), flush=True)


if __name__ == "__main__":
    main()
