"""The parts of the demo that need no compiler: its schedule is right after every step."""

import numpy as np
import pytest

import minitensor as mt
from tutorials import schedules
from tutorials.demo import __main__ as command
from tutorials.demo import dense, tuned

TARGETS = [
    mt.Target("c", num_cores=cores, vector_bits=bits) for cores in (1, 16) for bits in (512, 256, 0)
]


def test_without_a_compiler_it_says_what_to_do(run, no_compiler):
    done = run("--quick")
    assert (done.status, done.out) == (1, "")
    assert "apt install gcc" in done.err


def test_a_number_of_threads_that_cannot_be(run, no_compiler):
    done = run("--threads", "0")
    assert done.status == 1
    assert "num_cores=0" in done.err


def integers(rng, *shape):
    return rng.integers(-4, 5, shape).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_dense_layer_is_right_after_every_step(target):
    rng = np.random.default_rng(0)
    a, b, bias = integers(rng, 16, 6), integers(rng, 6, 64), integers(rng, 64)
    expected = np.maximum(a @ b + bias, 0)
    s = mt.Schedule(dense.define(16, 64, 6))
    titles = []
    for title, why in schedules.matmul.packed(s, schedules.matmul.Tiles.of(target, 16)):
        titles.append(title)
        assert why.endswith(".")
    np.testing.assert_array_equal(mt.interpret(s, a, b, bias), expected)
    assert titles == ["Tiles", "Vectors", "Fusion", "Packing", "Reuse", "Threads"]


def test_the_schedule_at_its_real_size_is_accepted():
    for target in TARGETS:
        s = mt.Schedule(dense.define(1024, 1024, 1024))
        assert len(list(schedules.matmul.packed(s, schedules.matmul.Tiles.of(target, 1024)))) == 6


@pytest.mark.parametrize("bits", [512, 256, 128, 0])
@pytest.mark.parametrize("key", command.FULL.keys)
def test_a_recorded_schedule_of_each_workload_is_accepted(key, bits):
    program = schedules.HAND_SCHEDULES[key].define()
    record = tuned.recorded(program, mt.Target("c", num_cores=2, vector_bits=bits))
    schedule = record.parsed().apply(program)
    assert len(schedule.trace.steps) > 4
    assert bits != 256 or record.target.vector_bits == 256


def test_what_is_searched_is_recorded_too():
    for effort in (command.FULL, command.QUICK):
        assert effort.live in effort.keys
        assert set(effort.keys) <= set(schedules.HAND_SCHEDULES)
