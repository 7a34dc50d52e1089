"""Padding, and reductions over windows, such as of depthwise convolutions and pools: the window is
written out, and summed for some rows in registers. Of a large window the outer axes stay loops.

for n, c:                           images
    the padded image
    for y.0: for x.0:
        for ry, rx:                 R, unrolled
            for y.1:                rows, unrolled
                for x.1:            lanes
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from itertools import accumulate, takewhile
from typing import Final

from minitensor import ir
from minitensor.arith import linear_of
from minitensor.errors import ScheduleError
from minitensor.ir import Block, accessed_buffers
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    elementwise_store,
    fusible_consumer,
    is_last,
    is_output,
    is_sum,
    loops_by_axis,
    operands,
    pairs,
    readers,
    reduce_iters,
    spatial_iters,
    uses,
    written_place,
)
from minitensor.search.sketch.rule import Rule, State, Verdict, always, inline, where


def is_padding(program: ir.Program, block: ir.Block) -> bool:
    """Return whether it is a value under a condition and a number otherwise, read by one block."""
    store = elementwise_store(block)
    if store is None or is_output(program, block) or not isinstance(store.value, ir.Select):
        return False
    number = ir.Const in map(type, (store.value.a, store.value.b))
    calls = any(isinstance(node, ir.Call) for node in ir.walk(store.value))
    return number and not calls and len(readers(program, store.buffer)) == 1


PADDING: Final = inline(
    "inline padding",
    where(lambda state: is_padding(state.program, state.block), Verdict.APPLY),
    "decided where it is read",
)


LARGEST: Final = 64
"""The most elements of a window that are written out."""


def is_window(block: Block) -> bool:
    """Return whether it reduces over a window that slides over images, neighbouring pixels side by
    side.
    """
    if not is_sum(block) or pairs(block) or len(spatial_iters(block)) < 2:
        return False
    x = spatial_iters(block)[-1]
    last = written_place(block, x) == len(spatial_iters(block)) - 1
    reads = [load for load in operands(block) if uses(load, x)]
    return (
        _written_out(block) > 0
        and x.extent > 1
        and last
        and bool(reads)
        and all(is_last(load, x) for load in reads)
        and any(_slid_along(block, load) for load in reads)
    )


def _window_of(block: Block) -> list[ir.Iter]:
    """The axes of a window, last the one along which rows of registers follow each other, if their
    windows overlap: a row is loaded once for all the places in the window where it is.
    """
    *_, y, _ = spatial_iters(block)
    forms = [linear_of(index) for load in operands(block) for index in load.indices]

    def overlaps(axis: ir.Iter) -> bool:
        most = axis.extent - 1
        return any(
            0 < abs(form.coefficient(y.var)) <= abs(form.coefficient(axis.var)) * most
            for form in forms
        )

    return sorted(reduce_iters(block), key=overlaps)


def _written_out(block: Block) -> int:
    """The number of axes of a window that are written out, from the inside: all of a small one."""
    sizes = accumulate((i.extent for i in reversed(_window_of(block))), operator.mul)
    return sum(size <= LARGEST for size in sizes)


def _slid_along(block: Block, load: ir.Load) -> set[str]:
    """The axes of the window's place to which an index adds the place in the window."""
    reduced = {i.var for i in reduce_iters(block) if i.extent > 1}
    names = [set(ir.free_vars(index)) for index in load.indices]
    return {name for used in names if used & reduced for name in used - reduced}


def _apply(state: State, cores: int) -> Iterator[State]:
    """With the padded image computed for each image of its own, and without touching it."""
    if state.name in state.cached or not is_window(state.block):
        return
    for padding in (*_paddings(state), None):
        schedule = state.schedule.copy()
        with contextlib.suppress(ScheduleError):
            image, consumer = _tile(schedule, state)
            if padding is not None and image is not None:
                schedule.vectorize(schedule.compute_at(padding, image)[-1])
            what = "rows of it in registers, the window written out"
            if _written_out(state.block) < len(reduce_iters(state.block)):
                what = what.replace("the window", "the rows of the window")
            if padding is not None:
                what += f", {padding} for each image"
            if consumer is not None:
                what += f", {consumer} follows each tile"
            yield state.after("window", what, schedule, also=[padding] if padding else [])


def _paddings(state: State) -> list[str]:
    """The block that pads what this one reads, if there is one."""
    read = accessed_buffers(state.block)[0]
    return [
        name
        for name in state.pending[1:]
        if is_padding(state.program, state.program.blocks[name])
        and not read.isdisjoint(accessed_buffers(state.program.blocks[name])[1])
    ]


def _tile(schedule: Schedule, state: State) -> tuple[str | None, str | None]:
    """Perform the steps; returns the loop over whole images, if there is one, and the consumer that
    follows each tile.
    """
    block = state.block
    loops = loops_by_axis(schedule, state.name)
    *images, y, x = spatial_iters(block)
    few = factors.up_to(y.extent, factors.FEW_ROWS)
    height = factors.height(schedule, few, y.extent, state.registers)
    width = factors.width(schedule, factors.widths(state, x.extent), x.extent, state.lanes)
    y_0, y_1 = schedule.split(loops[y.var], [None, height])
    x_0, x_1 = schedule.split(loops[x.var], [None, width])
    around = [loops[i.var] for i in images]
    window = [loops[i.var] for i in _window_of(block)]
    schedule.reorder(*around, y_0, x_0, *window, y_1, x_1)
    schedule.vectorize(x_1)
    for loop in (*window[-_written_out(block) :], y_1):
        schedule.unroll(loop)
    consumer = fusible_consumer(schedule.program, block)
    if consumer is not None:
        *_, rows, pixels = schedule.reverse_compute_at(consumer, x_0)
        schedule.vectorize(pixels)
        schedule.unroll(rows)
    slid = {name for load in operands(block) for name in _slid_along(block, load)}
    whole = [loop for loop, axis in zip(around, takewhile(lambda i: i.var not in slid, images))]
    return whole[-1] if whole else None, consumer


WINDOWS: Final = Rule("window", always, _apply)
