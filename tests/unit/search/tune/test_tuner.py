"""The loop of a search: it repeats itself exactly, goes on where it stopped, and tries no twins."""

import contextlib
import json
import random
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import structural_hash
from minitensor.schedule import Trace
from minitensor.search import STRATEGIES, Evolution, GradientBoostedTrees, Log
from minitensor.search.features import BatchError, Structure
from minitensor.search.records import OK, Host, Record, canonical_trace
from minitensor.search.runner import Result, Status
from minitensor.search.space import Space
from minitensor.search.tune import Learner, Tuner
from minitensor.search.tune.tuner import CHUNK
from minitensor.search.workload import workload_key
from tests.made_records import canonical
from tests.unit.search.tune.made import TARGET, MadeUp, product, tuner_of


def traces(tuner):
    return [canonical_trace(t.trace) for t in tuner.tried]


def as_record(program, tried):
    return Record(
        workload=workload_key(program),
        name=program.name,
        target=TARGET,
        trace=canonical_trace(tried.trace),
        seconds=(tried.seconds,) if tried.status == OK else (),
        status=tried.status,
        error=tried.error,
        host=Host("cpu", 2),
        seed=0,
        date="2025-03-01T12:00:00.000Z",
        flop=0,
        minitensor="0",
    )


class Steady(MadeUp):
    """Costs by program alone, in whatever order they are asked for."""

    def __init__(self):
        super().__init__(fails=False)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_same_seed_is_the_same_search(strategy):
    program, runs = product(), []
    for _ in range(2):
        tuner = tuner_of(program, 16, fails=False, strategy=strategy)
        tuner.run()
        runs.append((traces(tuner), [t.guess for t in tuner.tried]))
    assert runs[0] == runs[1]
    assert len(set(runs[0][0])) == 16
    programs = [structural_hash(t.trace.apply(program).program) for t in tuner.tried]
    assert len(set(programs)) == 16


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_search_that_is_resumed_goes_on_as_it_would_have(strategy):
    program = product()
    whole = tuner_of(program, 24, fails=False, strategy=strategy)
    whole.run()
    first = tuner_of(program, 8, fails=False, strategy=strategy)
    first.run()
    second = tuner_of(program, 24, fails=False, strategy=strategy)
    second.resume([as_record(program, t) for t in first.tried])
    second.run()
    assert traces(second) == traces(whole)
    assert [t.known for t in second.tried] == [True] * 8 + [False] * 16
    incumbents = second.runner.count - 16
    assert second.rounds <= incumbents <= 2 * second.rounds


def test_records_of_another_space_count_and_do_no_harm():
    program = product()
    s = mt.Schedule(program)
    s.unroll(s.get_loops("C")[0])
    tuner = tuner_of(program, 10, fails=False)
    tried = tuner.space  # a record that no sketch explains
    assert tried.decode(s.trace) is None
    other = type("Tried", (), {"trace": s.trace, "seconds": 1e-9, "status": OK, "error": ""})
    tuner.resume([as_record(program, other)])
    tuner.run()
    assert len(tuner.tried) == 10
    assert tuner.best is tuner.tried[0]


@pytest.mark.slow
def test_records_that_cannot_be_applied_are_left_out(caplog):
    program = product()
    first = tuner_of(program, 10, fails=False)
    first.run()
    good = [as_record(program, t) for t in first.tried]
    unroll = mt.Schedule(program)
    unroll.unroll(unroll.get_loops("C")[0])
    gone = canonical_trace(unroll.trace).replace('"i"', '"gone"')
    opened = mt.Schedule(program)
    opened.sample_categorical([1, 2])
    bad = [gone, canonical_trace(opened.trace.opened()), canonical({"minitensor_trace": 99})]
    assert gone != canonical_trace(unroll.trace)
    fastest = [replace(good[0], trace=text, seconds=(1e-12,)) for text in bad]
    tuner = tuner_of(program, 20, fails=False)
    tuner.resume([fastest[0], *good, *fastest[1:]])
    tuner.run()
    assert sum(t.known for t in tuner.tried) == len(good)
    assert len(tuner.tried) == 20
    assert tuner.best.seconds > 1e-9
    assert tuner.best.trace.apply(program).program
    (warning,) = caplog.messages
    assert "3 records cannot be applied" in warning


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [[], ["a", "b"], [1.0, 48.0], [48], [-1, -48], [True, 48], 99, "i"]
)
def test_decisions_that_are_none_are_not_decoded(wrong):
    space = tuner_of(product(), 1).space
    rng = random.Random(0)
    for number in range(len(space.sketches)):
        trace = space.schedule(space.draw(rng, number)).trace
        told = json.loads(trace.to_json())
        for step in told["steps"]:
            if step["primitive"].startswith("sample"):
                changed = json.dumps(told).replace(
                    json.dumps(step), json.dumps(changed_to(step, wrong))
                )
                with contextlib.suppress(mt.MinitensorError):
                    assert space.decode(Trace.from_json(changed)) is None


