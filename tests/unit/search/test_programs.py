"""Rules apply to programs of many kinds, or stay away: nothing is refused as sketches are derived,
and whatever is decided computes what the definition does.
"""

import random

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import generate_sketches, random_inputs
from minitensor.search.space import Space
from minitensor.testing import assert_equivalent
from tests.parts import some
from tests.unit.search.programs import EXACT, ROUNDED

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
PROGRAMS = {**EXACT, **ROUNDED}


def legal(space, rng, count):
    """Candidates drawn at random, as schedules: most of them are accepted."""
    found = []
    for _ in range(count):
        try:
            found.append(space.schedule(space.draw(rng)))
        except mt.ScheduleError as refusal:
            assert refusal.rule, refusal
    assert len(found) > count // 2
    return found


def check(name, program, schedule):
    """Compare what the interpreter computes; sums of rounded numbers to their last bits."""
    if name in EXACT:
        assert_equivalent(program, schedule, ["interpreter"], random_inputs(program, 0))
        return
    arrays = random_inputs(program, 0)
    ours, plain = (mt.interpret(one, *arrays) for one in (schedule, program))
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", some(PROGRAMS, lambda number: number % 2 == 0))
def test_some_candidates_of_each_program(name):
    program, rng = mt.lower(PROGRAMS[name]()), random.Random(0)
    sketches = generate_sketches(program, TARGET)
    space = Space(program, TARGET, rng.sample(sketches, min(3, len(sketches))))
    check(name, program, legal(space, rng, 4)[0])


@pytest.mark.whole
@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_candidates_of_all_sketches(name, rules):
    program = mt.lower(PROGRAMS[name]())
    space, rng = Space.of(program, TARGET, rules), random.Random(0)
    for schedule in legal(space, rng, 8):
        mt.verify(schedule.program)
        check(name, program, schedule)


def test_an_expression_that_would_grow_for_ever_is_stored():
    """Each stage squares the one before: inlined, the last would read the first 2^15 times."""
    A = mt.placeholder((8,), name="A")
    stages = [A]
    for _ in range(15):
        stages.append(mt.compute((8,), lambda i, last=stages[-1]: last[i] * last[i] + 1))
    (sketch, *_) = generate_sketches(mt.lower([A, stages[-1]]), TARGET)
    rules = [step.rule for step in sketch.history]
    assert "always inline" in rules
    assert rules.count("skip") >= 2


def test_rows_without_elements():
    """Two short loops would be one vector, but loops that never run are not fused."""
    A = mt.placeholder((7,), name="A")
    stored = mt.compute((7, 0), lambda i, j: A[i], name="B")
    updated = mt.update((7, 0), lambda C, i, j: A[i], init=0.0, name="C")
    for tensor in (stored, updated):
        space = Space.of(mt.lower([A, tensor]), TARGET)
        assert space.schedule(space.draw(random.Random(0)))


def test_an_init_stays_with_its_update():
    """Both write one buffer, so neither can be computed where it is read."""
    A = mt.placeholder((8,), name="A")
    step = lambda B, i: A[i] + mt.if_then_else(i > 0, B[i - 1], 0.0)
    B = mt.update((8,), step, init=1.0, name="B")
    program = mt.lower([A, mt.compute((8,), lambda i: B[i] + 1, name="C")])
    (sketch,) = generate_sketches(program, TARGET)
    assert [(s.block, s.rule) for s in sketch.history] == [
        (name, "skip") for name in ("C", "B", "B_init")
    ]


def test_a_consumer_of_two_products_follows_the_later_one():
    program = mt.lower(PROGRAMS["swiglu"]())
    for sketch in generate_sketches(program, TARGET, rules="ansor"):
        what = {step.block: step.what for step in sketch.history}
        assert "F after" not in what["D"]
    assert any("F after" in s.explain() for s in generate_sketches(program, TARGET, rules="ansor"))
