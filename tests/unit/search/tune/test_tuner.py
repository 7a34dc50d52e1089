"""The loop of a search: it repeats itself exactly, goes on where it stopped, and tries no twins."""

import pytest

import minitensor as mt
from minitensor.ir import structural_hash
from minitensor.schedule import Trace
from minitensor.search import Log
from minitensor.search.records import OK, Host, Record, canonical_trace
from minitensor.search.tune import STRATEGIES
from minitensor.search.workload import workload_key
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
    """Costs by program alone, whoever asks and when."""

    def __init__(self):
        super().__init__(fails=False)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_same_seed_is_the_same_search(strategy):
    program, runs = product(), []
    for _ in range(2):
        tuner = tuner_of(program, 24, fails=False, strategy=strategy)
        tuner.run()
        runs.append((traces(tuner), [t.guess for t in tuner.tried]))
    assert runs[0] == runs[1]
    assert len(set(runs[0][0])) == 24
    programs = [structural_hash(t.trace.apply(program).program) for t in tuner.tried]
    assert len(set(programs)) == 24


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["evolution", "grid", "random"])
def test_a_search_that_is_resumed_goes_on_as_it_would_have(strategy):
    program = product()
    whole = tuner_of(program, 40, fails=False, strategy=strategy)
    whole.run()
    first = tuner_of(program, 16, fails=False, strategy=strategy)
    first.run()
    second = tuner_of(program, 40, fails=False, strategy=strategy)
    second.resume([as_record(program, t) for t in first.tried])
    second.run()
    assert traces(second) == traces(whole)
    assert [t.known for t in second.tried] == [True] * 16 + [False] * 24
    assert second.measure.count == 24


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
    real, calls = tuner.measure.measure, []

    def measure(candidates, best=None, tell=None):
        calls.append(len(candidates))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(candidates, best, tell)

    tuner.measure.measure = measure
    with pytest.raises(KeyboardInterrupt):
        tuner.run()
    assert len(tuner.tried) == sum(calls[:2])
    assert [r.trace for r in log] == traces(tuner)


def test_everything_is_a_decision_of_the_trace():
    program = product()
    tuner = tuner_of(program, 16, fails=False)
    tuner.run()
    for tried in tuner.tried:
        again = Trace.from_json(tried.trace.to_json())
        assert tuner.space.decode(again) == tried.choices


def test_each_result_is_recorded_as_soon_as_it_is_known(tmp_path):
    program, log = product(), Log(tmp_path / "log.jsonl")
    tuner = tuner_of(program, 40, fails=False, log=log)
    one = tuner.measure.one

    def interrupted(candidate):
        if tuner.measure.count == 5:
            raise KeyboardInterrupt
        return one(candidate)

    tuner.measure.one = interrupted
    with pytest.raises(KeyboardInterrupt):
        tuner.run()
    assert len(tuner.tried) == 5
    assert [r.trace for r in log] == traces(tuner)
