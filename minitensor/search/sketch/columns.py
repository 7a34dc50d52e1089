"""Sums of columns: neighbours are side by side along an axis that is not summed over.

Rows are read as they lie in memory: a strip of some columns, a few rows at a time, whose sums stay
in vectors meanwhile. A narrow strip has all its sums in registers; a wide one is read in long runs.

for j.0:                            strips of columns
    for k.0:                        the sum
        for j.1:                    some vectors at a time
            for k.1:                rows, unrolled
                for j.2:            lanes

Threads share the strips, or the rows: each then has partial sums of its own, which are added up.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    is_contiguous,
    is_reduction,
    loops_by_axis,
    operands,
    pairs,
    reduce_iters,
    spatial_iters,
    uses,
    written_place,
)
from minitensor.search.sketch.rows import is_row_sum, is_short_row_sum, partial_results
from minitensor.search.sketch.rule import Rule, State, always
from minitensor.search.sketch.windows import is_window

STRIPS: Final = (1, 4, 16, 64)
"""Groups of vectors in a strip: one that stays in registers, or as long a run of a row as the first
cache holds sums for.
"""
STRIPS_OF_A_CORE: Final = 2
"""Strips for each thread, as an author would cut them."""
LARGE: Final = 1 << 16
"""Elements from which on the sums of parts are worth adding up."""
WIDE: Final = 8
"""A row as many times as long as a column is cut in strips."""


def column_of(block: ir.Block, lanes: int) -> ir.Iter | None:
    """The axis of the columns that a block sums up; None if it is no sum of columns.

    It is the last one of the result, long enough for a vector, and operands that have it are
    contiguous along it.
    """
    if not is_reduction(block) or not spatial_iters(block) or pairs(block) or is_window(block):
        return None
    last = max(spatial_iters(block), key=lambda i: (i.extent > 1, written_place(block, i)))
    reads = [load for load in operands(block) if uses(load, last)]
    contiguous = bool(reads) and all(is_contiguous(load, last, block) for load in reads)
    return last if contiguous and last.extent >= lanes else None


def is_summed_in_lanes(state: State) -> bool:
    """Return whether rules for rows or columns are for the block."""
    block, lanes = state.block, state.lanes
    rows = is_row_sum(block, lanes) or is_short_row_sum(block, lanes)
    return rows or column_of(block, lanes) is not None


def _apply(state: State, cores: int) -> Iterator[State]:
    """Strips for the threads, and if there are threads, rows for them: what is better first."""
    column = column_of(state.block, state.lanes)
    if column is None or state.name in state.cached:
        return
    better = _is_better_in_parts(state.block, column, cores)
    for parts in (better, not better) if cores > 1 else (False,):
        schedule = state.schedule.copy()
        with contextlib.suppress(ScheduleError):
            if parts:
                partial = partial_results(schedule, state, cores)
                _sum_in_strips(schedule, state, partial, column, 1)
                _add_up(schedule, state, column)
            else:
                strips = 1 if cores == 1 else STRIPS_OF_A_CORE * cores
                _sum_in_strips(schedule, state, state.name, column, strips)
            what = f"strips of {column.var} in lanes" + (", rows in parts" if parts else "")
            yield state.after("columns in lanes", what, schedule, costly=parts != better)


def _is_better_in_parts(block: ir.Block, column: ir.Iter, cores: int) -> bool:
    """Return whether each thread had better sum up some rows whole, one after the other as they lie
    in memory, than all rows of a strip. It has sums of its own if there are many.
    """
    sums = math.prod(i.extent for i in spatial_iters(block)) // column.extent
    first, *others = reduce_iters(block)
    rows = math.prod(i.extent for i in (first, *others))
    enough = first.extent >= cores > sums and sums * rows * column.extent >= LARGE
    return enough and column.extent < WIDE * rows


def _sum_in_strips(
    schedule: Schedule, state: State, name: str, column: ir.Iter, strips: int
) -> None:
    """Tile a block that sums up columns: its own axes, strips, the sum, and what is in a strip.

    strips  the number that an author would choose, if no strip were too long
    """
    loops = loops_by_axis(schedule, name)
    block = schedule.program.blocks[name]
    *outer, row = (loops.pop(i.var) for i in reduce_iters(block))
    usual = max(1, column.extent // (factors.MOST_LIKELY_WAYS * state.lanes * strips))
    counts = factors.up_to(column.extent // state.lanes, STRIPS)
    groups = factors.part(schedule, counts, usual)
    ways = factors.ways(schedule, column.extent // state.lanes)
    rows = factors.ways(schedule)
    strip, group, way, lane = schedule.split(
        loops.pop(column.var), [None, groups, ways, state.lanes]
    )
    row, few = schedule.split(row, [None, rows])
    schedule.reorder(*loops.values(), strip, *outer, row, group, few, way, lane)
    for loop in (few, way):
        schedule.unroll(loop)
    schedule.vectorize(lane)


def _add_up(schedule: Schedule, state: State, column: ir.Iter) -> None:
    """Add the partial sums up, some columns in lanes."""
    loops = loops_by_axis(schedule, state.name)
    strip, lane = schedule.split(loops.pop(column.var), [None, state.lanes])
    *others, part = loops.values()
    schedule.reorder(*others, strip, part, lane)
    schedule.vectorize(lane)


COLUMNS_IN_LANES: Final = Rule("columns in lanes", always, _apply)
