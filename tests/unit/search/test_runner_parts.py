"""The parts of measuring that need no compiler: repeats, and what is made of many results."""

import pytest

from minitensor.search.runner import Result, Settings, Status, failures_of
from minitensor.search.runner import timing as timing_module
from minitensor.search.runner.results import noise_of
from minitensor.search.runner.timing import time_call, uncertainty


@pytest.fixture
def clock(monkeypatch):
    """A clock that only calls move: `clock.take` is what each takes, `clock.calls` how many."""

    class Clock:
        now, calls, lost = 0.0, 0, 0

        def __init__(self):
            self.take = lambda n: 0.001

        def __call__(self):
            self.now += self.take(self.calls)
            self.calls += 1

    clock = Clock()
    monkeypatch.setattr(timing_module.time, "perf_counter", lambda: clock.now)
    lost = timing_module.Lost
    monkeypatch.setattr(timing_module, "lost_now", lambda: lost(clock.lost, clock.lost / 1000))
    return clock


def test_steady_calls_need_the_fewest_repeats(clock):
    times = time_call(clock, Settings(repeats=4, repeat=0.01), None)
    assert times.seconds == pytest.approx([0.001] * 4)
    assert (times.calls, times.early) == (10, False)


def test_noisy_calls_are_repeated_until_the_median_is_certain_or_the_time_is_up(clock):
    clock.take = lambda n: 0.001 if n % 2 else 0.002
    few = time_call(clock, Settings(repeat=1e-4, budget=0.01), None)
    assert 3 <= len(few.seconds) <= 10
    most = time_call(clock, Settings(repeat=1e-4, budget=100, most_repeats=12), None)
    assert len(most.seconds) == 12


def test_the_very_first_call_does_not_count(clock):
    clock.take = lambda n: 5.0 if n == 0 else 0.001
    times = time_call(clock, Settings(), best=0.001)
    assert not times.early
    assert max(times.seconds) == pytest.approx(0.001)


def test_clearly_slower_than_the_best(clock):
    assert time_call(clock, Settings(), best=0.0004) == ([pytest.approx(0.001)], 1, True, 0, False)
    assert clock.calls == timing_module.FIRST_CALLS
    assert not time_call(clock, Settings(), best=0.0006).early
    assert not time_call(clock, Settings(slower=3), best=0.0004).early


def test_far_slower_than_the_best(clock):
    assert time_call(clock, Settings(), best=0.0002).early
    assert clock.calls == timing_module.FIRST_CALLS  # they are short
    clock.take, clock.calls = lambda n: 0.01, 0
    assert time_call(clock, Settings(), best=0.002).early
    assert clock.calls == 2


def test_what_is_behind_is_not_timed_more_exactly(clock):
    clock.take = lambda n: 0.00101 if n % 2 else 0.00099
    exact = Settings(repeat=1e-4, noise=1e-9, budget=100)
    assert len(time_call(clock, exact, best=0.0008).seconds) == exact.repeats
    assert len(time_call(clock, exact, best=0.00095).seconds) == exact.most_repeats


def test_flushing_goes_before_each_call(clock, monkeypatch):
    order = []
    monkeypatch.setattr(timing_module, "flusher", lambda: lambda: order.append("flush"))
    settings = Settings(flush=True, repeats=2, most_repeats=2)
    times = time_call(lambda: (order.append("call"), clock()), settings, None)
    assert times.calls == 1
    assert order == ["flush", "call"] * (timing_module.FIRST_CALLS + 2)


def test_first_calls_that_last_are_repeats(clock):
    clock.take = lambda n: 0.02
    times = time_call(clock, Settings(repeats=5), None)
    assert (len(times.seconds), times.calls, clock.calls) == (5, 1, 6)


def test_a_repeat_during_which_others_ran_does_not_count(clock):
    def take(number):
        interrupted = number > 3 and number % 4
        clock.lost += bool(interrupted)
        return 0.009 if interrupted else 0.001

    clock.take = take
    times = time_call(clock, Settings(repeats=6, repeat=0.001), None)
    assert times.seconds == pytest.approx([0.001] * 6)
    assert times.spoilt >= 4 and not times.disturbed


