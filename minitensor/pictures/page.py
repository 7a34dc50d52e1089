"""One HTML file with pictures: it loads nothing, runs nothing, and fits a telephone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from minitensor.errors import ArgumentError, printable, unexpected
from minitensor.looks import as_html
from minitensor.pictures.svg import SHEET, Picture, cleaned, escaped, fitted

LONGEST_TITLE: Final = 100
NATURAL: Final = 0.72
"""The least part of its own size to which a picture is scaled; a narrower window scrolls it."""

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:70rem;"
    "background:#fff;color:#1f2328}"
    "h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.2rem 0 .5rem;"
    "overflow-wrap:anywhere}nav a{margin-right:1rem;white-space:nowrap}a{color:#0f6cbf}"
    "figure{margin:0}.scroll{overflow-x:auto}.scroll svg{max-width:100%;height:auto;display:block}"
    "pre{overflow:auto;max-height:30rem;font:12px/1.35 ui-monospace,Menlo,monospace;margin:.5rem 0}"
    "details{margin-top:.4rem}summary,label{cursor:pointer}p{overflow-wrap:anywhere;margin:.4rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}a{color:#58b0f5}}"
    ".play:not(:checked)~.scroll .visits *{animation:none!important}"
)
_HEAD: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    '<meta name="generator" content="minitensor">\n'
    '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none';style-src 'unsafe-inline'\">\n"
)
_OWN: Final = (_HEAD[:100].encode(), b'<svg xmlns="http://www.w3.org/2000/svg" viewBox=')
"""Beginnings of files that may be written anew: those of ours."""


def page_of(
    title: str,
    pictures: Sequence[Picture],
    lines: Iterable[str] = (),
    code: Sequence[tuple[str, str]] = (),
) -> str:
    """A page as text.

    lines  sentences under the title: what is shown, and what is left out
    code   (heading, text) of programs and schedules, under the pictures
    """
    named = escaped(fitted(title, LONGEST_TITLE))
    links = [f'<a href="#p{n}">{escaped(one.title)}</a>' for n, one in enumerate(pictures)]
    parts = [
        f"{_HEAD}<title>{named}</title><style>{_STYLE}{SHEET}</style></head>\n<body><h1>{named}</h1>",
        *(f"<p>{escaped(line)}</p>" for line in lines),
        f"<nav>{' '.join(links)}</nav>" if len(links) > 1 else "",
        *(_figure(one, f"p{n}") for n, one in enumerate(pictures)),
        *(f"<h2>{escaped(heading)}</h2>{as_html(cleaned(text))}" for heading, text in code),
        "</body></html>\n",
    ]
    return "\n".join(filter(None, parts))


class Gallery(tuple[Picture, ...]):
    """Pictures that a notebook shows one below the other."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "\n".join(picture.svg() for picture in self)


def _figure(picture: Picture, key: str) -> str:
    least = f'style="min-width:{min(NATURAL * picture.width, 4000):.0f}px"'
    play = (
        f'<input type="checkbox" class="play" id="{key}-play"> '
        f'<label for="{key}-play">play the animation</label>'
    )
    drawn = picture.svg(key).replace("<svg", f"<svg {least}", 1)
    name = escaped(picture.title)
    return (
        f'<section id="{key}"><h2>{name}</h2><figure>{play if picture.moves else ""}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{drawn}</div>'
        f"<details><summary>as text</summary><pre>{escaped(picture.text)}</pre></details>"
        "</figure></section>"
    )


def folder_of(path: str | os.PathLike[str]) -> Path:
    """A folder for pictures, made if it is missing. Raises ArgumentError if there can be none."""
    folder = _path("the path of a folder", "folder", path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "no folder can have that name"
        reason = "it is a file, no folder" if isinstance(failure, FileExistsError) else reason
        raise ArgumentError(f"cannot write to {printable(str(path))}: {reason}") from failure
    return folder


def write(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page or a picture. Raises ArgumentError for a path that cannot be written, or that
    holds something else.
    """
    target, foreign = _path("the path of a file", "path", path), False
    name = os.fspath(path)
    try:
        if target.is_file():
            with target.open("rb") as file:
                foreign = not file.read(400).startswith(_OWN)
        if not foreign:
            target.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "no file can have that name"
        raise ArgumentError(f"{printable(name)} cannot be written: {reason}") from failure
    if foreign:
        raise ArgumentError(
            f"{printable(name)} is there, and no page of minitensor: choose another name"
        )
    return target


def _path(what: str, argument: str, given: object) -> Path:
    """A path of a user's. Raises ArgumentError for what is none."""
    name = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise unexpected(what, argument, given)
    return Path(name).expanduser()
