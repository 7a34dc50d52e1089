"""Features of candidates whose numbers cannot be computed with arrays."""

import random
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.lang import workloads
from minitensor.search.features import FEATURE_NAMES, BatchError, features_of
from minitensor.search.features.structure import grouped
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


def test_features_of_a_batch_say_that_it_is_for_a_gpu():
    space = Space.of(product(), "cuda-emulator")
    (rows,) = Learner(space, GradientBoostedTrees()).features([space.draw(random.Random(0))])
    assert (rows[:, FEATURE_NAMES.index("gpu")] == 1).all()


@pytest.mark.slow
def test_plans_together_have_the_features_that_each_has_alone():
    """Statements that plans have in common are described in one go."""
    space = Space.of(mt.lower(workloads.softmax(m=24, n=32)), TARGET)
    rng = random.Random(0)
    plans = {}
    for candidate in (space.draw(rng) for _ in range(300)):
        plans.setdefault(space.plan(candidate.sketch, candidate.locations), []).append(candidate)
    jobs = [space.numbered(plan, batch) for plan, batch in plans.items() if plan.structure]
    parts = [part for job in jobs for part in job[0].described(*job[1:])[1]]
    assert 1 < len(grouped(parts)) < len(parts) / 2
    for (structure, numbers, marks), found in zip(jobs, features_of(jobs)):
        np.testing.assert_array_equal(found, structure.features(numbers, marks))


def test_the_model_is_asked_once_for_all_plans(space, monkeypatch):
    rng = random.Random(0)
    batch = [space.draw(rng, sketch) for sketch in (0, 2) for _ in range(20)]
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    learner.learn(batch, [1.0 + n for n in range(len(batch))])
    learner.fit()
    alone = [learner.score([candidate])[0] for candidate in batch]
    predict, asked = learner.model.predict, []
    monkeypatch.setattr(learner.model, "predict", lambda X: (asked.append(len(X)), predict(X))[1])
    np.testing.assert_array_equal(learner.score(batch), alone)
    assert asked == [len(batch)]


def test_a_plan_without_features_leaves_the_scores_of_others(space, monkeypatch):
    rng = random.Random(0)
    batch = [space.draw(rng, sketch) for sketch in (0, 2) for _ in range(20)]
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    learner.learn(batch, [1.0 + n for n in range(len(batch))])
    learner.fit()
    expected = learner.score(batch)
    broken, numbered = space.plan(2, ()), space.numbered

    def fails(plan, batch):
        if plan is broken:
            raise RuntimeError("made up")
        return numbered(plan, batch)

    monkeypatch.setattr(space, "numbered", fails)
    of_broken = [space.plan(c.sketch, c.locations) is broken for c in batch]
    np.testing.assert_array_equal(learner.score(batch), np.where(of_broken, 0.0, expected))
    assert 0 < sum(of_broken) < len(batch)
    assert list(learner.unmade.first) == ["RuntimeError"]


@pytest.mark.slow
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
