"""Planted faults are found, made small, and written as scripts that show them."""

import pathlib
import signal
import subprocess
import sys

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from minitensor.testing import (
    FailedError,
    arrays_for,
    assert_equivalent,
    check_meaning,
    pair_of,
    programs,
    reduced,
    schedules,
    script_of,
)
from tests.parts import some
from tests.run.testing.planted import PASSES, PRIMITIVES, found
from tests.sent import imported

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize("name", some(PRIMITIVES, lambda number: number % 2))
def test_faults_of_primitives_are_found_by_drawing(name):
    with PRIMITIVES[name]():
        number, failed = found(check_meaning, name)
    assert failed.failure.kind in ("interpreter", "primitive")
    check_meaning(pair_of(name, number))  # it was the fault, and not the pair


@pytest.mark.parametrize("name", PASSES)
def test_faults_of_passes_are_found_in_native_code(name):
    """In a process of its own, as a campaign has: a wrong kernel may write over the stack."""
    words = [sys.executable, "-m", "tests.run.testing.planted", name]
    done = subprocess.run(
        words, check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=600
    )
    assert done.stdout == "native" or done.returncode == -signal.SIGSEGV


def test_a_failure_is_made_small_and_its_script_shows_it(tmp_path):
    with PRIMITIVES["split without its guard"]():
        number, failed = found(check_meaning, "split")
        least = reduced("split", number, failed.failure.kind, check_meaning)
        assert len(least.schedule.trace) == 1
        assert len(least.program.blocks) == 1
        text = script_of(least, failed.failure, "split", number)
        path = tmp_path / "failure.py"
        path.write_text(text)
        with pytest.raises(Exception, match=r"outside|domain"):
            imported(path.read_text())
    assert "mt.lower" in text and "s.split(" in text and len(text.splitlines()) < 25
    imported(path.read_text())  # mended, it passes


def test_a_call_that_raises_stands_in_the_script():
    with PRIMITIVES["reorder that raises KeyError"]():
        number, failed = found(check_meaning, "reorder")
        text = script_of(failed.pair, failed.failure, "reorder", number)
        with pytest.raises(KeyError):
            imported(text)
    assert "s.reorder(" in text


def test_a_pair_that_is_no_definition_is_drawn_again_by_its_script():
    with PRIMITIVES["reorder that raises KeyError"]():
        number, failed = found(check_meaning, "reorder")
        text = script_of(None, failed.failure, "reorder", number)
        with pytest.raises(FailedError, match="KeyError"):
            imported(text)
    imported(text)


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
