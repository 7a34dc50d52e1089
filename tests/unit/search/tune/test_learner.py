"""Features of candidates whose numbers cannot be told by arrays."""

import random
from dataclasses import replace

import numpy as np
import pytest

from minitensor.search.features import BatchError
from minitensor.search.gbt import GradientBoostedTrees
from minitensor.search.space import Space
from minitensor.search.tune import Learner
from minitensor.search.tune.learner import SLOW
from tests.unit.search.tune.made import TARGET, product


@pytest.fixture
def space():
    return Space.of(product(), TARGET, "ansor")


def test_those_that_arrays_cannot_tell_are_replayed_and_the_others_are_not(space, monkeypatch):
    rng = random.Random(0)
    batch = [space.draw(rng, 2) for _ in range(20)]
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    expected = learner.features(batch)
    odd = {tuple(c.values[0]) for c in batch[::7]}
    structure = space.plan(2, ()).structure
    real, replayed = structure.numbers, []

    def numbers(decisions, count):
        if any(tuple(row) in odd for row in np.asarray(decisions[space.knobs[2][0].step])):
            raise BatchError("made up")
        return real(decisions, count)

    schedule = space.schedule
    monkeypatch.setattr(structure, "numbers", numbers)
    monkeypatch.setattr(space, "schedule", lambda c: (replayed.append(c), schedule(c))[1])
    found = learner.features(batch)
    assert len(replayed) == sum(tuple(c.values[0]) in odd for c in batch)
    for candidate, rows, wanted in zip(batch, found, expected):
        if tuple(candidate.values[0]) not in odd:
            np.testing.assert_array_equal(rows, wanted)
        else:  # fused loops are one loop there, so a few columns differ
            assert rows.shape == wanted.shape
            assert np.isclose(rows, wanted).mean() > 0.85
    learner.learn(batch, [1.0] * 10 + [2.0] * 10)
    learner.fit()
    assert np.isfinite(learner.score(batch)).all()


def test_more_than_are_replayed_score_as_refused(space, monkeypatch):
    """Of several plans without arrays, the first may take all that is replayed of a batch."""
    rng = random.Random(0)
    batch = [space.draw(rng, sketch) for sketch in (0, 2) for _ in range(SLOW)]
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    learner.learn(batch[:4], [1.0, 2.0, 3.0, 4.0])
    learner.fit()
    plan = space.plan
    monkeypatch.setattr(space, "plan", lambda *key: replace(plan(*key), structure=None))
    scores = learner.score(batch)
    assert np.isfinite(scores[:SLOW]).all() and np.isneginf(scores[SLOW:]).all()
