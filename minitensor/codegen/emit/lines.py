"""Lines of at most 100 columns: a longer one is broken at operators, with a hanging indent.

    store_float32x16(&C[i * 1024 + j * 16],
        max_float32x16(load_float32x16(&A[i * 1024 + j * 16]), splat_float32x16(0.0f)));

A line is broken where the fewest brackets are open, there at the operator that binds least, and of
several such places at the last that fits; behind an opening parenthesis only where no other place
fits. Directives and the text of intrinsics are not broken.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

WIDTH: Final = 100
INDENT: Final = "    "
DEEPEST: Final = 10
"""The most levels by which a line is indented: names must fit behind them."""
LONGEST_COMMENT: Final = 1000
"""The most characters of a line of a comment that are kept."""
MOST_HANGING: Final = 4
"""The most levels by which what continues a line is indented further."""
_COMMENT: Final = textwrap.TextWrapper(
    WIDTH, "// ", f"// {INDENT}", break_on_hyphens=False, drop_whitespace=True
)
_PLACE: Final = re.compile(
    r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<after>[;,] |(?<= )[-+*/]?= )"
    r"| (?=(?P<before>(?:\?|:|\|\||&&|==|!=|<=?|>=?|[&|]|>>|[-+*/%]) |__attribute__))"
)
_BINDING: Final = ("; ", ", ", "?", ":", "||", "&&", "|", "&", "==", "!=", "<", "<=", ">", ">=",
                   ">>", "+", "-", "*", "/", "%")  # fmt: skip
"""The operators to break at, from what binds least; assignments come last."""


def indented(text: str, depth: int) -> str:
    """A line at a depth of braces, not yet broken."""
    return INDENT * min(depth, DEEPEST) + text


def broken(line: str) -> list[str]:
    """A line of C as lines of at most WIDTH columns, as far as its words are short enough."""
    if len(line) <= WIDTH or line.startswith("#"):
        return [line]
    outer = line[: len(line) - len(line.lstrip())]
    places = [*_places(line), (len(line), (False, -1, -1))]
    lines, head, start, first = [], outer, len(outer), 0
    while start < len(line):
        reach = start + WIDTH - len(head)
        last = first
        for n in range(first, len(places)):
            if places[n][0] > reach:
                break
            if places[n][1] <= places[last][1]:
                last = n
        end, (_, depth, _) = places[last]
        lines.append((head + line[start:end].strip()).rstrip())
        head = outer + INDENT * min(max(1, depth), MOST_HANGING)
        start, first = end, last + 1
    return lines


def _places(line: str) -> Iterator[tuple[int, tuple[bool, int, int]]]:
    """The places where a line may be broken, each with its rank: behind a parenthesis or not, the
    open brackets, and binding.
    """
    depth = 0
    for found in _PLACE.finditer(line):
        if found["open"]:
            depth += 1
            if found["open"] == "(":
                yield found.end(), (True, depth, 0)
        elif found["close"]:
            depth -= 1
        else:
            word = found["after"] or found["before"].strip()
            binding = _BINDING.index(word) if word in _BINDING else len(_BINDING)
            yield found.end() if found["after"] else found.start(), (False, depth, binding)


def comment(text: str) -> list[str]:
    """The text as line comments, reduced to characters that cannot end one or begin anything: no
    backslash, nor the ??/ that stands for one.
    """
    lines = []
    for line in text.splitlines():
        kept = re.sub(r"[^A-Za-z0-9 _.,:;()\[\]{}=+\-*/%<>|&'\"]", "_", line[:LONGEST_COMMENT])
        lines += _COMMENT.wrap(kept) or ["//"]
    return lines


def signature(entry: str, parameters: list[str]) -> list[str]:
    """The lines that open a function."""
    line = f"int {entry}({', '.join(parameters)}) {{"
    if len(line) <= WIDTH:
        return [line]
    return [
        f"int {entry}(",
        *(f"{INDENT}{p}," for p in parameters[:-1]),
        f"{INDENT}{parameters[-1]}) {{",
    ]
