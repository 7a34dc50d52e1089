"""The order of calls and of sleeps, with a clock that only they move."""

import numpy as np
import pytest

from benchmarks.compare.implementation import Implementation
from minitensor.runtime.rounds import Clock, Pace, interleave, order, take_turn


class Time:
    """A clock, and implementations that take a known time of it."""

    def __init__(self):
        self.seconds = 0.0
        self.happened = []

    def clock(self):
        return Clock(lambda: self.seconds, self.sleep)

    def sleep(self, seconds):
        self.happened.append(seconds)
        self.seconds += seconds

    def implementation(self, name, *durations, spin=0.0):
        """Each call takes the next of the durations, over and over."""
        count = iter(range(10**9))

        def call():
            self.happened.append(name)
            self.seconds += durations[next(count) % len(durations)]

        return Implementation(name, call, np.asarray, spin=spin)


@pytest.fixture
def time():
    return Time()


PACE = Pace(rounds=2, burst=3.0, warm=1.0, least_calls=2)


def test_a_turn_warms_up_and_counts_until_the_burst_is_over(time):
    implementation = time.implementation("a", 0.25)
    assert take_turn(implementation.call, PACE, time.clock()) == [0.25] * 12
    assert len(time.happened) == 4 + 12


def test_a_turn_has_at_least_some_calls(time):
    pace = Pace(1, burst=0.1, warm=0.1, least_calls=3)
    assert take_turn(time.implementation("a", 0.5).call, pace, time.clock()) == [0.5] * 3


def test_a_slow_one_is_called_once(time):
    assert take_turn(time.implementation("a", 2.0).call, PACE, time.clock()) == [2.0]
    assert time.happened == ["a"]


def test_a_call_that_takes_no_time_at_all_ends_all_the_same(time):
    pace = Pace(1, burst=0.0, warm=0.0, least_calls=2)
    ticks = iter(range(100))
    clock = Clock(lambda: float(next(ticks)), time.sleep)
    assert len(take_turn(lambda: None, pace, clock)) >= 1


def test_what_counts_is_the_fastest_call_of_each_round(time):
    a = time.implementation("a", 0.5, 0.25, 0.375)
    b = time.implementation("b", 0.125)
    turns = interleave([a, b], PACE, clock=time.clock())
    assert turns["a"].fastest == [0.25, 0.25]
    assert turns["a"].typical == [0.375, 0.375]
    assert turns["b"].fastest == [0.125, 0.125]


def test_the_order_rotates_and_turns_around():
    orders = ["".join(order("abc", number)) for number in range(6)]
    assert orders == ["abc", "acb", "cab", "cba", "bca", "bac"]
    assert order([], 3) == []


def test_each_turn_waits_for_the_threads_of_the_one_before(time):
    a, b = time.implementation("a", 0.625, spin=7.0), time.implementation("b", 0.625, spin=5.0)
    interleave([a, b], Pace(2, 0.1, 0.1, 1), clock=time.clock())
    assert time.happened == [7.0, "a", 7.0, "b", 5.0, "a", 7.0, "b"]


def test_a_process_with_one_thread_waits_for_nobody(time):
    a = time.implementation("a", 0.625, spin=7.0)
    interleave([a], Pace(2, 0.1, 0.1, 1), pause=False, clock=time.clock())
    assert time.happened == ["a", "a"]


def test_rounds_are_announced(time):
    begun = []
    a = time.implementation("a", 0.625)
    interleave([a], PACE, clock=time.clock(), started=begun.append)
    assert begun == [0, 1]
    assert interleave([], PACE, clock=time.clock()) == {}
