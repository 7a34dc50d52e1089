"""Lessons as pages: Markdown, of which the documentation makes its pages too, and a folder of HTML.

Each cell of code is a `<div class="mt-cell">`, which `cells.mjs` finds; without it, or without the
files of `assets`, it is a listing. A picture at the end of a cell is drawn anew when the cell runs.
"""

from __future__ import annotations

import ast
import hashlib
import html
import importlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import minitensor
from minitensor.errors import ArgumentError

from ..course.lessons import PICTURES, Lesson, lessons
from ..course.place import ROOT
from .assets import CLANG, EDITOR, PYTHON, gathered, module_file, wheels

LINES: Final = 60
"""The most lines of an output on a page."""
WEB: Final = "web"
"""The folder beside the pages that their files are in."""
_HERE: Final = Path(__file__).parent
_OURS: Final = ("cells.css", "cells.mjs", "worker.mjs")
_LINK: Final = re.compile(r"\]\((\d\d_\w+)\.py")
_TITLE: Final = re.compile(r"<title[^>]*>([^<]+)</title>")
_FROM_DISK: Final = """
if (location.protocol === "file:") addEventListener("DOMContentLoaded", () => {
  const note = document.createElement("p");
  note.className = "mt-disk";
  note.textContent = "The cells of this page run once a server hands it out, as " +
    "`minitensor course start --web` does, or `python -m http.server` in the folder of the site.";
  document.querySelector(".mt-cell").before(note);
});
"""
"""A browser loads no modules from a disk, so this is none."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that its bytes depend on the files alone."""


def lesson_markdown(lesson: Lesson, printed: Sequence[str] | None = None) -> str:
    """A lesson as Markdown: its cells, pictures and tasks.

    printed  what each cell of code prints, to be put behind it; None leaves it out
    """
    outputs = iter(printed or ())
    parts = []
    for cell in lesson.cells:
        if cell.kind == "markdown":
            parts.append(cell.text)
        else:
            parts.append(_cell_markdown(cell.text, next(outputs, "").strip("\n")))
    about = f"About {lesson.minutes} minutes with the tasks."
    title, _, first = parts[0].partition("\n")
    parts[0] = f"{title}\n\n*{about}*\n{first}"
    start = f"`minitensor course start` writes the lesson and `{lesson.stubs.name}`, to fill in:"
    stubs = lesson.stubs.read_text(encoding="utf-8").strip("\n")
    block = f'<div class="mt-tasks" data-code="" markdown="1">\n\n```python\n{stubs}\n```\n\n</div>'
    parts.append(f"## The file to fill in\n\n{start}\n\n{block}")
    return "\n\n".join(parts) + "\n"


def _cell_markdown(text: str, printed: str) -> str:
    """A cell of code, what it prints, and its pictures."""
    code, drawn = without_pictures(text)
    parts = [f"```python\n{code}\n```"] if code else []
    if printed:
        lines = printed.splitlines()
        cut = [*lines[:LINES], "…"] if len(lines) > LINES else lines
        parts.append('```text title="prints"\n' + "\n".join(cut) + "\n```")
    parts += [f"![{_title_of(name)}]({PICTURES.name}/{name}.svg)" for name in drawn]
    tail = html.escape("\n".join(drawn.values())).replace("\n", "&#10;")
    inside = "\n\n".join(parts)
    listed = ' data-code=""' if code else ""
    return f'<div class="mt-cell"{listed} data-tail="{tail}" markdown="1">\n\n{inside}\n\n</div>'


def without_pictures(text: str) -> tuple[str, dict[str, str]]:
    """The code of a cell without its statements `picture(…)`, and those, by the pictures' names."""
    lines, drawn = text.splitlines(), {}
    for node in ast.parse(text).body:
        match node:
            case ast.Expr(ast.Call(ast.Name("picture"), [ast.Constant(str(name)), *_])):
                at = slice(node.lineno - 1, node.end_lineno)
                drawn[name] = "\n".join(lines[at])
                lines[at] = [""] * len(lines[at])
    return "\n".join(lines).strip("\n"), drawn


def _title_of(name: str) -> str:
    """The title that a kept picture has in it."""
    found = _TITLE.search((PICTURES / f"{name}.svg").read_text(encoding="utf-8"))
    return found[1] if found else name


# ---- the files beside the pages


