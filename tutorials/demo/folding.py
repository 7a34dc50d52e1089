"""Lines of code folded at a width, where a slide would be."""

from __future__ import annotations


def fold(text: str, width: int) -> str:
    """The text with lines of at most `width` columns, where that is possible."""
    return "\n".join(part for line in text.splitlines() for part in _folded(line, width))


def _folded(line: str, width: int) -> list[str]:
    """A line of code cut at blanks into lines of at most `width` columns, where that is possible.

    What is cut off stands further to the right than where the line begins.
    """
    margin = " " * (len(line) - len(line.lstrip()) + 6)
    folded: list[str] = []
    while len(line) > width:
        cut = _cut(line, max(len(margin), width // 2), width)
        if cut is None:
            break
        folded.append(line[:cut])
        line = margin + line[cut + 1 :]
    return [*folded, line]


def _cut(line: str, low: int, high: int) -> int | None:
    """Where to cut a line: the last of the blanks in range that are inside the fewest brackets."""
    depth = 0
    best: tuple[int, int] | None = None
    for n, letter in enumerate(line[: high + 1]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and n > low and (best is None or depth <= best[0]):
            best = (depth, n)
    return None if best is None else best[1]
