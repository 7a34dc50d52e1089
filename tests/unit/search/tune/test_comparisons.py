"""Candidates that were lucky, or measured when the machine was slow: neither fools the search."""

from collections import Counter

import pytest

import minitensor as mt
from minitensor.ir import structural_hash
from minitensor.search import Log
from minitensor.search.records import OK, STEADY
from minitensor.search.runner import Result, Status
from minitensor.search.tried import fastest
from minitensor.search.tune.comparisons import (
    FINALISTS,
    FINALISTS_OF_MANY,
    TURNS,
    finalists,
    ratios,
    run_in_turns,
)
from tests.unit.search.tune.made import MadeUp, product, tuner_of


def ok(seconds):
    return Result(Status.OK, (seconds,))


def shape(schedule):
    return structural_hash(schedule.program)


class Changing(MadeUp):
    """Costs that change: `factor(number, schedule)` of the calls of `measure`, counted from 1."""

    def __init__(self, factor):
        super().__init__(fails=False)
        self.factor, self.calls = factor, 0

    def measure(self, candidates, best=None):
        self.calls += 1
        for candidate in candidates:
            (seconds,) = self.one(candidate).times
            yield ok(seconds * self.factor(self.calls, candidate))


def changing(factor, trials=16, **given):
    tuner = tuner_of(product(), trials, **given)
    tuner.runner = Changing(factor)
    return tuner


# ---- rounds are compared by the incumbent


@pytest.mark.slow
def test_what_is_learnt_is_free_of_the_drift_of_the_machine(tmp_path):
    """It is three times as slow from the second call on: the labels, and so the search, are not."""
    log, told = Log(tmp_path / "log.jsonl"), []
    tuner = changing(lambda call, schedule: 1.0 if call == 1 else 3.0, 32, log=log)
    tuner.callback = told.append
    tuner.run()
    calm = tuner_of(product(), 32, fails=False)
    calm.run()
    assert [p.drift for p in told] == pytest.approx([1.0, 3.0, 3.0, 3.0])
    assert [t.steady for t in tuner.tried] == pytest.approx([t.seconds for t in calm.tried])
    assert tuner.learner._speeds == pytest.approx(calm.learner._speeds)
    assert [r.drift for r in log] == pytest.approx([t.drift for t in tuner.tried])
    assert [r.median for r in log] == [t.seconds for t in tuner.tried], "as measured"
    again = tuner_of(product(), 32)
    again.resume(list(log))
    assert again.learner._speeds == tuner.learner._speeds


@pytest.mark.slow
def test_lucky_incumbents_are_no_drift():
    """Each looks a fifth faster when it is measured first, so the fastest is always a lucky one."""
    seen = Counter()

    def factor(call, schedule):
        seen[shape(schedule)] += 1
        return 0.8 if seen[shape(schedule)] == 1 else 1.0

    tuner = changing(factor, 48)
    tuner.run()
    assert tuner._incumbent.drift == pytest.approx(1.25), "once, and not again and again"


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.97, 1.0, 1.03])
def test_a_difference_as_small_as_the_noise_is_no_drift(factor):
    tuner = changing(lambda call, schedule: factor if call > 1 else 1.0)
    tuner.run()
    assert tuner._incumbent.drift == STEADY


@pytest.mark.slow
@pytest.mark.parametrize(
    "result", [Result(Status.CRASH, message="no luck"), Result(Status.OK, (9.0,), disturbed=True)]
)
def test_an_incumbent_that_cannot_be_measured_again_says_nothing(result):
    tuner = changing(lambda call, schedule: 1.0)
    real = tuner.runner.measure
    tuner.runner.measure = lambda some, best=None: [result] if len(some) == 1 else real(some, best)
    tuner.run()
    assert len(tuner.tried) == 16
    assert tuner._incumbent.drift == STEADY


@pytest.mark.slow
def test_what_is_exact_is_measured_once():
    tuner = changing(lambda call, schedule: 1.0, 32)
    tuner.runner.exact = True
    seen = Counter()
    real = tuner.runner.one
    tuner.runner.one = lambda candidate: seen.update([shape(candidate)]) or real(candidate)
    tuner.run()
    assert set(seen.values()) == {1} and len(seen) == 32
    tuner.finals()
    assert sorted(seen.values())[-FINALISTS - 1 :] == [1, *[2] * FINALISTS]
    assert seen.total() == 32 + FINALISTS + 1, "the program as it is written"


