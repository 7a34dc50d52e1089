"""A tree from left to right: nodes with lines of text, and words on the way to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from minitensor.pictures.svg import Picture, fitted, label, tag, width_of

NODES: Final = 160
"""The most nodes that are drawn."""
COLUMNS: Final = 44
"""The most characters of a line."""
_ROW, _GAP, _SPACE = 16.0, 10.0, 26.0


@dataclass
class Branch:
    """A node and what is below it.

    lines   its text
    edge    words on the way to it; "" for none
    colour  of its box: a name of a hue, or "" for a plain one
    fill    part of that hue, from 0 to 1
    """

    lines: list[str]
    edge: str = ""
    colour: str = "blue"
    fill: float = 0.11
    below: list[Branch] = field(default_factory=list)

    def count(self) -> int:
        """The number of nodes."""
        return 1 + sum(branch.count() for branch in self.below)


def pruned(root: Branch, most: int = NODES) -> tuple[Branch, int]:
    """The tree with at most so many nodes, those near the root; and how many are left out."""
    kept = Branch(root.lines, root.edge, root.colour, root.fill)
    level, room = [(root, kept)], most - 1
    while level:
        following = []
        for source, made in level:
            if len(source.below) > room:
                hidden = sum(branch.count() for branch in source.below)
                if hidden:
                    made.lines = [*made.lines, f"… {hidden:,} more nodes"]
                continue
            room -= len(source.below)
            for one in source.below:
                copy = Branch(one.lines, one.edge, one.colour, one.fill)
                made.below.append(copy)
                following.append((one, copy))
        level = following
    return kept, root.count() - kept.count()


def text_of(root: Branch) -> list[str]:
    """The tree in lines."""
    lines: list[str] = []
    stack = [(root, 0)]
    while stack:
        branch, depth = stack.pop()
        edge = f"{branch.edge}: " if branch.edge else ""
        lines.append("  " * depth + edge + "; ".join(branch.lines))
        stack += [(below, depth + 1) for below in reversed(branch.below)]
    return lines


def tree_picture(name: str, title: str, root: Branch, text: str = "", most: int = NODES) -> Picture:
    """A tree as a picture.

    text  a sentence before the tree in words
    """
    kept, left_out = pruned(root, most)
    widths: list[float] = []
    edges: list[float] = []
    _measure(kept, 0, widths, edges)
    starts = [12.0]
    for depth, width in enumerate(widths[:-1]):
        starts.append(starts[depth] + width + _SPACE + edges[depth + 1])
    parts: list[str] = []
    bottom, _ = _draw(kept, 0, 10.0, starts, widths, parts)
    words = [text] if text else []
    if left_out:
        words.append(f"Left out: {left_out:,} nodes of {root.count():,}.")
        parts.append(label(words[-1], 12, bottom + 14, "bold"))
        bottom += 22
    width = max(starts[-1] + widths[-1] + 14, 260.0)
    whole = "\n".join([*words, *([""] if words else []), *text_of(kept)])
    return Picture(name, title, whole, width, max(bottom, 60.0), "".join(parts))


def _lines(branch: Branch) -> list[str]:
    return [fitted(line, COLUMNS) for line in branch.lines]


def _measure(branch: Branch, depth: int, widths: list[float], edges: list[float]) -> None:
    """Find the width of each column of nodes, and of the words before it."""
    if depth == len(widths):
        widths.append(0.0)
        edges.append(0.0)
    widths[depth] = max([widths[depth], *(width_of(line) + 14 for line in _lines(branch))])
    edge = width_of(fitted(branch.edge, COLUMNS)) if branch.edge else 0.0
    edges[depth] = max(edges[depth], edge)
    for below in branch.below:
        _measure(below, depth + 1, widths, edges)


def _height(branch: Branch) -> float:
    """The height of a node and all below it."""
    own = len(branch.lines) * _ROW + 8 + _GAP
    return max(own, sum(map(_height, branch.below)))


def _draw(
    branch: Branch,
    depth: int,
    top: float,
    starts: list[float],
    widths: list[float],
    parts: list[str],
) -> tuple[float, float]:
    """Draw a node right of its parent; the lower end of all below it, and its own middle."""
    lines = _lines(branch)
    height = len(lines) * _ROW + 8
    middles: list[tuple[Branch, float]] = []
    end = top + max(0.0, (height + _GAP - sum(map(_height, branch.below))) / 2)
    for below in branch.below:
        end, middle = _draw(below, depth + 1, end, starts, widths, parts)
        middles.append((below, middle))
    middle = (middles[0][1] + middles[-1][1]) / 2 if middles else top + height / 2
    middle = max(middle, top + height / 2)
    x, y = starts[depth], middle - height / 2
    width = max(width_of(line) for line in lines) + 14
    for below, other in middles:
        left, right = x + width, starts[depth + 1]
        bend = starts[depth] + widths[depth] + _SPACE / 2
        path = f"M{left:.5g} {middle:.5g}H{bend:.5g}V{other:.5g}H{right:.5g}"
        parts.append(tag("path", d=path, class_="axis"))
        if below.edge:
            parts.append(label(fitted(below.edge, COLUMNS), bend + 5, other - 4, "faint"))
    look = f"box {branch.colour}" if branch.colour else "leaf"
    fill = f"fill-opacity:{branch.fill:.2f}" if branch.colour else ""
    box = {"x": x, "y": y, "width": width, "height": height, "rx": 4}
    parts.append(tag("rect", class_="ground", **box))
    parts.append(tag("rect", class_=look, style=fill, **box))
    parts += [label(line, x + 7, y + _ROW * (n + 1) - 1) for n, line in enumerate(lines)]
    return max(end, y + height + _GAP), middle
