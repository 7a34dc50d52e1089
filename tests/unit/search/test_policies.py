"""Policies: what sketches and moves get, from what was tried."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.schedule import Trace
from minitensor.search import MUTATION_POLICIES, SKETCH_POLICIES, Evolution, Space, Tried
from minitensor.search.advice import taught, with_policies
from minitensor.search.policies import (
    UCB,
    EpsilonGreedy,
    Halving,
    History,
    Learned,
    Made,
    PolicyGradient,
    Thompson,
    apportioned,
    checked_shares,
    checked_weights,
)
from minitensor.search.policies.gradient import INPUTS, Network, lessons
from minitensor.search.policies.mutation import logistic, move_of
from minitensor.search.records import OK
from minitensor.search.space import Candidate, Move
from tests.unit.search.tune.made import TARGET, product, tuner_of

NAMES = [name for name, policy in SKETCH_POLICIES.items() if policy is not None]


@pytest.fixture(scope="module")
def space():
    return Space.of(product(), TARGET)


def flat(batch):
    return np.zeros(len(batch))


def history(space, entries, wanted=16):
    """Tried candidates from (sketch, seconds, seconds spent)."""
    rng, tried = random.Random(0), []
    for number, (sketch, seconds, spent) in enumerate(entries, 1):
        status = OK if seconds < math.inf else "wrong result"
        candidate = space.draw(rng, sketch)
        tried.append(Tried(number, Trace(()), candidate, status, seconds, spent=spent))
    return History(tried, space, flat, wanted)


# ---- what is known of each sketch


def test_arms_know_speeds_gains_and_costs(space):
    found = history(
        space, [(0, 4.0, 1.0), (1, 8.0, 3.0), (0, 2.0, 1.0), (2, math.inf, 0.0), (1, 1.0, 3.0)]
    ).arms
    zero, one, two = found[:3]
    assert zero.speeds == pytest.approx((math.log(1 / 4), math.log(1 / 2)))
    assert zero.gains == pytest.approx((0.0, math.log(2)))
    assert one.gains == pytest.approx((0.0, math.log(2)))
    assert zero.costs == (0.5, 0.5) and one.costs == (1.5, 1.5)
    assert zero.reward == pytest.approx(3 * one.reward), "the same gain for a third of the time"
    assert two.speeds == (math.log(1e-3),) and two.costs == (1.0,)
    assert (one.places, one.best, one.count) == ((1, 4), 0.0, 2)
    assert one.since(2).places == (4,)
    assert found[3].count == 0 and found[3].reward == 0.0
    assert sum(arm.weight for arm in found) == pytest.approx(1)


def test_a_record_of_another_space_is_no_ones(space):
    known = history(space, [(0, 4.0, 0.0)])
    other = Tried(2, Trace(()), None, OK, 1.0, known=True)
    found = History([*known.tried, other], space, flat, 8).arms
    assert sum(arm.count for arm in found) == 1
    assert found[0].speeds == pytest.approx((math.log(1 / 4),))


# ---- policies of sketches

ENTRY = st.tuples(
    st.integers(0, 4), st.sampled_from([1.0, 1.5, 3.0, math.inf]), st.sampled_from([0.0, 0.1, 2.0])
)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(entries=st.lists(ENTRY, max_size=40), seed=st.integers(0, 99))
def test_shares_are_shares_whatever_was_tried(name, space, entries, seed):
    policy, known = SKETCH_POLICIES[name], history(space, entries)
    given_shares = policy.shares(known, random.Random(seed))
    shares = checked_shares(given_shares, len(space.sketches))
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0.09 / len(shares), "no sketch dies"
    assert list(policy.shares(known, random.Random(seed))) == list(given_shares)


def spread(sketch, rng, mean, deviation, count):
    return [(sketch, math.exp(rng.gauss(mean, deviation)), 0.1) for _ in range(count)]


def test_a_sketch_with_upside_beats_a_better_mean(space):
    """Sketch 0 is always close to the fastest, never ahead; 1 is mostly slow, at times ahead."""
    rng = random.Random(5)
    entries = [(2, 1.0, 0.1), *spread(0, rng, 0.05, 0.001, 24), *spread(1, rng, 0.5, 0.4, 24)]
    shares = Thompson().shares(history(space, entries, 400), random.Random(0))
    assert shares[1] > 2 * shares[0]


@pytest.mark.parametrize("policy", [EpsilonGreedy(), UCB(), UCB(recent=64), Thompson()])
def test_the_sketch_that_gains_gets_most(space, policy):
    entries = [(n % len(space.sketches), 10.0, 0.1) for n in range(24)]
    entries += [(3, 10.0 * 0.8**n, 0.1) for n in range(1, 9)]
    shares = policy.shares(history(space, entries, 64), random.Random(1))
    assert max(shares) == shares[3] > 0.4


def test_gains_of_long_ago_are_forgotten_in_a_window(space):
    entries = [(0, 5.0, 0.1), (0, 1.0, 0.1)] + [(n % 2, 1.2, 0.1) for n in range(60)]
    assert len(space.sketches) > 2
    whole, window = UCB(0.01), UCB(0.01, recent=20)
    of_all = whole.shares(history(space, entries, 8), random.Random(0))
    latest = window.shares(history(space, entries, 8), random.Random(0))
    assert of_all[0] > 0 or sum(of_all[2:]) == 1  # those never tried come first
    assert latest[0] <= of_all[0]


def test_halving_keeps_the_better_half_after_each_rung(space):
    many = len(space.sketches)
    rung, policy = 2, Halving(2)
    entries = [(n % many, 10.0 - n % many, 0.1) for n in range(rung * many)]
    rng = random.Random(0)
    assert policy.shares(history(space, entries[:-1]), rng) == [1 / many] * many
    left = math.ceil(many / 2)
    expected = [0.0] * (many - left) + [1 / left] * left
    assert policy.shares(history(space, entries), rng) == expected
    late = entries + [(0, 0.1, 0.1)] * (rung * left)
    kept = policy.shares(history(space, late), rng)
    assert kept[0] == 0.0, "what is dropped stays so"
    assert sum(share > 0 for share in kept) == math.ceil(left / 2)


def test_reinforce_is_the_gradient_of_the_logarithm():
    network = Network.random(5, random.Random(2))
    inputs = np.random.default_rng(0).normal(size=(4, INPUTS + 1))
    before, step = network.first, 1e-6
    moved = (network.moved(inputs, step * np.eye(4)[2]).first - before) / step
    for place in [(0, 0), (3, 4), (INPUTS, 2)]:
        shares = []
        for sign in (1, -1):
            first = before.copy()
            first[place] += sign * 1e-5
            shares.append(np.log(Network(first, network.second).shares(inputs)[2]))
        assert moved[place] == pytest.approx((shares[0] - shares[1]) / 2e-5, rel=1e-3, abs=1e-5)


class Six:
    """A space of six sketches that are all as likely."""

    sketches, weights = range(6), [1 / 6] * 6


def searched(policy, seed, trials=60, batch=6, by_trees=0):
    """The sketches that are tried where one of six is twice as fast as the others, and the share
    that it has in the end.

    by_trees  candidates of each batch that the policy does not choose: they have any sketch but the
              good one, most of them the same
    """
    rng, tried, good = random.Random(seed), [], seed % 6
    others = [n for n in range(6) if n != good]

    def shares():
        known = History(tried, Six(), flat, batch)
        return checked_shares(policy.shares(known, random.Random(f"{seed}/{len(tried)}")), 6)

    while len(tried) < trials:
        counts = apportioned(shares(), batch - by_trees, rng)
        chosen = [n for n, count in enumerate(counts) for _ in range(count)]
        chosen += [others[0] if rng.random() < 0.8 else rng.choice(others) for _ in range(by_trees)]
        rng.shuffle(chosen)
        seconds = [math.exp(rng.gauss(0, 0.2)) / (1 + (n == good)) for n in chosen]
        news = [Candidate(n, ()) for n in chosen]
        tried = [
            *tried,
            *(Tried(len(tried) + 1, Trace(()), c, OK, s) for c, s in zip(news, seconds)),
        ]
    return [t.candidate.sketch == good for t in tried], shares()[good]


@pytest.mark.parametrize("seed", range(8))
def test_a_network_gives_the_one_good_sketch_of_six_half_of_the_trials(seed):
    good, share = searched(PolicyGradient(), seed)
    assert sum(good) > len(good) / 2
    assert share > 0.8


@pytest.mark.parametrize("seed", range(6))
def test_a_network_is_not_taught_that_others_chose_what_is_slow(seed):
    """Of ten candidates the network chooses four; most of the others have one sketch, a slow one.
    Without importance weights, and with a baseline of all, it would learn of little else.
    """
    _, share = searched(PolicyGradient(), seed, trials=100, batch=10, by_trees=6)
    assert share > 0.5


def test_a_network_sees_nothing_of_what_came_later(space):
    early = [(n % 3, 2.0 + n, 0.1) for n in range(16)]
    late = [(1, 0.01, 5.0), (0, math.inf, 0.1)] * 4
    first = list(lessons(history(space, early), 8))
    again = list(lessons(history(space, early + late), 8))
    assert len(again) == len(first) + 1 == 3
    for one, other in zip(first, again):
        assert all(np.array_equal(a, b) for a, b in zip(one, other))
    assert again[2].rewards.tolist() == [2.0, 0.0] * 4


def test_a_network_does_not_prefer_any_of_what_is_alike(space):
    entries = [(n % 5, 1.0, 0.1) for n in range(60)]
    shares = PolicyGradient().shares(history(space, entries), random.Random(0))
    assert max(shares[:5]) < 1.5 * min(shares[:5])


# ---- answers


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([1.0, math.nan, 1.0], "numbers >= 0, but one is nan"),
        ([1.0, -0.5, 1.0], "one is -0.5"),
        ([1.0, "2", 1.0], "one is '2'"),
        ([0.5, 0.5], "expected 3 shares, one for each sketch, got 2"),
        ([0.0, 0.0, 0.0], "sum above 0"),
        ([1e308, 1e308, 1e308], "finite sum"),
        (3, "a number for each sketch"),
        (None, "a number for each sketch"),
    ],
)
def test_answers_that_are_no_shares(answer, text):
    with pytest.raises(mt.ArgumentError, match=text):
        checked_shares(answer, 3)


@given(
    shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=9),
    count=st.integers(0, 64),
    seed=st.integers(0, 999),
)
def test_apportioned_is_exact_but_for_rounding(shares, count, seed):
    counts = apportioned(shares, count, random.Random(seed))
    assert sum(counts) == count and min(counts) >= 0
    for share, found in zip(shares, counts):
        assert abs(found - share / sum(shares) * count) < 1 + 1e-6


def test_apportioned_is_right_on_average():
    rng = random.Random(0)
    total = np.sum([apportioned([0.7, 0.25, 0.05], 8, rng) for _ in range(4000)], axis=0)
    assert total / total.sum() == pytest.approx([0.7, 0.25, 0.05], abs=0.005)


class Answers:
    """A policy of both kinds that gives the same answer, or raises it."""

    def __init__(self, answer):
        self.answer = answer

    def shares(self, history, rng):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    weights = None

    def __getattribute__(self, name):
        if name == "weights":
            return lambda parents, history, rng: self.shares(history, rng)
        return super().__getattribute__(name)


SMALL = Evolution(population=32, generations=2, learnt=8)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [[math.nan], [], 7, ValueError("no")])
def test_a_policy_that_is_of_no_use_is_counted_and_the_search_is_as_without(answer, caplog):
    plain = tuner_of(product(), 24, fails=False)
    plain.proposals.strategy = plain.strategy = SMALL
    plain.run()
    for name in ("sketch_policy", "mutation_policy"):
        tuner = tuner_of(product(), 24, fails=False)
        policy = replace(SMALL, **{name: Answers(answer)})
        tuner.proposals.strategy = tuner.strategy = policy
        tuner.run()
        assert len(tuner.tried) == 24
        assert len(tuner.advice.unchosen) > 0
        assert f"{name}." in caplog.text
        if name == "sketch_policy":
            assert [t.trace for t in tuner.tried] == [t.trace for t in plain.tried]


def test_the_odds_that_a_policy_asked_for_are_told():
    class Last:
        """All for the last move of a sketch."""

        def weights(self, parents, history, rng):
            counts = [len(history.space.moves(parent.sketch)) for parent in parents]
            return [[0.0] * (count - 1) + [1.0] for count in counts]

    tuner = tuner_of(product(), 24, fails=False)
    tuner.proposals.strategy = tuner.strategy = replace(SMALL, mutation_policy=Last())
    tuner.run()
    assert tuner.advice.odds
    for sketch, odds in tuner.advice.odds.items():
        fixed = tuner.space.odds(sketch)
        assert odds[:-1] == [0.0] * (len(fixed) - 1)
        assert odds[-1] == pytest.approx(sum(fixed) / fixed[-1])


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_search_with_policies_repeats_itself(name):
    runs = []
    for _ in range(2):
        tuner = tuner_of(product(), 28, fails=False)
        plan = with_policies(SMALL, name, "learned")
        tuner.proposals.strategy = tuner.strategy = plan
        tuner.run()
        assert not tuner.advice.unchosen
        runs.append([t.trace for t in tuner.tried])
    assert runs[0] == runs[1]


@pytest.mark.slow
def test_a_share_decides_about_the_batch():
    tuner = tuner_of(product(), 72, fails=False)
    sizes = [math.prod(len(k.options) for k in knobs) for knobs in tuner.space.knobs]
    many, wanted = len(sizes), sizes.index(max(sizes))
    policy = Answers([float(n == wanted) for n in range(many)])
    tuner.proposals.strategy = tuner.strategy = replace(SMALL, sketch_policy=policy, guided=1.0)
    tuner.run()
    later = [t.candidate.sketch for t in tuner.tried[many:]]
    assert later.count(wanted) > 0.75 * len(later)
    assert len(set(later)) > 1, "no sketch dies"
    assert [s.after for s in tuner.advice.shares] == list(range(8, 72, 8))
    for shares in tuner.advice.shares:
        assert sum(shares.values) == pytest.approx(1)
        assert shares.values[wanted] == max(shares.values) > 0.9


# ---- moves


def test_moves_are_what_mutations_do(space):
    rng, sketch = random.Random(1), len(space.sketches) - 1
    moves, odds = space.moves(sketch), space.odds(sketch)
    assert len(moves) == len(set(moves)) == len(odds)
    seen = set()
    for _ in range(400):
        parent = space.draw(rng, sketch)
        child = space.mutated(parent, rng)
        if child != parent:
            move = move_of(space, Made(parent, child, 0.0))
            assert move in moves
            seen.add(move)
    assert len(seen) > len(moves) / 2
    kinds = {kind: sum(o for m, o in zip(moves, odds) if m.kind == kind) for kind in ("tile",)}
    assert kinds["tile"] / sum(odds) > 0.9


def test_a_move_is_found_again(space):
    rng = random.Random(2)
    for sketch in range(len(space.sketches)):
        for move in space.moves(sketch):
            for _ in range(4):
                parent = space.draw(rng, sketch)
                child = space.moved(parent, move, rng)
                space.check(child)
                if child != parent:
                    assert move_of(space, Made(parent, child, 0.0)) == move


def test_two_changes_are_no_move(space):
    rng = random.Random(3)
    one, two = space.draw(rng, 0), space.draw(rng, 1)
    assert move_of(space, Made(one, two, 0.0)) is None
    assert move_of(space, Made(one, one, 0.0)) is None


@pytest.mark.parametrize("trees", [False, True])
def test_learned_odds_prefer_the_move_that_gains(space, trees):
    """Moving a divisor to the innermost level of the first tile always gains; nothing else does."""
    rng, sketch = random.Random(4), len(space.sketches) - 1
    moves = space.moves(sketch)
    last = space.knobs[sketch][0].parts - 1
    made = []
    for _ in range(600):
        parent = space.draw(rng, sketch)
        child = space.mutated(parent, rng)
        move = move_of(space, Made(parent, child, 0.0))
        if move is not None:
            good = move.kind == "tile" and move.number == 0 and move.target == last
            made.append(Made(parent, child, 1.0 if good else -1.0))
    known = History([], space, flat, 8, made)
    parents = [space.draw(rng, sketch) for _ in range(10)]
    policy = Learned(trees=trees)
    rows = checked_weights(policy.weights(parents, known, rng), parents, space)
    good = [n for n, m in enumerate(moves) if m in {Move("tile", 0, s, last) for s in range(last)}]
    base = np.array(space.odds(sketch))
    for row in rows:
        now, before = np.array(row) / sum(row), base / base.sum()
        assert now[good].sum() > 2 * before[good].sum()
        assert (now > 0.2 * before).all(), "the fixed part"
    few = History([], space, flat, 8, made[:10])
    for row in policy.weights(parents, few, rng):
        assert row == pytest.approx(space.odds(sketch))


def test_a_logistic_regression_finds_its_coefficients():
    rng = np.random.default_rng(0)
    rows, which = rng.normal(size=(4000, 3)), rng.integers(0, 2, 4000)
    wanted = np.array([[1.0, -2.0, 0.0], [0.0, 0.5, 1.5]])
    chances = 1 / (1 + np.exp(-np.einsum("rc,rc->r", rows, wanted[which])))
    better = (rng.random(4000) < chances).astype(float)
    found = logistic(rows, which, better, np.ones(4000), 0.0, 2)
    assert found == pytest.approx(wanted, abs=0.2)
    assert logistic(rows[:0], which[:0], better[:0], better[:0], 0.0, 2).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([], "weights for 1 parents, but got 0"),
        ([[1.0]], "a weight for each of"),
        ([["a"]], "numbers for each parent"),
        (3, "numbers for each parent"),
    ],
)
def test_answers_that_are_no_weights(space, answer, text):
    with pytest.raises(mt.ArgumentError, match=text):
        checked_weights(answer, [space.draw(random.Random(0), 0)], space)
    moves = len(space.moves(0))
    for wrong in (math.nan, -1.0, math.inf):
        with pytest.raises(mt.ArgumentError, match="finite sum above 0"):
            checked_weights(
                [[wrong] + [1.0] * (moves - 1)], [space.draw(random.Random(0), 0)], space
            )


# ---- by name


def test_policies_by_name():
    assert with_policies(SMALL, "uniform", "fixed") is SMALL
    chosen = with_policies(SMALL, "thompson", "learned")
    assert chosen.sketch_policy is SKETCH_POLICIES["thompson"]
    assert chosen.mutation_policy is MUTATION_POLICIES["learned"]
    mine = Answers([1.0])
    assert with_policies(SMALL, mine, mine).sketch_policy is mine


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sketch_policy": "tompson"}, "'thompson'"),
        ({"sketch_policy": Thompson}, r"shares\(history, rng\)"),
        ({"sketch_policy": None}, "sketch_policy=None"),
        (
            {"mutation_policy": 3},
            r"'fixed', 'learned', 'learned_trees', or an object with weights\(parents",
        ),
        ({"sketch_policy": "ucb", "strategy": "random"}, "part of evolution"),
    ],
)
def test_policies_that_are_none(arguments, text):
    with pytest.raises(mt.ArgumentError, match=text):
        mt.tune(product(), **arguments)


# ---- what other searches taught


class TestPretrained:
    def test_a_network_prefers_what_paid_elsewhere(self, space):
        """The sketch that has the best and the highest spread gained most in other searches."""
        usual = PolicyGradient()
        begun = [(number, 9.0, 1.0) for number in range(len(space.sketches))]
        entries = list(begun)
        for step in range(24):
            entries += [(0, 9.0, 1.0), (1, 8.0 * 0.8**step, 1.0), (2, 9.0, 1.0)]
        past = history(space, entries)
        taught = usual.pretrained([past] * 4)
        assert usual.start is None and taught.start is not None
        fresh = history(space, [*begun, (1, 6.0, 1.0), (2, 9.0, 1.0), (1, 4.0, 1.0)])
        before = usual.shares(fresh, random.Random(0))
        after = taught.shares(fresh, random.Random(0))
        assert after[1] > 1.2 * before[1]
        assert after == taught.shares(fresh, random.Random(0))
        kept = (taught.start.first.copy(), taught.start.second.copy())
        taught.shares(past, random.Random(1))
        assert np.array_equal(taught.start.first, kept[0])
        assert np.array_equal(taught.start.second, kept[1])

    def test_moves_that_paid_elsewhere_are_likelier_at_first(self, space):
        moves = [m for m in space.moves(3) if m.kind == "tile" and m.source >= 0]
        good = (moves[0].source, moves[0].target)
        rng, tried = random.Random(1), []
        while len(tried) < 400:
            parent = space.draw(rng, 3)
            move = rng.choice(moves)
            child = space.moved(parent, move, rng)
            if child == parent or move_of(space, Made(parent, child, 0.0)) != move:
                continue
            seconds = 1.0 if (move.source, move.target) == good else 4.0
            before = Tried(len(tried) + 1, Trace(()), parent, OK, 2.0)
            tried.append((before, replace(before, candidate=child, seconds=seconds)))
        past = History([], space, flat, 0)
        made = [Made(a.candidate, b.candidate, math.log(2.0 / b.seconds)) for a, b in tried]
        past.__dict__["measured"] = made
        taught = Learned().pretrained([past])
        assert Learned().prior == {} and taught.prior[("tile", *good)] > 1
        parents = [space.draw(rng, 3) for _ in range(3)]
        fresh = History([], space, flat, 8)
        odds = np.array(taught.weights(parents, fresh, rng)) / np.array(space.odds(3))
        names = [(m.kind, m.source, m.target) for m in space.moves(3)]
        better = [n for n, name in enumerate(names) if name == ("tile", *good)]
        worse = [n for n, m in enumerate(space.moves(3)) if m in moves and n not in better]
        assert odds[:, better].min() > odds[:, worse].max()
        even = np.array(Learned().weights(parents, fresh, rng)) / np.array(space.odds(3))
        assert np.allclose(even, even[0, 0])

    def test_nothing_is_learnt_of_nothing(self, space):
        empty = History([], space, flat, 0)
        assert Learned().pretrained([]) == Learned() == Learned().pretrained([empty])
        shares = PolicyGradient().pretrained([empty]).shares(empty, random.Random(0))
        assert sum(shares) == pytest.approx(1)

    def test_a_policy_of_ones_own_is_asked_if_it_can_learn(self):
        class Mine:
            def shares(self, history, rng):
                return None

            def pretrained(self, histories):
                self.seen = list(histories)
                return self

        mine = Mine()
        plan = with_policies(Evolution(), mine, "fixed")
        assert taught(plan, lambda: ["one"]).sketch_policy is mine and mine.seen == ["one"]
        for other in (Evolution(), with_policies(Evolution(), "ucb", "fixed")):
            assert taught(other, lambda: pytest.fail("not needed")) is other
