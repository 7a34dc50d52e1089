"""Prefetches: the part of a buffer that an iteration of a loop reads, and its cache lines.

A loop that prefetches has a note for each buffer, `prefetch_B = 8`: at the start of each iteration
the lines of B are loaded that it reads 8 iterations later. Code generation writes that out; until
then the loop nest stays what it was, and later steps find it as they know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from minitensor import ir
from minitensor.arith.interval import Interval, Ranges, extent_range
from minitensor.arith.numeric import ceil_div, product_of
from minitensor.arith.region import Box, box_of, union_box
from minitensor.arith.simplify import Simplifier

NOTE: Final = "prefetch_"
"""The key of the note of a loop, in front of the name of the buffer."""
LINE: Final = 64
"""Bytes of a cache line: where they are longer, a line is asked for more than once."""
MOST_LINES: Final = 64
"""The most lines that an iteration may ask for: processors have 10 to 50 on the way at once."""
KINDS: Final = (ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL, ir.LoopKind.UNROLL)
"""The kinds of loops that prefetch; the iterations of others have no order, or no start."""

Fault: TypeAlias = Literal[
    "kind", "scope", "not read", "written", "distance", "not driven", "too many"
]
"""A reason why a prefetch can be of no use."""


class PrefetchError(Exception):
    """A prefetch can be of no use.

    reason  why
    detail  in words
    block   the name of the block that shows it, None if there is none
    """

    def __init__(self, reason: Fault, detail: str, block: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.block = reason, detail, block


def note_of(buffer: str) -> str:
    """The key of the note of a loop that prefetches a buffer."""
    return NOTE + buffer


def prefetches(loop: ir.For) -> dict[str, ir.Annotation]:
    """The names of the buffers that a loop prefetches, each with the distance in iterations."""
    notes = {key: value for key, value in loop.annotations if key.startswith(NOTE)}
    return {key.removeprefix(NOTE): value for key, value in notes.items()}


def other_notes(loop: ir.For) -> ir.Annotations:
    """The annotations of a loop but for those that say what it prefetches."""
    return tuple(note for note in loop.annotations if not note[0].startswith(NOTE))


def require_prefetch(program: ir.Program, loop: str, name: str, distance: ir.Annotation) -> None:
    """Raise PrefetchError unless a loop may prefetch a buffer some iterations ahead."""
    site, buffer = ir.loop_sites(program)[loop], program.buffers[name]
    this, that = ir.print_name(loop), ir.print_name(name)
    if site.loop.kind not in KINDS:
        raise PrefetchError("kind", f"{this} is {site.loop.kind.value}")
    for outer in site.outer:
        if outer.kind is ir.LoopKind.VECTORIZE:
            raise PrefetchError("kind", f"{ir.print_name(outer.var)} is vectorize")
    if buffer.scope is not ir.Scope.GLOBAL:
        raise PrefetchError("scope", f"{that} is in scope {buffer.scope.value}")
    for block in ir.blocks_of(site.loop):
        if name in ir.accessed_buffers(block)[1]:
            text = f"{ir.print_name(block.name)} writes {that}"
            raise PrefetchError("written", text, block.name)
    ranges = {outer.var: extent_range(outer.extent) for outer in site.outer}
    box = box_read(site.loop, buffer, ranges)
    if box is None:
        raise PrefetchError("not read", f"nothing in {this} reads {that}")
    if type(distance) is not int or not 0 < distance < site.loop.extent:
        text = f"{this} has {site.loop.extent} iterations, none of them {distance} ahead"
        raise PrefetchError("distance", text)
    if not any(span.low.mentions_any([loop]) for span in box):
        text = f"what an iteration reads of {that} begins where that of the one before does"
        raise PrefetchError("not driven", text)
    lines = product_of(count for count, _ in steps_of(box, buffer))
    if lines > MOST_LINES:
        raise PrefetchError("too many", f"an iteration of {this} reads {lines} lines of {that}")


def box_read(loop: ir.For, buffer: ir.Buffer, ranges: Ranges) -> Box | None:
    """The box of a buffer that one iteration of a loop reads; None if it reads nothing of it.

    ranges  of the loops around
    """
    box: Box | None = None
    outside = {**ranges, loop.var: extent_range(loop.extent)}
    for indices, around in _reads(loop.body, buffer.name, outside):
        simplifier = Simplifier(around)
        forms = [simplifier.linear(index) for index in indices]
        one = box_of(forms, buffer.shape, frozenset(around) - frozenset(outside), around)
        box = one if box is None else union_box(box, one, buffer.shape)
    return box


def _reads(
    node: ir.Node, buffer: str, ranges: Mapping[str, Interval]
) -> Iterator[tuple[tuple[ir.Expr, ...], Ranges]]:
    """The indices of each load of a buffer, with the ranges of the loops around it."""
    match node:
        case ir.For(var, extent, body):
            if extent:
                yield from _reads(body, buffer, {**ranges, var: extent_range(extent)})
            return
        case ir.Block(iters=iters, init=init, body=body):
            bindings = {i.var: i.binding for i in iters}
            for part in (init, body):
                if part is not None:
                    yield from _reads(ir.substitute(part, bindings), buffer, ranges)
            return
        case ir.Load(name, indices) if name == buffer:
            yield tuple(ir.rewrite(index, _unchecked) for index in indices), ranges
    for child in ir.children(node):
        yield from _reads(child, buffer, ranges)


def _unchecked(node: ir.Node) -> ir.Node:
    """A node without a check at run time: nothing is accessed where it is prefetched, and the
    condition under which an index is inside may not hold there.
    """
    return node.args[0] if isinstance(node, ir.Call) and node.function == "in_bounds" else node


def steps_of(box: Box, buffer: ir.Buffer) -> list[tuple[int, int]]:
    """For each axis of a box, how many of its indices are asked for, and how far they are apart:
    one for each 64 bytes, from the first element on.
    """
    line = LINE * 8 // (buffer.dtype.bits * buffer.dtype.lanes)
    steps = [max(1, line // max(1, stride)) for stride in ir.strides_of(buffer)]
    return [(int(ceil_div(span.extent, step)), step) for span, step in zip(box, steps)]
