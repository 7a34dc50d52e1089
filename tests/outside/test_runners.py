"""mt.tune(…, runner=): a runner from outside measures, and nothing is compiled."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import Log, Result, Status
from tests.outside.runners import Failing, Formula, Returning, Same, cost

TARGET = mt.Target("c", num_cores=2, vector_bits=256)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")


@pytest.fixture(scope="module")
def program():
    return mt.lower(mt.workloads.matmul(m=24, n=24, k=24), name="product")


@pytest.fixture(scope="module")
def simple():
    """A program of few sketches, each of a few steps."""
    A = mt.placeholder((32, 32), name="A")
    return mt.lower([A, mt.compute((32, 32), lambda i, j: A[i, j] + A[j, i], name="B")])


def tuned(program, runner, **given):
    return mt.tune(program, TARGET, 16, runner=runner, progress=False, **given)


def test_the_search_minimizes_the_cost_of_a_runner(program, tmp_path):
    runner, log = Formula(), Log(tmp_path / "log.jsonl")
    found = tuned(program, runner, log=log)
    costs = [record.median for record in log]
    assert found.seconds == min(costs) == cost(found.schedule)
    assert len(costs) == 16
    first, incumbent, second, *finals = runner.asked
    assert first == (8, None) and incumbent == (1, None)
    assert second == (8, min(costs[:8]))
    assert finals[0] == (1, None) and finals[1][1] == min(costs)


def test_results_are_recorded_and_resumed(program, tmp_path):
    log, runner = Log(tmp_path / "log.jsonl"), Formula()
    first = tuned(program, runner, log=log)
    asked = list(runner.asked)
    assert tuned(program, runner, log=log).seconds == first.seconds
    assert runner.asked == asked


def test_failures_are_reported_with_the_schedule(program):
    with pytest.raises(mt.TuningError, match=r"16 crashed.*no device") as failed:
        tuned(program, Failing())
    assert "its schedule:" in str(failed.value)
    assert "to reproduce it" not in str(failed.value)


@pytest.mark.parametrize(
    ("runner", "given", "words"),
    [
        (object(), {}, "an object with measure"),
        (Formula, {}, "an object with measure"),
        (Formula(), {"settings": mt.search.Settings()}, "settings= has no effect"),
        (Formula(), {"inputs": []}, "inputs= has no effect"),
    ],
)
def test_what_is_no_runner(program, runner, given, words):
    with pytest.raises(mt.ArgumentError, match=words):
        tuned(program, runner, **given)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (None, r"results \(mt.search.Result\) .* None"),
        (3, r"results \(mt.search.Result\) .* 3"),
        ([], r"a result for each of \d+ schedules .* got 0"),
        ([Result(Status.OK, (1.0,))] * 99, r"a result for each of \d+ schedules .* got more"),
        (itertools.repeat(Result(Status.OK, (1.0,))), "got more"),
    ],
)
def test_a_result_is_expected_for_each_schedule(program, results, words):
    with pytest.raises(mt.ArgumentError, match=words):
        tuned(program, Returning(results))


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (1.0, r"results \(mt.search.Result\) .* 1.0 \(float\)"),
        (Result("ok", (1e-3,)), r"a status .* 'ok' \(str\)"),
        (Result(Status.CRASH, message=None), r"a message .* None"),
        (Result(Status.OK, 1.0), "finite numbers above 0.*1.0"),
        (Result(Status.OK, ("a",)), "finite numbers above 0.*'a'"),
        (Result(Status.OK, (-1.0,)), r"finite numbers above 0.*-1\.0"),
        (Result(Status.OK, (0.0,)), r"finite numbers above 0.*0\.0"),
        (Result(Status.OK, (float("inf"),)), "finite numbers above 0.*inf"),
        (Result(Status.OK, (float("nan"),)), "finite numbers above 0.*nan"),
        (Result(Status.OK), "times with Status.OK"),
        (Result(Status.CRASH, (1.0,)), "times with Status.OK"),
    ],
)
def test_results_are_checked_with_a_log_and_without(simple, tmp_path, result, words, logged):
    log = Log(tmp_path / "log.jsonl")
    with pytest.raises(mt.ArgumentError, match=words):
        tuned(simple, Same(result), log=log if logged else None)
    assert not list(log)


def test_times_may_be_a_list_of_any_real_numbers(program):
    found = tuned(program, Same(Result(Status.OK, [np.float32(0.5), 1])))
    assert found.seconds == 0.75 and type(found.seconds) is float
