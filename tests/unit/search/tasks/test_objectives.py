"""Objectives: what they say of latencies, what a second is worth, and what is no objective."""

import math

import pytest

import minitensor as mt
from minitensor.search.tasks import latency, objective_of, slopes, value_of

Requirements, Speedup = mt.search.Requirements, mt.search.Speedup


def test_latency_is_the_sum():
    assert latency([1.0, 2.0]) == 3.0
    assert slopes(latency, [1.0, 2.0]) == pytest.approx([1.0, 1.0])


def test_below_a_requirement_nothing_is_gained():
    objective = Requirements(1.0, 3.0)
    assert objective([0.5, 4.0]) == 5.0
    assert slopes(objective, [0.5, 4.0]) == pytest.approx([0.0, 1.0])
    assert objective.met([1.0, 3.0]) and not objective.met([1.0, 3.1])


def test_the_geometric_mean_of_speedups():
    objective = Speedup(2.0, 9.0)
    assert objective([1.0, 3.0]) == pytest.approx(-math.sqrt(6))
    fast, slow = slopes(objective, [1.0, 100.0])
    assert fast == pytest.approx(100 * slow, rel=1e-2)  # of the same part of either


def test_a_function_of_the_users():
    assert slopes(lambda latencies: max(latencies) ** 2, [1.0, 3.0]) == pytest.approx(
        [0.0, 6.0], rel=1e-2
    )
    assert slopes(lambda latencies: 5, [1.0]) == [0.0]  # a constant
    assert slopes(lambda latencies: -latencies[0], [1.0]) == [0.0]  # slower would be better
    assert slopes(lambda latencies: math.inf, [1.0]) == [0.0]


def test_an_objective_that_fails_is_named():
    with pytest.raises(mt.ArgumentError, match=r"raised for latencies of 1, 0.25 s: .*division"):
        value_of(lambda latencies: 1 / 0, [1.0, 0.25])
    for wrong in (math.nan, None, "fast", True):
        with pytest.raises(mt.ArgumentError, match="expected a number from the objective"):
            value_of(lambda latencies, wrong=wrong: wrong, [1.0])
    with pytest.raises(mt.ArgumentError, match="seconds for each of 2 networks, but got 1"):
        value_of(Requirements(1.0), [1.0, 2.0])


@pytest.mark.parametrize("given", ["speed", 3, None, Requirements])
def test_what_is_no_objective(given):
    with pytest.raises(mt.ArgumentError, match=r"'latency', mt.search.Requirements"):
        objective_of(given)


@pytest.mark.parametrize("seconds", [(), (0,), (-1.0,), (math.nan,), ("1",), (True,)])
def test_seconds_that_are_none(seconds):
    for kind in (Requirements, Speedup):
        with pytest.raises(mt.ArgumentError, match="seconds"):
            kind(*seconds)
