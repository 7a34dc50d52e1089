"""A product of transformed tiles: all stages for one strip of tiles, channels as lanes.

U: for c, f.0:                      the kernel, once
for y.0:                            strips of tiles
    the padded image
    V: for p, c.0:                  tiles and vectors of channels
    M: register tiles               some p x some vectors of f
    for y.1, x.0, f.0:              tiles and vectors of channels
        output transforms           places written out
        the result: for y.2, x.1: for f.1

The stages of a product of transformed tiles, such as Winograd's convolution.

A *transform* computes each place of a small tile as a sum of its own: a choice by axes of few
elements. Such stages stand before and after one sum of products:

    the kernel         kernel transforms  ─┐
                                           ├─  sum  ─  output transforms  ─  result
    the padded image   input transforms   ─┘
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.blocks import (
    elementwise_store,
    fusible_consumer,
    is_output,
    is_sum,
    loops_by_axis,
    operands,
    place_of,
    readers,
    reduce_iters,
    spatial_iters,
    uses,
    written_by,
)
from minitensor.search.sketch.layouts import move_to_the_end
from minitensor.search.sketch.rule import Rule, State, always, unless_refused
from minitensor.search.sketch.windows import is_padding

SMALL: Final = 8
"""The most elements of an axis of a tile; loops over such axes are written out."""


@dataclass(frozen=True)
class Stage:
    """A block, and the dimensions of its result: channels that can be lanes, and what is counted
    besides (tiles, or other channels). The rest are places in a tile. -1 where there is none.
    """

    block: str
    lanes: int
    other: int


@dataclass(frozen=True)
class Stages:
    """All stages, those of each side from the one nearest to the result.

    tiles   for the axes of the result that are cut into tiles, the elements of a tile
    lanes   the axis of the result whose elements are lanes
    image   the padded image, if there is one
    """

    tiles: dict[str, int]
    lanes: str
    outputs: list[Stage]
    sum: Stage
    inputs: list[Stage]
    kernels: list[Stage]
    image: Stage | None

    @property
    def blocks(self) -> list[str]:
        """The names of all."""
        image = [self.image] if self.image is not None else []
        return [s.block for s in (*self.outputs, self.sum, *self.inputs, *image, *self.kernels)]


@ir.fact
def is_transform(block: ir.Block) -> bool:
    """Return whether it chooses its value by an axis of few elements."""
    store = elementwise_store(block)
    if store is None or store.indices != tuple(ir.Var(i.var) for i in block.iters):
        return False
    small = {i.var for i in block.iters if i.extent <= SMALL}
    chosen = [n.condition for n in ir.walk(store.value) if isinstance(n, ir.Select)]
    return bool(chosen) and all(ir.free_vars(c).keys() <= small for c in chosen)


def stages_before(schedule: Schedule, result: str, pending: Collection[str]) -> Stages | None:
    """The stages that lead to a block, all of them pending; None if there are none.

    What stands between it and the transforms is inlined first.
    """
    block = _inlined(schedule, result, pending)
    if block is None:
        return None
    last = _producer(schedule, block.name, pending)
    reads = [load for load in operands(block) if last and load.buffer == _written(schedule, last)]
    if last is None or len(reads) != 1:
        return None
    tiles = {}
    plain, counted = [], []
    for place, index in enumerate(reads[0].indices):
        match index:
            case ir.Binary("%", ir.Var(axis), ir.Const(int(size))) if size <= SMALL:
                tiles[axis] = size
            case ir.Var():
                plain.append(place)
            case _:
                counted.append(place)
    if not tiles or len(plain) != 1 or len(counted) != 1:
        return None
    lanes = next(iter(ir.free_vars(reads[0].indices[plain[0]])))
    outputs, total = _climb(schedule, Stage(last, plain[0], counted[0]), pending)
    if not outputs or total is None:
        return None
    return _before(schedule, total, outputs, pending, tiles, lanes)


def _before(
    schedule: Schedule,
    total: Stage,
    outputs: list[Stage],
    pending: Collection[str],
    tiles: dict[str, int],
    lanes: str,
) -> Stages | None:
    """The stages around a sum, if it is one of two operands that are transformed."""
    block = schedule.program.blocks[total.block]
    if not is_sum(block) or len(reduce_iters(block)) != 1 or -1 in (total.lanes, total.other):
        return None
    if not isinstance(block.body, ir.Reduce):  # of some iterations only
        return None
    if block.body.indices != tuple(ir.Var(i.var) for i in spatial_iters(block)):
        return None
    (channel,) = reduce_iters(block)
    sides = []
    for kept, dropped in ((total.other, total.lanes), (total.lanes, total.other)):
        axis = _axis(block, kept)
        reads = [r for r in operands(block) if uses(r, axis) and not uses(r, _axis(block, dropped))]
        if len(reads) != 1 or len(operands(block)) != 2:
            return None
        at = [n if n is not None else -1 for n in (place_of(reads[0], a) for a in (channel, axis))]
        above = _producer(schedule, total.block, pending, reads[0].buffer)
        at = at if kept == total.other else at[::-1]
        sides.append(_climb(schedule, Stage(above or "", *at), pending))
    (inputs, image), (kernels, _) = sides
    if image is not None and not is_padding(schedule.program, schedule.program.blocks[image.block]):
        image = None
    if not inputs:
        return None
    return Stages(tiles, lanes, outputs, total, inputs, kernels, image)


def _inlined(schedule: Schedule, result: str, pending: Collection[str]) -> ir.Block | None:
    """The result, with stores that lead to it inlined until it reads a transform; None if not."""
    while True:
        name = _producer(schedule, result, pending)
        if name is None:
            return None
        block = schedule.program.blocks[name]
        if is_transform(block):
            return schedule.program.blocks[result]
        if not isinstance(block.body, ir.Store) or is_padding(schedule.program, block):
            return None
        schedule.compute_inline(name)


def _climb(
    schedule: Schedule, stage: Stage, pending: Collection[str]
) -> tuple[list[Stage], Stage | None]:
    """The transforms from a stage upwards, and what stands before them."""
    found: list[Stage] = []
    above: Stage | None = stage if stage.block else None
    while above is not None:
        block = schedule.program.blocks[above.block]
        if not is_transform(block) or -1 in (above.lanes, above.other):
            break
        found.append(above)
        name = _producer(schedule, above.block, pending)
        if name is None:
            return found, None
        buffer = _written(schedule, name)
        places = [_source(block, at, buffer) for at in (above.lanes, above.other)]
        above = Stage(name, *places)
    return found, above


def _source(block: ir.Block, at: int, buffer: str) -> int:
    """The dimension of a buffer that a block reads with dimension `at` of what it writes; or -1."""
    axis = _axis(block, at)
    places = {place_of(load, axis) for load in operands(block) if load.buffer == buffer}
    found = places.pop() if len(places) == 1 else None
    return -1 if found is None else found


def _axis(block: ir.Block, at: int) -> ir.Iter:
    """The axis that indexes a dimension of what a block writes."""
    assert isinstance(block.body, (ir.Store, ir.Reduce))
    index: ir.Expr = block.body.indices[at]
    return next(i for i in block.iters if ir.Var(i.var) == index)


def _written(schedule: Schedule, block: str) -> str:
    return written_by(schedule.program.blocks[block])


def _producer(
    schedule: Schedule, block: str, pending: Collection[str], buffer: str | None = None
) -> str | None:
    """The one pending block whose results a block reads, if no other block reads them."""
    program = schedule.program
    found = [
        name
        for name in schedule.get_producers(block)
        if name in pending and buffer in (None, _written(schedule, name))
    ]
    if len(found) != 1 or is_output(program, program.blocks[found[0]]):
        return None
    reading = set(readers(program, _written(schedule, found[0]))) - {found[0]}
    return found[0] if reading == {block} else None


STRIP: Final = (1, 2, 4)
"""Rows of tiles in a strip."""


@unless_refused
def _apply(state: State, cores: int) -> list[State]:
    """One state, if the result is one of transforms and does not go on elsewhere."""
    if reduce_iters(state.block) or fusible_consumer(state.program, state.block) is not None:
        return []
    if not any(is_transform(state.program.blocks[name]) for name in state.pending[1:]):
        return []
    schedule = state.schedule.copy()
    stages = stages_before(schedule, state.name, state.pending[1:])
    if stages is None:
        return []
    strip, vector = _result(schedule, state, stages)
    for stage in stages.outputs:
        _transform_at(schedule, stage, vector)
    _sum(schedule, state, stages.sum, strip)
    _side(schedule, state, stages.inputs, strip)
    if stages.image is not None and stages.image.lanes >= 0:
        _image(schedule, state, stages.image, strip)
    _side(schedule, state, stages.kernels)
    what = f"{', '.join(stages.blocks)}: all for one strip of tiles, channels as lanes"
    gone = [b for b in state.pending[1:] if b not in schedule.program.blocks]
    return [state.after("transforms", what, schedule, also=[*stages.blocks, *gone])]


def _result(schedule: Schedule, state: State, stages: Stages) -> tuple[str, str]:
    """Tile the result; returns the loops over strips and over vectors of channels."""
    block = schedule.program.blocks[state.name]
    loops = loops_by_axis(schedule, state.name)
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
    wide, high = (spatial_iters(block)[at].extent for at in (stage.lanes, stage.other))
    width = factors.width(schedule, factors.widths(state, wide), wide, state.lanes)
    height = factors.height(schedule, factors.rows(state, high), high, state.registers)
    f_0, f_1 = schedule.split(f, [None, width])
    p_0, p_1 = schedule.split(p, [None, height])
    schedule.reorder(*places, f_0, p_0, *reduced, p_1, f_1)
    _write_out(schedule, [p_1], f_1)


def _side(schedule: Schedule, state: State, stages: list[Stage], loop: str | None = None) -> None:
    """The transforms of an operand: the last one for each vector of channels (of the image: and
    each tile, in a strip; of the kernel: where it stands), and there those before it.
    """
    if not stages:
        return
    last, *others = stages
    places, lanes, other = _loops(schedule, last, loop)
    vector, lane = schedule.split(lanes, [None, state.lanes])
    schedule.reorder(other, vector, *places, lane)
    _write_out(schedule, places, lane)
    move_to_the_end(schedule, last.block, last.lanes)
    for stage in others:
        _transform_at(schedule, stage, vector)


def _image(schedule: Schedule, state: State, image: Stage, strip: str) -> None:
    """The padded image of a strip, in vectors of channels."""
    loops = list(schedule.compute_at(image.block, strip))
    vector, lane = schedule.split(loops.pop(image.lanes), [None, state.lanes])
    schedule.reorder(vector, *loops, lane)
    schedule.vectorize(lane)
    move_to_the_end(schedule, image.block, image.lanes)


def _loops(schedule: Schedule, stage: Stage, loop: str | None = None) -> tuple[list[str], str, str]:
    """Move a block; its loops over places in a tile, over channels, and over what is counted."""
    if loop is None:
        moved = schedule.get_loops(stage.block)
    else:
        moved = schedule.compute_at(stage.block, loop)
    by_place = dict(enumerate(moved))
    lanes, other = by_place.pop(stage.lanes), by_place.pop(stage.other)
    count = len(schedule.program.buffers[_written(schedule, stage.block)].shape)
    return [loop for at, loop in by_place.items() if at < count], lanes, other


def _write_out(schedule: Schedule, places: list[str], lanes: str) -> None:
    schedule.vectorize(lanes)
    for loop in places:
        schedule.unroll(loop)


TRANSFORMS: Final = Rule("transforms", always, _apply)
