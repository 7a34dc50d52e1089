"""A failure as a script that shows it alone: a definition, a schedule, and what must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor.errors import MinitensorError
from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.pair import FailedError, Failure, draw_pair
from minitensor.ir import DECLARED, Program
from minitensor.lang import definition_as_python, intrinsic_as_python
from minitensor.schedule import Schedule

_HEAD: Final = '''\
"""{what}

{how}
"""
'''


def script_of(answers: Sequence[int], failure: Failure, origin: str = "") -> str:
    """A Python script that ends with the failure for as long as it is there.

    answers  of the pair (see `choices`)
    failure  what went wrong with it
    origin   where it was found, in a sentence
    """
    head = _HEAD.format(what=_comment(f"{failure.kind}: {failure.message}"), how=_comment(origin))
    try:
        program, schedule, values, call = _drawn(answers, failure)
        return head + _written(program, schedule, values, call)
    except (MinitensorError, FailedError, KeyError):
        return head + _redrawn(answers)


def _drawn(answers: Sequence[int], failure: Failure) -> tuple[Program, Schedule, int, str]:
    """The program, the schedule, the seed of the values, and a call that fails if one does."""
    choices = Recorded(answers)
    try:
        pair = draw_pair(choices)
        return pair.program, pair.schedule, pair.values, ""
    except FailedError as failed:
        if failed.program is None or failed.schedule is None:
            raise
        return failed.program, failed.schedule, 0, failed.call


def _written(program: Program, schedule: Schedule, values: int, call: str) -> str:
    lines = [
        "import minitensor as mt",
        "from minitensor.fuzz import assert_equivalent, small_arrays",
        "",
    ]
    keys = {a for step in schedule.trace.steps for a in step.arguments.values()}
    text = repr(keys) + call
    for intrinsic in [i for key, i in DECLARED.items() if key in text]:
        lines += [intrinsic_as_python(intrinsic), ""]
    lines += [
        definition_as_python(program),
        "",
        "s = mt.Schedule(program)",
        schedule.trace.as_python("s"),
    ]
    if call:
        lines.append(f"s.{call}")
    lines += ["", "print(s.program)"]
    lines.append(
        f'assert_equivalent(program, s, ["interpreter", "c"], small_arrays(program, {values}))'
    )
    return "\n".join(line for line in lines if line is not None) + "\n"


def _redrawn(answers: Sequence[int]) -> str:
    """For what cannot be written as a definition: the answers from which it is drawn."""
    return f"""\
from minitensor.fuzz import Recorded, check_alone

check_alone(Recorded({list(answers)}))
"""


def _comment(text: str) -> str:
    """The text inside a docstring."""
    return text.replace("\\", "/").replace('"""', "'''")
