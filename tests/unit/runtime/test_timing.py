"""The numbers of a Timing, and how many calls a measurement makes."""

import itertools
import math
import time

import numpy as np
import pytest

from minitensor import errors
from minitensor.runtime import Timing, measure
from minitensor.runtime.timing import check_repeats


def test_statistics_are_seconds_per_call():
    timing = Timing([3.0, 1.0, 2.0, 10.0], number=7)
    assert timing.median == 2.5
    assert timing.mean == 4.0
    assert (timing.min, timing.max) == (1.0, 10.0)
    assert math.isclose(timing.std, math.sqrt((1 + 9 + 4 + 36) / 4))


@pytest.mark.parametrize(
    "seconds, text", [(2.0, "2 s"), (1.5e-3, "1.5 ms"), (2e-5, "20 µs"), (3e-7, "300 ns")]
)
def test_text_has_the_unit_that_fits(seconds, text):
    assert str(Timing([seconds], number=3)).startswith(f"{text} (median of 1 repeats of 3 calls")


class Clock:
    """A clock that moves only when the thing measured is called."""

    def __init__(self, monkeypatch, seconds):
        self.now = 0.0
        self.calls = 0
        self.seconds = itertools.cycle(seconds)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def __call__(self):
        self.calls += 1
        self.now += next(self.seconds)


def test_given_number_of_calls(monkeypatch):
    clock = Clock(monkeypatch, [0.25])
    timing = measure(clock, 3, 4, 1e9)
    assert timing == Timing([0.25] * 4, number=3)
    assert clock.calls == 12


def test_chosen_number_makes_every_repeat_long_enough(monkeypatch):
    clock = Clock(monkeypatch, [0.75e-6, 1.25e-6])
    timing = measure(clock, None, 5, 20.0)
    assert len(timing.results) == 5
    assert all(seconds * timing.number >= 0.020 for seconds in timing.results)
    assert timing.number < 40_000  # 20 ms are 20,000 calls
    assert math.isclose(timing.median, 1e-6, rel_tol=0.01)


def test_results_of_different_numbers_of_calls_are_not_mixed(monkeypatch):
    clock = Clock(monkeypatch, [0.5] + [1e-6] * 1_000_000)
    timing = measure(clock, None, 3, 20.0)
    assert timing.number > 1 and timing.max < 2e-6


def test_call_that_is_long_enough_alone_is_made_once_a_repeat(monkeypatch):
    clock = Clock(monkeypatch, [0.5])
    assert measure(clock, None, 3, 20.0).number == 1
    assert clock.calls == 3


def test_call_faster_than_the_clock_still_ends(monkeypatch):
    clock = Clock(monkeypatch, [0.0] * 200_000 + [1.0])
    assert measure(clock, None, 1, 1.0).number >= 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 5, 20.0), "expected a number of at least 1, but got number=0 (int)"),
        ((1.5, 5, 20.0), "got number=1.5 (float)"),
        ((True, 5, 20.0), "got number=True (bool)"),
        ((None, 0, 20.0), "got repeat=0 (int)"),
        ((None, None, 20.0), "got repeat=None (NoneType)"),
        (
            (None, 5, -1),
            "expected milliseconds, at least 0 and at most 3,600,000, but got min_repeat_ms=-1",
        ),
        ((None, 5, 10**400), "but got min_repeat_ms=1000"),
        ((None, 5, math.nan), "got min_repeat_ms=nan (float)"),
        ((None, 5, math.inf), "got min_repeat_ms=inf (float)"),
        ((None, 5, "20"), "got min_repeat_ms='20' (str)"),
    ],
)
def test_arguments_that_cannot_be_meant(arguments, message):
    with pytest.raises(errors.ArgumentError) as caught:
        check_repeats(*arguments)
    assert message in str(caught.value)


def test_kernel_times_itself(adder):
    a = np.ones((2, 3), "float32")
    timing = adder().time(a, a, repeat=3, min_repeat_ms=1)
    assert len(timing.results) == 3
    assert 0 < timing.min <= timing.median <= timing.max
    with pytest.raises(errors.ArgumentError, match="expected A"):
        adder().time(None, a)
    with pytest.raises(errors.ArgumentError, match="repeat=0"):
        adder().time(a, a, repeat=0)
