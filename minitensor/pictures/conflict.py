"""Two iterations of a loop that touch one element, one of them writing: why a step is refused.

They are found by looking: the loops outside stand at their first iteration, and of the loop and
those inside it a bounded number of iterations is computed. `schedule.dependence` decides by proof;
so a refusal may come from what no pair within the bound shows, or from data.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from minitensor import ir
from minitensor.pictures.svg import Picture, fitted, label, tag, width_of
from minitensor.pictures.walk import Visits, indices_of, joined, visits

ITERATIONS: Final = 1 << 15
"""The most iterations of a block that are looked at."""
DRAWN: Final = 14
"""The most iterations along an axis of the picture."""
_CELL, _LEFT, _TOP = 30.0, 92.0, 66.0


class Touch(NamedTuple):
    """A visit of the element: the iteration, as numbers of the loops, and the block."""

    block: str
    writes: bool
    loops: Mapping[str, int]


class Pair(NamedTuple):
    """Two visits of an element in different iterations of a loop."""

    buffer: str
    element: tuple[int, ...]
    first: Touch
    second: Touch


def find_pair(program: ir.Program, name: str, around: bool = False) -> tuple[Pair | None, bool]:
    """Two iterations of a loop that touch one element, one of them writing, or None; and whether
    an index that depends on data was met.

    around  whether the loops outside may differ as well, as they do where loops change places
    """
    site = ir.loop_sites(program)[name]
    inside = {loop.var for loop in ir.loops_of(site.loop)}
    inside |= {loop.var for loop in site.outer} if around else set()
    living = ir.lifetimes(program)
    shapes = {n: b.shape for n, b in program.buffers.items() if living.get(n) not in inside}
    found: list[Visits] = []
    for block in ir.blocks_of(site.loop):
        loops = [loop for loop in ir.paths(program)[block.name] if loop.var in inside]
        numbers = _iterations(loops, name)
        outer = {v.var: np.zeros_like(numbers[name]) for v in site.outer if v.var not in inside}
        time = np.arange(len(numbers[name]), dtype=np.float64)
        found += visits(block, {**outer, **numbers}, time, shapes)
    known = [one for one in found if one.indices is not None and len(one.time)]
    for buffer in dict.fromkeys(v.access.buffer for v in known if v.access.writes):
        pair = _pair(name, program.buffers[buffer], [v for v in known if v.access.buffer == buffer])
        if pair is not None:
            return pair, False
    return None, len(known) < len([one for one in found if len(one.time)])


def _iterations(loops: Sequence[ir.For], name: str) -> dict[str, np.ndarray]:
    """A box of iterations within the bound: all loops alike, each as long as it can be."""
    extents = [loop.extent for loop in loops]
    edge = max(extents, default=1)
    while math.prod(min(n, edge) for n in extents) > ITERATIONS:
        edge -= max(1, edge // 8)
    sizes = [min(n, max(2, edge)) for n in extents]
    if math.prod(sizes) > ITERATIONS:  # very many loops: the loop itself and the innermost ones
        sizes = [2 if loop.var == name else 1 for loop in loops]
    grids = np.indices(sizes).reshape(len(sizes), -1)
    return {loop.var: grid for loop, grid in zip(loops, grids)}


def _pair(name: str, buffer: ir.Buffer, found: Sequence[Visits]) -> Pair | None:
    """The earliest two visits of an element by different iterations of the loop."""
    every = joined(found, buffer.shape)
    numbers = np.concatenate([one.loops[name] for one in found])
    order = np.lexsort((numbers, every.element))
    every, count = every.at(order), numbers[order]
    flat = every.element
    if not len(flat):
        return None
    places = np.arange(len(flat))
    begins = np.flatnonzero(np.diff(flat, prepend=-1) | np.diff(count, prepend=-1))
    written = np.minimum.reduceat(np.where(every.writes, places, len(flat)), begins)
    one, two = written[:-1], written[1:]  # of iterations next to each other that touch an element
    meet = (flat[begins[:-1]] == flat[begins[1:]]) & (np.minimum(one, two) < len(flat))
    if not meet.any():
        return None
    first, second = count[begins[:-1]][meet], count[begins[1:]][meet]
    earliest = np.lexsort((second - first, second))[0]
    runs = np.flatnonzero(meet)[earliest] + np.array([0, 1])
    best = [int(w if w < len(flat) else b) for w, b in zip(written[runs], begins[runs])]
    ends = [_touch(found[int(every.source[n])], int(every.place[n])) for n in best]
    ends.sort(key=lambda touch: tuple(touch.loops.values()))  # as they are executed
    element = indices_of(int(flat[best[0]]), buffer.shape)
    return Pair(buffer.name, tuple(element), ends[0], ends[1])


def _touch(one: Visits, place: int) -> Touch:
    numbers = {name: int(values[place]) for name, values in one.loops.items()}
    return Touch(one.block.name, one.access.writes, numbers)


def conflict_picture(program: ir.Program, name: str) -> Picture:
    """The two iterations of a loop that conflict, on the grid of its iterations, and the element
    that both touch; in words alone where none are found within the bound.
    """
    pair, data = find_pair(program, name)
    if pair is None and not data:
        pair, _ = find_pair(program, name, around=True)
    title = f"Two iterations of {fitted(ir.print_name(name), 40)} that conflict"
    if pair is not None:
        return Picture("conflict", title, _said(pair, name), *_drawn(program, pair, name))
    why = (
        "An index depends on data, so that any two iterations might touch the same element."
        if data
        else f"Among the first iterations (at most {ITERATIONS:,}) no two touch the same element, "
        "one writing it. The rule is about all of them, and asks for a proof."
    )
    lines = textwrap.wrap(why, 72)
    body = [label(line, 12, 24 + 17 * n) for n, line in enumerate(lines)]
    width = max(map(width_of, lines)) + 24
    return Picture("conflict", title, why, width, 17 * len(lines) + 20, "".join(body))


def _said(pair: Pair, name: str) -> str:
    loop = ir.print_name(name)
    element = _element(pair)
    lines = []
    for touch in (pair.first, pair.second):
        verb = "writes" if touch.writes else "reads"
        rest = ", ".join(f"{ir.print_name(v)}={n}" for v, n in touch.loops.items() if v != name)
        others = f" (with {rest})" if rest else ""
        block = ir.print_name(touch.block)
        lines.append(f"{loop} = {touch.loops[name]} {verb} {element}, in block {block}{others}")
    return f"{lines[0]};\n{lines[1]}.\nTheir order matters, or they must not run at the same time."


def _element(pair: Pair) -> str:
    return f"{fitted(ir.print_name(pair.buffer), 40)}[{', '.join(map(str, pair.element))}]"


def _drawn(program: ir.Program, pair: Pair, name: str) -> tuple[float, float, str]:
    """The picture's width, its height, and its elements."""
    moved = [v for v, n in pair.second.loops.items() if pair.first.loops.get(v, n) != n]
    other = next((v for v in moved if v != name), _beside(program, pair, name))
    sites = ir.loop_sites(program)
    ends = (pair.first, pair.second)
    across = [touch.loops[name] for touch in ends]
    down = [touch.loops.get(other, 0) if other else 0 for touch in ends]
    columns = _window(across, sites[name].loop.extent)
    rows = _window(down, sites[other].loop.extent if other else 1)
    parts = [label(f"{fitted(ir.print_name(name), 30)} →", _LEFT, 20, "bold")]
    if other:
        parts.append(label(f"{fitted(ir.print_name(other), 10)} ↓", 8, _TOP + 4, "bold"))
    for n, column in enumerate(columns):
        x = _LEFT + n * _CELL
        parts.append(label(f"{column}", x + _CELL / 2, _TOP - 10, "faint small", "middle"))
        for m, row in enumerate(rows):
            hit = [k for k in (0, 1) if (across[k], down[k]) == (column, row)]
            look = "box thick red" if hit else "leaf"
            y = _TOP + m * _CELL
            box = {"width": _CELL - 3, "height": _CELL - 3, "rx": 4}
            parts.append(tag("rect", x=x, y=y, class_=look, **box))
            if hit:
                sign = "W" if ends[hit[0]].writes else "R"
                parts.append(label(sign, x + _CELL / 2 - 1, y + 18, "bold", "middle"))
    for m, row in enumerate(rows):
        parts.append(label(f"{row}", _LEFT - 8, _TOP + m * _CELL + 18, "faint small", "end"))
    return _joined(pair, parts, columns, rows, across, down)


