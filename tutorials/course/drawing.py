"""The pictures of lessons: shown in a notebook, and kept as files for pages.

`python -m docs.make_lessons` runs the lessons and keeps what they draw, by way of the variable
MINITENSOR_COURSE_PICTURES, a folder.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minitensor import pictures
from minitensor.errors import ArgumentError, shown
from minitensor.ir import Program
from minitensor.pictures import Picture
from minitensor.schedule import Schedule

FOLDER: Final = "MINITENSOR_COURSE_PICTURES"
_CACHES: Final = {"L1": 32 << 10, "L2": 1 << 20}
"""Of the machine in the pictures, which are the same everywhere."""


@dataclass(frozen=True)
class Drawing:
    """A picture that a notebook shows."""

    picture: Picture

    def __repr__(self) -> str:
        return f"<{self.picture.name}: {self.picture.text.splitlines()[0]}>"

    def _repr_svg_(self) -> str:
        return self.picture.svg()


def picture(name: str, subject: Program | Schedule | Picture, kind: str = "nest") -> Drawing:
    """A picture of a lesson, for the last line of a cell.

    name     of the file that keeps it, without its ending: "06_tiles"
    subject  a program, a schedule, or a picture that is drawn already
    kind     of a program: "nest", "footprint", or "visits-A" for the visits of A's elements

    Raises ArgumentError for a kind that the program has not.
    """
    if not re.fullmatch(r"\d\d_[a-z0-9_]+", name):
        raise ArgumentError(f"a picture is called as 06_tiles is, but got name={shown(name)}")
    found = subject if isinstance(subject, Picture) else _drawn(subject, kind)
    if os.environ.get(FOLDER):
        (Path(os.environ[FOLDER]) / f"{name}.svg").write_text(found.svg() + "\n", encoding="utf-8")
    return Drawing(found)


def _drawn(subject: Program | Schedule, kind: str) -> Picture:
    program = subject.program if isinstance(subject, Schedule) else subject
    drawn, _ = pictures.program_pictures(program, _CACHES)
    for one in drawn:
        if one.name == kind:
            return one
    known = ", ".join(one.name for one in drawn)
    raise ArgumentError(f"the program has no picture {shown(kind)}; it has {known}")
