"""mt.tune(…, runner=): a runner from outside measures, and nothing is compiled."""

import pytest

import minitensor as mt
from minitensor.search import Log
from tests.outside.runners import Failing, Formula, Short, Wrong, cost

TARGET = mt.Target("c", num_cores=2, vector_bits=256)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")


@pytest.fixture(scope="module")
def program():
    return mt.lower(mt.workloads.matmul(m=24, n=24, k=24), name="product")


def tuned(program, runner, **given):
    return mt.tune(program, TARGET, 16, runner=runner, progress=False, **given)


def test_the_search_minimizes_the_cost_of_a_runner(program, tmp_path):
    runner, log = Formula(), Log(tmp_path / "log.jsonl")
    found = tuned(program, runner, log=log)
    costs = [record.median for record in log]
    assert found.seconds == min(costs) == cost(found.schedule)
    assert len(costs) == sum(count for count, _ in runner.asked) == 16
    assert runner.asked[0][1] is None
    assert runner.asked[-1][1] == min(costs[: -runner.asked[-1][0]])


def test_results_are_recorded_and_resumed(program, tmp_path):
    log, runner = Log(tmp_path / "log.jsonl"), Formula()
    first = tuned(program, runner, log=log)
    assert tuned(program, runner, log=log).seconds == first.seconds
    assert sum(count for count, _ in runner.asked) == 16


def test_failures_are_reported_with_the_schedule(program):
    with pytest.raises(mt.TuningError, match=r"16 crashed.*no device") as failed:
        tuned(program, Failing())
    assert "its schedule:" in str(failed.value)
    assert "to reproduce it" not in str(failed.value)


@pytest.mark.parametrize(
    ("runner", "given", "words"),
    [
        (Short(), {}, r"a result of measure\(\) for each"),
        (Wrong(), {}, r"results \(mt.search.Result\)"),
        (object(), {}, "an object with measure"),
        (Formula(), {"settings": mt.search.Settings()}, "settings= has no effect"),
        (Formula(), {"inputs": []}, "inputs= has no effect"),
    ],
)
def test_what_is_no_runner(program, runner, given, words):
    with pytest.raises(mt.ArgumentError, match=words):
        tuned(program, runner, **given)
