"""Templates: conditions and orders of their own, exceptions, and draws that are no decisions."""

import itertools
import logging
import random
from collections import Counter

import pytest

import minitensor as mt
from minitensor.search import STRATEGIES, GradientBoostedTrees
from minitensor.search.space import Space
from minitensor.search.tune import Learner, Tuner, roofline
from tests.unit.search.tune.made import SMALL, TARGET, MadeUp

PROGRAM = mt.lower(mt.workloads.matmul(16, 16, 16))


def space_of(template):
    return Space.of_template(PROGRAM, TARGET, template)


def search(template, trials=32, strategy="random"):
    space = space_of(template)
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    tuner = Tuner(space, MadeUp(fails=False), SMALL[strategy], learner, trials, 8)
    tuner.run()
    return tuner


def fits(s):
    """A condition of its own on the first tile."""
    i, _, _ = s.get_loops("C")
    tile = s.sample_perfect_tile(i, n=2)
    if tile[1] > 4:
        raise ValueError(f"a tile of {tile[1]}")
    s.split(i, tile)


def shape_of(schedule):
    return [(v, site.loop.kind) for v, site in mt.ir.loop_sites(schedule.program).items()]


def test_a_condition_holds_for_all_candidates():
    tuner = search(fits)
    tiles = {t.trace.steps[0].result for t in tuner.tried}
    assert tiles == {(16, 1), (8, 2), (4, 4)}
    assert tuner.proposals.unmade.counts == {"ValueError": 2}
    assert tuner.space.unmade.counts["ValueError"] > 8


def test_steps_that_depend_on_a_decision():
    def template(s):
        i, _, k = s.get_loops("C")
        tile = s.sample_perfect_tile(i, n=2)
        _, inner = s.split(i, tile)
        if tile[1] > 4:
            s.unroll(k)
        else:
            s.split(inner, [None, 2])

    tuner = search(template, strategy="evolution")
    assert len(tuner.space.sketches) == 2 and len(tuner.tried) == 5
    for tried in tuner.tried:
        unrolled = tried.trace.steps[-1].primitive == "unroll"
        assert unrolled is (tried.trace.steps[0].result[1] > 4)
        assert tuner.space.decode(tried.trace) == tried.candidate
    assert not tuner.proposals.unmade


def orders(s):
    """All orders of four loops, in three ways: 72 structures."""
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, s.sample_categorical([4, 8])])
    order = s.sample_categorical(list(range(24)))
    s.reorder(*list(itertools.permutations([i_0, i_1, j, k]))[order])
    how = s.sample_categorical(["serial", "unroll", "parallel"])
    if how != "serial":
        getattr(s, str(how))(i_0)


@pytest.mark.slow
def test_structures_are_looked_for_as_long_as_there_are_new_ones():
    space, rng = space_of(orders), random.Random(0)
    assert len(space.sketches) >= 68
    seen, kinds = set(), Counter()
    for _ in range(150):
        candidate = space.draw(rng)
        try:
            found, schedule = space.realized(candidate)
        except mt.ScheduleError as refusal:
            kinds[refusal.rule] += 1
            continue
        assert space.decode(schedule.trace) == found
        assert found.values == candidate.values
        seen.add(str(shape_of(schedule)))
    assert len(seen) > 50 and kinds["T1"] < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        *("grid", "genetic", "flextensor"),
        *[pytest.param(s, marks=pytest.mark.slow) for s in ("annealing", "beam", "evolution")],
    ],
)
def test_every_strategy_searches_structures(strategy):
    tuner = search(orders, 16, strategy)
    assert len({str(shape_of(t.trace.apply(PROGRAM))) for t in tuner.tried}) > 6
    assert len(tuner.tried) == 16


def test_a_template_whose_first_draws_are_refused():
    """Tiles in the middle of their range are refused too."""

    def template(s):
        i, j, _ = s.get_loops("C")
        a, b = (s.sample_perfect_tile(loop, n=2) for loop in (i, j))
        if (a[1], b[1]) not in [(1, 16), (16, 1)]:
            s.split("no such loop", a)
        s.split(i, a)
        s.split(j, b)

    for seed in range(3):
        assert len(Space.of_template(PROGRAM, TARGET, template, seed).sketches) == 1
    assert {t.trace.steps[0].result for t in search(template).tried} == {(16, 1), (1, 16)}


