"""The stages of a product of transformed tiles, such as Winograd's convolution.

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
from minitensor.search.sketch.operands import is_sum, operands, place_of, uses
from minitensor.search.sketch.padding import is_padding, readers
from minitensor.search.sketch.predicates import is_output, reduce_iters, spatial_iters

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


def is_transform(block: ir.Block) -> bool:
    """Whether it chooses its value by an axis of few elements."""
    if not isinstance(block.body, ir.Store) or spatial_iters(block) != block.iters:
        return False
    if block.body.indices != tuple(ir.Var(i.var) for i in block.iters):
        return False
    small = {i.var for i in block.iters if i.extent <= SMALL}
    chosen = [n.condition for n in ir.walk(block.body.value) if isinstance(n, ir.Select)]
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
    assert isinstance(block.body, ir.Reduce)
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
    return min(ir.accessed_buffers(schedule.program.blocks[block])[1])


def _producer(
    schedule: Schedule, block: str, pending: Collection[str], buffer: str | None = None
) -> str | None:
    """The one block that is pending of those whose results a block reads, if nobody else does."""
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
