"""mt.tune with parts from outside: rules, a strategy, a cost model."""

import contextlib
import dataclasses
import itertools
import re
import resource

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import Evolution, Result, Status, trace_key
from minitensor.search.space import Space
from minitensor.search.tune import Learner, Tuner, roofline
from minitensor.search.tuners import Annealing, Beam
from tests.outside.search import Neighbours, Ridge, RowsByFour, Weighted
from tests.parts import some

pytestmark = pytest.mark.usefixtures("processes")

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
PROGRAM = mt.lower(mt.workloads.matmul(m=32, n=32, k=32), name="product")


class Costs:
    """Measures by a formula: the outermost loop should have 16 iterations."""

    def measure(self, schedules, best=None):
        for schedule in schedules:
            outer = next(iter(mt.ir.loop_sites(schedule.program).values())).loop.extent
            yield Result(Status.OK, times=(1e-6 * (1 + abs(16 - outer)),), calls=1)


def searched(strategy, model, trials=24, rules="default"):
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
    assert traces[0] == traces[1] and len(set(traces[0])) == 24
    assert runs[0].best.seconds == pytest.approx(1e-6)
    assert runs[0].strategy.rounds[:2] == [(0, 8), (8, 8)]
    assert runs[0].learner.model.fits == [8, 16, 24]
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


SMALL = Evolution(32, 1)
CUBE = mt.placeholder((32, 32, 32), name="A")
TURNED = mt.compute((32, 32, 32), lambda i, j, k: CUBE[i, j, k] + CUBE[k, j, i], name="C")
SIMPLE = mt.lower([CUBE, TURNED], name="product")
"""A program of many candidates, each of a few steps."""


def tuned(strategy=SMALL, model=None, runner=None, program=SIMPLE, **given):
    """A search by `mt.tune`, in rounds of 8."""
    parts = {"strategy": strategy, "model": model, "runner": runner or Costs()}
    return mt.tune(program, TARGET, 24, batch=8, progress=False, **parts, **given)


def foreign(round):
    """Proposals that are no candidates of the space."""
    known = round.space.draw(round.rng)
    return ["C", type(known)(99, ()), type(known)(0, ()), None]


FOREIGN = [
    (lambda round: ["C"], "a candidate of one of"),
    (lambda round: [type(round.space.draw(round.rng))(99, ())], "a candidate of one of"),
    (lambda round: [type(round.space.draw(round.rng))(0, ())], "values of the"),
]


@pytest.mark.parametrize(("proposed", "match"), FOREIGN)
def test_proposals_that_are_no_candidates(proposed, match):
    with pytest.raises(mt.TuningError, match=r"no legal .* \(8 ArgumentError\).*" + match):
        tuned(strategy_of(proposed))


def test_proposals_that_are_no_list():
    with pytest.raises(mt.ArgumentError, match=r"candidates from strategy\.propose"):
        tuned(strategy_of(lambda round: 5))


def test_what_is_not_in_the_space_is_counted_and_left_out(caplog):
    def proposed(round):
        return [*foreign(round), *(round.space.draw(round.rng) for _ in range(32))]

    result = tuned(strategy_of(proposed))
    assert len(result.tried) == 24 and not result.failures
    assert result.unmade.counts == {"ArgumentError": 16}
    assert "16 ArgumentError; the first: expected a candidate" in result.explain()
    assert len(caplog.messages) == 1


def test_a_strategy_that_proposes_nothing():
    with pytest.raises(mt.TuningError, match="the strategy proposed none"):
        tuned(strategy_of(lambda round: []))
    first = lambda round: [] if round.best else [round.space.draw(round.rng)]
    tried = tuned(strategy_of(first)).tried
    assert [t.candidate is not None for t in tried] in ([True], [True, False])  # and as written


def test_a_strategy_that_proposes_twice_the_same():
    def proposed(round):
        drawn = [round.space.draw(round.rng) for _ in range(8)]
        return [*round.best, *drawn, *drawn]

    result = tuned(strategy_of(proposed), program=PROGRAM)
    assert len({t.candidate for t in result.tried}) == len(result.tried) == 24


