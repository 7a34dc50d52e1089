"""sample_order, sample_annotation, apply_annotation and require."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import LoopKind
from minitensor.schedule import Ref
from tests.unit.schedule.common import Refusal, check, each, kinds, refused, run_refusal
from tests.unit.schedule.programs import matmul, rowsum, scale, start

# ---- orders


def test_an_order_is_any_of_all():
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    drawn = {tuple(map(str, s.sample_order(["i", "j", "k"]))) for _ in range(120)}
    assert drawn == set(itertools.permutations("ijk"))
    check(s)


def test_an_order_goes_to_reorder():
    for decision in itertools.permutations(range(3)):
        s = mt.Schedule(matmul(4, 4, 4), seed=0)
        order = s.sample_order("i", "j", "k", decision=decision)
        s.reorder(order)
        s.unroll(order[-1])
        assert s.get_loops("C") == tuple("ijk"[n] for n in decision) == order
        assert s.trace.steps[1].arguments["loops"] == Ref(0)
        assert s.trace.steps[2].arguments["loop"] == Ref(0, 2)
        check(s)
    other = s.trace.with_decisions({0: (1, 2, 0)}).apply(matmul(4, 4, 4))
    assert other.get_loops("C") == ("j", "k", "i") and kinds(other)["i"] is LoopKind.UNROLL
    check(other)


def test_orders_that_are_given():
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    i0, i1 = s.split("i", [None, 2])
    given = [[i0, "j", i1], ["j", i0, i1]]
    found = {tuple(map(str, s.sample_order([i0, i1, "j"], candidates=given))) for _ in range(30)}
    assert found == set(map(tuple, given))
    assert s.trace.steps[1].arguments["candidates"][0] == (Ref(0, 0), "j", Ref(0, 1))
    check(s)


def test_orders_of_few_and_of_many():
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    assert s.sample_order("i") == ("i",)
    loops = [s.add_unit_loop("C") for _ in range(7)]
    refused(s, "R2", "5,040 of 7 loops", lambda: s.sample_order(loops))
    loops += [s.add_unit_loop("C") for _ in range(14)]
    refused(s, "R2", "of 21 loops", lambda: s.sample_order(loops))
    few = s.sample_order(loops, candidates=[loops, loops[::-1]])
    assert few in (tuple(loops), tuple(loops[::-1]))
    check(s)


# ---- annotations


@pytest.mark.parametrize(
    ("policy", "offered"),
    [
        ("try_vec", {"none", "vectorize"}),
        ("try_unroll", {"none", "unroll"}),
        ("try_unroll_vec", {"none", "unroll", "vectorize"}),
    ],
)
def test_policies(policy, offered):
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    drawn = {tuple(map(str, s.sample_annotation("i", "j", policy=policy))) for _ in range(100)}
    assert drawn == set(itertools.product(offered, repeat=2))
    check(s)


def test_what_is_decided_is_applied():
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    s.reorder("i", "k", "j")
    how = s.sample_annotation(["i", "j"], decision=["unroll", "vectorize"])
    s.apply_annotation(how, ["i", "j"])
    assert kinds(s) == {"i": LoopKind.UNROLL, "k": LoopKind.SERIAL, "j": LoopKind.VECTORIZE}
    assert s.trace.steps[2].arguments["annotation"] == Ref(1)
    check(s)
    other = s.trace.with_decisions({1: ("none", "unroll")}).apply(matmul(4, 4, 4))
    assert kinds(other) == {"i": LoopKind.SERIAL, "k": LoopKind.SERIAL, "j": LoopKind.UNROLL}
    check(other)


def test_what_would_be_refused_stays():
    s = mt.Schedule(scale(2048), seed=0)
    s.apply_annotation(["unroll"], "i")
    assert kinds(s) == {"i": LoopKind.SERIAL}
    s = mt.Schedule(matmul(4, 4, 4), seed=0)
    s.reorder("k", "i", "j")
    s.apply_annotation(["vectorize"] * 2, "i", "j")
    assert kinds(s) == {"k": LoopKind.SERIAL, "i": LoopKind.SERIAL, "j": LoopKind.VECTORIZE}
    s.apply_annotation(["unroll"], "j")
    assert kinds(s)["j"] is LoopKind.VECTORIZE
    check(s)


def test_a_reduction_that_is_vectorized():
    s = mt.Schedule(rowsum(4, 8), seed=0)
    s.apply_annotation(["unroll", "vectorize"], "i", "k")
    assert LoopKind.VECTORIZE in kinds(s).values()
    check(s)


# ---- what goes together


def test_require():
    s = mt.Schedule(scale(24), seed=0)
    tile = s.sample_tile("i", 2, decision=[4, 6])
    s.require(tile[1] <= 8, "a small tile")
    s.require(np.bool_(True), "so it is")
    assert len(s.trace) == 1
    with pytest.raises(mt.ScheduleError) as caught:
        s.require(tile[0] * tile[1] > 24, "a tile <b>\n fits")
    assert caught.value.rule == "T2" and not isinstance(caught.value, mt.ArgumentError)
    assert caught.value.message == (
        "require() breaks T2: the decisions are what the template requires (a tile <b> fits)"
    )
    check(s)


@pytest.mark.parametrize("why", ["", " ", None, 3, ["why"]])
def test_a_reason_is_words(why):
    with pytest.raises(mt.ArgumentError, match="expected words that say what is required, but got"):
        mt.Schedule(scale(24)).require(True, why)


def test_a_condition_is_true_or_false():
    s = mt.Schedule(scale(24))
    with pytest.raises(mt.ArgumentError, match="expected a condition, true or false, but got"):
        s.require(np.array([True, False]), "why")
    x = mt.var("x")
    with pytest.raises(mt.MinitensorError):
        s.require(x < 3, "why")


# ---- rules

REFUSALS = [
    Refusal(
        "sample_order",
        "R1",
        start(matmul, 4, 4, 4),
        lambda s: s.sample_order("i", "j", decision=[0, 0]),
        r"R1: the decision is one of the candidates \(\[0, 0\] of 2 candidates\)",
    ),
    Refusal(
        "sample_order",
        "R2",
        lambda: _deep(7),
        lambda s: s.sample_order(*s.get_loops("C")),
        r"R2: there are from 1 to 4,096 candidates \(40,320 of 8 loops\)",
    ),
    Refusal(
        "sample_order",
        "R3",
        start(matmul, 4, 4, 4),
        lambda s: s.sample_order("i", "j", candidates=[["i", "k"]]),
        r"R3: .* \(\['i', 'k'\] of \['i', 'j'\]\)",
    ),
    Refusal(
        "sample_order",
        "R3",
        start(matmul, 4, 4, 4),
        lambda s: s.sample_order("i", "j", "i"),
        r"R3: .* \(3 given, 2 different\)",
    ),
    Refusal(
        "sample_annotation",
        "R1",
        start(matmul, 4, 4, 4),
        lambda s: s.sample_annotation("i", policy="try_vec", decision=["unroll"]),
        r"R1: the decision is one of the candidates \(\['unroll'\] of 2 candidates\)",
    ),
    Refusal(
        "sample_annotation",
        "R2",
        lambda: _deep(7),
        lambda s: s.sample_annotation(*s.get_loops("C")),
        r"R2: .* \(more of 8 loops\)",
    ),
    Refusal(
        "apply_annotation",
        "R1",
        start(matmul, 4, 4, 4),
        lambda s: s.apply_annotation(["none"], "i", "j"),
        r"R1: there is one name for each loop \(1 names, 2 loops\)",
    ),
]


def _deep(more):
    s = mt.Schedule(scale(4))
    for _ in range(more):
        s.add_unit_loop("C")
    return s


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_a_policy_that_is_misspelt():
    s = mt.Schedule(matmul(4, 4, 4))
    call = lambda: s.sample_annotation("i", policy="try_unrol")
    refused(s, "A2", "did you mean 'try_unroll'", call)
    refused(s, "A2", "did you mean 'all'", lambda: s.sample_order("i", policy="al"))
