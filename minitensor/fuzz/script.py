"""A failure as a script that shows it alone: a definition, a schedule, and what must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor.errors import MinitensorError
from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.pair import FailedError, Failure, draw_pair
from minitensor.fuzz.written import written
from minitensor.ir import Program
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
        return head + written(program, schedule, f"small_arrays(program, {values})", call)
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


def _redrawn(answers: Sequence[int]) -> str:
    """For what cannot be written as a definition: the answers from which it is drawn."""
    return f"""\
from minitensor.fuzz import Recorded, check_alone

check_alone(Recorded({list(answers)}))
"""


def _comment(text: str) -> str:
    """The text inside a docstring."""
    return text.replace("\\", "/").replace('"""', "'''")
