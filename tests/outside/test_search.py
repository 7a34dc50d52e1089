"""mt.tune with parts from outside: rules, a strategy, a cost model."""

import dataclasses

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import Result, Status
from minitensor.search.space import Space
from minitensor.search.tune import Learner, Tuner, roofline
from tests.outside.search import Neighbours, Ridge, RowsByFour, Weighted

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
PROGRAM = mt.lower(mt.workloads.matmul(m=32, n=32, k=32), name="product")


class Costs:
    """Measures by a formula: the outermost loop should have 16 iterations."""

    def measure(self, schedules, best=None):
        for schedule in schedules:
            outer = next(iter(mt.ir.loop_sites(schedule.program).values())).loop.extent
            yield Result(Status.OK, times=(1e-6 * (1 + abs(16 - outer)),), calls=1)


def searched(strategy, model, trials=48, rules="default"):
    space, measure = Space.of(PROGRAM, TARGET, rules), Costs()
    tuner = Tuner(space, measure, strategy, Learner(space, model), trials, 8)
    tuner.run()
    return tuner


@pytest.fixture(autouse=True)
def no_limits(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: None)


def test_a_rule_from_outside():
    rules = [RowsByFour(), *mt.search.DEFAULT_RULES]
    sketches = mt.search.generate_sketches(PROGRAM, TARGET, rules=rules)
    assert "rows by four" in sketches[0].explain()
    assert len(sketches) > 2
    result = mt.tune(PROGRAM, TARGET, 2, rules=[RowsByFour()], runner=Costs(), progress=False)
    assert "rows by four" in result.explain()
    assert {len(s.steps) for s in result.space.sketches} == {2}


@pytest.mark.parametrize("model", [Ridge, Weighted])
def test_a_strategy_and_a_model_from_outside(model):
    runs = [searched(Neighbours(), model()) for _ in range(2)]
    traces = [[t.trace.to_json() for t in tuner.tried] for tuner in runs]
    assert traces[0] == traces[1] and len(set(traces[0])) == 48
    assert runs[0].best.seconds == pytest.approx(1e-6)
    assert runs[0].strategy.rounds[:2] == [(0, 8), (8, 8)]
    assert runs[0].learner.model.fits == [8, 16, 24, 32, 40, 48]
    guesses = [t.guess for t in runs[0].tried]
    assert guesses[:8] == [None] * 8 and np.isfinite(guesses[8:]).all()


def test_tune_takes_all_of_them():
    strategy, model = Neighbours(), Ridge()
    rules = [RowsByFour(), *mt.search.DEFAULT_RULES]
    result = mt.tune(
        PROGRAM,
        TARGET,
        6,
        batch=3,
        rules=rules,
        strategy=strategy,
        model=model,
        runner=Costs(),
        progress=False,
    )
    assert len(result.tried) == 6 and result.model is model
    assert len(strategy.rounds) == 2 and model.fits == [3, 6]
    assert "Ridge, which does not say what matters to it" in result.explain()


def strategy_of(proposed):
    return type("Strategy", (), {"propose": lambda self, round: proposed(round)})()


@pytest.mark.parametrize(
    ("proposed", "match"),
    [
        (lambda round: 5, "candidates from strategy.propose"),
        (lambda round: ["C"], "a candidate of one of"),
        (lambda round: [type(round.space.draw(round.rng))(99, ())], "a candidate of one of"),
        (lambda round: [type(round.space.draw(round.rng))(0, ())], "values of the"),
    ],
)
def test_proposals_that_are_no_candidates(proposed, match):
    with pytest.raises(mt.ArgumentError, match=match):
        searched(strategy_of(proposed), Ridge())


def test_a_strategy_that_proposes_without_end():
    def again(round):
        first = round.space.draw(round.rng)
        while True:
            yield first

    assert len(searched(strategy_of(again), Ridge(), 3).tried) <= 3


@pytest.mark.parametrize(
    ("scores", "got"),
    [
        (lambda X: None, r"object and shape \(\)"),
        (lambda X: 1.0, r"float64 and shape \(\)"),
        (lambda X: np.zeros(3), r"float64 and shape \(3,\)"),
        (lambda X: ["a"] * len(X), r"str32 and shape"),
        (lambda X: [[1], [1, 2]], r"\[\[1\], \[1, 2\]\]"),
    ],
)
def test_scores_that_are_no_numbers(scores, got):
    model = Ridge()
    model.predict = scores
    words = "a number from model.predict for each of .* programs, but got .*"
    with pytest.raises(mt.ArgumentError, match=words + got):
        searched(Neighbours(), model)


@pytest.mark.parametrize(
    ("method", "made", "match"),
    [
        ("fit", lambda X: None, r"model.fit\(X, y\).* parameters are \(X\)"),
        ("fit", lambda X, y, *, weight, group: None, "missing a required argument: 'group'"),
        ("predict", lambda: None, r"model.predict\(X\).* parameters are \(\)"),
    ],
)
def test_a_model_that_cannot_be_called_is_refused_before_anything_is_measured(method, made, match):
    model, runner = Ridge(), Costs()
    runner.measure = lambda *_: pytest.fail("it was measured")
    setattr(model, method, made)
    with pytest.raises(mt.ArgumentError, match=match):
        mt.tune(PROGRAM, TARGET, 2, model=model, runner=runner, progress=False)


@pytest.mark.parametrize(
    ("judge", "apply", "match"),
    [
        (lambda *_: True, lambda *_: [], "expected a Verdict from judge"),
        (lambda *_: mt.search.Verdict.APPLY, lambda *_: None, "a list of States from apply"),
        (lambda *_: mt.search.Verdict.APPLY, lambda *_: [1], "a list of States from apply"),
    ],
)
def test_rules_that_answer_something_else(judge, apply, match):
    with pytest.raises(mt.ArgumentError, match=match):
        mt.tune(PROGRAM, TARGET, rules=[mt.search.Rule("mine", judge, apply)])


@pytest.mark.parametrize(
    ("apply", "match"),
    [
        (lambda state, cores: [state], "rule mine .* block C unchanged"),
        (
            lambda state, cores: [dataclasses.replace(state, schedule=state.schedule.copy())],
            "rule mine .* block C unchanged",
        ),
        (
            lambda state, cores: [state.after("mine", "nothing", stay=True)],
            "applied 64 times, and still apply: the last is mine, at the block C",
        ),
    ],
)
@pytest.mark.parametrize("verdict", [mt.search.Verdict.APPLY, mt.search.Verdict.APPLY_AND_STOP])
def test_rules_that_never_end(apply, match, verdict):
    rules = [mt.search.Rule("mine", lambda *_: verdict, apply), *mt.search.DEFAULT_RULES]
    with pytest.raises(mt.ArgumentError, match=match):
        mt.search.generate_sketches(PROGRAM, TARGET, rules=rules)
