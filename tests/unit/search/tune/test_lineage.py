"""The lineage of candidates: what was made from what, and what changed."""

import random
from dataclasses import replace

import pytest

from minitensor.errors import ArgumentError
from minitensor.search import Log, trace_key
from minitensor.search.evolution import Evolution
from minitensor.search.records import LONGEST_TEXT
from minitensor.search.space import Candidate, Space, changes
from minitensor.search.tune import proposals
from minitensor.search.tune.proposals import Lineage
from tests.unit.search.tune.made import TARGET, product, tuner_of

KEYS = ("a" * 32, "b" * 32, "c" * 32)


def family(trials, log=None, known=()):
    """A search by evolution, half of whose children have two parents."""
    tuner = tuner_of(product(96), trials, fails=False, log=log)
    tuner.strategy = tuner.proposals.strategy = Evolution(32, 2, crossover=0.5)
    tuner.resume(known)
    tuner.run()
    return tuner


@pytest.fixture(scope="module")
def space():
    return Space.of(product(96), TARGET)


def told(tuner):
    return [(t.key, t.parents, t.change) for t in tuner.tried]


@pytest.mark.slow
def test_parents_were_measured_before(space):
    tried = family(160).tried
    known = {t.key: t for t in tried}
    for t in tried:
        assert t.key == trace_key(t.trace) and t.candidate.origin == (t.key,)
        assert bool(t.parents) == bool(t.change)
        assert all(known[key].round < t.round for key in t.parents)
        if t.parents:
            own = changes(space, known[t.parents[0]].candidate, t.candidate)
            assert t.change == ("crossed; " + own if len(t.parents) == 2 else own)
    assert not any(t.parents for t in tried[:8]), "the first are drawn"
    assert {len(t.parents) for t in tried} == {0, 1, 2}


@pytest.mark.slow
def test_it_is_recorded_and_a_search_that_is_resumed_knows_it(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    first = family(24, log)
    assert [(r.trace_key, r.parents, r.change) for r in log] == told(first)
    assert any(r.parents for r in log)
    second = family(40, known=list(log))
    assert told(second) == told(family(40))


def test_it_does_not_tell_candidates_apart(space):
    one = space.draw(random.Random(0))
    same = replace(one, origin=KEYS[:1])
    assert one == same and hash(one) == hash(same) and repr(one) == repr(same)
    assert space.identity(one) == space.identity(same)
    assert one.origin == ()


def test_what_is_made_of_a_candidate_comes_from_it(space):
    rng = random.Random(0)
    a = replace(space.draw(rng), origin=KEYS[:2])
    b = replace(space.draw(rng), origin=KEYS[2:])
    assert space.mutated(a, rng).origin == KEYS[:2]
    assert space.mutated(space.mutated(a, rng), rng).origin == KEYS[:2]
    assert space.crossed(a, b, rng).origin == (KEYS[0], KEYS[2])
    assert space.crossed(a, a, rng).origin == KEYS[:1]
    assert space.crossed(space.draw(rng), b, rng).origin == KEYS[2:]
    assert space.by_hand(rng, 0, ()).origin == ()


def test_changes_are_told_as_decisions_are(space):
    rng = random.Random(0)
    number = next(n for n, knobs in enumerate(space.knobs) if any(k.is_tile for k in knobs))
    one = space.draw(rng, number)
    place = next(p for p, knob in enumerate(space.knobs[number]) if knob.is_tile)
    knob, old = space.knobs[number][place], one.values[place]
    new = next(value for value in knob.options if value != old)
    other = replace(one, values=(*one.values[:place], new, *one.values[place + 1 :]))
    text = f"{knob.loop} of {knob.block}: " + " -> ".join(
        " x ".join(map(str, v)) for v in (old, new)
    )
    assert changes(space, one, other) == text
    before, after = (space.annotated(c, 4, n) for c, n in ((one, 16), (other, 0)))
    unrolled = "".join(
        f"; unrolling of {block}: at most 16 copies -> none" for block in space.stages(number)[1]
    )
    assert unrolled
    assert changes(space, before, after) == text + unrolled
    assert changes(space, one, one) == ""
    assert changes(space, Candidate(1, ()), Candidate(0, ())) == "sketch: 2 -> 1"


def test_a_long_change_is_cut(space, monkeypatch):
    monkeypatch.setattr(proposals, "changes", lambda *given: "x" * 5000)
    known = Lineage(space)
    one = known.add(KEYS[0], space.draw(random.Random(0)))
    parents, change = known.of(one)
    assert parents == KEYS[:1] and len(change) == LONGEST_TEXT


def test_of_what_was_not_measured_nothing_is_said(space):
    known, rng = Lineage(space), random.Random(0)
    one = known.add(KEYS[0], space.draw(rng))
    stranger = replace(space.mutated(one, rng), origin=(KEYS[1], KEYS[0], "nothing"))
    assert known.of(stranger)[0] == KEYS[:1]
    assert known.of(replace(stranger, origin=KEYS[1:])) == ((), "")


@pytest.mark.parametrize("wrong", [None, "text", [KEYS[0]], (1,), ([],)])
def test_an_origin_is_keys(space, wrong):
    with pytest.raises(ArgumentError, match=r"candidate\.origin"):
        space.check(replace(space.draw(random.Random(0)), origin=wrong))


def test_a_template_whose_steps_depend_on_its_decisions():
    def template(s):
        i, j, _ = s.get_loops("C")
        size = s.sample_categorical([2, 3])
        s.split(i if size == 2 else j, [None, size])

    space = Space.of_template(product(48), TARGET, template)
    other = {0: 1, 1: 0}
    moved = [
        space.realized(replace(space.draw(random.Random(0), n), values=(v,), origin=KEYS[:1]))[0]
        for n in range(len(space.sketches))
        for v in other
    ]
    assert {c.sketch for c in moved} == {0, 1}
    assert all(c.origin == KEYS[:1] for c in moved)
