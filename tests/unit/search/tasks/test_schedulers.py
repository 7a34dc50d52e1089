"""Task schedulers on curves that are known: who is next, and how far from the best division."""

import math
import random
from dataclasses import replace

import pytest

import minitensor as mt
from minitensor.search.tasks import (
    Curve,
    Gradient,
    Leg,
    RoundRobin,
    Uniform,
    latencies_of,
    latency,
    race,
    scheduler_of,
)

RNG = random.Random(0)
SURE = Gradient(epsilon=0.0, currency="seconds")


def curve(name, seconds, *legs, first=10.0, counts=(1.0,), work=0, closed=""):
    made = [Leg(8, spent, at) for spent, at in legs] or [Leg(8, 1.0, seconds)]
    return Curve(name, counts, work, first, tuple(made), closed)


def test_latencies_are_sums_over_kernels():
    curves = [curve("a", 1.0, counts=(2.0, 0.0)), curve("b", 3.0, counts=(1.0, 4.0))]
    assert latencies_of(curves) == [5.0, 12.0]
    unsearched = Curve("c", (1.0, 1.0), 0, 7.0)
    assert unsearched.seconds == 7.0 and latencies_of([*curves, unsearched]) == [12.0, 19.0]
    assert curve("a", 11.0).seconds == 10.0  # what the search found is slower


def test_each_has_a_round_first_the_dearest_before():
    curves = [Curve("a", (1.0,), 0, 3.0), Curve("b", (4.0,), 0, 2.0), curve("c", 9.0)]
    assert SURE.choose(curves, latency, RNG) == 1


def test_what_was_gained_lately_counts_by_the_second():
    quick = curve("a", 0, (1.0, 9.0), (1.0, 8.0))
    slow = curve("b", 0, (10.0, 9.0), (10.0, 8.0))
    still = curve("c", 0, (1.0, 10.0), (1.0, 10.0))
    back = Gradient(alpha=1.0, epsilon=0.0, currency="seconds")
    assert back.choose([still, slow, quick], latency, RNG) == 2
    by_trials = Gradient(alpha=1.0, epsilon=0.0, currency="trials")
    gains = by_trials.gains([still, slow, quick], latency)
    assert gains[0] == 0 and gains[1] == gains[2] == pytest.approx(1 / 8)


def test_alike_tasks_give_hope():
    """One that does the same number of operations ten times as fast as another of its name."""
    rounds = [(1.0, 10.0)] * 20
    slow = curve("conv", 0, *rounds, work=10)
    fast, other = curve("conv", 1.0, first=1.0, work=10), curve("pool", 0, *rounds, work=10)
    alike, apart = SURE.gains([slow, fast, other], latency)[::2]
    assert alike > 5 * apart
    assert replace(SURE, alike=False).gains([slow, fast], latency)[0] == pytest.approx(apart)
    # beta 2: half as fast as the fast one may be had, 8 of 10 seconds
    assert alike == pytest.approx(0.8 * (10 - 2 * 1.0))


def test_without_hope_only_gains_count():
    curves = [curve("a", 0, (1.0, 10.0), (1.0, 10.0)), curve("b", 0, (1.0, 9.9), (1.0, 9.8))]
    assert replace(SURE, hopeful=False).gains(curves, latency) == pytest.approx([0.0, 0.2 / 2])


def test_counts_and_the_objective_are_the_weights():
    a, b = curve("a", 5.0, counts=(1.0, 0.0)), curve("b", 5.0, counts=(0.0, 1.0))
    assert SURE.choose([a, b], mt.search.Requirements(9.0, 1.0), RNG) == 1
    assert SURE.choose([a, b], mt.search.Requirements(1.0, 9.0), RNG) == 0
    assert SURE.gains([a, b], mt.search.Requirements(9.0, 1.0))[0] == 0.0


def test_where_nothing_counts_they_take_turns():
    curves = [curve("a", 0, (1.0, 5.0), (1.0, 4.0)), curve("b", 5.0)]
    assert SURE.choose(curves, lambda latencies: 0.0, RNG) == 1


def test_closed_tasks_are_out():
    curves = [curve("a", 9.0, closed="all was tried"), curve("b", 1.0)]
    for scheduler in (SURE, RoundRobin(), Uniform(), Gradient(epsilon=1.0)):
        assert scheduler.choose(curves, latency, random.Random(1)) == 1


