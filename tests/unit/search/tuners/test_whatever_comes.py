"""Every strategy whatever comes: small spaces, refusals, failures, models that know nothing."""

import functools
import random
from itertools import islice

import numpy as np
import pytest

import minitensor as mt
from minitensor.schedule import Trace
from minitensor.search import STRATEGIES, Result, Status
from minitensor.search.records import OK
from minitensor.search.space import Space
from minitensor.search.strategy import Round
from minitensor.search.tried import Tried
from minitensor.search.tune import Learner, Tuner
from tests.unit.search.tune.made import SMALL, TARGET, MadeUp, product, tuner_of
from tests.unit.search.tune.test_tuner import as_record

NAMES = sorted(STRATEGIES)
PROGRAM = product(16)


class Table:
    """A model that knows nothing, and answers with some numbers."""

    def __init__(self, *scores):
        self.scores = scores

    def fit(self, X, y):
        pass

    def predict(self, X):
        return np.resize(self.scores, len(X))


@functools.cache
def shared_space():
    """A space for those that leave it as it is."""
    return Space.of(PROGRAM, TARGET)


def search(space, strategy, trials=16, model=None, runner=None):
    learner = Learner(space, model or Table(1.0))
    tuner = Tuner(space, runner or MadeUp(fails=False), SMALL[strategy], learner, trials, 8)
    tuner.run()
    return tuner


def template(function):
    return Space.of_template(PROGRAM, TARGET, function)


@pytest.mark.parametrize("strategy", NAMES)
def test_a_space_of_one_candidate(strategy):
    tuner = search(template(lambda s: s.unroll("k")), strategy)
    assert len(tuner.tried) == 1 and tuner.best is tuner.tried[0]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_a_small_space_is_searched_to_its_end(strategy):
    def tiles(s):
        i, j, _ = s.get_loops("C")
        s.split(i, s.sample_perfect_tile(i, n=2))
        s.split(j, s.sample_perfect_tile(j, n=2))

    assert len(search(template(tiles), strategy, 100).tried) == 25


@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_a_space_where_everything_is_refused(strategy, monkeypatch):
    space = Space.of(PROGRAM, TARGET)

    def refuse(candidate):
        raise mt.ScheduleError("nothing goes", "N1")

    monkeypatch.setattr(space, "schedule", refuse)
    tuner = search(space, strategy)
    assert tuner.tried == [] and tuner.proposals.unmade.counts.keys() == {"refused"}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_a_space_whose_forms_are_refused(strategy, monkeypatch):
    space = Space.of(PROGRAM, TARGET)
    monkeypatch.setattr(space, "plan", lambda sketch, locations: None)
    assert len(search(space, strategy, 16).tried) in (0, 16)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("scores", [[np.nan], [np.nan, 1.0, np.inf], [-np.inf]], ids=str)
def test_models_whose_scores_are_no_numbers(strategy, scores):
    tuner = search(shared_space(), strategy, model=Table(*scores))
    assert len({t.candidate for t in tuner.tried}) == 16


@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_candidates_that_all_fail(strategy):
    class Failing(MadeUp):
        def one(self, candidate):
            return Result(Status.WRONG, message="no")

    tuner = search(shared_space(), strategy, runner=Failing())
    assert len({t.candidate for t in tuner.tried}) == 16 and tuner.best is None


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_every_candidate_is_proposed_once_in_a_search_that_has_failures(strategy):
    tuner = tuner_of(PROGRAM, 32, strategy=strategy)
    tuner.run()
    assert len({t.candidate for t in tuner.tried}) == len(tuner.tried) == 32
    assert {t.status for t in tuner.tried} > {OK}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMES)
def test_a_log_of_another_space(strategy):
    """Its candidates are none of this space: the history has None in their place."""
    s = mt.Schedule(PROGRAM)
    s.unroll(s.get_loops("C")[0])
    other = [Tried(1, s.trace, None, OK, 1e-9), Tried(2, s.copy().trace, None, "crashed", np.inf)]
    tuner = tuner_of(PROGRAM, 32, fails=False, strategy=strategy)
    tuner.resume([as_record(PROGRAM, tried) for tried in other])
    known = len(tuner.tried)
    assert known >= 1 and all(t.candidate is None for t in tuner.tried)
    tuner.run()
    assert len(tuner.tried) == 32


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("kind", ["none", "failures", "one"])
def test_histories_in_which_little_is_known(strategy, kind):
    space, rng = shared_space(), random.Random(0)
    drawn = [space.draw(rng) for _ in range(30)]
    if kind == "none":
        history = [Tried(n, Trace(()), None, OK, 1e-3) for n in range(30)]
    else:
        history = [Tried(n, Trace(()), c, "crashed", np.inf) for n, c in enumerate(drawn)]
    if kind == "one":
        history[3] = Tried(3, Trace(()), drawn[3], OK, 1e-3)
    best = [drawn[3]] if kind == "one" else []
    score = Learner(space, Table(1.0)).score
    now = Round(space, best, score, random.Random(1), 8, history)
    found = set(islice(SMALL[strategy].propose(now), 200))
    assert len(found) >= 8
    for candidate in found:
        space.check(candidate)
