"""Terms that lie in the padding of an image, left out along the axes of which a tile has one place.

for z.0, y.0, x.0, f.0:         S    in parts
    for z.1, y.1, x.1:
        for rz, ry:             R    where they are inside of the image
            for rx, k:          R
                for x.2, f.1:   S    a tile in registers
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.search.sketch.blocks import Pair, loops_by_axis, reduce_iters, spatial_iters
from minitensor.search.sketch.rule import State

SHARE: Final = 1 / 16
"""The part of all products that is saved, at least, where the reductions are put in another order
for it."""
LEAST: Final = 32
"""Products that are saved for each weight, at least, where weights are looked through in each call
for what is not finite: reading one from memory takes that long."""
INSIDE: Final = 48
"""Iterations of the reductions that run for each time that it is asked what is outside, at least: a
condition in the midst of a tile costs more than it saves."""


def skip_borders(schedule: Schedule, state: State, pair: Pair, channels: str) -> list[ir.Iter]:
    """Leave out what lies in the padding along the axes that are not in a tile, if it is enough.

    channels  the reduction that is the innermost; "" for the last one

    Returns the reductions in their order, outermost first: where much is left out, those that tell
    what is outside come first.
    """
    ordered = sorted(reduce_iters(state.block), key=lambda i: i.var == channels)
    for axis in spatial_iters(state.block):
        if axis.extent > 1 and axis.var not in (pair.rows.var, pair.lanes.var):
            tried = schedule.copy()
            loop = loops_by_axis(schedule, state.name)[axis.var]
            try:
                tried.skip_padding(state.name, loop)
            except ScheduleError:
                continue
            old, new = (s.program.blocks[state.name] for s in (schedule, tried))
            condition, order = _condition(old, new), ordered
            if _share_outside(condition, new) >= SHARE:
                order = sorted(ordered, key=lambda i: not ir.mentions(condition, i.var))
            inside = _iterations_inside(condition, order)
            if inside >= INSIDE and _saves_enough(schedule.program, tried.program, state.name):
                schedule.skip_padding(state.name, loop)
                ordered = order
    return ordered


def _iterations_inside(condition: ir.Expr, ordered: Sequence[ir.Iter]) -> int:
    """The iterations of reductions inside of all those on which a condition depends."""
    inside = takewhile(lambda axis: not ir.mentions(condition, axis.var), reversed(ordered))
    return math.prod(axis.extent for axis in inside)


def _condition(before: ir.Block, after: ir.Block) -> ir.Expr:
    """The conditions of a block that it had not before."""
    known = ir.conjuncts(before.body.condition) if isinstance(before.body, ir.If) else ()
    found = ir.conjuncts(after.body.condition) if isinstance(after.body, ir.If) else ()
    return ir.conjunction(part for part in found if part not in known)


def _saves_enough(before: ir.Program, after: ir.Program, name: str) -> bool:
    """Return whether the products left out outweigh the sums that stand for them."""
    sums = [b for label, b in after.blocks.items() if label not in before.blocks]
    if _inputs(after, sums) <= after.constants:
        return True
    block = after.blocks[name]
    weights = {i.var for b in sums for i in b.iters}
    places = math.prod(i.extent for i in spatial_iters(block) if i.var not in weights)
    axis = math.prod(
        i.extent for i in spatial_iters(block) if i.var in weights and _guards(block, i)
    )
    share = _share_outside(_condition(before.blocks[name], block), block)
    return places * axis * share >= LEAST


def _guards(block: ir.Block, axis: ir.Iter) -> bool:
    return isinstance(block.body, ir.If) and ir.mentions(block.body.condition, axis.var)


def _share_outside(condition: ir.Expr, block: ir.Block) -> float:
    """The share of a block's products that a condition leaves out."""
    used = [i for i in block.iters if ir.mentions(condition, i.var)]
    places = np.meshgrid(*(np.arange(i.extent) for i in used), indexing="ij")
    inside = ir.value_by_numpy(condition, {i.var: at for i, at in zip(used, places)})
    return 1.0 - float(np.mean(inside))


def _inputs(program: ir.Program, blocks: Iterable[ir.Block]) -> set[str]:
    """The inputs on which what some blocks compute depends."""
    found, pending = set[str](), [load.buffer for b in blocks for load in ir.loads(b.body)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [x.buffer for w in ir.writers(program, name) for x in ir.loads(w.body)]
    return {name for name in found if not ir.writers(program, name)}
