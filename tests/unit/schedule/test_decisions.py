"""sample_perfect_tile, sample_categorical, sample_compute_location, and templates made of them."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import loop_sites, paths
from minitensor.schedule import Derived, Ref
from minitensor.schedule.decisions import count_factorizations
from tests.unit.schedule.common import Refusal, check, each, refused, run_refusal
from tests.unit.schedule.programs import chain, fork, matmul, rowsum, scale, start, stencil


def factorisations(n, parts):
    """Every list of `parts` factors whose product is n."""
    if parts == 1:
        return [(n,)]
    return [
        (d, *rest)
        for d in range(1, n + 1)
        if n % d == 0
        for rest in factorisations(n // d, parts - 1)
    ]


def assert_uniform(counts, options, draws):
    """Chi-square: far below what a bias of a tenth would give, far above chance."""
    assert set(counts) <= set(options)
    expected = draws / len(options)
    statistic = sum((counts[o] - expected) ** 2 / expected for o in options)
    freedom = len(options) - 1
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 5, (statistic, freedom, counts)


# ---- sample_perfect_tile


def test_sample_perfect_tile_is_one_of_the_factorisations():
    s = mt.Schedule(scale(64), seed=0)
    for _ in range(20):
        tile = s.sample_perfect_tile("i", 2)
        assert tile in {(64, 1), (32, 2), (16, 4), (8, 8), (4, 16)}
    check(s)


@pytest.mark.parametrize(
    ("n", "parts", "limit"),
    [(12, 2, 100), (12, 3, 100), (36, 3, 6), (16, 4, 4), (30, 3, 5), (7, 3, 100), (64, 2, 16)],
)
def test_sample_perfect_tile_is_uniform(n, parts, limit):
    options = [f for f in factorisations(n, parts) if f[-1] <= limit]
    s = mt.Schedule(scale(n), seed=1)
    draws = 60 * len(options)
    counts = Counter(
        tuple(s.sample_perfect_tile("i", parts, max_innermost_factor=limit)) for _ in range(draws)
    )
    assert_uniform(counts, options, draws)


def test_sample_perfect_tile_of_primes_of_one_and_of_none():
    for n, parts, wanted in (
        (13, 2, {(13, 1), (1, 13)}),
        (17, 2, {(17, 1)}),
        (1, 3, {(1, 1, 1)}),
        (0, 3, {(0, 1, 1)}),
        (5, 1, {(5,)}),
        (0, 1, {(0,)}),
    ):
        s = mt.Schedule(scale(n), seed=2)
        assert {tuple(s.sample_perfect_tile("i", parts)) for _ in range(30)} == wanted
        check(s)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_what_is_sampled_fits_split(n, parts):
    s = mt.Schedule(scale(n), seed=0)
    tile = s.sample_perfect_tile("i", parts)
    s.split("i", tile)
    check(s)


def test_sample_perfect_tile_with_nothing_to_draw():
    s = mt.Schedule(scale(20), seed=0)
    refused(s, "R2", "20 > 16", lambda: s.sample_perfect_tile("i", 1))
    assert s.sample_perfect_tile("i", 1, max_innermost_factor=20) == (20,)
    check(s)


def test_sample_perfect_tile_takes_a_decision():
    s = mt.Schedule(scale(24))
    assert s.sample_perfect_tile("i", 3, decision=[2, 3, 4]) == (2, 3, 4)
    assert s.sample_perfect_tile("i", 2, decision=(24, np.int64(1))) == (24, 1)
    assert s.trace.decisions == {0: (2, 3, 4), 1: (24, 1)}
    check(s)


def test_sample_perfect_tile_of_large_extents_is_quick():
    s = mt.Schedule(scale(720720), seed=0)
    tile = s.sample_perfect_tile("i", 8)
    assert math.prod(tile) == 720720
    assert tile[-1] <= 16


# ---- sample_categorical


def test_sample_categorical_is_uniform():
    s = mt.Schedule(scale(), seed=3)
    counts = Counter(s.sample_categorical([0, 16, 64, 512]) for _ in range(800))
    assert_uniform(counts, [0, 16, 64, 512], 800)


def test_sample_categorical_takes_weights():
    s = mt.Schedule(scale(), seed=4)
    draws = [s.sample_categorical(["a", "b", "c"], probs=[0, 1, 3]) for _ in range(800)]
    counts = Counter(draws)
    assert "a" not in counts
    assert 500 < counts["c"] < 700
    assert {s.sample_categorical([1, 2], probs=[np.float32(1), 0]) for _ in range(20)} == {1}
    check(s)


def test_sample_categorical_takes_a_decision():
    s = mt.Schedule(scale())
    assert s.sample_categorical([4, 8.5, "x"], decision=1) == 8.5
    assert s.sample_categorical([4, 8.5, "x"], decision=2) == "x"
    assert s.sample_categorical((4,), decision=np.int64(0)) == 4
    assert s.trace.decisions == {0: 1, 1: 2, 2: 0}
    check(s)


CANDIDATES = {
    "numpy floats": [np.float64(1.5), np.float64(2.5)],
    "numpy strings": [np.str_("a"), np.str_("b")],
    "large": [(1 << 63) - 1, -(1 << 63)],
    "mixed": [1, 1.0, "1"],
    "equal": [3, 3, 3],
    "empty string": [""],
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_of_every_kind(name):
    s = mt.Schedule(scale(), seed=0)
    chosen = s.sample_categorical(CANDIDATES[name])
    assert chosen in CANDIDATES[name]
    s.annotate("i", "note", chosen)
    check(s)


@pytest.mark.parametrize("value", [math.inf, math.nan, 1 << 63, 10**400, True, None, [1], 1j])
def test_candidates_that_no_trace_can_hold(value):
    s = mt.Schedule(scale(), seed=0)
    refused(s, "A2", "but got", lambda: s.sample_categorical([1, value]))


@pytest.mark.parametrize("first", ["tile", "category", "text"])
def test_what_was_decided_can_be_a_candidate(first):
    s = mt.Schedule(scale(16), seed=0)
    if first == "tile":
        value = s.sample_perfect_tile("i", 2)[1]
    else:
        value = s.sample_categorical([4, 8] if first == "category" else ["a", "b"])
    assert s.sample_categorical([value, value]) == value
    check(s)


def test_weights_too_large_to_add_up():
    s = mt.Schedule(scale(), seed=0)
    refused(
        s,
        "A2",
        "from 0 to 1e100",
        lambda: s.sample_categorical([1, 2], probs=[1.7e308, 1.7e308]),
    )


# ---- sample_compute_location


def test_sample_compute_location_is_one_that_compute_at_accepts():
    s = mt.Schedule(stencil(12))
    s.split("y", [2, 3, 2])
    s.vectorize("y_2")
    found = Counter()
    for seed in range(60):
        twin = mt.Trace.from_json(s.trace.to_json()).apply(stencil(12), seed=seed)
        place = twin.sample_compute_location("P")
        twin.compute_at("P", place)
        found[str(place)] += 1
        if seed < 6:
            check(twin)
    assert set(found) == {"root", "y_0", "y_1"}
    assert min(found.values()) > 8


def test_sample_compute_location_where_there_is_only_root():
    for builder, block in ((scale, "C"), (chain, "C")):
        s = mt.Schedule(builder(), seed=0)
        assert s.sample_compute_location(block) == "root"
        check(s)


def test_sample_compute_location_of_what_two_blocks_read():
    """It is computed for the first one, or where it is."""
    schedules = [mt.Schedule(fork(), seed=seed) for seed in range(12)]
    assert {str(s.sample_compute_location("P")) for s in schedules} == {"root", "j"}


def test_sample_compute_location_takes_a_decision():
    s = mt.Schedule(stencil())
    s.split("y", [2, 4])
    place = s.sample_compute_location("P", decision="y_0")
    assert place == "y_0"
    assert s.compute_at("P", place) == ("P_i",)
    check(s)


def test_decisions_of_places_are_names():
    s = mt.Schedule(stencil())
    s.split("y", [2, 4])
    s.sample_compute_location("P", decision="y_0")
    s.sample_compute_location("P", decision="root")
    found = s.trace.decisions
    assert found[2] == "root"
    assert found[1] in ("y_0", Ref(0, 0))
    assert s.trace.with_decisions(found) == s.trace
    check(s)


# ---- rules

REFUSALS = [
    Refusal(
        "sample_perfect_tile",
        "R1",
        start(scale, 24),
        lambda s: s.sample_perfect_tile("i", 2, decision=[5, 5]),
        r"R1: .*\(\[5, 5\] for i of extent 24, n=2\)",
    ),
    Refusal(
        "sample_perfect_tile",
        "R2",
        start(scale, 64),
        lambda s: s.sample_perfect_tile("i", 2, max_innermost_factor=8, decision=[4, 16]),
        r"R2: the innermost factor is at most max_innermost_factor \(16 > 8\)",
    ),
    Refusal(
        "sample_categorical",
        "R1",
        start(scale),
        lambda s: s.sample_categorical([1, 2, 3], probs=[1, 2]),
        r"R1: there is one weight for each candidate \(3 candidates, 2 weights\)",
    ),
    Refusal(
        "sample_categorical",
        "R2",
        start(scale),
        lambda s: s.sample_categorical([1, 2, 3], decision=3),
        r"R2: the decision is the position of a candidate \(3 of 3 candidates\)",
    ),
    Refusal(
        "sample_compute_location",
        "R1",
        start(stencil),
        lambda s: s.sample_compute_location("P", decision="i"),
        r"R1: compute_at accepts the block at the decision \('i'\)",
        choices=("root", "y"),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_decisions_of_the_wrong_length():
    s = mt.Schedule(scale(24))
    for decision in ([24], [2, 3, 4], [], [0, 24], [24, 0]):
        refused(s, "R1", "n=2", lambda d=decision: s.sample_perfect_tile("i", 2, decision=d))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.sample_perfect_tile("i", 0), "n=0"),
        (lambda s: s.sample_perfect_tile("i", 17), "n=17"),
        (lambda s: s.sample_perfect_tile("i", 2.0), r"n=2.0 \(float\)"),
        (lambda s: s.sample_perfect_tile("i", True), r"n=True \(bool\)"),
        (lambda s: s.sample_perfect_tile("i", 2, max_innermost_factor=0), "max_innermost_factor=0"),
        (lambda s: s.sample_perfect_tile("i", 2, max_innermost_factor=None), "factor=None"),
        (lambda s: s.sample_perfect_tile("i", 2, decision="22"), "decision='22'"),
        (lambda s: s.sample_perfect_tile("i", 2, decision=[2, -1]), "decision=-1"),
        (lambda s: s.sample_perfect_tile("i", 2, decision=[2, 10.0]), "decision=10.0"),
        (lambda s: s.sample_perfect_tile("i", 2, decision=3), "decision=3"),
        (lambda s: s.sample_perfect_tile("i", 2, decision=[2, 1 << 50]), "decision="),
        (lambda s: s.sample_categorical([]), r"candidates=\[\]"),
        (lambda s: s.sample_categorical("abc"), "candidates='abc'"),
        (lambda s: s.sample_categorical(3), "candidates=3"),
        (lambda s: s.sample_categorical([1, None]), "got None"),
        (lambda s: s.sample_categorical([1, True]), "got True"),
        (lambda s: s.sample_categorical([[1]]), r"got \[1\]"),
        (lambda s: s.sample_categorical({1, 2}), "candidates="),
        (lambda s: s.sample_categorical([1], probs=[-1]), r"probs=\[-1\]"),
        (lambda s: s.sample_categorical([1], probs=[0]), r"probs=\[0\]"),
        (lambda s: s.sample_categorical([1], probs=[math.nan]), r"probs=\[nan\]"),
        (lambda s: s.sample_categorical([1], probs=[math.inf]), r"probs=\[inf\]"),
        (lambda s: s.sample_categorical([1], probs=["1"]), r"probs=\['1'\]"),
        (lambda s: s.sample_categorical([1], probs=[]), r"probs=\[\]"),
        (lambda s: s.sample_categorical([1], probs=1), "probs=1"),
        (lambda s: s.sample_categorical([1], decision=-1), "decision=-1"),
        (lambda s: s.sample_categorical([1], decision="0"), "decision='0'"),
        (lambda s: s.sample_categorical([1], decision=0.0), "decision=0.0"),
        (lambda s: s.sample_compute_location("C", decision=3), "decision=3"),
        (lambda s: s.sample_compute_location("C", decision=["root"]), r"decision=\['root'\]"),
    ],
)
def test_arguments_of_decisions(call, message):
    s = mt.Schedule(scale(20))
    refused(s, "A2", message, lambda: call(s))


# ---- templates


def template(program, seed=None):
    """A matrix product with its tiles and the depth of unrolling open."""
    s = mt.Schedule(program, seed=seed)
    i0, i1 = s.split("i", s.sample_perfect_tile("i", 2))
    j0, j1 = s.split("j", s.sample_perfect_tile("j", 2, max_innermost_factor=4))
    k0, k1 = s.split("k", [None, s.sample_categorical([1, 2, 3, 6])])
    s.reorder(i0, j0, k0, i1, k1, j1)
    s.vectorize(j1)
    s.annotate(k0, "depth", s.sample_categorical([0, 16, 64]))
    return s


def extents(s):
    """The extents of the loops around C."""
    return [loop.extent for loop in paths(s.program)["C"]]


def test_a_template_replays_with_what_it_decided():
    for seed in range(4):
        check(template(matmul(4, 6, 6), seed))


def test_another_decision_is_carried_into_later_steps():
    s = template(matmul(4, 6, 6), seed=0)
    trace = s.trace.with_decisions({0: (1, 4), 2: (2, 3), 4: 1})
    again = trace.apply(matmul(4, 6, 6))
    assert extents(again) == [1, 2, 3, 4, 2, 3]
    check(again)
    for tile in ((4, 1), (2, 2)):
        again = s.trace.with_decisions({0: tile}).apply(matmul(4, 6, 6))
        assert (extents(again)[0], extents(again)[3]) == tile
        check(again)


def test_every_setting_of_a_small_template():
    program = rowsum(4, 6)
    s = mt.Schedule(program, seed=0)
    tile = s.sample_perfect_tile("k", 2)
    k0, _ = s.split("k", tile)
    s.rfactor(k0)
    width = s.sample_categorical([1, 3, 8])
    outer, inner = s.split("i", [None, width])
    s.annotate(outer, "width", width)
    s.unroll(inner)
    seen = set()
    for tile, position in itertools.product([(1, 6), (2, 3), (3, 2), (6, 1)], range(3)):
        other = s.trace.with_decisions({0: tile, 3: position}).apply(program)
        assert other.program.buffers["C_rf"].shape == (tile[0], 4)
        seen.add(str(other.program))
        check(other)
    assert len(seen) == 12


def test_open_decisions_are_drawn_from_the_seed():
    program = matmul(4, 6, 6)
    s = template(program, seed=0)
    opened = s.trace.opened()
    assert set(opened.decisions.values()) == {None}
    texts = [str(opened.apply(program, seed=n).program) for n in range(12)]
    assert texts == [str(opened.apply(program, seed=n).program) for n in range(12)]
    assert len(set(texts)) > 6
    check(opened.apply(program, seed=5))


def test_some_decisions_open_and_some_not():
    program = matmul(4, 6, 6)
    trace = template(program, seed=0).trace.with_decisions({0: None, 2: (6, 1)})
    for seed in range(5):
        s = trace.apply(program, seed=seed)
        assert (extents(s)[1], extents(s)[5]) == (6, 1)
        assert s.trace.decisions[2] == (6, 1)
        assert s.trace.decisions[0] is not None
        check(s)


def test_open_traces_round_trip():
    opened = template(matmul(4, 6, 6), seed=0).trace.opened()
    again = mt.Trace.from_json(opened.to_json())
    assert again == opened
    assert "decision=" not in opened.as_python()
    assert opened.steps[0].is_decision
    assert opened.steps[0].arguments["decision"] is None
    assert not opened.steps[1].is_decision


def test_the_arguments_of_later_steps_refer_to_decisions():
    s = template(matmul(4, 6, 6), seed=0)
    split = s.trace.steps[1]
    assert split.arguments == {"loop": "i", "factors": Ref(0), "tail": "guard"}
    inner = s.trace.steps[5]
    assert inner.arguments["factors"] == (None, Ref(4))
    assert "s.split('k', [None, v4])" in s.trace.as_python()


def test_items_of_a_decision_are_referred_to():
    s = mt.Schedule(scale(12))
    tile = s.sample_perfect_tile("i", 3, decision=[2, 3, 2])
    s.split("i", [None, tile[1], tile[2]])
    assert s.trace.steps[1].arguments["factors"] == (None, Ref(0, 1), Ref(0, 2))
    other = s.trace.with_decisions({0: [1, 2, 6]}).apply(scale(12))
    assert extents(other) == [1, 2, 6]
    check(other)


def test_a_text_decision_is_referred_to():
    s = mt.Schedule(chain(), seed=0)
    scope = s.sample_categorical(["local", "shared"], decision=0)
    copy = s.cache_read("C", "B", scope)
    s.annotate("C", "scope", scope)
    assert copy == "B_local"
    other = s.trace.with_decisions({0: 1}).apply(chain())
    assert "B_shared" in other.program.buffers
    assert other.program.blocks["C"].annotations == (("scope", "shared"),)
    check(other)


def test_a_place_that_was_decided_is_referred_to():
    s = mt.Schedule(stencil(12), seed=0)
    s.split("y", s.sample_perfect_tile("y", 3, decision=[2, 3, 2]))
    s.compute_at("P", s.sample_compute_location("P", decision="y_1"))
    for tile, place in itertools.product(([1, 12, 1], [12, 1, 1]), ("root", "y_0", "y_1", "y_2")):
        other = s.trace.with_decisions({0: tile, 2: place}).apply(stencil(12))
        check(other)


def test_arithmetic_on_a_decision_is_carried_along():
    s = mt.Schedule(scale(16))
    tile = s.sample_perfect_tile("i", 2, decision=[4, 4])
    s.split("i", [None, tile[1] * 2])
    s.split("i_1", [None, 1 + (tile[0] + tile[1]) // 4 % 2 - (-tile[1] + 4)])
    assert s.trace.steps[1].arguments["factors"] == (None, Derived("*", (Ref(0, 1), 2)))
    check(s)
    for twin in (s.trace, mt.Trace.from_json(s.trace.to_json())):
        other = twin.with_decisions({0: (2, 8)}).apply(scale(16))
        assert other.trace.steps[1:] == s.trace.steps[1:]
        extents = [site.loop.extent for site in loop_sites(other.program).values()]
        assert extents == [1, 4, 5]
        check(other)
    assert "[None, v0[1] * 2]" in s.trace.as_python()


def test_numbers_computed_of_a_decision_are_numbers_to_others():
    s = mt.Schedule(scale(16))
    tile = s.sample_perfect_tile("i", 2, decision=[4, 4])
    twice = tile[0] * 2
    assert twice == 8 and twice == 8 and hash(twice) == hash(8)
    assert list(range(twice))[-1] == 7 and np.zeros(twice).shape == (8,)
    assert np.int64(3) * twice == 24 and twice / 2 == 4.0 and 16 / twice == 2.0 and twice**2 == 64
    assert twice > 7 and twice >= 8 and twice < 9 and twice <= 8 and max(twice, 3) is twice
    assert f"{twice:>3}" == "  8" and repr(twice) == "8" and twice.bit_length() == 4


@pytest.mark.parametrize(
    "source",
    [
        '{"op": "*", "arguments": [{"ref": [1, 0]}, 1000000000000]}',
        '{"op": "//", "arguments": [{"ref": [0, 0]}, 0]}',
        '{"op": "**", "arguments": [{"ref": [0, 0]}, 2]}',
        '{"op": "+", "arguments": [{"ref": [0]}, {"ref": [0]}]}',
        '{"op": "+", "arguments": ["a", "b"]}',
        '{"op": "+", "arguments": [true, 1]}',
    ],
)
def test_arithmetic_in_a_trace_is_of_numbers(source):
    s = mt.Schedule(scale(16))
    tile = s.sample_perfect_tile("i", 2, decision=[4, 4])
    _outer, inner = s.split("i", tile)
    s.split(inner, [None, tile[0] * 1])
    text = s.trace.to_json().replace('{"op": "*", "arguments": [{"ref": [0, 0]}, 1]}', source)
    assert source in text
    with pytest.raises(mt.ArgumentError):
        mt.Trace.from_json(text).apply(scale(16))


def test_a_decision_of_another_schedule_is_a_plain_number():
    other = mt.Schedule(scale(16))
    tile = other.sample_perfect_tile("i", 2, decision=[4, 4])
    s = mt.Schedule(scale(16))
    s.split("i", tile)
    assert s.trace.steps[0].arguments["factors"] == (4, 4)
    check(s)
    s = mt.Schedule(scale(16))
    s.sample_perfect_tile("i", 2, decision=[2, 8])
    s.split("i", tile)
    assert s.trace.steps[1].arguments["factors"] == (4, 4)
    check(s)


def test_decisions_that_do_not_fit_are_refused_at_their_step():
    s = template(matmul(4, 6, 6), seed=0)
    for number, decision, rule in ((0, (3, 3), "R1"), (2, (1, 6), "R2"), (4, 9, "R2")):
        trace = s.trace.with_decisions({number: decision})
        with pytest.raises(mt.ScheduleError, match=f"breaks {rule}: ") as caught:
            trace.apply(matmul(4, 6, 6))
        assert caught.value.step == number + 1
    with pytest.raises(mt.ScheduleError, match="breaks A2: "):
        s.trace.with_decisions({0: "tile"}).apply(matmul(4, 6, 6))


def test_with_decisions_of_steps_that_are_none():
    trace = template(matmul(4, 6, 6), seed=0).trace
    for number in (1, 99, -1, "0", None):
        with pytest.raises(mt.ArgumentError, match="number of a step that is a decision"):
            trace.with_decisions({number: (1, 1)})
    assert trace.with_decisions({}) == trace


def test_with_decisions_changes_a_copy():
    trace = template(matmul(4, 6, 6), seed=0).trace
    before = trace.decisions
    trace.with_decisions({0: (1, 4)})
    trace.opened()
    assert trace.decisions == before


def test_a_tile_for_another_program_is_refused():
    trace = template(matmul(4, 6, 6), seed=0).trace
    with pytest.raises(mt.ScheduleError, match="of extent 9, n=2") as caught:
        trace.apply(matmul(9, 6, 6))
    assert caught.value.step == 1
    check(trace.opened().apply(matmul(9, 10, 12), seed=0))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 36, 60, 97, 210])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_factorizations_are_counted_as_they_are_listed(n, parts):
    factors = [d for d in range(1, n + 1) if n % d == 0]
    listed = sum(math.prod(f) == n for f in itertools.product(factors, repeat=parts))
    assert count_factorizations(n, parts) == listed


@pytest.mark.parametrize("extent", [963_761_198_400, (1 << 40) - 87])  # 6,720 divisors, and 2
def test_a_tile_of_a_very_long_loop_is_drawn_at_once(extent):
    A = mt.placeholder((extent,), "int8", name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((extent,), lambda i: A[i], name="C")]), seed=1)
    tile = s.sample_perfect_tile("i", 16, max_innermost_factor=1 << 40)
    assert math.prod(tile) == extent and len(tile) == 16


def test_decisions_that_are_given_in_advance():
    program = mt.lower(mt.workloads.matmul(8, 8, 8))
    s = mt.Schedule(program, decisions=[(4, 2), 1])
    twin = s.copy()
    for one in (s, twin):
        assert one.sample_perfect_tile("i", n=2) == (4, 2)
        one.unroll("j")
        assert one.sample_categorical([3, 5, 7], decision=2) == 5
        assert one.sample_categorical([3], decision=0) == 3
        assert [*one.trace.decisions.values()] == [(4, 2), 1, 0]
    with pytest.raises(mt.ScheduleError, match="multiply to the extent"):
        mt.Schedule(program, decisions=[(4, 4)]).sample_perfect_tile("i", n=2)
