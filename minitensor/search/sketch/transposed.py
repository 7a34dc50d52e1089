"""Reads down the columns of an operand: tiles, so that the lines of the cache that a column touches
are used while they are there."""

from __future__ import annotations

from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.search.sketch import factors
from minitensor.search.sketch.operands import is_contiguous, operands, uses
from minitensor.search.sketch.predicates import is_ordered, spatial_iters
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.state import State


def turned_axis(block: ir.Block) -> ir.Iter | None:
    """The axis along which an operand is contiguous, and the result is not; None if there is none.

    The result is contiguous along the last axis, and the operand has it elsewhere. A block that
    chooses among values is left alone.
    """
    if not isinstance(block.body, ir.Store) or block.init is not None or is_ordered(block):
        return None
    if any(isinstance(node, ir.Select) for node in ir.walk(block.body.value)):
        return None
    if len(block.iters) < 2 or spatial_iters(block) != block.iters or block.iters[-1].extent < 2:
        return None
    *axes, last = block.iters
    for load in operands(block):
        if uses(load, last) and not is_contiguous(load, last):
            for axis in axes:
                if axis.extent > 1 and is_contiguous(load, axis):
                    return axis
    return None


def _judge(state: State, cores: int) -> Verdict:
    return Verdict.SKIP if turned_axis(state.block) is None else Verdict.APPLY


def _apply(state: State, cores: int) -> list[State]:
    schedule, axis = state.schedule.copy(), turned_axis(state.block)
    assert axis is not None
    loops = dict(zip([i.var for i in state.block.iters], schedule.get_loops(state.name)))
    i, j = loops.pop(axis.var), loops.popitem()[1]
    extent = spatial_iters(state.block)[-1].extent
    height = schedule.sample_categorical(factors.up_to(axis.extent, factors.STRIP))
    width = schedule.sample_categorical(factors.widths(state, extent))
    try:
        i_0, i_1 = schedule.split(i, [None, height])
        j_0, j_1 = schedule.split(j, [None, width])
        schedule.reorder(*loops.values(), i_0, j_0, i_1, j_1)
        schedule.vectorize(j_1)
    except ScheduleError:
        return []
    what = f"tiles of {axis.var} x {spatial_iters(state.block)[-1].var}"
    return [state.after("transposed read", what, schedule)]


TRANSPOSED: Final = Rule("transposed read", _judge, _apply)
