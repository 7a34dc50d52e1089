"""Knobs of templates: how they look, what is near, and that every strategy turns them."""

import math
import random

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import STRATEGIES, GradientBoostedTrees
from minitensor.search.evolution import Evolution
from minitensor.search.space import Space
from minitensor.search.space.words import changes, decisions
from minitensor.search.tune import Learner, Tuner
from minitensor.search.tuners import Annealing, Beam
from tests.unit.search.test_template import PROGRAM, TARGET
from tests.unit.search.tune.made import MadeUp


def knobs(s):
    """One of each kind."""
    i, j, k = s.get_loops("C")
    tile = s.sample_tile(i, 2)
    s.require(tile[1] < 16, "rows that are cut")
    i_0, i_1 = s.split(i, tile)
    j_0, j_1 = s.split(j, s.sample_tile(j, 2, policy="power2", max_factor=8))
    s.reorder([i_0, j_0, *s.sample_order([k, i_1]), j_1])
    s.apply_annotation(s.sample_annotation([i_1, j_1]), [i_1, j_1])


@pytest.fixture(scope="module")
def space():
    return Space.of_template(PROGRAM, TARGET, knobs)


def test_a_space_shows_its_knobs(space):
    assert str(space).splitlines()[1:] == [
        " 0  100.0%  4 decisions, 360 combinations  # split, split, reorder, apply_annotation",
        "      tile of i                   5 options: 16 x 1 | 8 x 2 | 4 x 4 | 2 x 8 | 1 x 16",
        "      tile of j                   4 options: 16 x 1 | 8 x 2 | 4 x 4 | 2 x 8",
        "      order of k, i_1             2 options: k, i_1 | i_1, k",
        "      annotation of i_1, j_1      9 options: "
        "none, none | none, unroll | none, vectorize | …",
    ]
    assert "tile of i" in space._repr_html_() and repr(space) == str(space)


def test_hostile_names_are_escaped():
    A = mt.placeholder((8,), name="A")
    name = "<script>alert(1)</script>" + "x" * 5000
    B = mt.compute((8,), lambda i: A[i] * 2.0, name=name)

    def template(s):
        s.split(s.get_loops(name)[0], s.sample_tile(s.get_loops(name)[0], 2))
        s.sample_categorical(["<script>", "'\"&"])

    found = Space.of_template(mt.lower([A, B]), TARGET, template)
    assert "<script>" not in found._repr_html_() and "&lt;script&gt;" in found._repr_html_()
    assert len(repr(found)) < 2000


def test_candidates_in_words(space):
    one = space.draw(random.Random(0))
    lines = list(decisions(space, one))
    assert [line.split("  ")[0] for line in lines] == [k.name for k in space.knobs[0]]
    assert changes(space, one, one.with_value(0, (one.values[0] + 1) % 5)).startswith("tile of i: ")


def tiles_of(extent, n, **options):
    def template(s):
        s.split("i", s.sample_tile("i", n, **options))

    program = mt.lower(mt.workloads.row_sum(m=extent, n=4))
    ((knob,),) = Space.of_template(program, TARGET, template).knobs
    return knob


@pytest.mark.parametrize("extent", [8, 12, 30, 64])
@pytest.mark.parametrize("n", [2, 3])
def test_a_prime_moves_between_levels(extent, n):
    knob, rng = tiles_of(extent, n), random.Random(0)
    for value in range(len(knob.candidates)):
        for _ in range(6):
            now = knob.candidates[knob.changed(value, rng)]
            ratios = sorted(b / a for a, b in zip(knob.candidates[value], now) if a != b)
            assert len(ratios) == 2 and math.isclose(ratios[0] * ratios[1], 1)
            assert round(ratios[1]) in (2, 3, 5)


@pytest.mark.parametrize("policy", ["power2", "verbose", "factors"])
@pytest.mark.parametrize("extent", [20, 64])
def test_near_tiles_lead_everywhere(policy, extent):
    knob, rng = tiles_of(extent, 3, policy=policy), random.Random(0)
    seen, edge = {0}, [0]
    while edge:
        value = edge.pop()
        near = {knob.changed(value, rng) for _ in range(60)} - seen
        seen |= near
        edge += near
    assert len(seen) == len(knob.candidates)
    if policy == "power2":
        for value in range(len(knob.candidates)):
            now = knob.candidates[knob.changed(value, rng)]
            steps = [abs(math.log2(b / a)) for a, b in zip(knob.candidates[value][1:], now[1:])]
            assert max(steps) == 1 and sum(steps) <= 2


