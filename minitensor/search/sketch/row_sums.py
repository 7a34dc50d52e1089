"""Reductions of rows: partial results in the lanes of several vectors.

An operation waits for the one before it; those of different lanes and vectors do not wait.

for i:
    for k.0:                        the row, some vectors at a time
        for way: for lane:          unrolled, vectorized
    the vectors are combined, and then the lanes of the one that is left
"""

from __future__ import annotations

import math
from typing import Final

from minitensor.errors import ScheduleError
from minitensor.ir import Block
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.operands import is_contiguous, is_sum, operands, pairs, uses
from minitensor.search.sketch.predicates import PARALLELISM, reduce_iters, spatial_iters
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.state import State


def is_row_sum(block: Block, lanes: int) -> bool:
    """Whether it reduces over elements that are side by side, enough of them for two vectors."""
    if not is_sum(block) or pairs(block):
        return False
    last = reduce_iters(block)[-1]
    reads = [load for load in operands(block) if uses(load, last)]
    return bool(reads) and last.extent >= 2 * lanes and all(is_contiguous(r, last) for r in reads)


def sum_in_lanes(schedule: Schedule, block: str, lanes: int) -> None:
    """Reduce over the last loop of a block in several vectors, which are then reduced themselves.

    The vectors are computed right where the block's result is, in the loop around its reduction.

    lanes  of a vector; half of them are tried too, for operands that come from memory
    """
    count = schedule.sample_categorical(factors.WAYS)
    width = schedule.sample_categorical(sorted({max(1, lanes // 2), lanes}))
    _, *inner = schedule.split(schedule.get_loops(block)[-1], [None, count, width])
    vectors = schedule.rfactor(schedule.fuse(*inner))
    _, lane = schedule.split(schedule.get_loops(block)[-1], [count, width])
    vector = schedule.rfactor(lane)
    around = schedule.get_loops(block)[-2]
    *_, way, lane = schedule.compute_at(vector, around)
    schedule.unroll(way)
    schedule.vectorize(lane)
    way, lane = schedule.split(schedule.compute_at(vectors, around)[-1], [count, width])
    schedule.unroll(way)
    schedule.vectorize(lane)


def _judge(state: State, cores: int) -> Verdict:
    return Verdict.APPLY if is_row_sum(state.block, state.lanes) else Verdict.SKIP


def _apply(state: State, cores: int) -> list[State]:
    """Rows one by one if there are some, and partial results for the threads if there are few."""
    axes = spatial_iters(state.block)
    rows = math.prod(i.extent for i in axes)
    found = []
    for few in (False, True):
        if rows >= cores * PARALLELISM if few else not axes or rows < cores:
            continue
        schedule = state.schedule.copy()
        try:
            block = _partial(schedule, state, cores) if few else state.name
            sum_in_lanes(schedule, block, state.lanes)
        except ScheduleError:
            continue
        what = f"partial results of {block} in lanes" if few else "partial results in lanes"
        found.append(state.after("rows in lanes", what, schedule))
    return found


def _partial(schedule: Schedule, state: State, cores: int) -> str:
    """Make parts of the reduction independent of each other: its first axis, or parts of the only
    one. Returns the block that computes them.
    """
    first, *others = reduce_iters(state.block)
    loops = dict(zip([i.var for i in state.block.iters], schedule.get_loops(state.name)))
    loop = loops[first.var]
    if not others:
        count = schedule.sample_categorical(factors.parts(first.extent, cores, state.lanes))
        loop, _ = schedule.split(loop, [count, None])
    return schedule.rfactor(loop)


ROWS_IN_LANES: Final = Rule("rows in lanes", _judge, _apply)
