"""Python files as pages: lessons with what they print and draw, and schedules by hand.

A lesson is run for its page, in a process of its own, with a mark printed before each cell; its
output is kept in build/lessons as long as neither the lesson nor minitensor changes.

In a schedule by hand a line `# ---- 2. What it means ----` is a heading, and the comment under it
the text. Comments inside the code stay there.
"""

import ast
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import minitensor
from tutorials import Lesson
from tutorials.web.pages import lesson_markdown

KEPT = pathlib.Path(__file__).parents[1] / "build" / "lessons"
MARK = "\x1e"
HEADING = re.compile(r"# -{3,} (.+?) -+")


class LessonError(Exception):
    """A lesson that does not run to its end, with what it printed to stderr."""


def lesson_page(lesson: Lesson) -> str:
    """A lesson as Markdown, with its output and pictures, and where its tasks are."""
    return lesson_markdown(lesson, outputs(lesson))


def outputs(lesson: Lesson) -> Sequence[str]:
    """The text that each cell of code of a lesson prints; kept from the last time if it can be.

    Raises LessonError if the lesson fails.
    """
    kept = KEPT / f"{lesson.name}.json"
    key = _state(lesson)
    if kept.is_file():
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["key"] == key:
            return list(found["outputs"])
    cells = [cell.text for cell in lesson.cells if cell.kind == "code"]
    text = "".join(f"print({MARK!r}, flush=True)\n{cell}\n" for cell in cells)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / lesson.path.name
        script.write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(KEPT.parents[1]), "NO_COLOR": "1"}
        command = [sys.executable, str(script)]
        try:
            run = subprocess.run(
                command, check=True, capture_output=True, cwd=folder, env=environment
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip()
            about = f"{lesson.path.name} ends with exit status {error.returncode}:"
            raise LessonError(f"{about}\n{said}") from None
    found = run.stdout.decode("utf-8").split(MARK)[1:]
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"key": key, "outputs": found}), encoding="utf-8")
    return found


def _state(lesson: Lesson) -> str:
    """A hash of the lesson and of minitensor."""
    root = pathlib.Path(minitensor.__file__).parent
    state = hashlib.sha256(lesson.text.encode())
    for path in sorted(root.rglob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()


def page_of(text: str) -> str:
    """A schedule by hand as Markdown."""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    title, _, introduction = docstring.partition("\n")
    after = text.split('"""', 2)[2] if docstring else text
    parts = [f"# {title.rstrip('.')}", introduction.strip()]
    code: list[str] = []
    lines = after.splitlines()
    at = 0
    while at < len(lines):
        heading = HEADING.fullmatch(lines[at])
        starts = lines[at].startswith("# ") and (at == 0 or not lines[at - 1])
        if heading:
            parts += [_fenced(code), f"## {heading[1]}"]
            at += 1
        if heading or starts:
            end = at
            while end < len(lines) and re.match(r"# (?!-{3,})|#$", lines[end]):
                end += 1
            parts += [_fenced(code), "\n".join(line[2:] for line in lines[at:end])]
            at = end
        else:
            code.append(lines[at])
            at += 1
    return "\n\n".join(part for part in [*parts, _fenced(code)] if part) + "\n"


def _fenced(code: list[str]) -> str:
    """The code so far as a block; there is none afterwards."""
    text = "\n".join(code).strip("\n")
    code.clear()
    return f"```python\n{text}\n```" if text else ""
