"""A product of transformed tiles: all stages for one strip of tiles, channels as lanes.

U: for c, f.0:                      the kernel, once
for y.0:                            strips of tiles
    the padded image
    V: for p, c.0:                  tiles and vectors of channels
    M: register tiles               some p x some vectors of f
    for y.1, x.0, f.0:              tiles and vectors of channels
        output transforms           places written out
        the result: for y.2, x.1: for f.1
"""

from __future__ import annotations

from typing import Final

from minitensor.errors import ScheduleError
from minitensor.ir import accessed_buffers
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.layouts import move_to_the_end
from minitensor.search.sketch.predicates import fusible_consumer, reduce_iters, spatial_iters
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.stages import Stage, Stages, stages_before
from minitensor.search.sketch.state import State

STRIP: Final = (1, 2, 4)
"""Rows of tiles in a strip."""


def _found(state: State) -> tuple[Schedule, Stages] | None:
    """The stages, in a schedule whose result reads them; not if the result goes on elsewhere."""
    if reduce_iters(state.block) or fusible_consumer(state.program, state.block) is not None:
        return None
    schedule = state.schedule.copy()
    try:
        stages = stages_before(schedule, state.name, state.pending[1:])
    except ScheduleError:
        return None
    return None if stages is None else (schedule, stages)


def _judge(state: State, cores: int) -> Verdict:
    return Verdict.SKIP if _found(state) is None else Verdict.APPLY


def _apply(state: State, cores: int) -> list[State]:
    found = _found(state)
    assert found is not None
    schedule, stages = found
    try:
        strip, vector = _result(schedule, state, stages)
        for stage in stages.outputs:
            _transform_at(schedule, stage, vector)
        _sum(schedule, state, stages.sum, strip)
        _inputs(schedule, state, stages, strip)
        _kernels(schedule, state, stages.kernels)
    except ScheduleError:
        return []
    what = f"{', '.join(stages.blocks)}: all for one strip of tiles, channels as lanes"
    gone = [b for b in state.pending[1:] if b not in schedule.program.blocks]
    return [state.after("transforms", what, schedule, also=[*stages.blocks, *gone])]


def _result(schedule: Schedule, state: State, stages: Stages) -> tuple[str, str]:
    """Tile the result; returns the loops over strips and over vectors of channels."""
    block = schedule.program.blocks[state.name]
    loops = dict(zip([i.var for i in block.iters], schedule.get_loops(state.name)))
    outer: list[str] = []
    inner: list[str] = []
    places: list[str] = []
    for axis, size in stages.tiles.items():
        tiles = -(-next(i.extent for i in block.iters if i.var == axis) // size)
        rows = [] if outer else [schedule.sample_categorical(factors.up_to(tiles, STRIP))]
        first, *middle, place = schedule.split(loops.pop(axis), [None, *rows, size])
        (inner if outer else outer).append(first)
        inner += middle
        places.append(place)
    f_0, f_1 = schedule.split(loops.pop(stages.lanes), [None, state.lanes])
    schedule.reorder(*loops.values(), *outer, *inner, f_0, *places, f_1)
    _write_out(schedule, places, f_1)
    return outer[0], f_0


def _transform_at(schedule: Schedule, stage: Stage, loop: str) -> None:
    """Compute a transform under a loop that leaves it one vector of channels."""
    places, lanes, other = _loops(schedule, stage, loop)
    schedule.reorder(*places, other, lanes)
    _write_out(schedule, places, lanes)
    move_to_the_end(schedule, stage.block, stage.lanes)


def _sum(schedule: Schedule, state: State, stage: Stage, strip: str) -> None:
    """Register tiles for one strip: some tiles of the image in some vectors of channels."""
    block = schedule.program.blocks[stage.block]
    places, f, p = _loops(schedule, stage, strip)
    reduced = schedule.get_loops(stage.block)[-len(reduce_iters(block)) :]
    move_to_the_end(schedule, stage.block, stage.lanes)
    width = schedule.sample_categorical(
        factors.widths(state, spatial_iters(block)[stage.lanes].extent)
    )
    height = schedule.sample_categorical(
        factors.rows(state, spatial_iters(block)[stage.other].extent)
    )
    f_0, f_1 = schedule.split(f, [None, width])
    p_0, p_1 = schedule.split(p, [None, height])
    schedule.reorder(*places, f_0, p_0, *reduced, p_1, f_1)
    _write_out(schedule, [p_1], f_1)


def _inputs(schedule: Schedule, state: State, stages: Stages, strip: str) -> None:
    """The last input transform for each tile and vector of channels, and there those before it."""
    first, *others = stages.inputs
    places, c, p = _loops(schedule, first, strip)
    c_0, c_1 = schedule.split(c, [None, state.lanes])
    schedule.reorder(p, c_0, *places, c_1)
    _write_out(schedule, places, c_1)
    move_to_the_end(schedule, first.block, first.lanes)
    for stage in others:
        _transform_at(schedule, stage, c_0)
    if stages.image is not None and stages.image.lanes >= 0:
        image = stages.image
        loops = list(schedule.compute_at(image.block, strip))
        c_0, c_1 = schedule.split(loops.pop(image.lanes), [None, state.lanes])
        schedule.reorder(c_0, *loops, c_1)
        schedule.vectorize(c_1)
        move_to_the_end(schedule, image.block, image.lanes)


def _kernels(schedule: Schedule, state: State, kernels: list[Stage]) -> None:
    """The kernel transforms, where they stand: for each pair of channels."""
    if not kernels:
        return
    first, *others = kernels
    places, f, c = _loops(schedule, first)
    f_0, f_1 = schedule.split(f, [None, state.lanes])
    schedule.reorder(c, f_0, *places, f_1)
    _write_out(schedule, places, f_1)
    move_to_the_end(schedule, first.block, first.lanes)
    for stage in others:
        _transform_at(schedule, stage, f_0)


def _loops(schedule: Schedule, stage: Stage, loop: str | None = None) -> tuple[list[str], str, str]:
    """Move a block; its loops over places in a tile, over channels, and over what is counted."""
    if loop is None:
        moved = schedule.get_loops(stage.block)
    else:
        moved = schedule.compute_at(stage.block, loop)
    by_place = dict(enumerate(moved))
    lanes, other = by_place.pop(stage.lanes), by_place.pop(stage.other)
    count = len(schedule.program.buffers[_buffer(schedule, stage.block)].shape)
    return [loop for at, loop in by_place.items() if at < count], lanes, other


def _buffer(schedule: Schedule, block: str) -> str:
    return min(accessed_buffers(schedule.program.blocks[block])[1])


def _write_out(schedule: Schedule, places: list[str], lanes: str) -> None:
    schedule.vectorize(lanes)
    for loop in places:
        schedule.unroll(loop)


TRANSFORMS: Final = Rule("transforms", _judge, _apply)
