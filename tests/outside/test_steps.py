"""Schedule.apply: a primitive from outside is recorded, replayed, printed as a call that works."""

import pytest

import minitensor as mt
from tests.outside.steps import halve, malformed, renamed, wrong
from tests.unit.schedule.common import check, everything_of
from tests.unit.schedule.programs import scale


def test_recorded_replayed_and_printed():
    s = mt.Schedule(scale(20), seed=1)
    tile = s.sample_perfect_tile("i", 2, decision=[5, 4])
    s.split("i", tile)
    outer, inner = s.apply(halve, "i_1", inner=False)
    s.apply(renamed, inner, "lane")
    s.vectorize("lane")
    check(s)
    again = mt.Trace.from_json(s.trace.to_json())
    assert again == s.trace
    assert again.apply(scale(20)).program == s.program
    other = again.with_decisions({0: (2, 10)}).apply(scale(20))
    assert [mt.ir.loop_sites(other.program)[x].loop.extent for x in (outer, "lane")] == [2, 5]
    text = s.trace.as_python()
    assert "s.apply(halve, i_1, inner=False)" in text
    assert "s.apply(renamed, i_1_1, 'lane')" in text
    assert text.startswith("from tests.outside.steps import halve\n")


def test_refusals_name_the_rule_and_leave_the_schedule():
    s = mt.Schedule(scale(5))
    before = everything_of(s)
    with pytest.raises(
        mt.ScheduleError, match=r"^halve\(\"i\"\) breaks R1: .*\(5 iterations\)"
    ) as caught:
        s.apply(halve, "i")
    assert "# <- odd" in str(caught.value)
    with pytest.raises(mt.ScheduleError, match=r"breaks A1: .*no loop 'x'"):
        s.apply(halve, "x")
    with pytest.raises(mt.ArgumentError, match="expected numbers, strings and lists of them"):
        s.apply(renamed, "i", object())
    with pytest.raises(mt.ArgumentError, match="a program, or a tuple of the program and a result"):
        s.apply(wrong)
    with pytest.raises(mt.VerifyError):
        s.apply(malformed)
    with pytest.raises(mt.ArgumentError, match="expected a primitive"):
        s.apply("split", "i", [5])
    assert everything_of(s) == before


def test_a_trace_of_an_undeclared_primitive_says_what_to_import():
    s = mt.Schedule(scale(20))
    s.apply(halve, "i")
    text = s.trace.to_json().replace("tests.outside.steps:halve", "their.steps:halve")
    with pytest.raises(mt.ArgumentError, match=r"'their.steps:halve'.*import the module"):
        mt.Trace.from_json(text)
