"""The master property: a refusal that names a declared rule, or a verified program that is equal,
in the interpreter and in C with one thread and with two, to what numpy computes.

For every primitive, any generated program and any arguments. Few examples here: campaigns of
`minitensor fuzz` have more.
"""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from minitensor.codegen import PASSES, REQUIRED
from minitensor.schedule import REGISTRY, Trace
from minitensor.testing import PRIMITIVES, Pair, arrays_for, assert_equivalent, programs, schedules
from minitensor.testing.pairs import MOST_INTERPRETED
from tests.parts import times

RELAXED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def draw_pair(data):
    """A program, and a schedule of it that the interpreter runs in a second."""
    program = data.draw(programs())
    schedule = data.draw(schedules(program))
    assume(Pair(program, schedule, values=0).work <= MOST_INTERPRETED)
    return program, schedule


@given(st.data())
@settings(RELAXED, max_examples=times(120, 200))
def test_accepted_schedules_preserve_every_output_in_the_interpreter(data):
    program, schedule = draw_pair(data)
    assert_equivalent(program, schedule, ["interpreter"], data.draw(arrays_for(program)))


@given(st.data())
@settings(RELAXED, max_examples=times(20, 30))
def test_every_pass_of_code_generation_preserves_them(data):
    program, schedule = draw_pair(data)
    assert_equivalent(program, schedule, ["passes"], data.draw(arrays_for(program)))


@given(st.data())
@settings(RELAXED, max_examples=times(40, 60))
def test_native_code_preserves_them_on_one_thread_and_on_two(data):
    program, schedule = draw_pair(data)
    bound = any(step.primitive == "bind" for step in schedule.trace.steps)
    targets = ["interpreter"] if bound else ["c"]
    assert_equivalent(program, schedule, targets, data.draw(arrays_for(program)))


@pytest.mark.parametrize("left_out", [name for name, _ in PASSES if name not in REQUIRED])
@given(data=st.data())
@settings(RELAXED, max_examples=3)
def test_every_pass_but_the_required_can_be_left_out(left_out, data):
    program, schedule = draw_pair(data)
    bound = any(step.primitive == "bind" for step in schedule.trace.steps)
    targets = ["passes"] if bound else ["passes", "c"]
    arrays = data.draw(arrays_for(program))
    assert_equivalent(program, schedule, targets, arrays, without=(left_out,))


@given(data=st.data())
@settings(RELAXED, max_examples=10)
def test_all_passes_but_the_required_can_be_left_out_at_once(data):
    program, schedule = draw_pair(data)
    bound = any(step.primitive == "bind" for step in schedule.trace.steps)
    targets = ["passes"] if bound else ["passes", "c"]
    without = tuple(name for name, _ in PASSES if name not in REQUIRED)
    assert_equivalent(program, schedule, targets, data.draw(arrays_for(program)), without=without)


@given(st.data())
@settings(RELAXED, max_examples=times(40, 60))
def test_traces_round_trip_through_json(data):
    program = data.draw(programs())
    schedule = data.draw(schedules(program))
    again = Trace.from_json(schedule.trace.to_json())
    assert again == schedule.trace
    assert again.apply(program).program == schedule.program


def test_every_primitive_is_drawn():
    assert set(PRIMITIVES) == set(REGISTRY)