def test_near_candidates_of_lists_that_are_given():
    knob, rng = tiles_of(64, 2, candidates=[[None, 2], [None, 8], [None, 48]]), random.Random(0)
    assert {knob.changed(0, rng) for _ in range(20)} == {1}
    alone = tiles_of(64, 2, candidates=[[None, 2]])
    assert alone.changed(0, rng) == 0
    first = tiles_of(64, 1, candidates=[[64], [80], [96]])
    assert {first.changed(0, rng) for _ in range(30)} == {1, 2}


def test_near_orders_and_annotations(space):
    _, _, order, annotation = space.knobs[0]
    rng = random.Random(0)
    assert order.changed(0, rng) == 1
    for value in range(9):
        for _ in range(9):
            now = annotation.candidates[annotation.changed(value, rng)]
            assert sum(a != b for a, b in zip(annotation.candidates[value], now)) == 1


def test_a_candidate_is_found_again(space):
    rng = random.Random(1)
    for _ in range(30):
        candidate = space.draw(rng)
        try:
            schedule = space.schedule(candidate)
        except mt.ScheduleError as refusal:
            assert refusal.rule == "T2"
            continue
        trace = mt.Trace.from_json(schedule.trace.to_json())
        assert space.decode(trace) == candidate
        mutant = space.mutated(candidate, rng)
        assert sum(a != b for a, b in zip(mutant.values, candidate.values)) == 1
        child = space.crossed(candidate, space.draw(rng), rng)
        space.check(child)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_turns_every_knob(strategy):
    space = Space.of_template(PROGRAM, TARGET, knobs)
    small = {**STRATEGIES, "evolution": Evolution(24, 1), "annealing": Annealing(8, 2)}
    small["beam"] = Beam(4, 2)
    learner = Learner(space, GradientBoostedTrees(n_trees=3))
    tuner = Tuner(space, MadeUp(fails=False), small[strategy], learner, 24, 8)
    tuner.run()
    assert len(tuner.tried) == 24
    for place in range(4):
        assert len({t.candidate.values[place] for t in tuner.tried}) > 1
    assert all(t.trace.steps[0].result[1] < 16 for t in tuner.tried)
    assert set(tuner.proposals.unmade.counts) <= {"not as required"}
    assert set(learner.unmade.counts) <= {"not as required"}


def test_what_is_not_as_required_is_counted(space, caplog):
    """It is neither measured nor warned of."""
    learner = Learner(space, GradientBoostedTrees())
    tuner = Tuner(space, MadeUp(fails=False), STRATEGIES["grid"], learner, 90, 30)
    tuner.run()
    assert tuner.proposals.unmade.counts["not as required"] > 2
    (line,) = tuner.proposals.unmade.lines()
    assert line.endswith("require() breaks T2: the decisions are what the template requires "
                         "(rows that are cut)")  # fmt: skip
    assert caplog.messages == []


def test_a_template_that_requires_what_cannot_be():
    def template(s):
        tile = s.sample_tile("i", 2)
        s.require(tile[0] * tile[1] == 17, "seventeen rows")

    with pytest.raises(mt.TuningError) as caught:
        mt.tune(PROGRAM, TARGET, space=template, runner=MadeUp(), progress=False)
    assert str(caught.value).startswith("no candidate of the template template: ")
    assert "draws of its decisions are not as it requires" in str(caught.value)
    assert "(seventeen rows)" in str(caught.value)


def test_a_template_that_requires_what_is_rare():
    def template(s):
        one, two = (s.sample_tile("i", 4) for _ in range(2))
        s.require(one == (2, 2, 2, 2), "a certain tile")
        s.split("i", two)

    assert Space.of_template(PROGRAM, TARGET, template).sketches


def test_tiles_are_numbers_and_orders_are_none(space):
    """Features of many are computed at once where candidates differ in numbers only."""
    assert space.plan(0, ()).structure is None

    def template(s):
        s.split("i", s.sample_tile("i", 2, policy="power2"))
        s.split("j", s.sample_tile("j", 3, candidates=[[None, 2, 4], [4, 2, 2]]))

    tiles, rng = Space.of_template(PROGRAM, TARGET, template), random.Random(0)
    plan, batch = tiles.plan(0, ()), [tiles.draw(rng) for _ in range(6)]
    extents = plan.structure.numbers(tiles.decisions(batch)).extents
    for place, candidate in enumerate(batch):
        sites = mt.ir.loop_sites(tiles.schedule(candidate).program)
        for loop, sizes in extents.items():
            assert sites[loop].loop.extent == np.broadcast_to(sizes, 6)[place]
