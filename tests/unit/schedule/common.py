"""What every test of the schedule package does: `check` what was accepted, `refused` what was not.

s = mt.Schedule(scale(20))
s.split("i", [None, 8])
check(s)                                            # same outputs, and a trace that replays

refused(s, "R1", "i_0 is parallel", lambda: s.split("i_0", [2]))
"""

import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import loops_of, numpy_dtype, verify
from minitensor.schedule import REGISTRY
from tests.sent import imported

# ---- what was accepted


def original(s):
    """The program that a schedule started from."""
    return s._history[0]


def inputs(program, seed=0):
    """Small integers for the inputs: sums and products of them are exact in any order."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in program.inputs:
        low = 0 if buffer.dtype.kind in ("uint", "bool") else -4
        high = 1 if buffer.dtype.kind == "bool" else 4
        values = rng.integers(low, high + 1, buffer.shape)
        arrays.append(np.asarray(values, numpy_dtype(buffer.dtype)))
    return arrays


def same_results(before, after, arrays=None):
    """Both programs give the same outputs, to the last bit, and neither breaks a rule of memory."""
    arrays = inputs(before) if arrays is None else arrays
    wanted = mt.interpret(before, *arrays)
    given = mt.interpret(after, *arrays)
    if not isinstance(wanted, tuple):
        wanted, given = (wanted,), (given,)
    assert len(wanted) == len(given)
    for a, b in zip(wanted, given):
        np.testing.assert_array_equal(b, a, strict=True)


def run_as_python(s):
    """A fresh schedule of the original program, after the script that `as_python` prints."""
    lines = s.trace.as_python().splitlines() or ["pass"]
    body = "".join(f"    {line}\n" for line in lines)
    twin = mt.Schedule(original(s))
    imported(f"def steps(s):\n{body}").steps(twin)
    return twin


def assert_equal_programs(a, b):
    """Equal to the last name."""
    assert str(a) == str(b)
    assert a == b


def check(s, arrays=None):
    """The schedule computes what its program did, and its trace makes it again, both ways."""
    verify(s.program)
    same_results(original(s), s.program, arrays)
    text = s.trace.to_json()
    replayed = mt.Trace.from_json(text).apply(original(s))
    assert_equal_programs(replayed.program, s.program)
    assert replayed.trace == s.trace
    assert replayed.trace.to_json() == text
    twin = run_as_python(s)
    assert_equal_programs(twin.program, s.program)
    assert twin.trace.to_json() == text


def kinds(s):
    """The kind of every loop by name."""
    return {loop.var: loop.kind for loop in loops_of(s.program.body)}


def golden(s, text):
    """The program prints as `text` (below its first line), and is right besides."""
    body = str(s.program).split("\n", 1)[1]
    wanted = textwrap.indent(textwrap.dedent(text).strip(), "    ")
    assert body == wanted, f"it prints as\n{body}"
    check(s)


# ---- what was refused


def primitive_of(message):
    """The name of the primitive in the first line of an error."""
    found = re.match(r"(\w+)\(", message)
    assert found is not None, message
    return found[1]


def refused(s, rule, match, call, *, choices=None, marks=()):
    """The call is refused by the rule, with a picture, and nothing has changed: it is refused again
    with the same words, and the schedule can be used as before.

    match    a regular expression found in the message (one line)
    choices  the legal answers that the error lists; None to leave them unchecked
    marks    what the picture must hold: labels and carets

    Returns the error.
    """
    before = everything_of(s)
    with pytest.raises(mt.ScheduleError) as caught:
        call()
    error = caught.value
    name = primitive_of(error.message)
    assert error.rule == rule, error.message
    assert rule in REGISTRY[name].rules
    assert f" breaks {rule}: " in error.message
    assert "\n" not in error.message
    assert re.search(match, error.message), error.message
    assert isinstance(error, mt.ArgumentError) == (rule in ("A1", "A2"))
    assert_explained(s, error)
    for mark in marks:
        assert mark in str(error), str(error)
    if choices is not None:
        assert error.choices == tuple(choices)
    assert_same_state(everything_of(s), before)
    with pytest.raises(mt.ScheduleError) as again:
        call()
    assert (again.value.message, again.value.rule) == (error.message, error.rule)
    still_usable(s)
    assert_same_state(everything_of(s), before)
    return error


def everything_of(s):
    """All that a schedule holds, its programs as they are and as text."""
    state = (tuple(s._steps), dict(s._origins), s._random.getstate(), s._check)
    return tuple(s._history), (*state, repr(s), s.trace.to_json(), s.diff())


def assert_same_state(now, before):
    """Nothing differs; the programs are the same objects."""
    assert len(now[0]) == len(before[0])
    assert all(a is b for a, b in zip(now[0], before[0]))
    assert now[1] == before[1]


def assert_explained(s, error):
    """The text of an error: the message, the loop nest where a culprit is marked in it, the legal
    answers, and the step.
    """
    text = str(error)
    assert text.splitlines()[0] == error.message
    if error.rule in ("A1", "A2"):
        assert error.picture is None
    elif error.picture is not None:
        assert f"\n    def {s.program.name}(" in text
    if error.choices:
        assert "\n    legal: " + ", ".join(f'"{c}"' for c in error.choices) + "\n" in text
    assert error.step == len(s.trace) + 1
    assert text.endswith(f"\n    (step {error.step} of this schedule)")


def still_usable(s):
    """Something legal can be applied afterwards, and the results are those of the program."""
    twin = s.copy()
    block = twin.get_blocks()[0]
    made = twin.add_unit_loop([*twin.get_loops(block), block][0])
    assert len(twin.trace) == len(s.trace) + 1
    assert made in twin.get_loops(block) and made not in s.get_loops(block)
    check(twin)


class Refusal(NamedTuple):
    """One way to break one rule of one primitive."""

    primitive: str
    rule: str
    prepare: Callable[[], mt.Schedule]
    call: Callable[[mt.Schedule], object]
    match: str
    choices: tuple[str, ...] | None = None
    marks: tuple[str, ...] = ()


def run_refusal(case: Refusal) -> Any:
    """The case's call is refused as the case says."""
    s = case.prepare()
    error = refused(
        s,
        case.rule,
        case.match,
        lambda: case.call(s),
        choices=case.choices,
        marks=case.marks,
    )
    assert primitive_of(error.message) == case.primitive
    return error


def each(cases):
    """The decorator that runs a test for each refusal, named after its primitive and rule."""
    ids = [f"{case.primitive}-{case.rule}" for case in cases]
    return pytest.mark.parametrize("case", cases, ids=ids)
