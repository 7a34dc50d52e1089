"""Schedule.apply: a primitive from outside is recorded, replayed, printed as a call that works."""

import functools
import types

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


def numbered(number):
    """A function that others of the same name differ from."""

    def inner(program):
        return program.replace(name=f"p{number}")

    return inner


class Renamer:
    def __call__(self, program):
        return program

    def method(self, program):
        return program


UNNAMED = {
    "a function in another": numbered(2),
    "a lambda": lambda program: program,
    "a method": Renamer().method,
    "a function of a class": Renamer.method,
    "an object": Renamer(),
    "a partial function": functools.partial(renamed, old="i"),
    "a class": int,
    "a method of a builtin type": dict.get,
    "a step of another schedule": mt.Schedule(scale()).split,
}


@pytest.mark.parametrize("given", UNNAMED.values(), ids=UNNAMED)
def test_what_a_trace_cannot_name_is_refused(given):
    s = mt.Schedule(scale(20))
    with pytest.raises(mt.ArgumentError, match=r"expected a .*function"):
        s.apply(given)
    assert not s.trace.steps
    assert mt.Trace.from_json('{"minitensor_trace": 2, "steps": []}') == s.trace
    assert mt.Schedule(scale(20)).split("i", [4, 5]) == ("i_0", "i_1")


def test_a_refusal_says_where_to_define_the_function():
    with pytest.raises(mt.ArgumentError, match="define it at the top level of a module"):
        mt.Schedule(scale(20)).apply(numbered(2))


def defined(function, names):
    """The function as the `step` of a notebook whose names these are."""
    names["step"] = types.FunctionType(function.__code__, names, "step", function.__defaults__)
    names["step"].__qualname__ = "step"


def first_step(program):
    return program.replace(name="first")


def second_step(program, number=1):
    return program.replace(name="second")


def test_the_latest_definition_of_a_function_is_applied():
    names = {"__name__": "notebook"}
    defined(first_step, names)
    first = names["step"]
    s = mt.Schedule(scale(20))
    s.apply(first)
    defined(second_step, names)
    with pytest.raises(mt.ArgumentError, match="the name in a trace"):
        s.apply(first)
    assert s.program.name == "first"
    twin = mt.Schedule(scale(20))
    twin.apply(names["step"])
    assert twin.trace.apply(scale(20)).program.name == "second"
    with pytest.raises(mt.ArgumentError, match=r"step 1 .*notebook:step.* other arguments"):
        s.trace.apply(scale(20))
    with pytest.raises(mt.ArgumentError, match=r"step 1 .*notebook:step.* other arguments"):
        s.trace.as_python()


def test_refuse_outside_a_primitive_says_so():
    with pytest.raises(mt.MinitensorError, match=r"refuse\('R1', 'odd'\) .*outside a primitive"):
        mt.refuse("R1", "odd")
