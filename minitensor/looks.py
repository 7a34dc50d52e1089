"""The looks of things: text of a readable size, in colours where there are any.

A class with a `__str__` becomes one that shows itself by having `Shown` as a base: in a prompt, in
a notebook, and where rich prints. What is shown is cut; `str()` is whole.
"""

from __future__ import annotations

import difflib
import html
import os
import re
from collections.abc import Iterator
from typing import Any, Final

LINES: Final = 60
"""The most lines that are shown,"""
COLUMNS: Final = 120
"""and the most characters of one."""
LONGEST: Final = 1 << 16
"""The most characters that are looked at; more are not shown in any case."""

TOKEN: Final = re.compile(
    r"(?P<comment>(?:#|//).*)"
    r"|(?P<string>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<loop>\b(?:range|grid|parallel|vectorize|unroll|blockIdx|threadIdx|vthread)\b)"
    r"|(?P<word>\b(?:def|for|in|if|else|and|or|not|empty|return|import|from)\b)"
    r"|(?P<number>\b\d[\w.]*)"
)
"""Parts of the language in which programs and schedules are written."""
CODE: Final = re.compile(r"\s*(?:(?:def|for|if|elif|else|return|import|from)\b|\w[\w, .]*[=(\[])")
"""The beginning of a line in that language; in prose, "for" and "in" are words as others."""
FONT: Final = "var(--jp-code-font-family,ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace)"
"""For notebooks: the one of their code."""
STYLES: Final = {
    "comment": ("#6e7781", "#8b949e", "dim"),
    "string": ("#0a7c42", "#7ee787", "green"),
    "loop": ("#8250df", "#d2a8ff", "magenta"),
    "word": ("#cf222e", "#ff7b72", "red"),
    "number": ("#0550ae", "#79c0ff", "blue"),
}
"""For each part its colour on a light ground, on a dark one, and on a terminal."""


def _sheet() -> str:
    """The style sheet of a text: a notebook says what its ground is; elsewhere the system does."""
    light = "".join(f".mt-{kind}{{color:{a}}}" for kind, (a, _, _) in STYLES.items())
    dark = [(kind, b) for kind, (_, b, _) in STYLES.items()]
    ground = "body:not([data-jp-theme-light=true]):not(.vscode-light)"
    system = "".join(f"{ground} .mt-{kind}{{color:{b}}}" for kind, b in dark)
    jupyter = "".join(
        f"[data-jp-theme-light=false] .mt-{kind},.vscode-dark .mt-{kind}{{color:{b}}}"
        for kind, b in dark
    )
    return f"<style>{light}@media(prefers-color-scheme:dark){{{system}}}{jupyter}</style>"


def shortened(text: str, lines: int = LINES, columns: int = COLUMNS) -> str:
    """A text cut to so many lines and columns, with a word on what is left out."""
    cut = len(text) > LONGEST or text.endswith("\n…")
    found = text[:LONGEST].splitlines()
    if cut:
        found.append("…")
    if len(found) > lines:
        more = "more lines" if cut else f"{len(found) - lines + 1:,} more lines"
        found = [*found[: lines - 1], f"… {more}; str() has them all"]
    return "\n".join(_fitted(line, columns) for line in found)


def _fitted(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[: columns - 1] + "…"


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text, each with its kind; "" for all that has none."""
    for line in text.splitlines(keepends=True):
        is_code, end = CODE.match(line) is not None, 0
        for match in TOKEN.finditer(line):
            kind = match.lastgroup or ""
            if kind in ("loop", "word") and not is_code:
                continue
            if match.start() > end:
                yield line[end : match.start()], ""
            yield match[0], kind
            end = match.end()
        if end < len(line):
            yield line[end:], ""


def as_html(text: str) -> str:
    """A text with its parts in colours; what stands in it is escaped."""
    parts = [
        f'<span class="mt-{kind}">{html.escape(part)}</span>' if kind else html.escape(part)
        for part, kind in tokens(text)
    ]
    return f'{_sheet()}<pre style="line-height:1.3;font-family:{FONT}">{"".join(parts)}</pre>'


def readable_seconds(seconds: float) -> str:
    """A time as text: 1.21 s, 37.2 ms, 8.54 µs, 95 ns."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{figure(seconds / size)} {unit}"
    return f"{figure(seconds / 1e-9)} ns"


def readable_count(number: float, unit: str) -> str:
    """A large number of units as text: 17.2 GFLOP, 3.4 MB, 12 B."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{figure(number / size)} {prefix}{unit}"
    return f"{figure(number)} {unit}"


def figure(number: float) -> str:
    """A number with three digits that matter, a large one with all of them: never 1e+03."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


class Shown:
    """A base of what shows itself by its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return shortened(self._beginning())

    def _beginning(self) -> str:
        """The text, or of a long one as many lines as are shown, and then "…"."""
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(repr(self))

    def __rich__(self) -> Any:
        import rich.text  # noqa: PLC0415 - only rich asks for it

        found = rich.text.Text()
        for part, kind in tokens(repr(self)):
            found.append(part, style=STYLES[kind][2] if kind else "")
        return found


def shows_colours(stream: Any) -> bool:
    """Tell whether a stream is a terminal or the output of a notebook, and NO_COLOR is not set."""
    notebook = type(stream).__module__.startswith("ipykernel")
    return not os.environ.get("NO_COLOR") and (notebook or bool(stream.isatty()))


def difference(before: str, after: str) -> str:
    """The lines that differ between two texts, with two around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    body = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(body) if body else "(no change)"


def coloured(text: str) -> str:
    """A difference with the escapes of a terminal: what went in red, what came in green."""
    codes = {"-": "31", "+": "32"}
    return "\n".join(
        f"\x1b[{codes[line[0]]}m{line}\x1b[0m" if line[:1] in codes else line
        for line in text.splitlines()
    )


class Text(Shown, str):
    """A text that shows itself as it is, not between quotes."""

    __slots__ = ()

    def __str__(self) -> str:
        return str.__str__(self)


class Whole(Text):
    """A text that is shown to its end, for that is where the advice stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
