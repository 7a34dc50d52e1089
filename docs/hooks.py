"""What MkDocs needs beside mkdocs.yml: pages that are kept elsewhere, their links, docstrings.

README.md, CONTRIBUTING.md and the tutorials become pages without a second copy of their text. A
link to a file that is no page (a folder of code) becomes its name.
"""

import logging
import os
import pathlib
import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.docstrings import markdown
from docs.lessons import LessonError, lesson_page, outputs, page_of
from tutorials.course.lessons import PICTURES, Lesson, lessons
from tutorials.web.assets import AssetError, gathered, has_compiler
from tutorials.web.pages import archive, head, write_files

ROOT = pathlib.Path(__file__).parents[1]
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
ALONE = {
    **{page: ["navigation"] for page in ("index.md", "faq.md", "cheat_sheet.md")},
    "glossary.md": ["navigation", "toc"],
}
"""What is left out beside a page that is a section of its own: the glossary needs the width."""
LESSONS = {f"tutorials/{lesson.path.name}": lesson for lesson in lessons()}
KEPT = ROOT / "build" / "web"
"""Files of others that cells need to run in a browser."""
log = logging.getLogger("mkdocs")
RUNS: list[str] = []
"""The name of the archive with minitensor, if cells run in these pages."""
CODE = re.compile(r"(^```.*?^```$|^ {4}[^\n]*$|`[^`\n]+`)", re.M | re.S)


def pages_elsewhere() -> dict[str, str]:
    """Paths in the site of the pages that are kept outside docs/, and their files' paths."""
    found = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
    found["learn/index.md"] = "tutorials/README.md"
    for path in sorted((ROOT / "tutorials").glob("[0-9]*.py")):
        found[f"learn/{path.stem}.md"] = path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "tutorials" / "schedules").glob("*.py")):
        name = path.stem.replace("__init__", "index")
        found[f"learn/schedules/{name}.md"] = path.relative_to(ROOT).as_posix()
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the lessons, and the schedules by hand, behind the page that lists them."""
    pages = [page for page in pages_elsewhere() if page.startswith("learn/")]
    lessons = [page for page in pages if page.count("/") == 1]
    schedules = [page for page in pages if page.count("/") == 2]
    for entry in config.nav or []:
        if "Learn" in entry:
            first, *others = schedules
            by_name = [{pathlib.Path(page).stem: page} for page in others]
            entry["Learn"] = [*lessons, {"Schedules by hand": [first, *by_name]}]
    return config


def failures() -> list[str]:
    """Run the lessons; what those that fail say. The outputs of the others are kept for pages."""

    def said(lesson: Lesson) -> str:
        try:
            outputs(lesson)
        except LessonError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(said, LESSONS.values()) if text]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept elsewhere."""
    if said := failures():
        raise PluginError("\n\n".join(said))
    for target, source in pages_elsewhere().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source in LESSONS:
            text = lesson_page(LESSONS[source])
        elif source.endswith(".py"):
            text = page_of(text)
        files.append(File.generated(config, target, content=text))
    for drawn in sorted(PICTURES.glob("*.svg")):
        picture = drawn.read_text(encoding="utf-8")
        files.append(File.generated(config, f"learn/pictures/{drawn.name}", content=picture))
    return files


def on_pre_build(config: MkDocsConfig) -> None:
    """Fetch the files by which cells run in a browser; pages without them are as good to read."""
    RUNS.clear()
    try:
        lacking = gathered(KEPT)
    except AssetError as failure:
        log.info("the cells of lessons do not run in these pages: %s", failure.message)
    else:
        RUNS.append(archive()[0])
        if lacking:
            log.info("%s", lacking)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Make the cells of a lesson run."""
    lesson = LESSONS.get(pages_elsewhere().get(page.file.src_uri, ""))
    if lesson is None or not RUNS:
        return output
    return output.replace("</head>", head(lesson, RUNS[0], has_compiler(KEPT)) + "</head>", 1)


def on_post_build(config: MkDocsConfig) -> None:
    """Write what the cells need beside the pages of the lessons."""
    if RUNS:
        write_files(pathlib.Path(config.site_dir) / "learn", KEPT)


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    if here in ALONE:
        page.meta["hide"] = ALONE[here]
    source = pages_elsewhere().get(here, f"docs/{here}")
    parts = CODE.split(text)
    parts[::2] = [LINK.sub(lambda m: relinked(m, source, here, files), p) for p in parts[::2]]
    return "".join(parts)


def title_of(source: str) -> str:
    """The first heading of a page: a better text for a link than the name of its file."""
    lines = (ROOT / source).read_text(encoding="utf-8").splitlines()
    return next(line[2:] for line in lines if line.startswith("# "))


def relinked(link: re.Match[str], source: str, here: str, files: Files) -> str:
    """A link as it is in the site."""
    text, target = link[1], link[2]
    path, mark, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    full = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    elsewhere = {kept: there for there, kept in pages_elsewhere().items()}
    full = f"{full}/__init__.py" if f"{full}/__init__.py" in elsewhere else full
    there = elsewhere.get(full, full.removeprefix("docs/"))
    there = there.replace("tutorials/pictures/", "learn/pictures/")
    if link[0].startswith("!"):
        return f"![{text}]({posixpath.relpath(there, posixpath.dirname(here))})"
    if files.get_file_from_path(there):
        text = title_of(full) if text.strip("`").endswith(".md") else text
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(here))}{mark}{anchor})"
    if (ROOT / full).exists():
        return f"`{full}`" if full.startswith(text.strip("`/")) else f"{text} (`{full}`)"
    return link[0]  # wrong: the build says so


class Docstrings(griffe.Extension):
    """Docstrings are written for people who read the code: Markdown is made of them here."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