def test_a_template_that_decides_nothing():
    tuner = search(lambda s: s.unroll("k"))
    assert len(tuner.tried) == 1 and tuner.best is not None
    assert len(search(lambda s: None).tried) == 1


def test_a_template_that_draws_by_itself(caplog):
    rng = random.Random(0)

    def template(s):
        i, j, _ = s.get_loops("C")
        s.split(i, [None, rng.choice([2, 4, 8])])
        s.split(j, s.sample_perfect_tile(j, n=2))

    tuner = search(template)
    assert {t.trace.steps[0].arguments["factors"] for t in tuner.tried} == {
        (None, 2),
        (None, 4),
        (None, 8),
    }
    assert len({t.trace.steps[1].result for t in tuner.tried}) == 5
    assert not tuner.proposals.unmade
    (warning,) = caplog.messages
    assert "the template template takes other steps when it is called again" in warning


def test_a_bug_in_every_call_is_named():
    def template(s):
        s.split(undefined, [None, 2])  # noqa: F821

    with pytest.raises(mt.TuningError, match=r"in each of \d+ calls .*NameError: name 'undefined'"):
        space_of(template)
    with pytest.raises(mt.TuningError, match="NameError") as failed:
        mt.tune(PROGRAM, TARGET, space=template, runner=MadeUp(), progress=False)
    assert isinstance(failed.value.__cause__, NameError)


def test_a_bug_in_some_calls_is_counted_and_told(caplog, monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: None)

    def template(s):
        if s.sample_categorical([0, 1, 2]) == 1:
            s.split(undefined, [None, 2])  # noqa: F821
        s.unroll("k")

    result = mt.tune(PROGRAM, TARGET, space=template, runner=MadeUp(), progress=False)
    assert len(result.tried) == 1  # the others are the same program
    assert result.unmade.counts == {"NameError": 1}
    assert "NameError: name 'undefined' is not defined" in caplog.messages[0]
    assert "NameError; the first: NameError: name 'undefined'" in result.explain()


def test_the_template_is_what_decides_again():
    """Decisions that it was given are those of the search, in copies too."""

    def template(s):
        other = s.copy()
        size = other.sample_categorical([2, 4, 8])
        assert size == s.sample_categorical([2, 4, 8], decision=0)
        s.split("i", [None, size])

    space = space_of(template)
    assert {str(space.realized(space.draw(random.Random(n)))[0].values) for n in range(20)} == {
        "(0,)",
        "(1,)",
        "(2,)",
    }


def test_places_and_tiles_of_earlier_tiles():
    """Decisions that do not go together are refused, and the rest is searched."""

    def template(s):
        _, inner = s.split("i", s.sample_perfect_tile("i", n=2))
        s.split(inner, s.sample_perfect_tile(inner, n=2))
        s.unroll(s.get_loops("C")[s.sample_categorical([0, 3])])

    tuner = search(template)
    assert len(tuner.tried) > 4 and tuner.best is not None
    assert set(tuner.proposals.unmade.counts) == {"refused"}


def test_an_exception_that_is_none_of_ours_costs_one_candidate(monkeypatch, caplog):
    """Whatever it is: here of a step, for a tile."""
    space = Space.of(PROGRAM, TARGET)
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    tuner = Tuner(space, MadeUp(fails=False), STRATEGIES["random"], learner, 24, 8)
    real, calls = space.schedule, []

    def schedule(candidate):
        calls.append(candidate)
        if len(calls) % 3 == 0:
            raise (KeyError, RecursionError, mt.VerifyError)[len(calls) % 9 // 3]("bad luck")
        return real(candidate)

    monkeypatch.setattr(space, "schedule", schedule)
    with caplog.at_level(logging.WARNING):
        tuner.run()
    assert len(tuner.tried) == 24
    assert set(tuner.proposals.unmade.counts) == {"KeyError", "RecursionError", "VerifyError"}
    assert len(tuner.proposals.unmade) == len(calls) // 3
    assert len(caplog.messages) == 3
