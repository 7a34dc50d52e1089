"""Steps and directions, what a network learns of them, and where steps begin."""

import random
from itertools import islice

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search.space import Knob
from minitensor.search.tuners import FlexTensor
from minitensor.search.tuners.flextensor import Network, Walk, moved_factor, transitions
from tests.unit.search.tuners.made import SPACE, a_round, drawn, tried

WALK = Walk.of(SPACE, 0)


@pytest.mark.parametrize(
    ("value", "source", "target", "after"),
    [
        ((1, 6, 4), 1, 0, (2, 3, 4)),
        ((4, 6, 1), 1, 0, (6, 4, 1)),  # 6 is the next divisor of 24 after 4
        ((2, 3, 4), 0, 2, (1, 3, 8)),
        ((1, 24, 1), 0, 1, None),  # nothing to move
        ((1, 3, 8), 1, 2, None),  # the innermost has its limit
    ],
)
def test_a_factor_moves_to_the_next_divisor(value, source, target, after):
    knob = Knob(0, "C", "i", extent=24, parts=3, limit=8)
    assert moved_factor(knob, value, source, target) == after


def test_every_step_is_a_candidate_that_differs_in_one_choice():
    for candidate in drawn(20, sketch=0):
        steps = WALK.steps(candidate)
        assert steps and set(steps) <= set(range(len(WALK.actions)))
        for action, step in steps.items():
            SPACE.check(step)
            number, _ = WALK.actions[action]
            assert step != candidate and step.origin == candidate.origin
            assert number >= len(step.values) or step.values[number] != candidate.values[number]


def test_states_of_different_candidates_differ():
    candidates = drawn(50, sketch=0)
    states = np.array([WALK.state(c) for c in candidates])
    assert len(np.unique(states, axis=0)) == 50
    assert (np.abs(states) <= 2).all()


def test_transitions_are_pairs_that_are_one_step_apart():
    first, failed = drawn(2, seed=4, sketch=0)
    action, after = next(iter(WALK.steps(first).items()))
    seconds = {first: 4e-3, failed: np.inf, after: 1e-3}
    found = [t for t in transitions(WALK, seconds) if t.action == action]
    (one,) = [t for t in found if np.array_equal(t.state, WALK.state(first))]
    assert one.reward == 0.75 and np.array_equal(one.after, WALK.state(after))
    assert set(np.flatnonzero(one.possible)) == set(WALK.steps(after))
    back = [t for t in transitions(WALK, seconds) if np.array_equal(t.state, WALK.state(after))]
    assert [t.reward for t in back] == [0.0] * len(back) and back
    assert transitions(WALK, {failed: np.inf, first: np.inf, after: 1e-3})[0].reward == 0


def test_the_slopes_of_a_network():
    """Against finite differences."""
    rng = np.random.default_rng(0)
    states, actions, targets = rng.normal(size=(7, 5)), rng.integers(0, 4, 7), rng.normal(size=7)
    network = Network(5, 4, 6, seed=1)
    network.layers[-1] *= 100

    def error():
        values = network.values(states)[np.arange(7), actions]
        return ((values - targets) ** 2).mean() / 2

    slopes = network.slopes(states, actions, targets)
    for layer, slope in zip(network.layers, slopes):
        for place in np.ndindex(layer.shape):
            before, step = layer[place], 1e-6
            layer[place] = before + step
            up = error()
            layer[place] = before - step
            down = error()
            layer[place] = before
            assert slope[place] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_a_network_learns_which_action_is_worth_more():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (400, 3))
    actions = rng.integers(0, 2, 400)
    targets = np.where(actions == 0, states[:, 0], -states[:, 0])
    network = Network(3, 2, 16, seed=0)
    for _ in range(30):
        network.learn(states, actions, targets)
    values = network.values(states)
    assert np.mean((values[:, 0] > values[:, 1]) == (states[:, 0] > 0)) > 0.9


def test_it_is_random_while_it_warms_up():
    history = tried(drawn(19))
    found = list(islice(FlexTensor().propose(a_round(history, 5)), 8))
    assert len({c.sketch for c in found}) > 1
    near = {c for t in history for c in Walk.of(SPACE, t.candidate.sketch).steps(t.candidate)}
    assert not near & set(found)


def test_afterwards_most_are_steps_from_the_fastest():
    candidates = drawn(20)
    history = tried(candidates, [1e-3] + [1.0] * 19)
    found = list(islice(FlexTensor(gamma=5).propose(a_round(history)), 40))
    steps = set(Walk.of(SPACE, candidates[0].sketch).steps(candidates[0]).values())
    assert 25 <= len(steps & set(found)) < 40  # the others are random
    assert not set(candidates) & set(found)


@pytest.mark.slow
def test_what_is_learnt_decides_the_direction():
    """With steps in one direction known to be good, that is where it goes from others."""
    rng, good = random.Random(0), 0
    number, _ = WALK.actions[good]
    seconds = {}
    for start in drawn(60, seed=1, sketch=0):
        before = rng.uniform(1, 2)
        for action, step in rng.sample(list(WALK.steps(start).items()), 6):
            seconds.setdefault(start, before)
            seconds.setdefault(step, before / 3 if action == good else before * 1.5)
        if good in (steps := WALK.steps(start)):
            seconds.setdefault(steps[good], before / 3)
    settings = FlexTensor(epsilon=0, least=0, restarts=0, discount=0)
    network = settings._learnt(WALK, seconds, rng)
    fresh = [c for c in drawn(40, seed=7, sketch=0) if good in WALK.steps(c)]
    ranks = [
        np.argsort(-network.values(WALK.state(c)[None])[0]).tolist().index(good) for c in fresh
    ]
    assert fresh and np.median(ranks) <= 3, number


def test_a_round_is_the_same_whenever_it_is_asked_for():
    history = tried(drawn(40), [1e-3 * (1 + n % 7) for n in range(40)])
    runs = [list(FlexTensor(epochs=2).propose(a_round(history, seed))) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"warm_up": 0},
        {"width": 0},
        {"epochs": 1.5},
        {"sweeps": 0},
        {"epsilon": 2},
        {"least": -0.1},
        {"restarts": float("nan")},
        {"discount": 1.1},
        {"gamma": -1},
        {"decay": "fast"},
    ],
)
def test_parameters_out_of_range(wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=name):
        FlexTensor(**wrong)