def test_a_strategy_that_raises_ends_the_search_with_what_it_has(caplog):
    def proposed(round):
        if round.best:
            raise KeyError("population")
        return [round.space.draw(round.rng) for _ in range(32)]

    result = tuned(strategy_of(proposed))
    assert len(result.tried) == 8 and result.kernel
    assert result.stopped == "KeyError: 'population'"
    assert "ended early: KeyError" in result.explain()
    (warning,) = caplog.messages
    assert "the search ended early: KeyError: 'population'" in warning
    with pytest.raises(ZeroDivisionError):
        tuned(strategy_of(lambda round: 1 // 0))


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
def test_scores_that_are_no_numbers(scores, got, caplog):
    """They are counted and told, and the search goes on as if it knew nothing."""
    model = Ridge()
    model.predict = scores
    result = tuned(Neighbours(), model, program=PROGRAM)
    assert len(result.tried) == 24 and model.fits == [8, 16, 24]
    assert result.unscored.counts["ArgumentError"] >= 2
    words = r"model.predict: expected a number from model.predict for each of .* programs, but got "
    assert re.search(words + ".*" + got, caplog.messages[0])
    assert "times the model raised" in result.explain()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "scores, strategy",
    some(
        itertools.product(
            [[np.nan], [np.nan, 1.0], [np.inf, -np.inf], [-np.inf]],
            [SMALL, Annealing(16, 4), Beam(8, 2)],
        ),
        lambda n: n % 3 in (0, 1 + n // 3 % 2),
    ),
)
def test_scores_that_are_not_finite(strategy, scores):
    model = Ridge()
    model.predict = lambda X: np.resize(scores, len(X))
    result = tuned(strategy, model)
    assert len(result.tried) == 24 and not result.stopped
    assert np.isfinite([t.guess for t in result.tried[8:]]).all()
    assert bool(result.unscored) is bool(np.isnan(scores).any())


def test_a_model_that_cannot_learn(caplog):
    model = Ridge()
    model.fit = lambda X, y: np.linalg.inv(np.zeros((2, 2)))
    result = tuned(model=model)
    assert len(result.tried) == 24 and result.model is None
    assert result.unscored.counts == {"LinAlgError": 3}
    (warning,) = caplog.messages
    assert "model.fit: LinAlgError: Singular matrix" in warning


class Losing(Costs):
    """A runner that loses a result, or raises, after some that were right."""

    def __init__(self, how):
        self.how, self.calls = how, 0

    def measure(self, schedules, best=None):
        self.calls += 1
        found = list(super().measure(schedules, best))
        if self.calls < 2 or len(found) == 1:  # the fastest is measured again
            return iter(found)
        return self.lost(found)

    def lost(self, found):
        yield from found[:3]
        if self.how == "raises":
            raise ConnectionError("the board is gone")
        yield from found[4:] if self.how == "loses" else [*found[3:], found[0]]


@pytest.mark.parametrize(
    ("how", "tried", "reason"),
    [
        ("loses", 8, "expected a result for each of 8 schedules .* got 7"),
        ("adds", 8, "expected a result for each of 8 schedules .* got more"),
        ("raises", 11, "ConnectionError: the board is gone"),
    ],
)
def test_a_runner_that_loses_results_ends_the_search_with_what_it_has(how, tried, reason):
    result = tuned(runner=Losing(how))
    assert len(result.tried) == tried
    assert re.fullmatch(reason, result.stopped.replace(" from runner.measure(), but", " …"))


def test_a_callback_that_raises():
    def call(progress):
        if progress.trials == 16:
            raise RuntimeError("enough")

    result = tuned(callbacks=[call])
    assert result.stopped == "RuntimeError: enough" and len(result.tried) == 16


@contextlib.contextmanager
def bounded_files(size):
    """Let no file grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Full(mt.search.Log):
    """A log on a disk that is full for a while."""

    def __init__(self, path, times):
        super().__init__(path)
        self.times, self.calls = times, 0

    def append(self, record):
        self.calls += 1
        if self.calls in self.times:
            with bounded_files(self.path.stat().st_size + 10):
                return super().append(record)
        return super().append(record)


def test_a_full_disk_under_the_log(tmp_path, caplog):
    log = Full(tmp_path / "log.jsonl", range(5, 12))
    result = tuned(log=log)
    assert len(result.tried) == 24 and result.unrecorded == 7
    assert [r.trace_key for r in log] == [
        trace_key(t.trace) for t in result.tried if t.number not in range(5, 12)
    ]
    assert "7 candidates could not be written to the log" in result.explain()
    (warning,) = caplog.messages
    assert "goes on without its log: cannot write to the log" in warning
    assert "free some space" in warning


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


@pytest.mark.parametrize("where", ["judge", "apply"])
def test_a_rule_that_raises_does_not_apply(where, caplog):
    def fails(*_):
        raise NameError("name 'undefined' is not defined")

    functions = {"judge": lambda *_: mt.search.Verdict.APPLY, "apply": lambda *_: [], where: fails}
    mine = mt.search.Rule("mine", **functions)
    usual = mt.search.generate_sketches(PROGRAM, TARGET)
    sketches = mt.search.generate_sketches(PROGRAM, TARGET, rules=[mine, *mt.search.DEFAULT_RULES])
    assert [s.trace for s in sketches] == [s.trace for s in usual]
    (warning,) = caplog.messages
    assert "the rule mine at the block C: NameError: name 'undefined' is not defined" in warning
    with pytest.raises(mt.TuningError, match=r"no sketch of product: 1 NameError; the first: .*"):
        mt.tune(PROGRAM, TARGET, rules=[mine], runner=Costs(), progress=False)
