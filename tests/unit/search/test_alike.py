"""Schedules of other programs: the nearest candidates of a space, and searches that try them."""

import math
import random
from dataclasses import replace

import pytest

import minitensor as mt
from minitensor.schedule import Trace
from minitensor.search import Log, workload_key
from minitensor.search.alike import ALIKE, OF_EACH, Neighbour, nearest_first, neighbours
from minitensor.search.space import Space, adapted
from minitensor.search.tasks import Snapshot
from tests.unit.search.programs import log_softmax
from tests.unit.search.tune.made import TARGET, MadeUp, product, sketches_of, tuner_of
from tests.unit.search.tune.test_tuner import as_record


def space_of(program):
    return Space(program, TARGET, sketches_of(program))


@pytest.mark.parametrize("seed", range(6))
def test_a_schedule_of_the_same_program_is_its_own_candidate(seed):
    space = space_of(product())
    drawn = space.draw(random.Random(seed))
    assert adapted(space, space.schedule(drawn).trace) == drawn


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [45, 96, 127])
def test_that_of_another_size_is_a_candidate_of_the_same_steps(size, seed):
    theirs, ours = space_of(product()), space_of(product(size))
    trace = theirs.schedule(theirs.draw(random.Random(seed))).trace
    found = adapted(ours, trace)
    if found is None:  # there may be no such sketch: with prime extents there are others
        assert size != 96
        return
    ours.check(found)
    chosen, opened = found.sketch, theirs.decode(trace).sketch
    assert [s.primitive for s in ours.sketches[chosen].trace.steps] == [
        s.primitive for s in theirs.sketches[opened].trace.steps
    ]


def test_factors_are_those_of_the_nearest_ratio():
    theirs, ours = space_of(product(64)), space_of(product(96))
    seen = set()
    for seed in range(20):
        drawn = theirs.draw(random.Random(seed))
        found = adapted(ours, theirs.schedule(drawn).trace)
        for knob, value, other in zip(ours.knobs[found.sketch], found.values, drawn.values):
            if knob.is_tile and knob.parts > 1:
                seen.add(value[-1])
                ratios = [max(o[-1] / other[-1], other[-1] / o[-1]) for o in knob.options]
                assert max(value[-1] / other[-1], other[-1] / value[-1]) <= 2 * min(ratios)
    assert len(seen) > 3


def test_a_program_with_other_steps_is_not_alike():
    space = space_of(product())
    assert adapted(space, mt.schedule_for(mt.lower(log_softmax()), TARGET).trace) is None
    assert adapted(space, Trace()) is None


JUNK = [
    *(
        None,
        True,
        -1,
        0,
        3,
        10**400,
        math.inf,
        math.nan,
        "x",
        (),
        (0,),
        (4, "x"),
        (2, -3),
        (10**400, 2),
    ),
    ((1, 2), 3),
]


@pytest.mark.parametrize("argument", ["decision", "candidates"])
@pytest.mark.parametrize("junk", JUNK, ids=lambda value: str(value)[:12])
def test_whatever_a_log_has_the_candidate_is_one_of_the_space(junk, argument):
    theirs, ours = space_of(product()), space_of(product(96))
    trace = theirs.schedule(theirs.draw(random.Random(1))).trace
    for number, step in enumerate(trace.steps):
        if argument in step.arguments:
            spoilt = replace(step, arguments={**step.arguments, argument: junk})
            steps = (*trace.steps[:number], spoilt, *trace.steps[number + 1 :])
            found = adapted(ours, Trace(steps))
            if found is not None:
                ours.check(found)


@pytest.fixture
def log(tmp_path):
    """A log of a search for a product of another size."""
    other, found = product(96), Log(tmp_path / "log.jsonl")
    tuner = tuner_of(other, 16)
    tuner.run()
    for tried in tuner.tried:
        found.append(as_record(other, tried))
    return found


def test_the_fastest_of_each_program_are_known(log):
    (found,) = neighbours(Snapshot(log.path), TARGET)
    fastest = log.ranked(product(96), TARGET)
    assert found.traces == [record.parsed() for record in fastest[:OF_EACH]]
    assert found[:2] == (workload_key(product(96)), "product")
    assert nearest_first([found], product()) == found.traces
    assert nearest_first([found], product(96)) == []
    assert not neighbours(Snapshot(log.path), mt.Target("c", num_cores=4, vector_bits=256))


def test_a_trace_of_another_version_is_left_out(log):
    record = replace(log.ranked(product(96), TARGET)[0], trace='{"steps":"of another version"}')
    log.append(replace(record, seconds=(1e-9,)))
    (found,) = neighbours(Snapshot(log.path), TARGET)
    assert len(found.traces) == OF_EACH - 1


def test_the_nearest_in_work_come_first_and_others_names_last():
    a, b, c, d = (mt.schedule_for(product(size), TARGET).trace for size in (16, 32, 64, 128))
    found = [
        Neighbour("1", "product", 2 * 16**3, [a]),
        Neighbour("2", "product", 2 * 256**3, []),
        Neighbour("3", "other", 2 * 48**3, [d]),
        Neighbour("4", "product", 2 * 64**3, [b, c]),
    ]
    assert nearest_first(found, product(48)) == [b, a, d, c]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["evolution", "random"])
def test_a_search_begins_with_them_unless_it_draws_at_random(strategy, log):
    program = product()
    untuned = mt.schedule_for(program, TARGET)
    traces = nearest_first(neighbours(Snapshot(log.path), TARGET), program)
    space = space_of(program)
    expected = [adapted(space, trace) for trace in traces]
    expected = [one for one in expected if one != space.decode(untuned.trace)]
    given = {"trials": 8, "runner": MadeUp(), "strategy": strategy, "log": log}
    result = mt.tune(program, TARGET, **given)
    begun = {tried.candidate for tried in result.tried}
    said = f"{len(expected)} of them have the decisions of other programs' schedules: "
    assert (said in result.explain()) == (strategy == "evolution")
    assert expected
    assert (begun >= set(expected)) == (strategy == "evolution")
    fresh = mt.tune(program, TARGET, **given, resume=False, seed=1).tried
    assert not {tried.candidate for tried in fresh} >= set(expected)


@pytest.mark.slow
def test_a_search_that_is_resumed_goes_on_as_it_would_have():
    program, space = product(), space_of(product(96))
    drawn = [space.draw(random.Random(seed)) for seed in range(24)]
    traces = [space.schedule(candidate).trace for candidate in drawn]

    def found(trials, records=()):
        tuner = tuner_of(program, trials, fails=False)
        tuner.proposals.alike = lambda: traces
        tuner.resume(records)
        tuner.run()
        return [tried.trace for tried in tuner.tried], tuner

    whole, tuner = found(40)
    assert sum(tried.change == ALIKE for tried in tuner.tried) > 10
    records = [as_record(program, tried) for tried in tuner.tried[:16]]
    assert found(40, records)[0] == whole


def test_a_damaged_line_gives_one_warning(log, caplog):
    with log.path.open("a") as file:
        file.write('{"crc":"00000000","x":1}\n')
    mt.tune(product(), TARGET, trials=8, runner=MadeUp(), log=log)
    (said,) = caplog.records
    assert "skipped 1 damaged line" in said.message
