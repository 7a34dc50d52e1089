"""The output of commands: headings, code, differences and tables, coloured on a terminal.

Off a terminal, or with NO_COLOR set, the same text comes plain. With `rich` installed code is
coloured by its grammar; without it, code is plain and the rest is the same.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

PLAIN_WIDTH: Final = 100
"""Columns where there is no terminal."""

_CODES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


@dataclass(frozen=True, slots=True)
class Console:
    """Prints to a stream.

    colour  whether to use the terminal's colours
    width   columns at which running text is folded
    """

    stream: TextIO
    colour: bool
    width: int

    @staticmethod
    def of_process() -> Console:
        """The console for standard output, as the terminal and NO_COLOR demand."""
        terminal = sys.stdout.isatty()
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size().columns if terminal else PLAIN_WIDTH
        return Console(sys.stdout, colour, width)

    def print(self, text: str = "") -> None:
        """Print a text as it is, at once."""
        print(text, file=self.stream, flush=True)

    def json(self, value: object) -> None:
        """Print a value of JSON's types."""
        self.print(json.dumps(value, indent=1))

    def styled(self, text: str, *styles: str) -> str:
        """The text in a style: bold, dim, or the name of a colour."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(str(_CODES[s]) for s in styles)}m{text}\x1b[0m"

    def heading(self, text: str) -> None:
        """Print a heading with a rule below."""
        self.print()
        self.print(self.styled(text, "bold"))
        self.print(self.styled("-" * min(len(text), self.width), "dim"))

    def paragraph(self, text: str) -> None:
        """Print running text, folded at the width."""
        width = min(self.width, PLAIN_WIDTH)
        self.print(textwrap.fill(text, width, break_on_hyphens=False))

    def code(self, text: str) -> str:
        """Python, or a loop nest, coloured by its grammar if that can be done."""
        return _highlighted(text) if self.colour else text

    def difference(self, before: str, after: str) -> str:
        """The difference of two texts: lines that went (-) and that came (+), with one around."""
        styles = {"-": "red", "+": "green"}
        lines = [
            self.styled(line, styles.get(line[0], "dim")) for line in _difference(before, after)
        ]
        return "\n".join(lines) or "  (no change)"


def aligned(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """The rows as lines with aligned columns; the columns `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    to_right = set(right)
    return [
        "  ".join(
            cell.rjust(width) if n in to_right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def counted(count: int, noun: str) -> str:
    """A number of things: "1 thread", "2 threads"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def indented(text: str, by: int = 4) -> str:
    """The text with every line moved to the right."""
    return "\n".join(" " * by + line if line else line for line in text.splitlines())


def _difference(before: str, after: str) -> list[str]:
    """The lines of a unified difference without its headers; "  ..." between distant places."""
    lines: list[str] = []
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    for line in found:
        if line.startswith("@@"):
            lines.append("  ...")
        elif not line.startswith(("---", "+++")):
            lines.append(f"{line[:1]} {line[1:]}")
    return lines[1:]


def _highlighted(text: str) -> str:
    """The text with the terminal codes of `rich`, or as it is without that."""
    try:
        from rich.console import Console as RichConsole  # noqa: PLC0415 - optional
        from rich.syntax import Syntax  # noqa: PLC0415 - optional
    except ImportError:
        return text
    coloured = io.StringIO()
    console = RichConsole(file=coloured, force_terminal=True, color_system="standard")
    syntax = Syntax(text, "python", theme="ansi_dark", background_color="default")
    console.print(syntax.highlight(text), end="", soft_wrap=True)
    return coloured.getvalue().rstrip("\n")
