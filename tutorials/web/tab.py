"""Cells and judges, as a tab of a browser runs them: one process, no other, no compiler.

`worker.mjs` calls `run` and `check`. Both tell what they have to say by `show(kind, text)`, where
the kind is "text", "svg", "html" or "error".
"""

from __future__ import annotations

import ast
import code
import contextlib
import importlib
import io
import json
import linecache
import os
import random
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from minitensor.errors import MinitensorError

from ..course.place import PACKAGE

Show = Callable[[str, str], Any]
ALIAS: Final = "minitensor_course"
"""The name by which lessons import the course, whatever this copy is called."""
_CELL: Final = "<cell"
"""The beginning of the file names that cells have in tracebacks."""
_PICTURES: Final = (("_repr_svg_", "svg"), ("_repr_html_", "html"))


class _Cells(code.InteractiveInterpreter):
    """The names that cells share, and what became of the cell at work."""

    def __init__(self) -> None:
        super().__init__({"__name__": "__main__"})
        self.failure: BaseException | None = None

    def showtraceback(self) -> None:
        """Keep the exception of a cell."""
        self.failure = sys.exc_info()[1]


_cells = _Cells()


def start() -> None:
    """Prepare the names of the cells, anew, and a folder for what they write."""
    global _cells  # noqa: PLW0603 - a tab has one set of cells
    sys.modules.setdefault(ALIAS, importlib.import_module(PACKAGE))
    _cells = _Cells()
    os.chdir(tempfile.mkdtemp(prefix="minitensor-cells-"))


def use_compiler(compile_text: Callable[..., Any], version: str) -> None:
    """Build kernels with a C compiler that is a function of JavaScript.

    compile_text  takes words, the name of the source and its text; gives bytes and what was printed
    """
    from minitensor.runtime import webassembly  # noqa: PLC0415 - it needs ctypes, most cells do not

    def compiled(words: Sequence[str], source: str, text: str) -> tuple[bytes, str]:
        made, printed = compile_text(list(words), source, text)
        return bytes(made), str(printed)

    webassembly.use(compiled, version)


def run(source: str, name: str, show: Show) -> bool:
    """Run a cell, and show the value of its last expression; True if it ends without an error.

    name  of the cell, for tracebacks: "cell 3"
    """
    file = f"{_CELL} {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    hook, _cells.failure = sys.displayhook, None
    sys.displayhook = lambda value: show_value(value, show)
    try:
        tree = ast.parse(source, file)
        alone = ast.Interactive(tree.body[-1:])  # Python shows the value of what stands alone
        for part, mode in ((ast.Module(tree.body[:-1], []), "exec"), (alone, "single")):
            if part.body and _cells.failure is None:
                _cells.runcode(compile(part, file, mode))
    except (SyntaxError, ValueError, SystemExit) as failure:
        _cells.failure = failure
    finally:
        sys.displayhook = hook
    if _cells.failure is not None:
        show("error", _told(_cells.failure))
    return _cells.failure is None


def compiled(site: str) -> bytes:
    """The bytecode of what was imported from a folder, as a zip file to be unpacked over it.

    It is marked as not to be compared with its source, which gets another time when it is unpacked
    (PEP 552).
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as into:
        for path in Path(site).rglob("*.pyc"):
            data = path.read_bytes()
            unchecked = data[:4] + (1).to_bytes(4, "little") + bytes(8) + data[16:]
            into.writestr(path.relative_to(site).as_posix(), unchecked)
    return buffer.getvalue()


def show_value(value: Any, show: Show) -> None:
    """Show a value as a notebook does: a picture if it draws itself, its repr else, None not."""
    if value is None:
        return
    for method, kind in _PICTURES:
        drawn = getattr(value, method, None)
        text = drawn() if callable(drawn) else None
        if isinstance(text, str):
            show(kind, text)
            return
    show("text", f"{value!r}\n")


def _told(failure: BaseException) -> str:
    """The traceback of a failure: its lines in cells, and in other code if it is no refusal."""
    ours = (__file__, ast.__file__, code.__file__)
    refused = isinstance(failure, MinitensorError)
    lines = traceback.TracebackException.from_exception(failure)
    at: traceback.TracebackException | None = lines
    while at is not None:
        kept = [
            frame
            for frame in at.stack
            if frame.filename.startswith(_CELL) or not (refused or frame.filename in ours)
        ]
        at.stack = traceback.StackSummary.from_list(kept)
        at = at.__cause__ or at.__context__
    return "".join(lines.format())


def check(number: str, answers: str, show: Show) -> str:
    """Judge the answers to a lesson's tasks; a JSON list of verdicts, in the order of the tasks.

    answers  the text of the file that a student filled in

    A verdict has the task, its points, what is lacking ("" for a right answer) and the script that
    shows it. In a tab nothing stands between an answer and its judge but the student.
    """
    from ..course.check import SEED, judged  # noqa: PLC0415 - cells need no judges
    from ..course.lessons import find  # noqa: PLC0415
    from ..course.submission import answers as answered  # noqa: PLC0415

    lesson = find(number)
    file = Path(tempfile.mkdtemp(prefix="minitensor-tasks-"), lesson.stubs.name)
    file.write_text(answers, encoding="utf-8")
    found = []
    for task in lesson.tasks:
        drawn = f"{SEED}:{lesson.number}:{task.name}"
        cases = task.cases(random.Random(drawn))
        with contextlib.redirect_stdout(sys.stderr):
            reply = answered(str(file), task, cases)
        cases = task.cases(random.Random(drawn))  # an answer may have changed what it was given
        lacking, script = judged(task, cases, reply, lesson.number, file)
        right = {"task": task.name, "points": task.points, "lacking": lacking, "script": script}
        found.append(right)
        show("text", f"{'right' if not lacking else 'not yet'}: {task.name}\n")
    return json.dumps(found)
