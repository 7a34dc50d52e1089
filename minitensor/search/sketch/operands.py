"""How the operands of a reduction use its axes: what can be lanes, and what rows, of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.arith import Linear, linear_of
from minitensor.search.sketch.predicates import (
    is_ordered,
    reads_of,
    reduce_iters,
    spatial_iters,
)

FEW: Final = 4
"""Rows that are enough for a register tile."""


@dataclass(frozen=True)
class Pair:
    """Two axes of a reduction that make a register tile.

    lanes         an operand has it, and another has not
    rows          the other way round
    scattered     in how many operands neighbouring lanes are not side by side
    lanes_packed  the operands with lanes that can be packed; those that are scattered are among
                  them
    rows_packed   those with rows that can be packed
    """

    lanes: ir.Iter
    rows: ir.Iter
    scattered: int
    lanes_packed: tuple[ir.Load, ...]
    rows_packed: tuple[ir.Load, ...]


def is_sum(block: ir.Block) -> bool:
    """Whether it is a reduction of one value that rules may tile, each element at its own axes."""
    body = block.body
    if not isinstance(body, ir.Reduce) or len(body.buffers) != 1 or is_ordered(block):
        return False
    axes = [ir.Var(i.var) for i in spatial_iters(block)]
    return bool(reduce_iters(block)) and sorted(map(str, body.indices)) == sorted(map(str, axes))


def operands(block: ir.Block) -> list[ir.Load]:
    """The different places that a block reads."""
    return list(dict.fromkeys(reads_of(block)))


def uses(load: ir.Load, axis: ir.Iter) -> bool:
    """Whether the place depends on an axis."""
    return any(axis.var in ir.free_vars(index) for index in load.indices)


def is_last(load: ir.Load, axis: ir.Iter) -> bool:
    """Whether the axis is used in the last index and in no other."""
    used = [n for n, index in enumerate(load.indices) if axis.var in ir.free_vars(index)]
    return used == [len(load.indices) - 1]


def is_contiguous(load: ir.Load, axis: ir.Iter) -> bool:
    """Whether neighbours along the axis are side by side."""
    if not is_last(load, axis):
        return False
    rest = linear_of(load.indices[-1]).minus(Linear({ir.Var(axis.var): 1}))
    return not rest.mentions_any([axis.var])


def place_of(load: ir.Load, axis: ir.Iter) -> int | None:
    """The dimension that the axis alone indexes, if it is used nowhere else; else None."""
    found = [n for n, index in enumerate(load.indices) if axis.var in ir.free_vars(index)]
    plain = len(found) == 1 and load.indices[found[0]] == ir.Var(axis.var)
    return found[0] if plain else None


def written_place(block: ir.Block, axis: ir.Iter) -> int:
    """The dimension of the result that an axis indexes."""
    assert isinstance(block.body, ir.Reduce)
    return block.body.indices.index(ir.Var(axis.var))


def pairs(block: ir.Block) -> list[Pair]:
    """The register tiles that a reduction offers, those that need the least packing first.

    Of the axes that could be rows with some lanes it is the last one that is not too short. A pair
    is left out if the same axes the other way round need less.
    """
    if not is_sum(block):
        return []
    found = [p for lanes in spatial_iters(block) for p in _with_lanes(block, lanes)]
    costs = {(p.lanes.var, p.rows.var): _cost(block, p) for p in found}
    best = [p for p in found if not _mirrored_is_better(block, p, costs)]
    return sorted(best, key=lambda p: _cost(block, p))


def _with_lanes(block: ir.Block, lanes: ir.Iter) -> Sequence[Pair]:
    reads = operands(block)
    mine = [load for load in reads if uses(load, lanes)]
    others = [load for load in reads if not uses(load, lanes)]
    scattered = [load for load in mine if not is_contiguous(load, lanes)]
    if lanes.extent < 2 or any(not _can_be_packed(reads, load, lanes) for load in scattered):
        return []
    rows = [
        axis
        for axis in spatial_iters(block)
        if axis.extent > 1
        and any(uses(load, axis) for load in others)
        and any(not uses(load, axis) for load in mine)
    ]
    if not rows:
        return []
    chosen = next((a for a in reversed(rows) if a.extent >= FEW), None)
    chosen = chosen or max(rows, key=lambda axis: axis.extent)
    return [
        Pair(
            lanes,
            chosen,
            len(scattered),
            tuple(load for load in mine if _can_be_packed(reads, load, lanes)),
            tuple(load for load in others if _can_be_packed(reads, load, chosen)),
        )
    ]


def _can_be_packed(reads: Sequence[ir.Load], load: ir.Load, axis: ir.Iter) -> bool:
    """Whether the axis is a dimension of the operand, which is read at no other place."""
    alone = sum(other.buffer == load.buffer for other in reads) == 1
    return alone and place_of(load, axis) is not None


def _cost(block: ir.Block, pair: Pair) -> int:
    """How many arrays have to be turned around for it."""
    last = written_place(block, pair.lanes) == len(spatial_iters(block)) - 1
    return pair.scattered + (not last)


def _mirrored_is_better(block: ir.Block, pair: Pair, costs: dict[tuple[str, str], int]) -> bool:
    mirrored = costs.get((pair.rows.var, pair.lanes.var))
    plain = all(
        place_of(load, axis) is not None
        for axis in (pair.lanes, pair.rows)
        for load in operands(block)
        if uses(load, axis)
    )
    return mirrored is not None and plain and mirrored < costs[pair.lanes.var, pair.rows.var]