def changed_to(step, decision):
    return {**step, "arguments": {**step["arguments"], "decision": decision}}


@pytest.mark.slow
def test_a_candidate_whose_extents_no_array_tells_does_not_end_the_search(monkeypatch):
    program = product()
    tuner = tuner_of(program, 24, fails=False)
    real = Structure.extents

    def extents(self, decisions):
        if any(np.any(np.asarray(values) % 3 == 0) for values in decisions.values()):
            raise BatchError("not these")
        return real(self, decisions)

    monkeypatch.setattr(Structure, "extents", extents)
    tuner.run()
    assert len(tuner.tried) == 24


def test_tiles_that_depend_on_each_other():
    """A template may cut what it has cut: not all pairs of tiles go together."""
    program = product()

    def template(s):
        i = s.get_loops("C")[0]
        _, inner = s.split(i, s.sample_perfect_tile(i, n=2))
        s.split(inner, s.sample_perfect_tile(inner, n=2))

    space = Space.of_template(program, TARGET, template)
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    tuner = Tuner(space, Steady(), Evolution(population=16, generations=1), learner, 24, 8)
    tuner.run()
    assert tuner.best is not None


@pytest.mark.slow
def test_seeds_differ():
    program = product()
    runs = []
    for seed in (0, 1):
        tuner = tuner_of(program, 16, fails=False, seed=seed)
        tuner.run()
        runs.append(traces(tuner))
    assert runs[0] != runs[1]


def test_a_small_space_ends_the_search():
    A = mt.placeholder((3,), name="A")
    program = mt.lower([A, mt.compute((3,), lambda i: A[i] + 1.0, name="B")])
    tuner = tuner_of(program, 100, fails=False)
    tuner.run()
    assert 1 <= len(tuner.tried) < 20


def test_what_an_interrupt_leaves_is_in_the_log(tmp_path):
    program, log = product(), Log(tmp_path / "log.jsonl")
    tuner = tuner_of(program, 40, fails=False, log=log)
    real, calls = tuner.runner.measure, []

    def measure(candidates, best=None):
        calls.append(len(candidates))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(candidates, best)

    tuner.runner.measure = measure
    with pytest.raises(KeyboardInterrupt):
        tuner.run()
    assert calls[1] == 1, "the incumbent"
    assert len(tuner.tried) == calls[0]
    assert [r.trace for r in log] == traces(tuner)


def test_everything_is_a_decision_of_the_trace():
    program = product()
    tuner = tuner_of(program, 16, fails=False)
    tuner.run()
    for tried in tuner.tried:
        again = Trace.from_json(tried.trace.to_json())
        assert tuner.space.decode(again) == tried.candidate


def test_each_result_is_recorded_as_soon_as_it_is_known(tmp_path):
    program, log = product(), Log(tmp_path / "log.jsonl")
    tuner = tuner_of(program, 40, fails=False, log=log)
    one = tuner.runner.one

    def interrupted(candidate):
        if tuner.runner.count == 5:
            raise KeyboardInterrupt
        return one(candidate)

    tuner.runner.one = interrupted
    with pytest.raises(KeyboardInterrupt):
        tuner.run()
    assert len(tuner.tried) == 5
    assert [r.trace for r in log] == traces(tuner)


@pytest.mark.slow
def test_patience_ends_a_search_that_finds_nothing_faster():
    class Worse(MadeUp):
        def one(self, candidate):
            self.count += 1
            return Result(Status.OK, times=(1e-6 * self.count,), calls=1)

    tuner = tuner_of(product(), 200, patience=20)
    tuner.runner = Worse()
    tuner.run()
    assert tuner.best.number == 1
    assert 21 <= len(tuner.tried) < 21 + CHUNK
    assert tuner.ended == "no faster one among 20 candidates"
    endless = tuner_of(product(), 30, fails=False, patience=30)
    endless.run()
    assert (len(endless.tried), endless.ended) == (30, "")


@pytest.mark.slow
def test_a_time_limit_ends_a_search_between_chunks():
    tuner = tuner_of(product(), 200, fails=False, limit=1e-6)
    tuner.run()
    assert (len(tuner.tried), tuner.ended) == (8, "its time limit of 1 µs")
    tuner = tuner_of(product(), 200, fails=False, limit=1e9)
    tuner.batch = 64
    one = tuner.runner.one

    def slow(candidate):
        tuner.limit = 0.0 if tuner.runner.count > 100 else 1e9
        return one(candidate)

    tuner.runner.one = slow
    tuner.run()
    assert 100 - tuner.rounds <= len(tuner.tried) < 100 + 2 * CHUNK
    assert tuner.ended.startswith("its time limit")
