"""Generations of measured candidates: who the parents are, and what becomes of their genes."""

import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search.tuners import Genetic, genes
from minitensor.search.tuners.genetic import _pair
from tests.unit.search.tuners.made import SPACE, a_round, drawn, tried


def test_the_defaults_are_those_of_autotvm():
    assert Genetic() == Genetic(population=100, elite=3, mutation=0.1)
    assert Genetic.uses_model is False


def test_parents_are_the_last_complete_generation_and_the_elite_before_it():
    candidates = drawn(35)
    seconds = [1e-3 * (1 + n) for n in range(35)]
    seconds[12], seconds[25] = np.inf, 1e-6
    history = tried(candidates, seconds)
    strategy = Genetic(10, elite=3)
    assert strategy.parents(history[:9]) == {}
    assert [*strategy.parents(history[:10])] == candidates[:10]
    second = [*candidates[:3], *candidates[10:12], *candidates[13:20]]  # number 12 failed
    assert [*strategy.parents(history[:20])] == [*strategy.parents(history[:29])] == second
    third = strategy.parents(history)  # number 25 is in it, and not yet an elite
    assert [*third] == [*candidates[:3], *candidates[20:30]]
    assert third[candidates[25]] == max(third.values()) == pytest.approx(1e6)
    fourth = strategy.parents([*history, *tried(drawn(5, seed=9))])
    assert [*fourth][:3] == [candidates[25], *candidates[:2]]


def test_fitness_is_the_measured_speed():
    a, b, c = drawn(3)
    parents, rng = {a: 6.0, b: 3.0, c: 1.0}, random.Random(0)
    pairs = [_pair(parents, rng) for _ in range(4000)]
    first = Counter(one for one, _ in pairs)
    assert 0.55 < first[a] / 4000 < 0.65 and 0.06 < first[c] / 4000 < 0.14
    assert all(one != other for one, other in pairs)
    assert _pair({a: 1.0}, rng) == (a, a)


def test_children_have_the_genes_of_their_parents_where_nothing_mutates():
    parents = drawn(6, sketch=0)
    history = tried(parents)
    found = list(islice(Genetic(6, mutation=0).propose(a_round(history)), 8))
    columns = [set(column) for column in zip(*map(genes.choices, parents))]
    new = 0
    for child in found:
        assert child.sketch == 0 and child not in parents
        new += sum(choice not in c for choice, c in zip(genes.choices(child), columns))
    assert new <= 2  # a child that was there already is changed until it is new
    SPACE.check(found[0])


def test_each_gene_mutates_as_often():
    a, b = drawn(2, sketch=0)
    history = tried([a, b])
    counts = Counter()
    strategy = Genetic(2, elite=0, mutation=0.3)
    for seed in range(60):
        for child in islice(strategy.propose(a_round(history, seed)), 8):
            rows = zip(genes.choices(a), genes.choices(b), genes.choices(child))
            counts.update(n for n, (one, other, own) in enumerate(rows) if own not in (one, other))
    tiles = [n for n, knob in enumerate(SPACE.knobs[0]) if len(knob.options) > 20]
    assert tiles and all(0.2 < counts[n] / 480 < 0.4 for n in tiles)


def test_a_round_is_the_same_whenever_it_is_asked_for():
    """Nothing is kept: another object, and one that was asked before, propose the same."""
    history = tried(drawn(25), [1e-3 / (1 + n % 7) for n in range(25)])
    used = Genetic(10)
    for length in (5, 10, 17):
        list(used.propose(a_round(history[:length], seed=length)))
    assert list(used.propose(a_round(history, 3))) == list(Genetic(10).propose(a_round(history, 3)))
    other = list(Genetic(10).propose(a_round(history, 4)))
    assert other != list(Genetic(10).propose(a_round(history, 3)))


def test_it_climbs_where_random_candidates_do_not():
    """The fewer a candidate's factors differ from 8, the faster it is."""

    def seconds(candidate):
        tiles = [v for v in candidate.values if isinstance(v, tuple)]
        return 1 + sum(abs(np.log2(f) - 2) for v in tiles for f in v)

    def best_of(strategy):
        history = []
        while len(history) < 300:
            found = list(islice(strategy.propose(a_round(history, len(history), 10)), 10))
            history += tried(found, list(map(seconds, found)), len(history) + 1)
        last = [t.seconds for t in history[-100:]]
        return np.mean(last)

    assert best_of(Genetic(20)) < 0.8 * best_of(Genetic(1000))


@pytest.mark.parametrize(
    "wrong", [{"population": 1}, {"elite": -1}, {"elite": 101}, {"mutation": 1.5}]
)
def test_parameters_out_of_range(wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=name):
        Genetic(**wrong)
