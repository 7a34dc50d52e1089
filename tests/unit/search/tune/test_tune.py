"""What `tune` finds out before it begins."""

import math
import random

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import native_target
from minitensor.search import GradientBoostedTrees, Rule, Task
from minitensor.search.space import Space
from minitensor.search.tune import search
from minitensor.search.tuners import Random


def test_a_log_that_cannot_be_written_is_told_before_anything_is_done(tmp_path):
    program, called = mt.lower(mt.workloads.matmul(8, 8, 8)), []
    with pytest.raises(mt.TuningError, match="make its folder first"):
        mt.tune(program, log=tmp_path / "no" / "tuning.jsonl", space=called.append)
    assert not called


PROGRAM = mt.lower(mt.workloads.matmul(8, 8, 8))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"trials": 0}, "trials"),
        ({"trials": 2.0}, "trials"),
        ({"seed": -1}, "seed"),
        ({"batch": True}, "batch"),
        ({"time_limit": -1}, "expected a number >= 0, but got time_limit=-1"),
        ({"time_limit": math.nan}, "time_limit"),
        ({"time_limit": "10 s"}, "time_limit"),
        ({"patience": 0}, "patience"),
        ({"patience": 1.5}, "patience"),
        ({"strategy": ["random"]}, "strategy"),
        ({"strategy": Random}, "propose"),
        ({"strategy": 3}, "or an object with propose"),
        ({"model": "trees"}, "model"),
        ({"model": GradientBoostedTrees}, r"fit\(X, y\) and predict\(X\)"),
        ({"rules": "best"}, "'default', 'ansor'"),
        ({"rules": [Rule]}, "judge and apply"),
        ({"rules": None}, "rules"),
        ({"rules": [1]}, "rules"),
        ({"rules": 3}, "rules"),
        ({"callbacks": print}, "callbacks"),
        ({"callbacks": [1]}, "callbacks"),
        ({"inputs": 3}, "inputs"),
        ({"settings": {}}, "settings"),
        ({"builder": 5}, "builder"),
        ({"space": 5}, "space"),
    ],
)
def test_wrong_arguments(arguments, text, monkeypatch):
    if not arguments.keys() & {"inputs", "builder"}:
        monkeypatch.setattr(Task, "of", lambda *given: pytest.fail("built"))
    with pytest.raises(mt.ArgumentError, match=text):
        mt.tune(PROGRAM, **arguments)


def test_a_space_of_something_else():
    target = mt.Target("c", num_cores=1, vector_bits=128)
    other = mt.lower(mt.workloads.matmul(8, 8, 16))
    for space in (Space.of(PROGRAM, target), Space.of(other, native_target(mt.Target("c")))):
        with pytest.raises(mt.ArgumentError, match="expected a Space of main on"):
            mt.tune(PROGRAM, space=space)


def test_numpys_integers_are_integers(monkeypatch):
    monkeypatch.setattr(search, "_space", lambda *given: pytest.fail(repr(given[-1])))
    with pytest.raises(pytest.fail.Exception, match=r"^7$"):
        mt.tune(PROGRAM, trials=np.int64(8), seed=np.int64(7), batch=np.int32(4))


@pytest.mark.slow
def test_a_templates_places_are_searched():
    """Each place that a template may choose is a sketch of its own."""
    program = mt.lower(mt.workloads.matmul_bias_relu(m=4, n=6, k=5))

    def template(s):
        i, _ = s.get_loops("D")
        s.split(i, s.sample_perfect_tile(i, n=2))
        s.compute_at("C", s.sample_compute_location("C"))

    space = Space.of_template(program, native_target(mt.Target("c")), template)
    places = {
        step.arguments["decision"]
        for s in space.sketches
        for step in s.steps
        if step.primitive == "sample_compute_location"
    }
    assert len(places) >= 3
    for number in range(len(space.sketches)):
        candidate = space.draw(random.Random(number), number)
        schedule = space.schedule(candidate)
        assert space.decode(schedule.trace) == candidate


def test_a_template_that_is_refused_now_and_then():
    def template(s):
        loop = s.get_loops("C")[0]
        if s.sample_categorical([0, 1]):
            s.split(loop, s.sample_perfect_tile(loop, n=2))
        else:
            s.split("no such loop", [2, None])

    space = Space.of_template(PROGRAM, native_target(mt.Target("c")), template)
    assert len(space.sketches) == 1
    with pytest.raises(mt.ScheduleError, match="no such loop"):
        Space.of_template(
            PROGRAM, native_target(mt.Target("c")), lambda s: s.split("no such loop", [2, None])
        )
