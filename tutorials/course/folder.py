"""A student's folder: the lessons, the files to fill in, and a note of what was right last time."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from minitensor.errors import ArgumentError, printable

from .check import Verdict
from .lessons import PICTURES, Lesson, find, lessons
from .place import COMMAND

PROGRESS: Final = "progress.json"
SCRIPTS: Final = "shown"
"""The folder of scripts that show what is wrong."""
_README: Final = f"""\
# The course

Each lesson is a file to read and to run, such as `python 01_first_kernel.py`; its pictures are in
the folder `pictures`, for a browser. Its tasks are in the file beside it, such as `01_tasks.py`.
Write the functions there, save the file, then type in this folder

    {COMMAND} check 01        judge the tasks of lesson 1
    {COMMAND} check           of all lessons
    {COMMAND} list            what there is, and what is done
    {COMMAND} quiz 03         questions to train with; of lessons 3, 4 and 7

What is wrong comes with a script in the folder `shown` that runs your function and fails.
Hidden cases are drawn at random, so an answer has to be right, and may be written in any way.
"""


@dataclass(frozen=True)
class Started:
    """The files of a folder that were written, and those that were there and stay as they are."""

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def start(folder: Path, language: str = "en", notebooks: bool = False) -> Started:
    """Write the lessons and the files to fill in; no file that is there is changed.

    notebooks  whether lessons are notebooks too; needs jupytext, of the extra `course`

    Raises ArgumentError if the folder cannot be written, or there is no lesson in a language.
    """
    translated = {lesson.number: lesson for lesson in lessons(language)}
    files: dict[str, str] = {"README.md": _README}
    for lesson in lessons():
        told = translated.get(lesson.number, lesson)
        files[lesson.path.name] = told.text
        files[lesson.stubs.name] = lesson.stubs.read_text(encoding="utf-8")
        if notebooks:
            files[f"{lesson.name}.ipynb"] = notebook_of(told)
    for drawn in sorted(PICTURES.glob("*.svg")):
        files[f"pictures/{drawn.name}"] = drawn.read_text(encoding="utf-8")
    written, kept = [], []
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(path)
        except FileExistsError as failure:
            if not path.is_file():
                where = printable(str(path.parent))
                fault = f"cannot write to {where}: it is a file, no folder"
                raise ArgumentError(fault) from failure
            kept.append(path)
        except (OSError, ValueError) as failure:
            reason = getattr(failure, "strerror", None) or "no folder can have that name"
            where = printable(str(folder))
            raise ArgumentError(f"cannot write to {where}: {reason}") from failure
    return Started(tuple(written), tuple(kept))


def notebook_of(lesson: Lesson) -> str:
    """A lesson as a notebook; headings begin slides. Raises ArgumentError without jupytext."""
    try:
        jupytext = importlib.import_module("jupytext")
    except ImportError:
        text = "notebooks need jupytext: python -m pip install 'minitensor[course]'"
        raise ArgumentError(text) from None
    notebook = jupytext.reads(lesson.text, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same each time
        heading = cell["source"].startswith("#") and cell["cell_type"] == "markdown"
        cell["metadata"]["slideshow"] = {"slide_type": "slide" if heading else "fragment"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return str(jupytext.writes(notebook, fmt="ipynb")) + "\n"


def lessons_in(folder: Path, numbers: Iterable[str] = ()) -> list[Lesson]:
    """The lessons of some numbers; without any, those whose tasks are in the folder.

    Raises ArgumentError for a number of no lesson, and if there is nothing to check.
    """
    wanted = list(dict.fromkeys(find(number) for number in numbers))
    if wanted:
        return wanted
    found = [lesson for lesson in lessons() if (folder / lesson.stubs.name).is_file()]
    if not found:
        where = printable(str(folder))
        text = f"{where} has no tasks (01_tasks.py and so on); `{COMMAND} start {where}`"
        raise ArgumentError(text + " writes them")
    return found


def progress(folder: Path) -> Mapping[str, list[str]]:
    """The tasks of each lesson that were right when they were last checked."""
    try:
        found: Any = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    kept = {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, list)}
    return {k: [name for name in v if isinstance(name, str)] for k, v in kept.items()}


def note(folder: Path, verdicts: Iterable[Verdict]) -> None:
    """Note in the folder what was right; a folder that cannot be written stays without."""
    found = {number: set(names) for number, names in progress(folder).items()}
    for verdict in verdicts:
        names = found.setdefault(verdict.lesson, set())
        (names.add if verdict.passed else names.discard)(verdict.task)
    text = json.dumps({number: sorted(names) for number, names in sorted(found.items())}, indent=1)
    if not (folder / PROGRESS).is_symlink():  # a student's folder may be another person's to check
        with contextlib.suppress(OSError):
            (folder / PROGRESS).write_text(text + "\n", encoding="utf-8")


def keep_script(folder: Path, verdict: Verdict) -> Path | None:
    """Write the script that shows what is wrong, or remove an old one; None if there is none."""
    path = folder / SCRIPTS / f"{verdict.lesson}_{verdict.task}.py"
    if path.parent.is_symlink():
        return None
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        if verdict.script:
            path.parent.mkdir(exist_ok=True)
            path.write_text(verdict.script, encoding="utf-8")
            return path
    return None