# ---- the finals


def test_the_lucky_one_does_not_win(tmp_path):
    log, written = Log(tmp_path / "log.jsonl"), shape(mt.Schedule(product()))
    tuner = changing(lambda call, schedule: 9.0 if shape(schedule) == written else 1.0, log=log)
    tuner.run()
    program, (best, *_, slow) = tuner.space.program, fastest(tuner.tried)
    lucky = 0.99 * best.seconds
    fast = Result(Status.OK, (lucky,), 1)
    log.append(tuner._record(tuner._replace(slow, seconds=lucky), fast))
    assert tuner.best.number == slow.number
    tuner.finals()
    assert tuner.best.number == best.number
    assert tuner.best.seconds < lucky
    assert len(tuner.tried) == 16
    winner = [r for r in log if r.trace_key == best.key][-1]
    assert (winner.parents, winner.change) == (best.parents, best.change)
    assert mt.load_best(log, program, tuner.space.target).trace == best.trace


def test_the_schedule_that_the_search_began_with_takes_part():
    """It was measured at twice its time, once, and nothing else is as fast."""
    tuner = changing(lambda call, schedule: 1.0)
    tuner.run()
    *_, begun = fastest(tuner.tried)
    tuner.proposals.begun = begun.trace
    own = shape(begun.trace.apply(tuner.space.program))
    tuner.runner.factor = lambda call, schedule: 1e-3 if shape(schedule) == own else 1.0
    assert begun not in finalists(tuner.tried, tuner.best)
    tuner.finals()
    assert tuner.best.number == begun.number


def test_more_take_part_where_the_machine_was_not_steady():
    tuner = changing(lambda call, schedule: 1.0)
    tuner.run()
    for tried in fastest(tuner.tried):
        tuner._replace(tried, seconds=(1 + tried.number / 1000) * tuner.best.seconds)
    calm = finalists(tuner.tried, tuner.best)
    tuner._replace(tuner.tried[-1], drift=1.01)
    assert (len(calm), len(finalists(tuner.tried, tuner.best))) == (FINALISTS, FINALISTS_OF_MANY)


def test_one_slow_turn_does_not_end_the_race_of_a_finalist():
    """The second is faster but for its first turn, in which it takes a third longer."""
    schedules = [mt.Schedule(product()), mt.Schedule(product(32))]
    calls = Counter()

    def measure(some, best=None):
        for schedule in some:
            calls[shape(schedule)] += 1
            first = calls[shape(schedule)] == 1
            yield ok(1.0 if schedule is schedules[0] else 1.33 if first else 0.9)

    results = run_in_turns(measure, schedules)
    assert len(results[1]) == TURNS
    assert ratios(results) == [1.0, 0.9]


def test_the_winner_takes_no_less_than_it_was_ever_measured_to_take():
    """The best before it takes three times as long in the finals; perhaps others ran unnoticed."""
    tuner = changing(lambda call, schedule: 1.0)
    tuner.run()
    best = tuner.best
    slow = shape(best.trace.apply(tuner.space.program))
    tuner.runner.factor = lambda call, schedule: 3.0 if shape(schedule) == slow else 1.0
    for tried in fastest(tuner.tried)[1:3]:
        tuner._replace(tried, seconds=1.1 * best.seconds)
    tuner.finals()
    assert tuner.best.number != best.number
    takes = tuner.runner.one(tuner.best.trace.apply(tuner.space.program)).median
    assert tuner.best.seconds == pytest.approx(min(takes, 0.999 * best.seconds))


