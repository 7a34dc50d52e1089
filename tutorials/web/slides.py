"""Slides of a lesson, of its own words and pictures: HTML that a browser shows, and prints as PDF.

A section gives a slide with the first sentence of each paragraph, one for each question that is to
be predicted, one for each picture, and one for each cell of code that fits. Arrow keys turn them.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from minitensor.errors import ArgumentError

from ..course.lessons import PICTURES, Lesson
from .pages import as_html, markdown_package, without_pictures

LINES: Final = 18
"""The most lines of code on a slide."""
SENTENCES: Final = 6
"""The most sentences on a slide."""
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS: Final = 60.0
_ENDS: Final = ("## Tasks", "## Sources")
_QUESTION: Final = "**Predict first.**"
_SENTENCE: Final = re.compile(r"(.+?[.?!])(?= [A-Z`*(]|$)", re.S)
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
@page {{ size: 13.333in 7.5in; margin: 0; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: #fff; color: #1f2328; font: 26px/1.45 system-ui, sans-serif; }}
section {{
  width: 13.333in; height: 7.5in; padding: .7in .9in; overflow: hidden; break-after: page;
  display: flex; flex-direction: column; border-bottom: 1px solid #c8ccd2;
}}
section.title {{ justify-content: center; }}
h1 {{ font-size: 48px; line-height: 1.2; }}
h2 {{ font-size: 36px; margin: 0 0 .3in; color: #00695c; }}
li {{ margin-bottom: .12in; }}
pre {{ font-size: 19px; line-height: 1.4; background: #f4f5f7; padding: .25in; overflow: hidden; }}
code {{ font-family: ui-monospace, monospace; font-size: .9em; }}
.question {{ font-size: 32px; border-left: 6px solid #00695c; padding-left: .3in; }}
svg {{ max-width: 100%; flex: 1; min-height: 0; }}
footer {{ margin-top: auto; font-size: 16px; color: #4d545c; }}
@media screen {{ section {{ margin: .2in auto; box-shadow: 0 1px 8px #0003; }} }}
</style>
</head>
<body>
{slides}
<script>
addEventListener("keydown", (event) => {{
  const step = {{ ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }}[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...document.querySelectorAll("section")];
  const tops = all.map((one) => Math.abs(one.getBoundingClientRect().top));
  const at = tops.indexOf(Math.min(...tops));
  all[Math.max(0, Math.min(all.length - 1, at + step))].scrollIntoView();
}});
</script>
</body>
</html>
"""


def write_slides(lesson: Lesson, folder: Path) -> list[Path]:
    """Write NAME.html, and NAME.pdf if there is a Chromium on PATH; the files.

    Raises ArgumentError without the package Markdown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{lesson.name}.html"
    page.write_text(slides(lesson), encoding="utf-8")
    found = [page]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is not None:
        printed = page.with_suffix(".pdf")
        _print(browser, page, printed)
        found.append(printed)
    return found


def slides(lesson: Lesson) -> str:
    """The slides of a lesson as one page."""
    bodies = list(_slides(lesson))
    count = len(bodies)
    title = html.escape(re.sub(r"[`*]", "", lesson.title))
    foot = f"<footer>{lesson.number} {title}"
    first = f'<section class="title"><h1>{title}</h1>{bodies[0]}</section>'
    others = (
        f"<section>{x}{foot} · {n} / {count}</footer></section>" for n, x in _numbered(bodies)
    )
    return _PAGE.format(title=title, slides="\n".join([first, *others]))


def _numbered(bodies: list[str]) -> Iterator[tuple[int, str]]:
    return ((number, body) for number, body in enumerate(bodies, 1) if number > 1)


def _slides(lesson: Lesson) -> Iterator[str]:
    """The inside of each slide, the first of the title."""
    markdown = markdown_package()
    heading, able = "", ""
    points: list[str] = []
    for cell in lesson.cells:
        if cell.kind == "code":
            yield from _of_code(heading, _listed(markdown, points), cell.text, len(points))
            points.clear()
            continue
        for section in re.split(r"^(?=#{1,2} )", cell.text, flags=re.M):
            if points and section.startswith("#"):
                yield heading + _listed(markdown, points)
                points.clear()
            if section.startswith(_ENDS):
                return
            line, _, rest = (
                section.partition("\n") if section.startswith("#") else ("", "", section)
            )
            heading = as_html(markdown, f"## {line.lstrip('# ')}") if line else heading
            for paragraph in filter(str.strip, re.split(r"\n\s*\n", rest.strip("\n"))):
                if not able:
                    able = as_html(markdown, paragraph)
                    yield able
                elif _QUESTION in paragraph:
                    before, _, asked = paragraph.partition(_QUESTION)
                    points += _points(before) if before.strip() else []
                    question = as_html(markdown, _QUESTION + asked)
                    yield f'{heading}<div class="question">{question}</div>'
                else:
                    points += _points(paragraph)
                while len(points) > SENTENCES:
                    yield heading + _listed(markdown, points[:SENTENCES])
                    del points[:SENTENCES]


def _points(paragraph: str) -> list[str]:
    """The lines of a slide for a paragraph, as Markdown; none for an aside."""
    if paragraph.startswith("("):
        return []
    if paragraph.startswith(("|", ">", "    ")):
        return [paragraph]
    items = re.split(r"^(?:- |\d\. )", paragraph, flags=re.M)
    return [f"- {_first(item)}" for item in items if item.strip()]


def _listed(markdown: ModuleType, points: list[str]) -> str:
    """Points, tables and formulas below each other."""
    return as_html(markdown, "\n\n".join(points))


def _of_code(heading: str, before: str, text: str, points: int) -> Iterator[str]:
    """The slides of a cell: its code below what was said before, if both fit, and its pictures."""
    code, drawn = without_pictures(text)
    lines = len(code.splitlines())
    shown = code and lines <= LINES and "import" not in code.split()
    listing = f"<pre><code>{html.escape(code)}</code></pre>" if shown else ""
    if before and lines + 3 * points > LINES:
        yield heading + before
        before = ""
    if before or listing:
        yield heading + before + listing
    for name in drawn:
        yield heading + (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def _first(paragraph: str) -> str:
    """The first sentence of a paragraph, in one line."""
    line = " ".join(paragraph.split())
    found = _SENTENCE.match(line)
    return found[1] if found else line


def _print(browser: str, page: Path, to: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        words += [f"--user-data-dir={profile}", "--no-pdf-header-footer", f"--print-to-pdf={to}"]
        try:
            subprocess.run(
                [*words, page.absolute().as_uri()],
                check=True,
                capture_output=True,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.SubprocessError):
            raise ArgumentError(
                f"{browser} does not print {page.name} as PDF; open it there, and print it"
            ) from None
