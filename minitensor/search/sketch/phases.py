"""Sums of terms that are zero by their place, such as transposed convolutions: each phase of the
result becomes a sum of its own, over what is not zero, and is then looked at as any other.

for o:                              axes of the weights
    0 times the weights             what zeros would have made of an infinity or NaN
    for phases: added up
for phases, o, y, x, k:             the sum
for phases, o, y, x:                the copy of its results to where they belong
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from minitensor.schedule import Schedule
from minitensor.search.sketch.blocks import reduce_iters, spatial_iters
from minitensor.search.sketch.rule import Rule, State, unless_refused, where


@unless_refused
def _apply_phases(state: State, cores: int) -> list[State]:
    """One state: each phase a sum of its own, then looked at as any other."""
    schedule = state.schedule.copy()
    copy = schedule.skip_zeros(state.name)
    made = [b for b in schedule.program.blocks if b not in state.program.blocks and b != copy]
    if made:
        _add_up_zeros(schedule, *made)
    blocks = reversed(list(schedule.program.blocks))
    pending = tuple(b for b in blocks if b in state.pending or b == copy)
    after = state.after("phases", "terms that are zero by their place are left out", schedule, True)
    return [replace(after, pending=pending)]


def _add_up_zeros(schedule: Schedule, zeros: str, phases: str) -> None:
    """Compute zeros for each element that they are added up for, taps as lanes."""
    block = schedule.program.blocks[phases]
    axes = len(spatial_iters(block)) - len(reduce_iters(block))
    if not reduce_iters(schedule.program.blocks[zeros]):
        schedule.compute_inline(zeros)
    elif axes:
        loops = schedule.compute_at(zeros, schedule.get_loops(phases)[axes - 1])
        summed = len(reduce_iters(schedule.program.blocks[zeros]))
        schedule.reorder(*loops[-summed:], *loops[:-summed])
        schedule.vectorize(loops[-summed - 1])


PHASES: Final = Rule("phases", where(lambda state: True), _apply_phases)
