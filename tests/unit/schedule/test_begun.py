"""Copies with the first steps of a schedule, and replays that begin behind these."""

from dataclasses import replace

import pytest

import minitensor as mt
from minitensor.schedule import Ref
from tests.unit.schedule.programs import matmul
from tests.unit.schedule.valid_traces import VALID, valid


@pytest.mark.parametrize("name", sorted(VALID))
def test_a_replay_may_begin_behind_the_steps_that_a_copy_has(name):
    program, text = valid(name)
    whole = mt.Trace.from_json(text).apply(program)
    for count in range(len(whole.trace) + 1):
        begun = whole.copy(count)
        assert (begun.trace.steps, begun.history) == (
            whole.trace.steps[:count],
            whole.history[: count + 1],
        )
        assert state(begun.replay(whole.trace, begun=True)) == state(whole)


def test_a_replay_that_has_not_begun_so_is_refused():
    s = mt.Schedule(matmul(4, 8, 6))
    s.split("i", [2, 2])
    s.unroll("i_1")
    other = mt.Schedule(matmul(4, 8, 6))
    other.split("i", [1, 4])
    for trace in (other.trace, mt.Trace(s.trace.steps[:1]), replace(s.trace, version=1)):
        with pytest.raises(mt.ArgumentError, match="begins with the steps so far"):
            s.replay(trace, begun=True)
    assert len(s.trace) == 2


@pytest.mark.parametrize("steps", [-1, 2, 0.5, "1", True])
def test_a_copy_has_as_many_steps_as_there_are(steps):
    s = mt.Schedule(matmul(4, 8, 6))
    s.split("i", [2, 2])
    with pytest.raises(mt.ArgumentError, match="from 0 to 1"):
        s.copy(steps)


def test_what_follows_in_a_copy_refers_to_the_steps_that_it_has():
    s = mt.Schedule(matmul(4, 8, 6))
    s.split("i", [2, 2])
    early = s.copy(1)
    s.reorder("i_1", "i_0")
    for schedule in (s, early):
        schedule.unroll("i_1")
        assert schedule.trace.steps[-1].arguments["loop"] == Ref(0, 1)
    assert "i_0" not in s.copy(0)._origins


def state(schedule):
    return schedule.trace, schedule.history, schedule._results, schedule._origins
