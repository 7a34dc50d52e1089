"""Rows between two products, as in attention: softmax(Q K^T) V.

for b: for i.0:                     a few rows, which fit in the caches
    for j.0: for k: for i.1: for j.1:   their part of the first product, in register tiles
    blocks of rows, sums in lanes
    for j.0: for k: for i.1: for j.1:   the second product

What is between the products has as many elements as rows times columns of the first, far more than
operands and results where sequences are long: only a few rows of it are ever there.

Source: Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
NeurIPS 2022. Not here: its running maximum, with which parts of a row are enough; rows are whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    Pair,
    elementwise_store,
    loops_by_axis,
    pairs,
    readers,
    reduce_iters,
    spatial_iters,
    written_by,
)
from minitensor.search.sketch.rows import in_lanes, is_row_sum, joins
from minitensor.search.sketch.rule import Rule, State, always
from minitensor.search.sketch.tiles import Packing, lane_loops, pack_lanes


def _axes_of_rows(block: ir.Block, pair: Pair) -> int:
    """The number of axes up to the rows, if only the lanes come after them; else 0."""
    names = [i.var for i in spatial_iters(block)]
    return len(names) - 1 if names[-2:] == [pair.rows.var, pair.lanes.var] else 0


def _chain(state: State, axes: int) -> tuple[list[str], str]:
    """The blocks before a product that share its rows, last first, and the product among them.

    Empty if there is none, or if no block between the products reduces over rows.
    """
    program, found, product = state.program, [state.name], ""
    for name in state.pending[1:]:
        if joins(program, name, found, axes):
            found.append(name)
        elif not product and joins(program, name, found, axes, product=True):
            product = name
            found.append(name)
    sums = [name for name in found[1:] if is_row_sum(program.blocks[name], state.lanes)]
    return (found[1:], product) if product and sums else ([], "")


def _apply(state: State, cores: int) -> Iterator[State]:
    if state.name in state.cached:
        return
    for pair in pairs(state.block, state.lanes):
        axes = _axes_of_rows(state.block, pair)
        chain, first = _chain(state, axes) if axes else ([], "")
        if not chain or _pair_of(replace(state, pending=(first,)), axes) is None:
            continue
        schedule = state.schedule.copy()
        with contextlib.suppress(ScheduleError):
            rows = _tile(schedule, state, pair)
            for name in chain:
                schedule.compute_at(name, rows)
            in_lanes(schedule, [name for name in chain if name != first], axes, state.lanes)
            _tile_first(schedule, replace(state, schedule=schedule, pending=(first,)), axes)
            what = f"{', '.join(chain)} for a few rows"
            yield state.after("rows between products", what, schedule, also=chain)


def _tile(schedule: Schedule, state: State, pair: Pair) -> str:
    """Tile the second product, whose operands are read in place; returns the loop over rows."""
    loops = loops_by_axis(schedule, state.name)
    heights = factors.rows(state, pair.rows.extent)
    height = factors.height(schedule, heights, pair.rows.extent, state.registers)
    i_0, i_1 = schedule.split(loops[pair.rows.var], [None, height])
    j_0, *j = lane_loops(schedule, state, loops[pair.lanes.var], pair.lanes, Packing())
    around = [loops[i.var] for i in spatial_iters(state.block)[:-2]]
    reduced = [loops[i.var] for i in reduce_iters(state.block)]
    schedule.reorder(*around, i_0, j_0, *reduced, i_1, *j)
    schedule.unroll(i_1)
    schedule.vectorize(j[-1])
    return i_0


def _pair_of(state: State, axes: int) -> Pair | None:
    """The register tile of a product whose rows are those of the chain; None if there is none."""
    found = pairs(state.block, state.lanes)
    return next((pair for pair in found if _axes_of_rows(state.block, pair) == axes), None)


def _tile_first(schedule: Schedule, state: State, axes: int) -> None:
    """Tile the part of the first product that a few rows need; pack what is scattered.

    state  looks at that product
    """
    pair = _pair_of(state, axes)
    assert pair is not None  # moving it has not changed its axes
    packing = Packing(pair.lanes_packed) if pair.scattered else Packing()
    i, j, *reduced = schedule.get_loops(state.name)[-2 - len(reduce_iters(state.block)) :]
    j_0, *j_1 = lane_loops(schedule, state, j, pair.lanes, packing)
    schedule.reorder(j_0, *reduced, i, *j_1)
    schedule.unroll(i)
    for wide in j_1[:-1]:
        schedule.unroll(wide)
    schedule.vectorize(j_1[-1])
    consumer = _follows(state)
    if consumer is not None:
        schedule.vectorize(schedule.reverse_compute_at(consumer, j_0)[-1])
    for load in packing.lanes:
        pack_lanes(schedule, state, load, pair.lanes)


def _follows(state: State) -> str | None:
    """The only reader of the first product, if it computes each element from one of that."""
    reading = readers(state.program, written_by(state.block))
    if len(reading) == 1 and elementwise_store(state.program.blocks[reading[0]]) is not None:
        return reading[0]
    return None


ROWS_BETWEEN_PRODUCTS: Final = Rule("rows between products", always, _apply)
