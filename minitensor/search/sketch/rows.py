"""Reductions of rows, and chains of blocks over the same rows.

A sum of a row has partial results in the lanes of several vectors: an operation waits for the one
before it; those of different lanes and vectors do not wait.

for i:
    for k.0:                        the row, some vectors at a time
        for way: for lane:          unrolled, vectorized
    the vectors are combined to one, its halves to half a vector, and so on; then the last lanes

A sum over several axes, of which the last is shorter than that, such as the pixels of a small
image, has the last axis in lanes, and some of the axis around it in vectors side by side.

A chain is computed for one row after the other, or for a few at a time, so that they stay in the
first cache. Of a few rows each block is done before the next block begins: while the lanes of one
row are combined, one after the other, the next row is under way. Blocks are moved before their
reductions are cut: the partial results would be left behind otherwise.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.ir import Block
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    PARALLELISM,
    accepts,
    is_contiguous,
    is_inlinable_once,
    is_ordered,
    is_output,
    is_reduction,
    loops_by_axis,
    operands,
    pairs,
    readers,
    reduce_iters,
    spatial_iters,
    uses,
    writers,
    written_by,
)
from minitensor.search.sketch.rule import Rule, State, always, inline, unless_refused, where
from minitensor.search.sketch.windows import is_window

TOGETHER: Final = {1: 4, 2: 2, 4: 1}
"""Numbers of rows that are computed together, and their weights: where rows come from memory, one
after the other is faster; where they are in a cache, two."""

FEWEST: Final = 4
"""Lanes that are reduced as a vector at least; those of the last one after the other."""
SHORTEST: Final = 3
"""Elements of a row that are worth a vector of four."""


def is_row_sum(block: Block, lanes: int) -> bool:
    """Return whether it reduces over contiguous elements, enough of them for two vectors."""
    last = _contiguous_axis(block)
    return last is not None and last.extent >= 2 * lanes


def is_short_row_sum(block: Block, lanes: int) -> bool:
    """Return whether it reduces over several axes, whose elements are enough for two vectors, while
    those of the last one, which are contiguous, are not.
    """
    last = _contiguous_axis(block)
    if last is None or not SHORTEST <= last.extent < 2 * lanes or is_window(block):
        return False
    *_, around = [1, *(i.extent for i in _long(reduce_iters(block))[:-1])]
    return around > 1 and math.prod(i.extent for i in reduce_iters(block)) >= 2 * lanes


def _contiguous_axis(block: Block) -> ir.Iter | None:
    """The last axis of a reduction without a register tile, if neighbours along it are side by side
    in all that is read.
    """
    if not is_reduction(block) or pairs(block):
        return None
    last = [*reduce_iters(block)[:1], *_long(reduce_iters(block))][-1]
    reads = [load for load in operands(block) if uses(load, last)]
    return last if reads and all(is_contiguous(load, last, block) for load in reads) else None


def _long(axes: Sequence[ir.Iter]) -> list[ir.Iter]:
    """The axes with more than one iteration."""
    return [axis for axis in axes if axis.extent > 1]


def _without_units(schedule: Schedule, block: str) -> None:
    """Fuse loops of one iteration, at the end of a reduction, with the loop around them."""
    axes = reduce_iters(schedule.program.blocks[block])
    units = len(axes) - max((n for n, axis in enumerate(axes, 1) if axis.extent > 1), default=1)
    if units:
        schedule.fuse(*schedule.get_loops(block)[-units - 1 :])


def sum_in_lanes(schedule: Schedule, block: str, lanes: int) -> tuple[str, list[int | None]]:
    """Reduce over the last loop of a block in several vectors, these to one, and that to half of it
    again and again.

    All are computed right where the block's result is, in the loop around its reduction.

    lanes  of a vector; half of them are tried too, for operands that come from memory

    Returns the block that computes the vectors, and how its elements are divided.
    """
    count = factors.ways(schedule)
    widths = sorted({max(1, lanes // 2), lanes})
    width = factors.choose(schedule, widths, (1, 3)[-len(widths) :])
    _, *inner = schedule.split(schedule.get_loops(block)[-1], [None, count, lanes])
    return _combined(schedule, block, inner, lanes, width), [None, width]


def _sum_short_rows(schedule: Schedule, block: str, lanes: int) -> None:
    """Reduce over the last loop of a block in lanes, with several iterations of the loop around it
    in vectors of their own; the vectors are combined as those of `sum_in_lanes`.

    lanes  of a vector; as many of them are used as the last loop fills
    """
    around, last = _long(reduce_iters(schedule.program.blocks[block]))[-2:]
    lanes = _filled(last.extent, lanes)
    candidates = factors.up_to(around.extent, factors.WAYS)
    most = 1 if last.extent > lanes else factors.MOST_LIKELY_WAYS
    way = factors.choose(schedule, candidates, [n if n <= most else 0.5 for n in candidates])
    *_, outer, inner = schedule.get_loops(block)
    _, ways = schedule.split(outer, [None, way])
    _combined(schedule, block, [ways, *schedule.split(inner, [None, lanes])], lanes, lanes)


def _filled(extent: int, lanes: int) -> int:
    """The lanes of the largest vectors, up to so many, of which a row fills half of the last one at
    least.
    """
    sizes = [lanes >> n for n in range(lanes.bit_length()) if lanes >> n >= min(FEWEST, lanes)]
    whole = (size for size in sizes if extent % size == 0 or 2 * (extent % size) >= size)
    return next(whole, lanes)


def _combined(schedule: Schedule, block: str, inner: Sequence[str], lanes: int, width: int) -> str:
    """Compute the innermost loops of a reduction side by side, in vectors of so many lanes, and
    combine these; returns the block that computes them.

    width  elements of a vector of what is read
    """
    parts = [schedule.rfactor(schedule.fuse(*inner))]
    size = lanes
    while size >= min(FEWEST, lanes):
        _, lane = schedule.split(schedule.get_loops(block)[-1], [None, size])
        parts.append(schedule.rfactor(lane))
        size //= 2
    around = schedule.get_loops(block)[-2]
    for part in reversed(parts):
        *_, step, lane = schedule.compute_at(part, around)
        if part != parts[0]:
            schedule.unroll(step)
        if part in parts[:2]:
            way, lane = schedule.split(lane, [None, width])
            schedule.unroll(way)
        schedule.vectorize(lane)
    return parts[0]


def _apply(state: State, cores: int) -> Iterator[State]:
    """Rows one by one if there are some, and partial results for the threads if there are few."""
    short = is_short_row_sum(state.block, state.lanes)
    if state.name in state.cached or not (short or is_row_sum(state.block, state.lanes)):
        return
    axes = spatial_iters(state.block)
    rows = math.prod(i.extent for i in axes)
    for few in (False, True):
        if rows >= cores * PARALLELISM if few else not axes or rows < cores:
            continue
        schedule = state.schedule.copy()
        with contextlib.suppress(ScheduleError):
            _without_units(schedule, state.name)
            block = partial_results(schedule, state, cores) if few else state.name
            if short and is_short_row_sum(schedule.program.blocks[block], state.lanes):
                _sum_short_rows(schedule, block, state.lanes)
            else:
                sum_in_lanes(schedule, block, state.lanes)
            what = f"partial results of {block} in lanes" if few else "partial results in lanes"
            yield state.after("rows in lanes", what, schedule)


PARTS_OF_A_CORE: Final = 4
"""Partial results for each thread, as an author would make them."""
MOST_OF_A_CORE: Final = 8
"""Iterations of a first axis for each thread that may all be parts."""


def partial_results(schedule: Schedule, state: State, cores: int) -> str:
    """Make parts of the reduction independent of each other: its first axis, or parts of that if it
    is long or the only one. Returns the block that computes them.
    """
    first, *others = reduce_iters(state.block)
    loop = loops_by_axis(schedule, state.name)[first.var]
    if not others or first.extent > MOST_OF_A_CORE * cores:
        counts = factors.parts(first.extent, cores, 1 if others else state.lanes)
        count = factors.part(schedule, counts, PARTS_OF_A_CORE * cores)
        loop, _ = schedule.split(loop, [count, None])
    return schedule.rfactor(loop)


ROWS_IN_LANES: Final = Rule("rows in lanes", always, _apply)


def chain_of(state: State) -> tuple[list[str], int]:
    """The blocks before this one that share its rows, last first; and how many axes a row has.

    Empty if there is no reduction of rows among them.
    """
    program, lanes = state.program, state.lanes
    sums = [
        _axes_of_row(program.blocks[name])
        for name in state.pending[1:]
        if is_row_sum(program.blocks[name], lanes)
    ]
    for axes in sorted(set(sums), reverse=True):
        found = [state.name]
        for name in state.pending[1:]:
            if 0 < axes <= len(spatial_iters(state.block)) and joins(program, name, found, axes):
                found.append(name)
        if any(is_row_sum(program.blocks[name], lanes) for name in found[1:]):
            return found[1:], axes
    return [], 0


def _axes_of_row(block: Block) -> int:
    """The number of axes that tell rows apart: those after the last that is longer than 1 do not,
    where a sum keeps the axis that it is over.
    """
    longer = [n for n, i in enumerate(spatial_iters(block), 1) if i.extent > 1]
    return max(longer, default=min(1, len(spatial_iters(block))))


def joins(
    program: ir.Program, name: str, chain: Sequence[str], axes: int, product: bool = False
) -> bool:
    """Return whether a block is read by those of the chain only, and by each at its own row.

    product  whether it has operands that make a register tile
    """
    block = program.blocks[name]
    written = ir.accessed_buffers(block)[1]
    if len(written) != 1 or is_output(program, block) or is_ordered(block):
        return False
    if bool(pairs(block)) != product:
        return False
    (buffer,) = written
    reading = set(readers(program, buffer)) - {name}
    return (
        bool(reading)
        and writers(program, buffer) == [name]
        and reading <= set(chain)
        and len(spatial_iters(block)) >= axes
        and all(_at_own_row(program.blocks[other], buffer, axes) for other in reading)
    )


def _at_own_row(block: ir.Block, buffer: str, axes: int) -> bool:
    own = tuple(ir.Var(i.var) for i in spatial_iters(block)[:axes])
    reads = [load for load in operands(block) if load.buffer == buffer]
    return len(own) == axes and all(load.indices[:axes] == own for load in reads)


@unless_refused
def _apply_chain(state: State, cores: int) -> list[State]:
    if state.name in state.cached or is_ordered(state.block) or reduce_iters(state.block):
        return []
    chain, axes = chain_of(state)
    if not chain:
        return []
    schedule = state.schedule.copy()
    row = _few_rows(schedule, state, axes, cores)
    for name in chain:
        if is_inlinable_once(schedule.program, schedule.program.blocks[name]):
            schedule.compute_inline(name)
        else:
            schedule.compute_at(name, row)
    in_lanes(schedule, (state.name, *chain), axes, state.lanes)
    what = f"{', '.join(chain)} computed for each row"
    return [state.after("chain of rows", what, schedule, also=chain)]


def _few_rows(schedule: Schedule, state: State, axes: int, cores: int) -> str:
    """The loop over rows, some at a time: so many that they fit in the first cache are likely."""
    *_, rows = spatial_iters(state.block)[:axes]
    row = schedule.get_loops(state.name)[axes - 1]
    candidates = factors.up_to(rows.extent // cores, TOGETHER)
    if len(candidates) < 2:
        return row
    length = math.prod(i.extent for i in spatial_iters(state.block)[axes:])
    most = state.caches.l1 // 2 // (length * (state.target.vector_bits or 128) // (8 * state.lanes))
    weights = [TOGETHER[n] if n <= max(1, most) else 0.1 for n in candidates]
    outer, _ = schedule.split(row, [None, factors.choose(schedule, candidates, weights)])
    return outer


def in_lanes(schedule: Schedule, names: Sequence[str], axes: int, lanes: int) -> None:
    """Vectorize blocks under the row: the partial results of sums, and the elements of a row, those
    that a sum is the first to read in its loop.
    """
    left = [name for name in names if name in schedule.program.blocks]
    sums = [name for name in left if is_row_sum(schedule.program.blocks[name], lanes)]
    vectors = dict(sum_in_lanes(schedule, name, lanes) for name in sums)
    for name in (name for name in left if name not in sums):
        block = schedule.program.blocks[name]
        if not isinstance(block.body, ir.Store) or len(spatial_iters(block)) <= axes:
            continue
        by_sum = _first_sum(schedule.program, block, vectors)
        loop = schedule.get_loops(by_sum)[-3] if by_sum else ""
        if by_sum and accepts(schedule, "compute_at", name, loop):
            row = schedule.compute_at(name, loop)[-1]
            way, lane = schedule.split(row, vectors[by_sum])
            schedule.unroll(way)
            schedule.vectorize(lane)
        else:
            schedule.vectorize(schedule.get_loops(name)[-1])


def _first_sum(program: ir.Program, block: Block, sums: Collection[str]) -> str:
    """The sum that is the first to read what a block writes, which others read after it; "" if
    there is none. (What is read once is computed where that is.)
    """
    first, *others = readers(program, written_by(block)) or [""]
    return first if first in sums and others and not is_output(program, block) else ""


def _is_read_once(state: State) -> bool:
    return is_inlinable_once(state.program, state.block) and state.name not in state.cached


INLINE_ONCE: Final = inline("inline once", where(_is_read_once))
CHAINS_OF_ROWS: Final = Rule("chain of rows", always, _apply_chain)
