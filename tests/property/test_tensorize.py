"""tensorize on generated programs: intrinsics that mean what some loops do, in C of their own."""

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from minitensor.ir import DECLARED, LoopKind, loops_of
from minitensor.testing import (
    PRIMITIVES,
    arrays_for,
    assert_equivalent,
    check_intrinsic,
    matching_intrinsic,
    programs,
    schedules,
)
from tests.parts import times

RELAXED = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def tensorized(draw):
    """A program, and a schedule of it in which an intrinsic does some loops, mostly."""
    program = draw(programs())
    often = (*PRIMITIVES, *["tensorize"] * len(PRIMITIVES))
    schedule = draw(schedules(program, max_steps=6, primitives=often))
    event(f"an intrinsic: {does_some(schedule)}")
    return program, schedule


def does_some(schedule):
    return any(loop.kind is LoopKind.TENSORIZE for loop in loops_of(schedule.program.body))


@given(st.data(), tensorized())
@settings(RELAXED, max_examples=times(30, 60))
def test_an_intrinsic_does_what_its_loops_did(data, drawn):
    program, schedule = drawn
    bound = any(step.primitive == "bind" for step in schedule.trace.steps)
    targets = ["passes"] if bound else ["passes", "c"]
    if does_some(schedule):
        assert_equivalent(program, schedule, targets, data.draw(arrays_for(program)))


@given(st.data())
@settings(RELAXED, max_examples=15)
def test_the_bodies_of_drawn_intrinsics_compute_their_meanings(data):
    program = data.draw(programs())
    schedule = data.draw(schedules(program, max_steps=3))
    for block in schedule.get_blocks():
        loops = schedule.get_loops(block)
        made = matching_intrinsic(schedule.program, block, loops)
        if made is not None:
            assert DECLARED[made.key] == made
            size = 1
            for extent in made.axes.values():
                size *= extent
            if size <= 512:
                assert check_intrinsic(made, max_examples=3) == {"portable": True}
