"""Steps that were not checked one by one are checked together."""

import pytest

import minitensor as mt
from tests.unit.schedule.programs import stencil

MESSAGE = r"K1: .*one iteration of y_0 may write an element of P that another may write"


def halo_in_threads():
    s = mt.Schedule(stencil(8), check=False)
    outer, _ = s.split("y", [2, 4])
    s.compute_at("P", outer)
    s.bind(outer, "threadIdx.x")
    return s


def test_a_legal_schedule_is_confirmed_and_checked_from_then_on():
    s = halo_in_threads()
    assert s.confirm() is s
    before = s.program
    with pytest.raises(mt.ScheduleError, match=MESSAGE):
        s.set_scope("P", "shared")
    assert s.program is before


def test_a_conflict_that_came_up_on_the_way_is_found():
    s = halo_in_threads()
    s.set_scope("P", "shared")  # not checked here
    with pytest.raises(mt.ScheduleError, match=MESSAGE) as caught:
        s.confirm()
    assert caught.value.rule == "K1"
    assert "# <- writes P" in str(caught.value)