def test_the_program_as_it_is_written_wins_where_nothing_is_faster(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    tuner = tuner_of(product(), 8, log=log)
    written = shape(mt.Schedule(tuner.space.program))
    tuner.runner = Changing(lambda call, schedule: 1e-6 if shape(schedule) == written else 1.0)
    tuner.run()
    tuner.finals()
    assert not tuner.best.trace.steps
    assert len(tuner.tried) == 8
    assert tuner.written is tuner.best
    assert not mt.load_best(log, tuner.space.program, tuner.space.target).trace.steps
    again = tuner_of(product(), 9)
    again.resume(list(log))
    assert again.best.trace == tuner.best.trace
    assert len(again.tried) == 8  # it is none of the candidates


def test_nothing_is_measured_where_all_was_known():
    tuner = changing(lambda call, schedule: 1.0, 8)
    tuner.run()
    again = changing(lambda call, schedule: 1.0, 8)
    again.tried = list(tuner.tried)
    again.run()
    again.finals()
    assert again.runner.calls == 0


def test_one_that_fails_in_the_finals_has_failed():
    tuner = changing(lambda call, schedule: 1.0, 8)
    tuner.run()
    best, real = tuner.best, tuner.runner.measure
    bad = shape(best.trace.apply(tuner.space.program))

    def measure(candidates, best=None):
        for candidate, result in zip(candidates, real(candidates, best)):
            yield Result(Status.WRONG, message="now") if shape(candidate) == bad else result

    tuner.runner.measure = measure
    tuner.finals()
    failed = tuner.tried[best.number - 1]
    assert (failed.status, failed.error) == ("wrong result", "now")
    assert tuner.best.status == OK and tuner.best.number != best.number


def test_where_all_fail_in_the_finals_the_next_best_remains():
    tuner = changing(lambda call, schedule: 1.0, 16)
    tuner.run()
    order = [t.number for t in fastest(tuner.tried)]
    tuner.runner.measure = lambda some, best=None: [Result(Status.CRASH, message="")] * len(some)
    tuner.finals()
    assert tuner.best.number in order[1 : FINALISTS + 1]


def test_turns():
    """The machine becomes slower by half in each; the order changes; what is far off has one."""
    asked = []

    def measure(names, best):
        asked.append("".join(names))
        slow = 1.5 ** max(1, len(asked) - 1)
        return [ok(slow * {"a": 1.0, "b": 0.9, "c": 5.0}[name]) for name in names]

    results = run_in_turns(measure, ["a", "b", "c"])
    assert [len(found) for found in results] == [TURNS, TURNS, 1]
    assert asked == ["a", "bc", "ba", "ab", "ba", "ab"]
    assert ratios(results) == [1.0, pytest.approx(0.9), None]


def test_the_first_is_what_others_are_compared_with_though_it_is_slow():
    def measure(names, best):
        return [ok({"a": 5.0, "b": 1.0, "c": 1.1}[name]) for name in names]

    results = run_in_turns(measure, ["a", "b", "c"])
    assert ratios(results) == pytest.approx([1.0, 0.2, 0.22])


def test_turns_that_were_disturbed_do_not_count():
    """The first finalist takes 30 times as long in two turns, while others run."""
    asked = []

    def measure(names, best):
        asked.append(names)
        busy = len(asked) in (1, 3)
        slow = Result(Status.OK, (30.0,), disturbed=True)
        return [slow if busy and name == "a" else ok({"a": 1.0, "b": 1.1}[name]) for name in names]

    results = run_in_turns(measure, ["a", "b"])
    assert len(results[0]) == len(results[1]) == TURNS + 2
    assert ratios(results) == [1.0, pytest.approx(1.1)]
    never = [[Result(Status.OK, (9.0,), disturbed=True)] * 3, [ok(1.0)] * 3]
    assert ratios(never) == [1.0, None]


def test_nothing_is_learnt_of_a_time_that_was_disturbed(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    tuner = changing(lambda call, schedule: 1.0, 8, log=log)
    real, count = tuner.runner.one, []

    def measure(some, best=None):
        for one in some:
            count.append(one)
            yield Result(Status.OK, real(one).times, disturbed=len(count) <= 3)

    tuner.runner.measure = measure
    tuner.run()
    assert [t.disturbed for t in tuner.tried] == [True] * 3 + [False] * 5
    assert tuner.learner._speeds == [1 / t.seconds for t in tuner.tried[3:]]
    again = tuner_of(product(), 8)
    again.resume(list(log))
    assert again.learner._speeds == tuner.learner._speeds


def test_no_ratios_where_none_took_all_turns():
    failed = Result(Status.CRASH, message="")
    assert ratios([[failed], [failed]]) == [None, None]
    assert ratios([[failed], [ok(1.0), ok(2.0)]]) == [None, 1.0]
