"""Refusals of steps: the broken rule, the culprit, and the legal alternatives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NoReturn

from minitensor import ir, pictures
from minitensor.errors import Choices, MinitensorError, ScheduleError, shown
from minitensor.looks import LINES

COMMON_RULES: Final[dict[str, str]] = {
    "A1": "every loop, block and buffer named is one of the program's",
    "A2": "every argument has the documented type and value",
    "K1": "the iterations of parallel, vectorized and bound loops stay free of conflicts",
    "K2": "loops nest at most 128 deep and run what is in them at most 2**62 times; an index or a "
    "guard has at most 5000 operations",
    "K3": "what an intrinsic does stays what it means",
    "K4": "what a loop prefetches it reads, so many iterations later",
}
"""Rules of every primitive, besides its own R1, R2, …"""


class RefusedError(MinitensorError):
    """Raised inside a primitive by `refuse`; `Primitive.apply` turns it into a ScheduleError."""

    def __init__(
        self, rule: str, detail: str, marks: ir.Marks, choices: Choices, advice: str
    ) -> None:
        super().__init__(
            f"refuse({shown(rule)}, {shown(detail)}) was called outside a primitive: it "
            "refuses a step, in a function that Schedule.apply runs"
        )
        self.rule, self.detail, self.marks = rule, detail, marks
        self.choices, self.advice = choices, advice


def refuse(
    rule: str,
    detail: str = "",
    *,
    marks: ir.Marks | None = None,
    choices: Choices = (),
    advice: str = "",
) -> NoReturn:
    """Refuse the step.

    rule     the id of the rule that it breaks
    detail   the fact that breaks it
    marks    the culprits, for the picture of the loop nest
    choices  the arguments that would be legal, or a function that finds them
    advice   the step that leads on, where more can be said than the rule's own advice
    """
    raise RefusedError(rule, detail, marks or ir.Marks(), choices, advice)


def accepted(names: Iterable[str], call: Callable[[str], object]) -> list[str]:
    """The names with which a call of a primitive is not refused, each once."""
    found = []
    for name in dict.fromkeys(names):
        try:
            call(name)
        except ScheduleError:
            continue
        found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Drawing:
    """The loop nest with the culprits marked, as it follows the line of an error; and as a page.

    made  the program that a step would have given, where its loops are the culprits
    """

    program: ir.Program
    marks: ir.Marks
    made: ir.Program | None = None

    def __call__(self) -> str:
        """The nest as text; of a long one the culprits, with the loops around them."""
        lines = ir.print_program(self.program, self.marks).splitlines()
        return "\n".join("    " + line for line in _excerpt(lines))

    def write_page(self, path: str | os.PathLike[str], message: str) -> None:
        """Write pictures of the refusal to an HTML file. Raises ArgumentError."""
        drawn = pictures.refusal_pictures(self.made or self.program, self.marks)
        pictures.write(path, pictures.page_of("A step that is refused", drawn, [message]))


def _excerpt(lines: list[str]) -> list[str]:
    """All lines, or of many those with marks, their neighbours and the loops around them."""
    if len(lines) <= LINES:
        return lines
    marked = [n for n, line in enumerate(lines) if "# <- " in line or line.lstrip().startswith("^")]
    kept = {0}
    for n in marked[: LINES // 6]:
        kept |= set(range(n - 1, n + 2))
        depth = len(lines[n]) - len(lines[n].lstrip())
        for above in range(n, -1, -1):
            indent = len(lines[above]) - len(lines[above].lstrip())
            if indent < depth and lines[above].strip():
                depth = indent
                kept.add(above)
    shown_lines, last = [], -1
    for n in sorted(kept & set(range(len(lines))))[:LINES]:
        if n > last + 1:
            shown_lines.append(f"… {n - last - 1:,} lines")
        shown_lines.append(lines[n])
        last = n
    if last + 1 < len(lines):
        shown_lines.append(f"… {len(lines) - last - 1:,} lines")
    return shown_lines