def write_files(folder: Path, kept: Path) -> None:
    """Write what running cells need into the folder of the pages: `web/`, and `offline.js`.

    kept  the folder with files of others, as `assets.gathered` makes it
    """
    web = folder / WEB
    shutil.copytree(kept, web, dirs_exist_ok=True)
    for name in _OURS:
        shutil.copyfile(_HERE / name, web / name)
    shutil.copyfile(_HERE / "offline.js", folder / "offline.js")
    for old in web.glob("minitensor-*.zip"):
        old.unlink()
    name, data = archive()
    (web / name).write_bytes(data)


def archive() -> tuple[str, bytes]:
    """minitensor and the course as a zip file, and its name, which has a hash of it."""
    packages = {"minitensor": Path(minitensor.__file__).parent, "minitensor_course": ROOT}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as into:
        for package, folder in packages.items():
            for path in _files(folder):
                entry = zipfile.ZipInfo(f"{package}/{path.relative_to(folder).as_posix()}", _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                into.writestr(entry, path.read_bytes())
    data = buffer.getvalue()
    return f"minitensor-{hashlib.sha256(data).hexdigest()[:12]}.zip", data


def _files(folder: Path) -> Iterator[Path]:
    """The files of a package, but for what Python and students leave there."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and path.name != ".DS_Store":
            yield path


def head(lesson: Lesson, archive_name: str, compiler: bool) -> str:
    """The lines of a lesson's page, for its `<head>`, that make its cells run.

    compiler  whether the files of the C compiler are there
    """
    about = {
        "lesson": lesson.number,
        "tasks": [task.name for task in lesson.tasks],
        "file": lesson.stubs.name,
        "pyodide": PYTHON,
        "wheels": wheels(),
        "archive": archive_name,
        "compiler": CLANG if compiler else None,
    }
    imports = {
        name if name != "@codemirror/legacy-modes" else f"{name}/mode/python": f"./{WEB}/{file}"
        for name, file in ((name, module_file(name)) for name in EDITOR)
    }
    return (
        f'<link rel="stylesheet" href="{WEB}/cells.css">\n'
        f'<script type="importmap">{json.dumps({"imports": imports})}</script>\n'
        f'<meta name="minitensor-lesson" content="{html.escape(json.dumps(about))}">\n'
        f'<script type="module" src="{WEB}/cells.mjs"></script>\n'
        f"<script>{_FROM_DISK}</script>\n"
    )


# ---- pages without the documentation around them

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{web}/cells.css">
{head}</head>
<body class="mt-page">
<nav aria-label="Lessons">{before} <a href="index.html">All lessons</a> {after}</nav>
<main>
{body}
</main>
</body>
</html>
"""


def write_site(folder: Path, kept: Path) -> str:
    """Write all lessons as pages whose cells run, a page that lists them, and their files; what is
    lacking, or "" (see `assets.gathered`).

    kept  a folder in which files of others stay for the next time

    Raises AssetError, or ArgumentError without the package Markdown.
    """
    lacking = gathered(kept)
    markdown = markdown_package()
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, kept)
    name, _ = archive()
    shutil.copytree(PICTURES, folder / PICTURES.name, dirs_exist_ok=True)
    every = lessons()
    for before, lesson, after in zip([None, *every], every, [*every[1:], None]):
        body = as_html(markdown, lesson_markdown(lesson))
        page = _page(lesson.title, body, head(lesson, name, not lacking), before, after)
        (folder / f"{lesson.name}.html").write_text(page, encoding="utf-8")
    listed = (ROOT / "README.md").read_text(encoding="utf-8").partition("\nThen\n")[0]
    body = as_html(markdown, re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", listed))
    (folder / "index.html").write_text(_page("Tutorials", body, ""), encoding="utf-8")
    return lacking


def markdown_package() -> ModuleType:
    """The package Markdown. Raises ArgumentError without it."""
    try:
        return importlib.import_module("markdown")
    except ImportError:
        raise ArgumentError(
            "pages need the package Markdown: python -m pip install 'minitensor[course]'"
        ) from None


def as_html(markdown: ModuleType, text: str) -> str:
    """Markdown as HTML."""
    extensions = ["tables", "fenced_code", "md_in_html", "toc", "sane_lists"]
    return str(markdown.markdown(_LINK.sub(r"](\1.html", text), extensions=extensions))


def _page(
    title: str, body: str, head: str, before: Lesson | None = None, after: Lesson | None = None
) -> str:
    links = [
        f'<a href="{lesson.name}.html">{html.escape(text)}</a>' if lesson else ""
        for lesson, text in ((before, "← Before"), (after, "Next →"))
    ]
    title = html.escape(re.sub(r"[`*]", "", title))
    return _PAGE.format(title=title, head=head, body=body, web=WEB, before=links[0], after=links[1])
