"""Over fifty kernels made racy behind the rules' back: refused, and found by both checkers."""

import pytest

import minitensor as mt
from minitensor.sanitize import check_races
from minitensor.testing import small_arrays
from tests.run.sanitize.racy import CASES, forced

QUICK = ("sum_over_rows", "a_prefix_sum", "halos_of_tiles", "argmax_keeps_two_numbers")


def test_there_are_over_fifty():
    assert len(CASES) >= 50
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.name, marks=() if c.name in QUICK else (pytest.mark.slow,))
        for c in CASES
    ],
)
def test_it_is_refused_and_found(case):
    schedule, loop, buffer = case.make()
    arrays = small_arrays(schedule.program, 1)
    assert check_races(schedule, *arrays) == []
    with pytest.raises(mt.ScheduleError) as refused:
        schedule.parallel(loop)
    assert refused.value.rule in ("R2", "R3", "R4")  # of the loop, not of an argument
    program = forced(schedule.program, loop)
    with pytest.raises(mt.ExecutionError) as stopped:
        mt.interpret(program, *arrays)
    assert stopped.value.kind == "race"
    found = check_races(program, *arrays)
    assert found
    for race in found:
        assert race.loop == loop
        first, second = race.iterations
        assert 0 <= first < second
        assert True in race.writes
    assert buffer in {race.buffer for race in found}