def test_a_switch_of_microseconds_spoils_nothing():
    before = timing_module.Lost(7, 0.1)
    assert not timing_module.Lost(8, 0.1 + 0.00004).spoils(before, 0.005)
    assert timing_module.Lost(8, 0.1 + 0.0001).spoils(before, 0.005)


def test_a_thread_that_slept_and_is_woken_late_spoils_a_repeat():
    before = timing_module.Lost(7, 0.1)
    assert not timing_module.Lost(7, 0.1 + 0.0009).spoils(before, 0.005)
    assert timing_module.Lost(7, 0.1 + 0.0011).spoils(before, 0.005)


def test_what_is_lost_grows_only(monkeypatch):
    first = timing_module.lost_now()
    second = timing_module.lost_now()
    assert 0 <= first.switches <= second.switches
    assert 0 <= first.seconds <= second.seconds
    monkeypatch.setattr(timing_module.os, "listdir", lambda path: ["no such thread"])
    assert timing_module.lost_now().seconds >= second.switches * 0.001


def test_what_is_interrupted_between_two_repeats_may_return_in_the_second(clock, monkeypatch):
    settings = Settings(flush=True, repeats=2, patience=0.01)
    monkeypatch.setattr(
        timing_module, "flusher", lambda: lambda: setattr(clock, "lost", clock.calls)
    )
    times = time_call(clock, settings, None)
    assert len(times.seconds) == 1 <= times.spoilt


def test_shorter_repeats_are_tried_between_interruptions(clock):
    """One every 3 ms: no repeat of 10 ms is free of them."""

    def take(number):
        clock.lost = int(clock.now / 0.003)
        return 0.001

    clock.take = take
    times = time_call(clock, Settings(repeat=0.01), None)
    assert times.seconds == pytest.approx([0.001] * 3)
    assert times.calls <= 2
    assert times.spoilt


def test_where_every_repeat_is_spoilt_the_fastest_counts_and_there_is_an_end(clock):
    def take(number):
        clock.lost += 1
        return 0.001 if number == 50 else 0.002

    clock.take = take
    times = time_call(clock, Settings(repeat=0.001, patience=0.5), None)
    assert times.seconds == [pytest.approx(0.001)]
    assert 50 < times.spoilt < 600
    assert clock.now < 1.1
    assert times.disturbed
    assert Result(Status.OK, tuple(times.seconds), spoilt=times.spoilt).busy


def test_a_slow_call_is_not_taken_for_slow_when_others_ran(clock):
    def take(number):
        clock.lost += number < 4
        return 0.005 if number < 4 else 0.001

    clock.take = take
    assert not time_call(clock, Settings(), best=0.0009).early


def test_noise():
    assert noise_of([1.0]) == 0
    assert noise_of([1.0, 1.0, 1.0]) == 0
    assert noise_of([1.0, 1.0, 1.0, 100.0]) == 0, "one interrupted repeat does not count"
    assert noise_of([0.9, 1.0, 1.1]) == pytest.approx(0.148, abs=0.001)
    assert uncertainty([0.9, 1.0, 1.1]) == pytest.approx(0.2 / 3 * 1.2533**2 / 3**0.5)
    assert uncertainty([1.0, 1.0, 2.0]) > 0.1, "two that agree do not settle it"


def test_failures_by_kind():
    results = [
        Result(Status.OK, (1.0,)),
        Result(Status.CRASH, message="first"),
        Result(Status.WRONG, message="other"),
        Result(Status.CRASH, message="second"),
    ]
    found = [(f.status, f.count, f.first) for f in failures_of(results)]
    assert found == [(Status.CRASH, 2, "first"), (Status.WRONG, 1, "other")]
    assert results[1].median == float("inf")
    assert results[0].ok
