"""The names of loops in version 0.1, whose traces are of version 1.

A loop whose label was taken was called i2 or ax0_2; it is now named after its stage, relu_i, and
i2 may be another loop. A step of such a trace names a loop only where it surely had that name then;
what earlier steps returned is recorded as a reference, and so has no name that matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from minitensor import ir
from minitensor.errors import ScheduleArgumentError, ScheduleError, shown
from minitensor.schedule.step import Step

_NUMBERED: Final = re.compile(r"[^\W\d]+\d+")
_ADVICE: Final = (
    "record the trace again if it is from version 0.1: it named the loops of later stages i2, j3, "
    "which are now named after their stage, relu_i"
)


class FormerNames:
    """The loops of a program under replay that are named as in version 0.1.

    Names were given in the order of the text, so that those before the first that is named after
    its stage are the same; where all are, so are those of the loops that a step makes.
    """

    def __init__(self, program: ir.Program) -> None:
        loops = ir.loop_sites(program)
        stages = _stages(program)
        self.same = set(takewhile(lambda loop: not loop.startswith(stages), loops))
        self.all = len(self.same) == len(loops)

    def check(self, program: ir.Program, step: Step) -> None:
        """Refuse a step that names a loop which may have had another name."""
        for name in _texts(step.arguments.values()):
            if name in ir.loop_sites(program) and name not in self.same:
                text = f"a trace of version 1 names {shown(name)}, which may be another loop now"
                raise ScheduleArgumentError(text, "A1", advice=_ADVICE)

    def follow(self, before: ir.Program, after: ir.Program, recorded: Any, result: Any) -> None:
        """Follow a step, which returned one result then and may return another now."""
        made = ir.loop_sites(after).keys() - ir.loop_sites(before).keys()
        equal = list(_texts([recorded])) == list(_texts([result]))
        self.all = self.all and equal and not any(n.startswith(_stages(after)) for n in made)
        self.same &= ir.loop_sites(after).keys()
        self.same |= made if self.all else set()


def advise(error: ScheduleError, step: Step) -> None:
    """Add to the refusal of an unknown name such as i2 that it may be one of version 0.1."""
    if error.rule == "A1" and any(map(_NUMBERED.fullmatch, _texts(step.arguments.values()))):
        error.advice = error.advice or _ADVICE


def _stages(program: ir.Program) -> tuple[str, ...]:
    return tuple(f"{block}_" for block in program.blocks)


def _texts(values: Any) -> Iterator[str]:
    """The strings among some values and the tuples among them."""
    for value in values:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str):
                yield item
