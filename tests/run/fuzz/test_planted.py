"""Planted faults are found, made small, and written as scripts that show them."""

import contextlib

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from minitensor.fuzz import FailedError, Recorded, check_alone, draw_pair, script_of, shrink
from minitensor.fuzz.pair import check_meaning
from minitensor.testing import arrays_for, assert_equivalent, programs, schedules
from tests.run.fuzz.planted import PASSES, PRIMITIVES
from tests.sent import imported

pytestmark = pytest.mark.slow
PAIRS = 200


def found(check, most=PAIRS, name=""):
    """The first answers with which a check fails, and the failure."""
    for n in range(most):
        choices = Recorded(seed=f"planted {name} {n}")
        try:
            check(choices)
        except FailedError as failed:
            return tuple(choices.answers), failed.failure
    return None


def by_meaning(choices):
    check_meaning(draw_pair(choices))


def small(answers, kind, check):
    """The smallest answers that fail in this way."""

    def fails(candidate):
        try:
            check(Recorded(candidate))
        except FailedError as failed:
            return failed.failure.kind == kind
        return False

    def spans(candidate):
        choices = Recorded(candidate)
        with contextlib.suppress(FailedError):
            draw_pair(choices)
        return choices.spans

    return shrink(answers, spans, fails)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_faults_of_primitives_are_found_by_drawing(name):
    with PRIMITIVES[name]():
        failure = found(by_meaning)
    assert failure is not None
    assert failure[1].kind in ("interpreter", "primitive")
    by_meaning(Recorded(failure[0]))  # it was the fault, and not the pair


@pytest.mark.parametrize("name", PASSES)
def test_faults_of_passes_are_found_in_native_code(name):
    with PASSES[name]():
        failure = found(check_alone, name=name)
    assert failure is not None
    assert failure[1].kind == "native"


def test_a_failure_is_made_small_and_its_script_shows_it(tmp_path):
    with PRIMITIVES["split without its guard"]():
        answers, failure = found(by_meaning)
        least = small(answers, failure.kind, by_meaning)
        assert len(least) < len(answers)
        pair = draw_pair(Recorded(least))
        assert len(pair.schedule.trace) == 1
        assert len(pair.program.blocks) == 1
        text = script_of(least, failure, "Found by a test.")
        path = tmp_path / "failure.py"
        path.write_text(text)
        with pytest.raises(Exception, match=r"outside|domain"):
            imported(path.read_text())
    assert "mt.lower" in text and "s.split(" in text and len(text.splitlines()) < 25
    imported(path.read_text())  # mended, it passes


def test_a_call_that_raises_stands_in_the_script(tmp_path):
    with PRIMITIVES["reorder that raises KeyError"]():
        answers, failure = found(by_meaning)
        least = small(answers, failure.kind, by_meaning)
        path = tmp_path / "failure.py"
        path.write_text(script_of(least, failure))
        with pytest.raises(KeyError):
            imported(path.read_text())
    assert "s.reorder(" in path.read_text()


def script_that_hypothesis_ends_with(primitives, phases):
    """From the message of its last failure."""

    @seed(0)
    @settings(max_examples=300, deadline=None, database=None, phases=phases)
    @given(st.data())
    def prove(data):
        program = data.draw(programs(max_stages=2, max_steps=32, max_rank=2))
        scheduled = data.draw(schedules(program, primitives=primitives))
        assert_equivalent(program, scheduled, ["interpreter"], data.draw(arrays_for(program)))

    with pytest.raises(AssertionError) as failure:
        prove()
    return str(failure.value).partition("This script shows it:")[2].strip()


def test_hypothesis_ends_with_one_step_of_one_stage():
    with PRIMITIVES["split without its guard"]():
        script = script_that_hypothesis_ends_with(
            ("split", "reorder"), (Phase.generate, Phase.shrink)
        )
        with pytest.raises(AssertionError):
            imported(script)
    assert script.count(" = s.") == script.count("s.split(") == 1
    assert script.count("= mt.compute(") + script.count("= mt.update(") == 1
    imported(script)  # mended, it passes


def test_a_primitive_that_raises_is_shown_by_a_script_too():
    with PRIMITIVES["reorder that raises KeyError"]():
        script = script_that_hypothesis_ends_with(("split", "reorder"), [Phase.generate])
        with pytest.raises(KeyError):
            imported(script)
    assert "s.reorder(" in script
