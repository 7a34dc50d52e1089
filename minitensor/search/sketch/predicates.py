"""What a block is like, as Ansor's rules ask it (Zheng et al., OSDI 2020, section 4.1, table 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from minitensor import ir

PARALLELISM: Final = 16
"""Iterations for each core that are enough to keep it busy."""
_CHEAP: Final = ("abs", "floor", "ceil", "round")


def spatial_iters(block: ir.Block) -> tuple[ir.Iter, ...]:
    """The axes along which each iteration writes an element of its own."""
    return tuple(i for i in block.iters if i.kind is ir.IterKind.SPATIAL)


def reduce_iters(block: ir.Block) -> tuple[ir.Iter, ...]:
    """The axes over which is reduced."""
    return tuple(i for i in block.iters if i.kind is ir.IterKind.REDUCE)


def is_ordered(block: ir.Block) -> bool:
    """Whether some of its iterations must keep their order: an update, which no rule touches."""
    return any(i.kind is ir.IterKind.ORDERED for i in block.iters)


def is_output(program: ir.Program, block: ir.Block) -> bool:
    """Whether the block writes a parameter."""
    return not ir.accessed_buffers(block)[1].isdisjoint(b.name for b in program.params)


def is_strictly_inlinable(block: ir.Block) -> bool:
    """Whether a reader may compute it in its place at no cost.

    It reads every buffer at its own axes (shifted by constants, or at constants), in their order,
    none of them twice; there is no branch in it, and no function that costs much. A block that
    reads nothing is a constant.
    """
    if not isinstance(block.body, ir.Store) or block.init is not None:
        return False
    if any(i.kind is not ir.IterKind.SPATIAL for i in block.iters):
        return False
    value = block.body.value
    if not any(True for _ in ir.loads(value)):
        return True
    nodes = list(ir.walk(value))
    if any(isinstance(node, ir.Select) for node in nodes):
        return False
    if any(isinstance(n, ir.Call) and n.function not in _CHEAP for n in nodes):
        return False
    order = {i.var: n for n, i in enumerate(block.iters)}
    for load in ir.loads(value):
        axes = [axis_of(index) for index in load.indices]
        if any(axis is None for axis in axes):
            return False
        places = [order[axis] for axis in axes if axis]
        if places != sorted(set(places)):
            return False
    return True


def axis_of(index: ir.Expr) -> str | None:
    """The axis of which an index is a constant shift; "" for a constant, None for anything else."""
    match index:
        case ir.Const():
            return ""
        case (
            ir.Var(name)
            | ir.Binary("+" | "-", ir.Var(name), ir.Const())
            | ir.Binary("+", ir.Const(), ir.Var(name))
        ):
            return name
    return None


def has_data_reuse(block: ir.Block) -> bool:
    """Whether elements that it reads serve several of its iterations: tiles pay then.

    Two of the buffers that it reads are indexed without one of its spatial axes of extent above 1;
    or one is, and the block reduces.
    """
    if is_ordered(block):
        return False
    missing = sum(
        1
        for indices in _indices_by_buffer(block).values()
        if any(i.extent > 1 and i.var not in indices for i in spatial_iters(block))
    )
    return missing >= 2 or (missing >= 1 and bool(reduce_iters(block)))


def _indices_by_buffer(block: ir.Block) -> dict[str, set[str]]:
    """The variables with which each buffer is indexed."""
    own = ir.accessed_buffers(block)[1] if isinstance(block.body, ir.Reduce) else set()
    found: dict[str, set[str]] = {}
    for load in reads_of(block):
        if load.buffer not in own:
            names = found.setdefault(load.buffer, set())
            for index in load.indices:
                names |= set(ir.free_vars(index))
    return found


def reads_of(block: ir.Block) -> Iterator[ir.Load]:
    """What a block reads, without the place in which a reduction collects."""
    body = block.body
    for value in body.values if isinstance(body, ir.Reduce) else (body,):
        yield from ir.loads(value)


def fusible_consumer(program: ir.Program, block: ir.Block) -> str | None:
    """The one block that reads what this one writes, if it does so element by element.

    It reads it at its own axes in their order, over the same extents, and reduces nothing unless
    this block does not reduce either.
    """
    written = ir.accessed_buffers(block)[1]
    if len(written) != 1 or is_output(program, block):
        return None
    (buffer,) = written
    found = [
        b
        for b in program.blocks.values()
        if b.name != block.name and buffer in ir.accessed_buffers(b)[0]
    ]
    if len(found) != 1:
        return None
    consumer = found[0]
    shape = program.buffers[buffer].shape
    if reduce_iters(consumer) or is_ordered(consumer):
        return None
    axes = spatial_iters(consumer)
    if tuple(i.extent for i in axes) != shape or len(spatial_iters(block)) != len(shape):
        return None
    mine = tuple(ir.Var(i.var) for i in axes)
    reads = [load for load in reads_of(consumer) if load.buffer == buffer]
    return consumer.name if all(load.indices == mine for load in reads) else None


def needs_more_reduction_parallelism(block: ir.Block, cores: int) -> bool:
    """Whether its spatial axes alone cannot keep the cores busy, but its reduction axes could.

    For a block with reuse: it has no more spatial than reduction iterations, and at most 16 for
    each core. For another: it has more reduction iterations than there are cores.
    """
    reduction = math.prod(i.extent for i in reduce_iters(block))
    if not reduce_iters(block) or reduction <= 1 or is_ordered(block):
        return False
    space = math.prod(i.extent for i in spatial_iters(block))
    if has_data_reuse(block):
        return space <= reduction and space <= cores * PARALLELISM
    return reduction > cores
