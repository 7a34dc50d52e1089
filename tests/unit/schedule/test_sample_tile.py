"""sample_tile: policies, bounds, filters and candidates; each is one that split accepts."""

import itertools
import math
import random

import pytest

import minitensor as mt
from minitensor.ir import paths
from minitensor.schedule import Ref
from minitensor.schedule.sample_tile import MOST_FILTERED, _of_policy, _tilings
from minitensor.search.space.open import knobs_of
from tests.unit.schedule.common import Refusal, check, each, refused, run_refusal
from tests.unit.schedule.programs import matmul, scale, start


def as_autotvm_has_them(extent, n, policy, limit):
    """SplitSpace of TVM 0.19, its first factor worked out."""
    divides = [d for d in range(1, extent + 1) if extent % d == 0]
    powers = [1 << p for p in range(int(math.log2(extent)) + 1)]
    usable = {"factors": divides, "power2": powers}.get(policy, sorted({*divides, *powers}))
    found = set()
    for inner in itertools.product([f for f in usable if f <= limit], repeat=n - 1):
        product = math.prod(inner)
        if extent % product == 0 or (policy != "factors" and product < extent):
            found.add((-(-extent // product), *inner))
    return found


@pytest.mark.parametrize("policy", ["factors", "power2", "verbose"])
@pytest.mark.parametrize("extent", [1, 2, 7, 12, 20, 64, 100])
@pytest.mark.parametrize(("n", "limit"), [(1, 64), (2, 64), (2, 4), (3, 8), (3, 1)])
def test_policies_are_those_of_autotvm(extent, n, policy, limit):
    found = list(_tilings(extent, n, policy, limit))
    assert len(set(found)) == len(found)
    assert set(found) == as_autotvm_has_them(extent, n, policy, limit)
    assert found[0] == (extent, *[1] * (n - 1))


@pytest.mark.parametrize("policy", ["factors", "power2", "verbose"])
@pytest.mark.parametrize("extent", [0, 1, 6, 20])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_split_accepts_each(extent, policy, n):
    for tile in _of_policy(extent, n, policy, 64):
        s = mt.Schedule(scale(extent))
        made = s.sample_tile("i", n, policy=policy, decision=tile)
        loops = s.split("i", made)
        sizes = [loop.extent for loop in paths(s.program)["C"]]
        assert tuple(sizes) == made == tile and len(loops) == n
    check(s)


def test_an_open_decision_is_any_of_them():
    s = mt.Schedule(scale(20), seed=0)
    drawn = {tuple(s.sample_tile("i", 2, policy="verbose")) for _ in range(200)}
    assert drawn == set(_of_policy(20, 2, "verbose", 64))
    check(s)


def test_a_filter_leaves_candidates_in_the_trace():
    s = mt.Schedule(scale(24), seed=0)
    tile = s.sample_tile("i", 3, filter=lambda f: f[1] * f[2] == 6)
    s.split("i", tile)
    wanted = ((4, 1, 6), (4, 2, 3), (4, 3, 2), (4, 6, 1))
    step = s.trace.steps[0]
    assert step.arguments["candidates"] == wanted and step.arguments["filter"] is None
    assert s.trace.steps[1].arguments["factors"] == Ref(0)
    check(s)
    opened = mt.Trace.from_json(s.trace.opened().to_json())
    drawn = {opened.apply(scale(24), seed=n).trace.decisions[0] for n in range(40)}
    assert drawn == set(wanted)


def test_candidates_are_what_is_given():
    s = mt.Schedule(scale(20), seed=0)
    s.split("i", s.sample_tile("i", 2, candidates=[[None, 8], [5, 4], (3, 8)]))
    assert s.trace.steps[0].arguments["candidates"] == ((3, 8), (5, 4))
    kept = s.sample_tile("i_0", 1, candidates=[[16], [32]], filter=lambda f: f[0] > 20)
    assert kept == (32,)
    check(s)


def test_candidates_are_drawn_by_weight_and_a_schedule_by_hand_has_the_likeliest():
    tiles = [[None, 8], [None, 4], [None, 2]]
    s = mt.Schedule(scale(24), seed=0)
    drawn = [tuple(s.sample_tile("i", 2, candidates=tiles, probs=[0, 1, 3])) for _ in range(80)]
    assert set(drawn) == {(6, 4), (12, 2)} and drawn.count((12, 2)) > 45
    one = mt.Schedule(scale(24), seed=0)
    one.split("i", one.sample_tile("i", 2, candidates=tiles, probs=[1, 5, 3]))
    (knob,) = knobs_of(one)
    assert knob.candidates[knob.likeliest(random.Random(0))] == (6, 4)
    check(one)


def test_large_spaces_are_bounded():
    s = mt.Schedule(scale(1 << 20), seed=0)
    tile = s.sample_tile("i", 5)
    assert math.prod(tile) == 1 << 20 and max(tile[1:]) <= 64
    every = {"max_factor": 1 << 20}
    few = s.sample_tile("i", 5, filter=lambda f: f[4] == f[3] == f[2] == 16, **every)
    assert tuple(few[2:]) == (16, 16, 16)
    for n, keep, said in (
        (5, None, "more of i, of extent 1048576, in 5 parts"),
        (9, lambda f: False, f"asked about more than {MOST_FILTERED:,}"),
        (9, lambda f: True, "more of them"),
    ):
        with pytest.raises(mt.ScheduleError, match=said) as caught:
            s.sample_tile("i", n, filter=keep, **every)
        assert caught.value.rule == "R2" and "lower max_factor" in caught.value.advice


def test_what_is_decided_is_carried_along():
    s = mt.Schedule(matmul(8, 4, 4), seed=0)
    _, i1 = s.split("i", s.sample_tile("i", 2, policy="power2"))
    s.unroll(i1)
    for tile in ((8, 1), (4, 2), (1, 8)):
        other = s.trace.with_decisions({0: tile}).apply(matmul(8, 4, 4))
        assert [loop.extent for loop in paths(other.program)["C"]][:2] == list(tile)
        check(other)


def test_a_filter_that_raises_or_says_nothing():
    s = mt.Schedule(scale(24))
    match, raises = r"filter\(\(24, 1\)\) raises ZeroDivisionError: ", lambda f: 1 // 0
    refused(s, "A2", match, lambda: s.sample_tile("i", 2, filter=raises))
    match, nothing = "the filter leaves none of i", lambda f: None
    refused(s, "R2", match, lambda: s.sample_tile("i", 2, filter=nothing))


def test_a_policy_that_is_misspelt():
    s = mt.Schedule(scale(24))
    for name, meant in (("factor", "factors"), ("power_2", "power2"), ("verbos", "verbose")):
        refused(s, "A2", f"did you mean '{meant}'", lambda n=name: s.sample_tile("i", 2, policy=n))


REFUSALS = [
    Refusal(
        "sample_tile",
        "R1",
        start(scale, 24),
        lambda s: s.sample_tile("i", 2, decision=[5, 5]),
        r"R1: the decision is one of the candidates \(\[5, 5\] of 8 candidates\)",
    ),
    Refusal(
        "sample_tile",
        "R2",
        start(scale, 64),
        lambda s: s.sample_tile("i", 11),
        r"R2: .* \(more of i, of extent 64, in 11 parts\)",
    ),
    Refusal(
        "sample_tile",
        "R3",
        start(scale, 64),
        lambda s: s.sample_tile("i", 2, candidates=[[4, 8]]),
        r"R3: .* \(\[4, 8\] for i of extent 64, n=2\)",
    ),
    Refusal(
        "sample_tile",
        "R4",
        start(scale, 64),
        lambda s: s.sample_tile("i", 1, candidates=[[64]], probs=[1, 2]),
        r"R4: there is one weight for each candidate \(1 candidates, 2 weights\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_candidates_of_the_wrong_length():
    s = mt.Schedule(scale(24))
    for one in ([24], [2, 3, 4], [None], []):
        refused(s, "R3", "n=2", lambda c=one: s.sample_tile("i", 2, candidates=[[24, 1], c]))


def test_random_traces_replay():
    rng = random.Random(0)
    for _ in range(30):
        s = mt.Schedule(scale(rng.choice([7, 12, 20])), seed=rng.randrange(99))
        policy, n = rng.choice(["factors", "power2", "verbose"]), rng.randint(1, 3)
        s.split("i", s.sample_tile("i", n, policy=policy, max_factor=rng.choice([2, 64])))
        check(s)
