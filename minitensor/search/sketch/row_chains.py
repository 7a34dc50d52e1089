"""Chains of blocks over the same rows: all of them are computed for one row after the other.

What a row needs stays in the first cache. Blocks are moved before their reductions are cut: the
partial results would be left behind otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.search.sketch.operands import operands, pairs
from minitensor.search.sketch.padding import readers
from minitensor.search.sketch.predicates import is_ordered, is_output, reduce_iters, spatial_iters
from minitensor.search.sketch.row_sums import is_row_sum, sum_in_lanes
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.state import State


def chain_of(state: State) -> tuple[list[str], int]:
    """The blocks before this one that share its rows, last first; and how many axes a row has.

    Empty if there is no reduction of rows among them.
    """
    program, lanes = state.program, state.lanes
    sums = [
        len(spatial_iters(program.blocks[name]))
        for name in state.pending[1:]
        if is_row_sum(program.blocks[name], lanes)
    ]
    for axes in sorted(set(sums), reverse=True):
        found = [state.name]
        for name in state.pending[1:]:
            if 0 < axes <= len(spatial_iters(state.block)) and _joins(program, name, found, axes):
                found.append(name)
        if any(is_row_sum(program.blocks[name], lanes) for name in found[1:]):
            return found[1:], axes
    return [], 0


def _joins(program: ir.Program, name: str, chain: Sequence[str], axes: int) -> bool:
    """Whether a block is read by those of the chain only, and by each at its own row."""
    block = program.blocks[name]
    written = ir.accessed_buffers(block)[1]
    if len(written) != 1 or is_output(program, block) or is_ordered(block) or pairs(block):
        return False
    (buffer,) = written
    reading = set(readers(program, buffer)) - {name}
    return (
        bool(reading)
        and reading <= set(chain)
        and len(spatial_iters(block)) >= axes
        and all(_at_own_row(program.blocks[other], buffer, axes) for other in reading)
    )


def _at_own_row(block: ir.Block, buffer: str, axes: int) -> bool:
    own = tuple(ir.Var(i.var) for i in spatial_iters(block)[:axes])
    reads = [load for load in operands(block) if load.buffer == buffer]
    return len(own) == axes and all(load.indices[:axes] == own for load in reads)


def _judge(state: State, cores: int) -> Verdict:
    if is_ordered(state.block) or reduce_iters(state.block):
        return Verdict.SKIP
    return Verdict.APPLY if chain_of(state)[0] else Verdict.SKIP


def _apply(state: State, cores: int) -> list[State]:
    chain, axes = chain_of(state)
    schedule = state.schedule.copy()
    row = schedule.get_loops(state.name)[axes - 1]
    try:
        for name in chain:
            schedule.compute_at(name, row)
        for name in (state.name, *chain):
            _in_lanes(schedule, name, axes, state.lanes)
    except ScheduleError:
        return []
    what = f"{', '.join(chain)} computed for each row"
    return [state.after("chain of rows", what, schedule, also=chain)]


def _in_lanes(schedule: Schedule, name: str, axes: int, lanes: int) -> None:
    """Vectorize a block under the row: the elements of a row, or the partial results of a sum."""
    block = schedule.program.blocks[name]
    if is_row_sum(block, lanes):
        sum_in_lanes(schedule, name, lanes)
    elif isinstance(block.body, ir.Store) and len(spatial_iters(block)) > axes:
        schedule.vectorize(schedule.get_loops(name)[-1])


CHAINS_OF_ROWS: Final = Rule("chain of rows", _judge, _apply)
