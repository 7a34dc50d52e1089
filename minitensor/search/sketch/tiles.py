"""Register tiles: a few rows of the result in a few vectors, which stay in registers while the
reduction runs.

for o.0, i.0:                       strips of the other axes, and blocks of rows
    rows of A are packed
    for j.0:                        columns
        for o.1, i.1:               tiles: what is packed of B serves all of them
            for k:                  the reduction
                for i.2:            rows, unrolled
                    for j.1:        vectors
            the consumer

A long reduction may run in parts, each over all the rows of a block: the panels of B of one part
stay in L2 meanwhile. Operands that are read down their columns are tiled too: of the lines that a
column touches, all elements are used while they are in a cache.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from minitensor import ir
from minitensor.arith import linear_of
from minitensor.errors import ScheduleError
from minitensor.ir import Iter, Load
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    Pair,
    copied,
    elementwise_store,
    fusible_consumer,
    is_contiguous,
    loops_by_axis,
    operands,
    pairs,
    pieces,
    place_of,
    reduce_iters,
    spatial_iters,
    uses,
    written_by,
    written_place,
)
from minitensor.search.sketch.borders import skip_borders
from minitensor.search.sketch.layouts import (
    image_by_channels,
    in_panels,
    move_to_the_end,
    write_by_channels,
)
from minitensor.search.sketch.rule import Rule, State, always, unless_refused

MANY_PARTS, FEW_PARTS = 16, 2
"""Parts for each core that an author would choose (see `usual_parts`)."""
TILES_OF_A_PART: Final = 8
"""Tiles, one below the other, that a part of the rows has at least, by hand."""
SHORT_SUM: Final = 40
"""Products that are added up in about the time in which their sum is transposed."""
FILLED: Final = 15 / 16  # of the lanes, at least, by a row that is computed in lanes itself
PANEL: Final = 4
"""Rows that are packed side by side."""
PANEL_VECTORS: Final = 2
"""Vectors of an operand with lanes that most tiles read in an iteration."""


@dataclass(frozen=True)
class Packing:
    """The operands that are packed: those with lanes, and those with rows. An image may be written
    with its channels side by side.

    image     the block that pads it, or the parameter; "" for none
    channels  the reduction over them
    """

    lanes: tuple[Load, ...] = ()
    rows: tuple[Load, ...] = ()
    image: str = ""
    channels: str = ""

    def __str__(self) -> str:
        names = [load.buffer for load in (*self.lanes, *self.rows)]
        packed = f"{' and '.join(names)} packed" if names else "operands read in place"
        return packed + f", {self.image} by channels" * bool(self.image)


def _apply(state: State, cores: int) -> Iterator[State]:
    """A state for each pair and packing that every step accepts."""
    if state.name in state.cached:
        return
    for pair in pairs(state.block, state.lanes):
        for packing, in_parts in product(packings(state, pair), (False, True)):
            if in_parts and (packing.image or not _is_long(state)):
                continue
            schedule = state.schedule.copy()
            with contextlib.suppress(ScheduleError):
                consumer = tile(schedule, state, pair, packing, in_parts)
                what = f"{pair.rows.var} x {pair.lanes.var} in registers, {packing}"
                if in_parts:
                    what += ", summed in parts"
                if consumer is not None:
                    strip = in_parts or _by_strip(state, pair)
                    what += f", {consumer} follows each {'strip' if strip else 'tile'}"
                also = [packing.image] if packing.image in state.program.blocks else []
                costly = not in_parts and bool(packing.lanes) and _turns_much(state, pair)
                yield state.after("register tiles", what, schedule, also=also, costly=costly)


def _turns_much(state: State, pair: Pair) -> bool:
    """Return whether storing columns as rows costs more than lanes along those rows do, whose
    operands are read in place: after a short sum, or tile by tile.
    """
    axis, lanes = pair.rows, state.lanes
    filled = axis.extent >= FILLED * (-(-axis.extent // lanes) * lanes)
    if not filled or written_place(state.block, axis) + 1 != len(spatial_iters(state.block)):
        return False
    if not any(p.lanes.var == axis.var and not p.scattered for p in pairs(state.block, lanes)):
        return False
    length = math.prod(i.extent for i in reduce_iters(state.block))
    return length <= SHORT_SUM or not _by_strip(state, pair)


def _is_long(state: State) -> bool:
    """Return whether the panels of a reduction are too long for the L1 and L2 caches."""
    return math.prod(i.extent for i in reduce_iters(state.block)) > part_lengths(state)[-1]


def part_lengths(state: State) -> list[int]:
    """Lengths of a part of a reduction, in iterations: powers of two, ascending.

    The panels of a part take half of L1 or more, and at most a quarter of L2: the rest is for rows,
    results, and the panels that follow. A reduction that is longer than the last one may be cut.
    """
    step = PANEL_VECTORS * (state.target.vector_bits or 128) // 8
    shortest, longest = state.caches.l1 // 2 // step, state.caches.l2 // 4 // step
    most = max(1, longest).bit_length() - 1
    least = min(most, max(0, shortest - 1).bit_length())
    return [1 << n for n in range(least, most + 1)]


def packings(state: State, pair: Pair) -> list[Packing]:
    """The packings worth a sketch: none; of lanes; of rows too, or with an image by channels."""
    found = [] if pair.scattered else [Packing()]
    if pair.lanes_packed:
        found.append(Packing(pair.lanes_packed))
        if pair.rows_packed:
            found.append(Packing(pair.lanes_packed, pair.rows_packed))
        image = image_by_channels(state, pair)
        if image is not None:
            found.append(Packing(pair.lanes_packed, (), *image))
    return found


def tile(
    schedule: Schedule, state: State, pair: Pair, packing: Packing, in_parts: bool = False
) -> str | None:
    """Perform the steps; returns the consumer that follows each tile, or a strip of them: where it
    stores columns as rows, or sums are in parts, of all rows of a block.
    """
    name, block, cores = state.name, state.block, state.target.num_cores or 1
    consumer = fusible_consumer(schedule.program, block)
    at, last = written_place(block, pair.lanes), len(spatial_iters(block)) - 1
    if consumer is None and at != last:
        consumer = schedule.cache_write(name, "local")
    ordered = [*reduce_iters(block)]
    if not in_parts:
        ordered = skip_borders(schedule, state, pair, packing.channels)
    loops = loops_by_axis(schedule, name)
    strips, rest, left = _strips(
        schedule, state, pair, loops, usual_parts(state, pair, packing, cores)
    )
    most = factors.rows(state, pair.rows.extent)
    heights = _even(state, pair.rows, most)
    few = factors.are_few(heights, pair.rows.extent, state.registers)
    vectors = _likeliest_vectors(state, pair.lanes, packing, few)
    lines = factors.lines_of_rows(state, pair.rows, packing.rows, packing.channels)
    height = factors.height(schedule, heights, pair.rows.extent, state.registers, vectors, lines)
    by_strip = _by_strip(state, pair)
    counts = [1] if by_strip else factors.parts(pair.rows.extent, cores, most[-1])
    counts = _even(state, pair.rows, counts, pair.rows.extent)
    large = max(1, pair.rows.extent // (TILES_OF_A_PART * most[-1]))
    blocks = factors.part(schedule, counts, min(left, large))
    i_0, i_1, i_2 = schedule.split(loops[pair.rows.var], [blocks, None, height])
    j_0, *j = lane_loops(schedule, state, loops[pair.lanes.var], pair.lanes, packing, few)
    reduced = [loops[i.var] for i in ordered]
    parts = [_cut(schedule, state, reduced)] if in_parts else []
    schedule.reorder(*strips, i_0, j_0, *parts, *rest, i_1, *reduced, i_2, *j)
    schedule.unroll(i_2)
    for wide in j[:-1]:
        schedule.unroll(wide)
    schedule.vectorize(j[-1])
    for part in parts:
        schedule.decompose_reduction(name, part)
    if consumer is not None:
        loop = j_0 if in_parts else (rest or [j_0])[-1] if by_strip else i_1
        follow = schedule.reverse_compute_at(consumer, loop)
        if at == last:
            schedule.vectorize(follow[at])
        elif by_strip:
            _turn(schedule, follow[at], follow[last], state.lanes)
        elif written_place(block, pair.rows) == last and not in_parts:
            schedule.unroll(follow[last])
    if at != last:
        move_to_the_end(schedule, name, at)
    for load in packing.lanes:
        pack_lanes(schedule, state, load, pair.lanes, packing.channels)
    if packing.image:
        write_by_channels(schedule, state, packing.image, packing.channels)
    for load in packing.rows:
        _pack_rows(schedule, state, load, pair.rows, i_0)
    return consumer


def _by_strip(state: State, pair: Pair) -> bool:
    """Return whether the results of a strip of tiles, whose columns are stored as rows, are kept
    until it is complete: they are long enough for vectors, and a small part of the L1 cache.
    """
    last = len(spatial_iters(state.block)) - 1
    if written_place(state.block, pair.rows) != last:
        return False
    element = state.program.buffers[written_by(state.block)].dtype.bits // 8
    strip = pair.rows.extent * PANEL_VECTORS * state.lanes * element
    return pair.rows.extent >= state.lanes and strip <= state.caches.l1 // 2


def _turn(schedule: Schedule, columns: str, rows: str, lanes: int) -> None:
    """Store what lies column by column in vectors of rows: squares of both."""
    outer, inner = schedule.split(rows, [None, lanes])
    schedule.reorder(outer, columns, inner)
    schedule.vectorize(inner)


def _strips(
    schedule: Schedule, state: State, pair: Pair, loops: dict[str, str], usual: tuple[int, bool]
) -> tuple[list[str], list[str], int]:
    """Cut the axes beside those of a tile, and the groups of these, in parts.

    loops  by axis; those of a tile are changed to what is in a group
    usual  the parts (see `usual_parts`)

    Returns the loops over parts, those inside of one, and the parts that are left for rows. Axes
    that decide how much is summed up are the innermost, so that threads have equal shares.
    """
    (wanted, together), cores = usual, state.target.num_cores or 1
    deciding, left = _deciding(state.block), wanted
    strips, uneven, rest = list[str](), list[str](), list[str]()
    for axis in spatial_iters(state.block):
        loop = loops[axis.var]
        around = uneven if axis.var in deciding else strips
        tiled = next((one for one in (pair.lanes, pair.rows) if one.var == axis.var), None)
        if tiled is not None:
            if tiled.extent < axis.extent:
                group, loops[axis.var] = schedule.split(loop, [None, tiled.extent])
                around.append(group)
            continue
        if axis.extent > 1:
            counts = factors.parts(axis.extent, cores)
            most = left if wanted < MANY_PARTS * cores else math.inf
            count = factors.part(schedule, counts, left, axis.extent, cores, most)
            left = -(-left // axis.extent) if together else wanted
            loop, inner = schedule.split(loop, [count, None])
            rest.append(inner)
        around.append(loop)
    return strips + uneven, rest, left


def _deciding(block: ir.Block) -> set[str]:
    """The variables on which it depends how much of a reduction is left out, as the phases of a
    transposed convolution.
    """
    guard = block.body.condition if isinstance(block.body, ir.If) else ir.TRUE
    reduced = {i.var for i in reduce_iters(block)}
    used = [set(ir.free_vars(part)) for part in ir.conjuncts(guard)]
    return {name for names in used if names & reduced for name in names}


def usual_parts(state: State, pair: Pair, packing: Packing, cores: int) -> tuple[int, bool]:
    """The parts into which an author would cut rows, and what is beside a tile: many where all that
    has lanes stays in the L2 cache from one to the next; else few, for each part reads it again.

    Where nothing is packed for a part, parts may be as large as half of L2 holds of the operands
    without lanes: if there are columns enough for all cores, or if those parts are smaller than
    with few of two axes, and reading the operand with lanes for each moves fewer bytes than reading
    the others for each tile of columns. These are parts of all axes together (the second of the
    results), the others of each axis.
    """
    sizes = {True: 0, False: 0}
    for name in {load.buffer for load in operands(state.block)}:
        has_lanes = any(uses(o, pair.lanes) for o in operands(state.block) if o.buffer == name)
        sizes[has_lanes] += state.program.buffers[name].nbytes
    room, few = state.caches.l2 // 2, FEW_PARTS * cores
    if sizes[True] <= room:
        return MANY_PARTS * cores, False
    columns = pair.lanes.extent // (PANEL_VECTORS * state.lanes)
    fitting = max(1, -(-sizes[False] // room))
    fewer_bytes = fitting * sizes[True] < (columns - 1) * sizes[False]
    enough = columns >= TILES_OF_A_PART * cores
    if not packing.rows and (enough or (fitting >= few * few and fewer_bytes)):
        return fitting, True
    return few, False


def _cut(schedule: Schedule, state: State, reduced: list[str]) -> str:
    """Cut the first loop of a reduction; returns the loop over the parts."""
    first, *rest = (i.extent for i in reduce_iters(state.block))
    candidates = [-(-n // math.prod(rest)) for n in part_lengths(state)]
    length = schedule.sample_categorical(factors.up_to(first, candidates))
    part, reduced[0] = schedule.split(reduced[0], [None, length])
    return part


def lane_loops(
    schedule: Schedule, state: State, loop: str, axis: Iter, packing: Packing, few: bool = False
) -> tuple[str, ...]:
    """Split the columns: tiles, vectors in a tile, and lanes; or tiles and elements of a row.

    few  whether a tile has few rows
    """
    widths = _widths(state, axis, packing)
    if packing.lanes:
        wide = _panel(state, axis)
        count = factors.count(schedule, widths, axis.extent, wide, few)
        return schedule.split(loop, [None, count, wide])
    width = factors.width(schedule, widths, axis.extent, state.lanes)
    return schedule.split(loop, [None, width])


def _widths(state: State, axis: Iter, packing: Packing) -> list[int]:
    """Widths of a tile: vectors, or elements of a row where no operand with lanes is packed."""
    if packing.lanes:
        return _even(state, axis, factors.vectors(state, axis.extent), _panel(state, axis))
    return _even(state, axis, factors.widths(state, axis.extent))


def _likeliest_vectors(state: State, axis: Iter, packing: Packing, few: bool) -> int:
    """The vectors side by side in the likeliest tile."""
    widths = _widths(state, axis, packing)
    if packing.lanes:
        return factors.likeliest_count(widths, axis.extent, _panel(state, axis), few)
    return pieces(factors.likeliest_width(widths, axis.extent, state.lanes), state.lanes)


def _panel(state: State, axis: Iter) -> int:
    """The elements side by side in a panel: those of a vector; of an axis that is a group, a part
    of it, for a panel of two groups would be cut in two.
    """
    (whole,) = (i.extent for i in state.block.iters if i.var == axis.var)
    if axis.extent == whole or axis.extent % state.lanes == 0:
        return state.lanes
    return factors.even_part(axis.extent, state.lanes)


def _even(state: State, axis: Iter, candidates: list[int], times: int = 1) -> list[int]:
    """The candidates; for an axis that is a group, those that cut it evenly, or else the first:
    with what is too much, it would not be known that no iteration leaves the group.

    times  the elements for each of what is counted
    """
    (whole,) = (i.extent for i in state.block.iters if i.var == axis.var)
    if axis.extent == whole:
        return candidates
    return [n for n in candidates if axis.extent % (n * times) == 0] or candidates[:1]


def pack_lanes(schedule: Schedule, state: State, load: Load, axis: Iter, inner: str = "") -> None:
    """Copy an operand once, into panels; along the reduction `inner`, rows of one follow each
    other.
    """
    copy, at = copied(schedule, state.name, load), place_of(load, axis)
    assert at is not None
    loops, width = schedule.get_loops(copy), _panel(state, axis)
    steps = _steps(state, load, at)
    along = [i for i in reduce_iters(state.block) if i.var == inner]
    last = place_of(load, along[0]) if along else None
    panel, rest, lane = in_panels(schedule, copy, loops, at, width, steps, last)
    schedule.reorder(panel, *rest, lane)
    schedule.vectorize(lane)


def _steps(state: State, load: Load, at: int) -> dict[int, int]:
    """By a dimension other than `at`: the elements from one that a reduction reads to the next, as
    those of a window of which each phase of an image takes every second.
    """
    reduced = [i.var for i in reduce_iters(state.block)]
    shape, found = state.program.buffers[load.buffer].shape, {}
    for n, index in enumerate(load.indices):
        form = linear_of(index)
        step = math.gcd(*(int(form.coefficient(name)) for name in reduced))
        if n != at and step > 1 and shape[n] % step == 0:
            found[n] = step
    return found


def _pack_rows(schedule: Schedule, state: State, load: Load, axis: Iter, loop: str) -> None:
    """Copy a block of rows of an operand where it is needed, into panels of few rows."""
    copy, at = copied(schedule, state.name, load), place_of(load, axis)
    assert at is not None
    panel, rest, row = in_panels(schedule, copy, schedule.compute_at(copy, loop), at, PANEL)
    schedule.reorder(panel, *rest, row)
    schedule.unroll(row)


REGISTER_TILES: Final = Rule("register tiles", always, _apply)


def turned_axis(block: ir.Block) -> ir.Iter | None:
    """The axis along which an operand is contiguous, and the result is not; None if there is none,
    or if the block chooses among values. The result is contiguous along the last axis.
    """
    store = elementwise_store(block)
    if store is None or len(block.iters) < 2 or block.iters[-1].extent < 2:
        return None
    if any(isinstance(node, ir.Select) for node in ir.walk(store.value)):
        return None
    *axes, last = block.iters
    for load in operands(block):
        if uses(load, last) and not is_contiguous(load, last):
            for axis in axes:
                if axis.extent > 1 and is_contiguous(load, axis):
                    return axis
    return None


@unless_refused
def _apply_transposed(state: State, cores: int) -> list[State]:
    schedule, axis = state.schedule.copy(), turned_axis(state.block)
    if axis is None:
        return []
    loops = loops_by_axis(schedule, state.name)
    i, j = loops.pop(axis.var), loops.popitem()[1]
    extent = spatial_iters(state.block)[-1].extent
    heights = factors.up_to(axis.extent, factors.STRIP)
    height = factors.choose(schedule, heights, [factors.STRIP[n] for n in heights])
    line = 8 * factors.LINE // state.program.buffers[written_by(state.block)].dtype.bits
    width = factors.part(schedule, factors.widths(state, extent), line)
    i_0, i_1 = schedule.split(i, [None, height])
    j_0, j_1 = schedule.split(j, [None, width])
    schedule.reorder(*loops.values(), i_0, j_0, i_1, j_1)
    schedule.vectorize(j_1)
    what = f"tiles of {axis.var} x {spatial_iters(state.block)[-1].var}"
    return [state.after("transposed read", what, schedule)]


TRANSPOSED: Final = Rule("transposed read", always, _apply_transposed)