def test_a_race_ends_with_its_time_or_its_tasks():
    curves = [Curve("a", (1.0,), 0, 5.0), Curve("b", (1.0,), 0, 5.0)]
    left = {0: 2, 1: 5}

    def step(place):
        left[place] -= 1
        return Leg(8, 1.0, 4.0) if left[place] >= 0 else "nothing is left"

    places = list(race(curves, step, RoundRobin(), latency, lambda: False))
    assert places == [0, 1, 0, 1, 0, 1, 1, 1, 1]
    assert [(one.trials, one.closed) for one in curves] == [
        (16, "nothing is left"),
        (40, "nothing is left"),
    ]
    assert list(race(curves, step, RoundRobin(), latency, lambda: False)) == []
    fresh = [Curve("a", (1.0,), 0, 5.0)]
    assert list(race(fresh, step, RoundRobin(), latency, lambda: True)) == []


def test_a_race_that_goes_on_is_the_same():
    def run(curves, rounds):
        def step(place):
            law = laws_of(random.Random(1), len(curves))[place]
            return Leg(8, 1.0, law(8 * (len(curves[place].legs) + 1)))

        total = sum(len(one.legs) for one in curves) + rounds
        over = lambda: sum(len(one.legs) for one in curves) >= total
        return list(race(curves, step, Gradient(epsilon=0.3), latency, over, seed=4))

    def fresh():
        return [Curve("t", (1.0,), 0, law(0)) for law in laws_of(random.Random(1), 6)]

    halves = fresh()
    assert run(fresh(), 30) == run(halves, 11) + run(halves, 19)


def test_a_scheduler_of_the_users_is_checked():
    class Wrong:
        def choose(self, curves, objective, rng):
            return 7

    with pytest.raises(mt.ArgumentError, match="the place of a task that is open"):
        list(race([curve("a", 1.0)], lambda place: "", Wrong(), latency, lambda: False))
    for given in ("fair", 3, Gradient):
        with pytest.raises(mt.ArgumentError, match="'gradient', 'round_robin', 'random', or an"):
            scheduler_of(given)
    for wrong in ({"alpha": 2}, {"beta": -1}, {"epsilon": "x"}, {"window": 0}, {"currency": "$"}):
        with pytest.raises(mt.ArgumentError, match=next(iter(wrong))):
            Gradient(**wrong)


# ---- against the best division


def laws_of(rng, count):
    """Functions from trials to seconds of a call: each gains half of what it can in so many."""

    def law():
        base, gain = 1e-3 * math.exp(rng.gauss(0, 1)), rng.uniform(0.2, 0.8)
        half = math.exp(rng.uniform(math.log(4), math.log(200)))
        return lambda trials: base * (1 - gain * (1 - 2 ** (-trials / half)))

    return [law() for _ in range(count)]


def best_division(laws, rounds):
    """The latency after the rounds are given one by one to whoever gains the most: the least that
    there is, for no law gains more later.
    """
    done = [0] * len(laws)
    for _ in range(rounds):
        best = max(range(len(laws)), key=lambda n: laws[n](done[n]) - laws[n](done[n] + 8))
        done[best] += 8
    return sum(law(trials) for law, trials in zip(laws, done))


def played(laws, rounds, scheduler, seed):
    curves = [Curve(f"t{n}", (1.0,), 0, law(0)) for n, law in enumerate(laws)]

    def step(place):
        return Leg(8, 8.0, laws[place](8 * (len(curves[place].legs) + 1)))

    over = lambda: sum(len(one.legs) for one in curves) >= rounds
    for _ in race(curves, step, scheduler, latency, over, seed):
        pass
    return sum(latencies_of(curves))


@pytest.mark.slow
def test_a_gradient_is_close_to_the_best_division():
    ratios = {name: [] for name in ("gradient", "looking back", "round_robin")}
    looking_back = Gradient(alpha=0.9, epsilon=0.0)
    for seed in range(20):
        laws = laws_of(random.Random(seed), 20)
        best = best_division(laws, 200)
        for name, one in (("gradient", scheduler_of("gradient")), ("looking back", looking_back),
                          ("round_robin", scheduler_of("round_robin"))):  # fmt: skip
            ratios[name].append(played(laws, 200, one, seed) / best)
    assert min(min(found) for found in ratios.values()) >= 1 - 1e-12
    assert max(ratios["looking back"]) < 1.03
    assert max(ratios["gradient"]) < 1.1
    assert sum(ratios["gradient"]) / 20 < 1.05 < sum(ratios["round_robin"]) / 20
