"""The order in which the elements of a buffer are visited: as a heat map, and as an animation."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.pictures.svg import VIRIDIS, Picture, fitted, label, tag, width_of
from minitensor.pictures.walk import (
    Joined,
    Mask,
    Numbers,
    Visits,
    in_order,
    indices_of,
    joined,
    places,
)

VISITS: Final = 1 << 18
"""The most iterations of a block that are followed for the heat map."""
FIRST: Final = 1 << 14
"""The same for the animation, and the order in words."""
CELLS: Final = 64
"""The most cells along an axis of a picture; more elements share one."""
MOVES: Final = 256
"""The most visits that the animation shows."""
SECONDS: Final = 0.06
"""The time of a visit in the animation."""
LISTED: Final = 12
"""The most visits that are listed in words."""
_SIDE, _LEFT, _TOP = 420.0, 64.0, 46.0

_MOTION: Final = (
    "<style>@keyframes mt-visit{0%{opacity:0;stroke-width:5}8%{opacity:1;stroke-width:5}"
    "100%{opacity:1;stroke-width:.5}}.visits *{stroke:var(--ink);stroke-width:.5;"
    "animation:mt-visit .7s both}@media(prefers-reduced-motion:reduce){.visits *"
    "{animation:none}}</style>"
)


@dataclass(frozen=True)
class _Walk:
    """Visits in order, each of a row and a column of the picture: arrays (visits,).

    step      the number of the visit; lanes that run together have the same
    sources   the accesses
    complete  whether these are all
    """

    row: Numbers
    column: Numbers
    step: Numbers
    visits: Joined
    sources: list[Visits]
    complete: bool

    def iteration(self, number: int) -> str:
        """The iteration of a visit, in words."""
        source = self.sources[int(self.visits.source[number])]
        place = int(self.visits.place[number])
        numbers = (f"{ir.print_name(v)}={int(n[place])}" for v, n in source.loops.items())
        return ", ".join(numbers) or "the only iteration"


def shape_of(buffer: ir.Buffer) -> tuple[int, int]:
    """The rows and columns in which a buffer is drawn: all axes but the last are rows; the elements
    of a vector go around after 64.
    """
    if len(buffer.shape) == 1:
        wrap = min(CELLS, buffer.shape[0])
        return math.ceil(buffer.shape[0] / max(1, wrap)), wrap
    return math.prod(buffer.shape[:-1]), buffer.shape[-1] if buffer.shape else 1


def _walked(program: ir.Program, buffer: ir.Buffer, most: int, moving: bool) -> _Walk | None:
    """The first visits of a buffer (see `in_order`); None if its indices depend on data."""
    found, horizon = in_order(program, buffer, most, moving)
    known = [v for v in found if v.indices is not None]
    if len(known) < len(found) or not known:
        return None
    every = joined(known, buffer.shape)
    every = every.at(every.time <= horizon)
    every = every.at(np.lexsort((every.element, every.time)))
    later = np.diff(every.time, prepend=-1) != 0
    step = np.cumsum(later) - 1
    fresh = later | (np.diff(every.element, prepend=-1) != 0)  # else a lane with the same element
    every, step = every.at(fresh), step[fresh]
    row, column = np.divmod(every.element, max(1, shape_of(buffer)[1]))
    return _Walk(row, column, step, every, known, math.isinf(horizon))


def order_pictures(program: ir.Program, name: str) -> list[Picture]:
    """The heat map of a buffer's elements by their first visit, and an animation of the first few
    hundred visits; none of a buffer that no block touches, or whose indices depend on data.
    """
    buffer = program.buffers[name]
    whole = _walked(program, buffer, VISITS, True)
    walk = _walked(program, buffer, FIRST, False)
    if whole is None or walk is None or not len(whole.row) or not len(walk.row):
        return []
    shown = fitted(ir.print_name(name), 40)
    rows, columns = shape_of(buffer)
    heat = _Grid(buffer, 0, 0, rows, columns)
    end = min(len(walk.row), MOVES)
    part = walk.step <= walk.step[end - 1] if end < len(walk.row) else np.ones(end, np.bool_)
    part[2 * MOVES :] = False
    near = _Grid(buffer, *_window(walk.row[part], walk.column[part], rows, columns))
    return [
        Picture(
            f"order-{name}",
            f"Order of visits: {shown}",
            _text(program, buffer, whole, walk),
            *heat.size,
            heat.picture(whole, np.ones(len(whole.row), np.bool_), False),
        ),
        Picture(
            f"visits-{name}",
            f"First visits, one by one: {shown}",
            _moves_text(buffer, walk, part),
            *near.size,
            _MOTION + near.picture(walk, part, True),
            moves=True,
        ),
    ]


def _window(row: Numbers, column: Numbers, rows: int, columns: int) -> tuple[int, int, int, int]:
    """The part of the grid that some visits are in: its first row and column, and its size."""
    top, left = int(row.min()), int(column.min())
    height, width = int(row.max()) - top + 1, int(column.max()) - left + 1
    return top, left, min(rows - top, max(height, 2)), min(columns - left, max(width, 2))


class _Grid:
    """A part of a buffer as a grid of cells, each of which may stand for several elements."""

    def __init__(self, buffer: ir.Buffer, top: int, left: int, rows: int, columns: int) -> None:
        self.top, self.left, self.rows, self.columns = top, left, rows, columns
        self.high, self.wide = math.ceil(rows / CELLS), math.ceil(columns / CELLS)
        self.lines, self.across = math.ceil(rows / self.high), math.ceil(columns / self.wide)
        self.cell = min(26.0, _SIDE / max(self.lines, self.across, 1))
        self._end = _TOP + self.lines * self.cell
        self._scale_x = _LEFT + max(self.across * self.cell, 190.0) + 24  # right of the note too
        self.head = fitted(f"{ir.print_name(buffer.name)}: {ir.print_type(buffer)}", 56)
        width = max(self._scale_x + 160, _LEFT + width_of(self.head))
        self.size = (width, max(self._end + 44, 170.0))

    def picture(self, walk: _Walk, part: Mask, moving: bool) -> str:
        """The cells that some visits touch, by the first of them; moving: each visit a cell."""
        row = (walk.row[part] - self.top) // self.high
        column = (walk.column[part] - self.left) // self.wide
        step = walk.step[part]
        colour = step * len(VIRIDIS) // (int(step[-1]) + 1) if len(step) else step
        cells = row * self.across + column
        _, first = np.unique(cells, return_index=True)
        body = [self._frame(), self._scale(walk, moving, int(step[-1]) + 1)]
        if not moving:
            chosen = first[np.argsort(step[first], kind="stable")]
            ranks = np.arange(len(chosen)) * len(VIRIDIS) // max(1, len(chosen))
            if len(chosen) < self.lines * self.across:
                blank = "blank: never visited" if walk.complete else "blank: later, or never"
                body.append(label(blank, _LEFT, self._end + 36, "faint"))
            return "".join(body) + self._areas(row[chosen], column[chosen], ranks)
        by_cell = dict(zip(cells[first].tolist(), colour[first].tolist()))
        body.append('<g class="visits">')
        for r, c, s, cell in zip(row.tolist(), column.tolist(), step.tolist(), cells.tolist()):
            x, y = _LEFT + c * self.cell, _TOP + r * self.cell
            body.append(
                f'<rect x="{x:.5g}" y="{y:.5g}" width="{self.cell:.4g}" height="{self.cell:.4g}" '
                f'fill="{VIRIDIS[by_cell[cell]]}" style="animation-delay:{s * SECONDS:.4g}s"/>'
            )
        return "".join(body) + "</g>" + self._path(row, column, step)

    def _path(self, row: Numbers, column: Numbers, step: Numbers) -> str:
        """A line through the middles of the cells in order, where no lanes run together."""
        if len(np.unique(step)) < len(step) or len(step) < 2:
            return ""
        points = " ".join(
            f"{_LEFT + (c + 0.5) * self.cell:.5g},{_TOP + (r + 0.5) * self.cell:.5g}"
            for r, c in zip(row.tolist(), column.tolist())
        )
        return tag("polyline", points=points, class_="axis", stroke_opacity=0.8)

    def _areas(self, row: Numbers, column: Numbers, colour: Numbers) -> str:
        """The cells, neighbours in a line of one colour as one area; one path for each colour."""
        order = np.lexsort((column, row))
        paths: dict[int, list[str]] = {}
        run: tuple[int, int, int, int] | None = None  # row, first column, last, colour
        cells = zip(row[order].tolist(), column[order].tolist(), colour[order].tolist())
        for r, c, k in [*cells, (-1, -1, -1)]:
            if run is not None and (r, c - 1, k) == (run[0], run[2], run[3]):
                run = (r, run[1], c, k)
                continue
            if run is not None:
                width = (run[2] - run[1] + 1) * self.cell
                x, y = _LEFT + run[1] * self.cell, _TOP + run[0] * self.cell
                paths.setdefault(run[3], []).append(f"M{x:.5g} {y:.5g}h{width:.5g}")
            run = (r, c, c, k)
        return "".join(
            f'<path d="{"".join(paths[k])}" transform="translate(0 {self.cell / 2:.4g})" '
            f'stroke="{VIRIDIS[k]}" stroke-width="{self.cell + 0.2:.4g}"/>'
            for k in sorted(paths)
        )

    def _frame(self) -> str:
        """The border of the grid, and the numbers of its rows and columns."""
        width, height = self.across * self.cell, self.lines * self.cell
        bottom, right = self.top + self.rows - 1, self.left + self.columns - 1
        low = height < 26
        first = f"{self.top:,}-{bottom:,}" if low and self.rows > 1 else f"{self.top:,}"
        side, edge = "end" if width > 60 else "start", _LEFT + max(width, 40)
        found = [
            label(self.head, _LEFT, 16, "bold"),
            tag("rect", x=_LEFT, y=_TOP, width=width, height=height, class_="rule"),
            label(first, _LEFT - 6, _TOP + 10, "faint", "end"),
            label(f"{self.left:,}", _LEFT, _TOP - 6, "faint"),
            label(self._note(), _LEFT, self._end + 20, "faint"),
        ]
        if self.rows > 1 and not low:
            found.append(label(f"{bottom:,}", _LEFT - 6, self._end - 2, "faint", "end"))
        if self.columns > 1:
            found.append(label(f"{right:,}", edge, _TOP - 6, "faint", side))
        return "".join(found)

    def _note(self) -> str:
        if self.high * self.wide > 1:
            return f"a cell is {self.high} x {self.wide} elements"
        return "a cell is an element"

    def _scale(self, walk: _Walk, moving: bool, steps: int) -> str:
        """The colours, from the first to the last."""
        x, y = self._scale_x, _TOP
        high = 6.0
        stripes = "".join(
            tag("rect", x=x, y=y + n * high, width=14, height=high + 0.2, fill=colour)
            for n, colour in enumerate(VIRIDIS)
        )
        end = y + len(VIRIDIS) * high
        last = f"step {steps:,}" if moving else "last" if walk.complete else "last that is drawn"
        words = label("first", x + 20, y + 10, "faint") + label(last, x + 20, end, "faint")
        return stripes + words


# ---- in words


def _element(buffer: ir.Buffer, element: int) -> str:
    return f"{ir.print_name(buffer.name)}[{', '.join(map(str, indices_of(element, buffer.shape)))}]"


def _text(program: ir.Program, buffer: ir.Buffer, whole: _Walk, walk: _Walk) -> str:
    """The heat map in words.

    whole  the first visit of each element, walk  all visits at the beginning
    """
    elements = int(np.count_nonzero(np.diff(np.sort(whole.visits.element), prepend=-1)))
    total = math.prod(buffer.shape)
    often = sum(place.visits(buffer.name) for place in places(program.body, buffer.name))
    lines = [
        f"{ir.print_name(buffer.name)} is visited {often:,} times, less what guards leave out. "
        f"The picture shows the first visit of {elements:,} of its {total:,} elements"
        + ("." if whole.complete else "; those that are visited later are left out.")
    ]
    if len(buffer.shape) == 1 and total > CELLS:
        lines.append(f"Its elements are drawn in rows of {CELLS}.")
    elif len(buffer.shape) > 2:
        axes = ", ".join(map(str, buffer.shape[:-1]))
        lines.append(f"The axes but the last ({axes}) are rows, one below the other.")
    kinds = {loop.kind for v in walk.sources for loop in ir.paths(program)[v.block.name]}
    if any(kind.is_concurrent and kind is not ir.LoopKind.VECTORIZE for kind in kinds):
        lines.append("Parallel iterations are shown one after the other: their order is open.")
    if ir.LoopKind.VECTORIZE in kinds:
        lines.append("The lanes of a vectorized loop are one step.")
    lines += _strides(buffer, walk)
    lines += ["", *_listed(buffer, walk, np.ones(len(walk.row), np.bool_))]
    return "\n".join(lines)


def _strides(buffer: ir.Buffer, walk: _Walk) -> list[str]:
    """The most frequent distances between an element and the one that is visited next."""
    flat = walk.visits.element
    begins = np.flatnonzero(np.diff(walk.step, prepend=-1))
    jumps = Counter(np.diff(flat[begins]).tolist())
    total = sum(jumps.values())
    if not total:
        return []
    said = ", ".join(f"{jump:+,} ({100 * n / total:.0f} %)" for jump, n in jumps.most_common(4))
    return [f"From one step to the next, in elements: {said}."]


def _listed(buffer: ir.Buffer, walk: _Walk, part: Mask) -> list[str]:
    """The first steps, a line for each."""
    lines, numbers = [], np.flatnonzero(part)
    for step in np.unique(walk.step[numbers])[:LISTED]:
        same = numbers[walk.step[numbers] == step]
        first, last = int(same[0]), int(same[-1])
        ends = [_element(buffer, int(walk.visits.element[n])) for n in (first, last)]
        where = ends[0] if first == last else f"{ends[0]} … {ends[1]} ({len(same)} lanes)"
        verb = "written" if walk.visits.writes[first] else "read"
        lines.append(f"step {int(step) + 1}: {where} {verb} by {walk.iteration(first)}")
    return lines


def _moves_text(buffer: ir.Buffer, walk: _Walk, part: Mask) -> str:
    count = int(part.sum())
    more = "" if count == len(walk.row) else ", of which there are more"
    head = f"The first {count:,} visits{more}; each appears {SECONDS * 1000:.0f} ms after the last."
    return "\n".join([head, "", *_listed(buffer, walk, part)])
