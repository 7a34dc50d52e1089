"""Chains that climb a known score, and batches that are diverse."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.search import Evolution
from minitensor.search.tune import search
from minitensor.search.tuners import Annealing, genes
from minitensor.search.tuners.annealing import diverse
from tests.outside.search import Ridge
from tests.unit.search.tune.made import TARGET, MadeUp, product
from tests.unit.search.tuners.made import SPACE, a_round, drawn, tried


class Score:
    """The nearer a candidate's factors are to some at each level, the better; what was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, batch):
        self.asked.append(list(batch))
        return np.array(list(map(self.of, batch)))

    def of(self, candidate):
        tiles = [v for v in candidate.values if isinstance(v, tuple)]
        off = [(np.log2(f) - 3 / (1 + level)) ** 2 for v in tiles for level, f in enumerate(v)]
        return -sum(off) / len(tiles)


def test_chains_climb():
    score = Score()
    now = a_round(tried(drawn(8)), score=score)
    found = Annealing(chains=32, steps=60, heat=0.1, diversity=0).propose(now)
    seen = {c for batch in score.asked for c in batch} - {t.candidate for t in now.history}
    best = sorted(map(score.of, seen), reverse=True)
    assert [score.of(c) for c in found[:8]] == best[:8]
    random = sorted(map(score.of, drawn(len(seen), seed=5)), reverse=True)
    assert np.mean(best[:8]) > np.mean(random[:8])


def test_as_many_steps_as_were_asked_for_and_nothing_is_scored_twice():
    score = Score()
    Annealing(chains=16, steps=10, measured=0.25).propose(a_round(tried(drawn(8)), score=score))
    every = [c for batch in score.asked for c in batch]
    assert 16 + 10 <= len(every) <= 16 + 16 * 10
    assert len(every) == len(set(every))
    first = score.asked[0]
    assert first[:4] == [t.candidate for t in tried(drawn(8))[:4]]  # the fastest; all are as fast


def test_chains_end_where_nothing_better_comes():
    score = Score()
    flat = lambda batch: 0 * score(batch)
    Annealing(chains=16, steps=400, patience=5).propose(a_round(tried(drawn(8)), score=flat))
    assert len(score.asked) < 60


def test_the_first_round_asks_no_model():
    found = Annealing().propose(a_round([], score=lambda batch: pytest.fail("asked")))
    assert len(found) >= 8


def test_what_was_tried_is_not_proposed():
    history = tried(drawn(40))
    found = Annealing(chains=32, steps=5).propose(a_round(history, score=Score()))
    assert not {t.candidate for t in history} & set(found[:8])


def test_one_in_twenty_is_random():
    score = Score()
    history, lucky = [*tried(drawn(8))], 0
    for seed in range(10):
        now = a_round(history, seed, score=score)
        found = Annealing(chains=16, steps=8).propose(now)[:8]
        seen = {c for batch in score.asked for c in batch}
        lucky += sum(c not in seen for c in found)
        history += tried(found, first=len(history) + 1)
    assert 2 <= lucky <= 4  # 0.05 of 88, some of which the chains came by


def test_a_batch_has_many_choices_at_little_cost():
    near = sorted(drawn(40, sketch=0), key=Score().of, reverse=True)
    worth = np.array([Score().of(c) for c in near])
    plain = diverse(SPACE, near, worth, 8, 0.0)
    assert plain == near[:8]
    some = diverse(SPACE, near, worth, 8, 0.5)
    most = diverse(SPACE, near, worth, 8, 1e6)

    def choices(batch):
        return len({part for c in batch for part in enumerate(genes.choices(c))})

    def total(batch):
        return sum(map(Score().of, batch))

    assert choices(plain) < choices(some) <= choices(most)
    assert total(plain) > total(some) >= total(most)


def test_the_greedy_choice_is_near_the_best_of_all():
    """It is at least 1 - 1/e of the best, where worths are not negative (Nemhauser et al.)."""
    near = drawn(9, seed=2)
    worth = np.random.default_rng(0).uniform(0, 3, len(near))

    def parts(candidate):
        names = [("sketch",), *genes.meanings(SPACE, candidate.sketch)]
        return set(zip(names, [candidate.sketch, *genes.choices(candidate)]))

    def objective(batch):
        covered = set().union(*(parts(near[n]) for n in batch))
        return worth[list(batch)].sum() + 0.7 * len(covered)

    found = diverse(SPACE, near, worth, 4, 0.7)
    greedy = objective([near.index(c) for c in found])
    best = max(map(objective, itertools.combinations(range(len(near)), 4)))
    assert (1 - 1 / np.e) * best <= greedy <= best + 1e-9
    for count in range(1, 4):  # each adds most
        held = [near.index(c) for c in found[:count]]
        gains = [objective([*held, n]) for n in range(len(near)) if n not in held]
        assert objective([*held, near.index(found[count])]) == pytest.approx(max(gains))


def test_a_batch_of_few():
    assert diverse(SPACE, [], np.zeros(0), 8, 1.0) == []
    one = drawn(1)
    assert diverse(SPACE, one, np.zeros(1), 8, 1.0) == one


def test_its_model_ranks(monkeypatch):
    kinds = []
    monkeypatch.setattr(search, "usual_model", lambda *given: kinds.append(given) or Ridge())
    program = product(8)
    odd = type("Odd", (), {"objective": ["rank"], "propose": Evolution(8, 1).propose})()
    for strategy in ("annealing", "evolution", odd):
        mt.tune(program, TARGET, 1, strategy=strategy, seed=3, runner=MadeUp(), progress=False)
    assert kinds == [(3, "rank"), (3, "squared"), (3, "squared")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": 0},
        {"steps": 0},
        {"patience": 1.5},
        {"heat": 0},
        {"ahead": 0},
        {"measured": 2},
        {"diversity": -1},
        {"epsilon": float("nan")},
    ],
)
def test_parameters_out_of_range(wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=name):
        Annealing(**wrong)