def _beside(program: ir.Program, pair: Pair, name: str) -> str:
    """A loop for the second axis: the one around, or the one inside; "" if there is none."""
    path = [loop.var for loop in ir.paths(program)[pair.first.block]]
    place = path.index(name)
    near = path[max(0, place - 1) : place] + path[place + 1 : place + 2]
    return next((v for v in near if v in pair.second.loops), "")


def _window(numbers: Sequence[int], extent: int) -> list[int]:
    """Iterations from a little before the first to a little after the last of two."""
    low = max(0, min(numbers) - 1)
    high = min(extent, max(*numbers, low + 4) + 3)
    if high - low > DRAWN:
        return sorted({n for one in numbers for n in range(max(0, one - 2), min(extent, one + 3))})
    return list(range(low, high))


def _joined(
    pair: Pair,
    parts: list[str],
    columns: Sequence[int],
    rows: Sequence[int],
    across: Sequence[int],
    down: Sequence[int],
) -> tuple[float, float, str]:
    """The picture with the element below the grid, and a line from each of the two to it."""
    width = max(_LEFT + len(columns) * _CELL + 30, width_of(_element(pair)) + _LEFT + 60)
    y = _TOP + len(rows) * _CELL + 40
    middle = _LEFT + len(columns) * _CELL / 2
    for column, row in zip(across, down):
        x = _LEFT + columns.index(column) * _CELL + _CELL / 2 - 1
        top = _TOP + rows.index(row) * _CELL + _CELL - 3
        bend = f"C{x:.5g} {y - 12:.5g} {middle:.5g} {top + 20:.5g} {middle:.5g} {y:.5g}"
        path = f"M{x:.5g} {top:.5g}{bend}"
        parts.append(tag("path", d=path, class_="curve red"))
    box = width_of(_element(pair)) + 20
    place = {"x": middle - box / 2, "y": y, "width": box, "height": 26, "rx": 4}
    parts.append(tag("rect", class_="ground", **place))
    parts.append(tag("rect", class_="box red", **place))
    parts.append(label(_element(pair), middle, y + 17, "bold", "middle"))
    at = y + 48
    for touch, sign in zip((pair.first, pair.second), ("first", "second")):
        verb = "writes" if touch.writes else "reads"
        rest = ", ".join(f"{fitted(ir.print_name(v), 20)}={n}" for v, n in touch.loops.items())
        line = f"{sign}: {rest} {verb} it"
        parts.append(label(fitted(line, 90), 12, at))
        width = max(width, width_of(fitted(line, 90)) + 24)
        at += 17
    return width, at, "".join(parts)
