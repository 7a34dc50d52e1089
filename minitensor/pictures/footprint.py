"""The footprint of each loop: the bytes of each buffer that one of its iterations touches.

An iteration of an outer loop whose footprint fits a cache finds again there what its inner loops
reuse. Boxes of accesses are those of `arith.region`, so that a footprint is rather too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from minitensor import arith, ir
from minitensor.looks import readable_count
from minitensor.pictures.svg import COLOURS, Picture, fitted, label, tag, width_of
from minitensor.pictures.walk import accesses_of

LOOPS: Final = 16
"""The most loops that are drawn: the outermost ones."""
BUFFERS: Final = 6
"""The most buffers of each, those with most bytes."""
ALL: Final = ""
"""Stands for the nest as a whole, in place of a loop."""
_BAR, _ROW, _HEAD = 11.0, 14.0, 20.0
_WIDTH: Final = 340.0


class Footprint(NamedTuple):
    """Bytes that one iteration of a loop touches.

    loop   None for the nest as a whole
    bytes  by buffer, the largest first
    """

    loop: ir.For | None
    bytes: dict[str, int]

    @property
    def total(self) -> int:
        """The bytes of all buffers."""
        return sum(self.bytes.values())


def heaviest(program: ir.Program) -> str | None:
    """The block that is executed most often; None without blocks."""
    runs = {n: math.prod(f.extent for f in loops) for n, loops in ir.paths(program).items()}
    return max(runs, key=lambda name: runs[name], default=None)


def footprints(program: ir.Program, block: str) -> list[Footprint]:
    """For the nest of a block and each loop around it, outermost first, what an iteration touches:
    by all blocks in the loop.
    """
    path = ir.paths(program)[block]
    found = []
    for depth in range(len(path) + 1):
        loop = path[depth - 1] if depth else None
        inside: ir.Stmt = loop.body if loop else path[0] if path else program.blocks[block]
        fixed = {outer.var for outer in path[:depth]}
        touched = _touched(program, inside, fixed)
        found.append(Footprint(loop, dict(sorted(touched.items(), key=lambda one: -one[1]))))
    return found


def _touched(program: ir.Program, stmt: ir.Stmt, fixed: set[str]) -> dict[str, int]:
    """The bytes of each buffer that a statement touches while all loops but the fixed ones run."""
    boxes: dict[str, arith.Box] = {}
    for block in ir.blocks_of(stmt):
        loops = ir.paths(program)[block.name]
        ranges = {loop.var: arith.extent_range(loop.extent) for loop in loops}
        running = frozenset(loop.var for loop in loops if loop.var not in fixed)
        outside = arith.Simplifier(ranges)
        bindings = {i.var: outside.linear(i.binding) for i in block.iters}
        inner = arith.Simplifier(ranges, bindings)
        for access in accesses_of(block):
            shape = program.buffers[access.buffer].shape
            forms = [inner.linear(index) for index in access.indices]
            box = arith.clipped_box(arith.box_of(forms, shape, running, ranges), shape)
            known = boxes.get(access.buffer)
            boxes[access.buffer] = arith.union_box(known, box, shape) if known else box
    return {name: _bytes(program.buffers[name], box) for name, box in boxes.items()}


def _bytes(buffer: ir.Buffer, box: arith.Box) -> int:
    elements = math.prod(min(int(s.extent), n) for s, n in zip(box, buffer.shape))
    return elements * buffer.dtype.lanes * buffer.dtype.bits // 8


def footprint_picture(
    program: ir.Program, block: str | None = None, caches: Mapping[str, int] | None = None
) -> Picture | None:
    """The footprints of the loops around a block as bars on a logarithmic axis; None without one.

    block   the one that is executed most often if None
    caches  sizes in bytes by level, drawn as lines
    """
    name = heaviest(program) if block is None else block
    if name is None:
        return None
    every, levels = footprints(program, name), dict(caches or {})
    shown, left_out = every[: LOOPS + 1], len(every) - LOOPS - 1
    colours = _colours(every)
    least = min([n for one in shown for n in one.bytes.values() if n] or [1])
    most = max([one.total for one in shown] + list(levels.values()) + [4 * least])
    low, high = math.log2(max(1, least)) - 1, math.log2(most) + 0.4
    left = max(width_of(_head(one)) for one in shown) + 20

    def x(count: float) -> float:
        return left + _WIDTH * (math.log2(max(count, 1)) - low) / (high - low)

    parts, says, at = list[str](), list[str](), 40.0
    for one in shown:
        bars = [*list(one.bytes.items())[:BUFFERS], (ALL, one.total)]
        parts.append(label(_head(one), 10, at + _BAR - 1, "bold"))
        for buffer, count in bars:
            colour = colours.get(buffer, "grey")
            wide = max(2.0, x(count) - left)
            look = f"soft {colour}" if buffer else "box grey"
            parts.append(tag("rect", x=left, y=at, width=wide, height=_BAR, class_=look))
            said = f"{_shown(buffer)} {size_text(count)}"
            says.append(label(said, left + wide + 5, at + _BAR - 2, "small halo"))
            at += _ROW
        at += _HEAD - _ROW + 4
    for count in levels.values():
        parts.append(tag("path", d=f"M{x(count):.5g} 30V{at:.5g}", class_="curve red dash"))
    parts += [*says, *_levels(levels, x)]
    words = _words(program, name, every, levels)
    if left_out > 0:
        parts.append(label(f"Left out: {left_out} inner loops.", 10, at + 12, "bold"))
        at += 18
    title = f"Bytes under each loop of {fitted(ir.print_name(name), 40)}"
    width = left + _WIDTH + 150
    return Picture("footprint", title, "\n".join(words), width, at + 8, "".join(parts))


def _levels(levels: Mapping[str, int], x: Callable[[float], float]) -> list[str]:
    """The names of the caches over their lines, none over another."""
    parts, end = list[str](), 0.0
    for level, count in sorted(levels.items(), key=lambda one: one[1]):
        text = f"{level} {size_text(count)}"
        start = max(end, x(count) - width_of(text) / 2)
        parts.append(label(text, start, 24, "hue red"))
        end = start + width_of(text) + 6
    return parts


def _colours(every: Sequence[Footprint]) -> dict[str, str]:
    names = dict.fromkeys(name for one in every for name in one.bytes)
    hues = [hue for hue in COLOURS if hue not in ("grey", "red")]
    return {name: hues[n % len(hues)] for n, name in enumerate(names)}


def _head(one: Footprint) -> str:
    if one.loop is None:
        return "the whole nest"
    return f"one {fitted(ir.print_name(one.loop.var), 20)} of {one.loop.extent:,}"


def _shown(buffer: str) -> str:
    return fitted(ir.print_name(buffer), 24) if buffer else "together"


def size_text(count: int) -> str:
    """A number of bytes: 48 KiB, 1.25 MiB, 12 B."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return (
                f"{count / size:.3g} {unit}"
                if count < 1000 * size
                else f"{count / size:,.0f} {unit}"
            )
    return readable_count(count, "B")


def _words(
    program: ir.Program, block: str, every: Sequence[Footprint], levels: Mapping[str, int]
) -> list[str]:
    """The same as a table: a loop, its bytes by buffer, and the smallest cache that holds them."""
    lines = [f"The block {ir.print_name(block)}; bytes that one iteration of each loop touches."]
    for one in every:
        parts = ", ".join(f"{_shown(b)} {size_text(n)}" for b, n in one.bytes.items())
        holding = sorted((n, level) for level, n in levels.items() if n >= one.total)
        where = f"; fits {holding[0][1]}" if holding else "; fits no cache" if levels else ""
        lines.append(f"{_head(one)}: {size_text(one.total)} ({parts}){where}")
    if not levels:
        lines.append("The sizes of the caches are not known here.")
    return lines
