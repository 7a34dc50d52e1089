"""The lessons: one text in the percent format each, from which scripts, notebooks and pages come.

    # %% [markdown]        a cell of text: comments
    # %%                   a cell of code

(The format of Spyder, VS Code and jupytext.) A lesson has its tasks' stubs beside it, which a
student fills in, and a module of judges. This module reads; it runs nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from minitensor.errors import ArgumentError, printable, shown
from minitensor.userfile import run_file

from .place import PACKAGE, ROOT
from .tasks import Task

STUBS: Final = ROOT / "stubs"
TRANSLATIONS: Final = ROOT / "translations"
PICTURES: Final = ROOT / "pictures"
MARKER: Final = re.compile(r"# %%(?P<markdown> \[markdown\])?[^\n]*")

WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_OF_A_POINT = 130, 4, 14
"""Speeds by which the time of a lesson is estimated: prose that is read with care, code that is run
line by line, and a point of a task."""


@dataclass(frozen=True)
class Cell:
    """A cell of a lesson: Markdown without its comment signs, or code."""

    kind: Literal["markdown", "code"]
    text: str


@dataclass(frozen=True)
class Lesson:
    """A lesson of the course.

    number  of two digits: "01"
    path    of its text
    """

    number: str
    path: Path

    @property
    def name(self) -> str:
        """The name of the file, without its ending: 01_first_kernel."""
        return self.path.stem

    @property
    def text(self) -> str:
        """The whole of it."""
        return self.path.read_text(encoding="utf-8")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its cells, in order."""
        return cells_of(self.text)

    @property
    def title(self) -> str:
        """The heading of its first cell."""
        return self.cells[0].text.splitlines()[0].removeprefix("# ")

    @property
    def tasks(self) -> Sequence[Task]:
        """Its tasks, in the order of its text."""
        return tasks_of(self.number)

    @property
    def stubs(self) -> Path:
        """The file that a student fills in."""
        return STUBS / f"{self.number}_tasks.py"

    @property
    def minutes(self) -> int:
        """An estimate of the minutes that it takes with its tasks, to five of them."""
        words = sum(len(c.text.split()) for c in self.cells if c.kind == "markdown")
        lines = sum(len(c.text.splitlines()) for c in self.cells if c.kind == "code")
        spent = words / WORDS_A_MINUTE + lines / LINES_A_MINUTE
        return 5 * max(
            1, round((spent + MINUTES_OF_A_POINT * sum(task.points for task in self.tasks)) / 5)
        )


def cells_of(text: str) -> tuple[Cell, ...]:
    """The cells of a text in the percent format; what stands before the first marker is none."""
    found: list[Cell] = []
    marks = list(MARKER.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None]):
        body = text[mark.end() : following.start() if following else len(text)].strip("\n")
        if mark["markdown"]:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.splitlines()]
            found.append(Cell("markdown", "\n".join(lines)))
        elif body.strip():
            found.append(Cell("code", body))
    return tuple(found)


@cache
def lessons(language: str = "en") -> tuple[Lesson, ...]:
    """The lessons in a language, in order. Raises ArgumentError if there are none in it."""
    folder = ROOT if language == "en" else TRANSLATIONS / language
    if language not in languages():
        known = ", ".join(languages())
        raise ArgumentError(f"no lessons are in {printable(language)!r}; some are in {known}")
    return tuple(Lesson(path.name[:2], path) for path in sorted(folder.glob("[0-9][0-9]_*.py")))


def languages() -> tuple[str, ...]:
    """The languages of lessons, by their codes."""
    return ("en", *sorted({path.parent.name for path in TRANSLATIONS.glob("*/*.py")}))


def find(number: str) -> Lesson:
    """The lesson of a number as a user may write it: "7", "07" or "07_refusals".

    Raises ArgumentError.
    """
    wanted = re.fullmatch(r"0*(\d{1,4})(_\w*)?(\.py)?", number)
    for lesson in lessons():
        if wanted and int(wanted[1]) == int(lesson.number):
            return lesson
    numbers = [lesson.number for lesson in lessons()]
    known = f"{numbers[0]} to {numbers[-1]}"
    raise ArgumentError(f"there is no lesson {printable(number)!r}; there are {known}")


def tasks_of(number: str) -> Sequence[Task]:
    """The tasks of a lesson, from its module of judges."""
    module = importlib.import_module(f"{PACKAGE}.judges.lesson_{number}")
    found: Sequence[Task] = module.TASKS
    return found


def tasks_in(file: str) -> tuple[Task, ...]:
    """The tasks of a lecturer's own file, which is written as a module of judges: its TASKS.

    Raises ArgumentError for a file without tasks.
    """
    found = getattr(run_file(file), "TASKS", None)
    where = printable(str(file)[:200])
    if not isinstance(found, (tuple, list)) or not found:
        raise ArgumentError(f"{where} has no tasks: TASKS = (MyTask(), …) is wanted in it")
    for task in found:
        if not isinstance(task, Task):
            hint = " (make one: MyTask())" if isinstance(task, type) else ""
            raise ArgumentError(f"{where}: TASKS has {shown(task)}, which is no Task{hint}")
        if not str(getattr(task, "name", "")).isidentifier():
            raise ArgumentError(f"{where}: a task needs a name, that of the function it judges")
    names = [task.name for task in found]
    if len(set(names)) < len(names):
        raise ArgumentError(f"{where}: two tasks have one name; there are {', '.join(names)}")
    return tuple(found)
