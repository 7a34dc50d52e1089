"""Properties of blocks that rules ask for: iters, reuse, readers; and operands of reductions, whose
axes can be lanes or rows of a register tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from minitensor import ir
from minitensor.arith import Linear, linear_of
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule

PARALLELISM: Final = 16
"""Iterations for each core that are enough to keep it busy."""
_CHEAP: Final = ("abs", "popcount", "floor", "ceil", "round")


def spatial_iters(block: ir.Block) -> tuple[ir.Iter, ...]:
    """The axes along which each iteration writes an element of its own."""
    return tuple(i for i in block.iters if i.kind is ir.IterKind.SPATIAL)


def reduce_iters(block: ir.Block) -> tuple[ir.Iter, ...]:
    """The axes over which is reduced."""
    return tuple(i for i in block.iters if i.kind is ir.IterKind.REDUCE)


def is_ordered(block: ir.Block) -> bool:
    """Return whether iterations must keep their order: an update, which no rule touches."""
    return any(i.kind is ir.IterKind.ORDERED for i in block.iters)


def loops_by_axis(schedule: Schedule, block: str) -> dict[str, str]:
    """The loop of each axis of a block that stands alone in its nest, in the order of the axes."""
    iters = schedule.program.blocks[block].iters
    bound = [i.binding.name for i in iters if isinstance(i.binding, ir.Var)]
    loops = bound if len(bound) == len(iters) else schedule.get_loops(block)
    return dict(zip((i.var for i in iters), loops))


def fused(schedule: Schedule, loops: Sequence[str]) -> str:
    """The loop that nested loops are fused into; a single one is itself."""
    return schedule.fuse(*loops) if len(loops) > 1 else loops[0]


def accepts(schedule: Schedule, primitive: str, *arguments: str) -> bool:
    """Return whether a step would not be refused."""
    try:
        getattr(schedule.copy(), primitive)(*arguments)
    except ScheduleError:
        return False
    return True


def written_by(block: ir.Block) -> str:
    """The buffer that a block writes, the first by name if several."""
    return min(ir.accessed_buffers(block)[1])


def readers(program: ir.Program, buffer: str) -> list[str]:
    """The blocks that read a buffer."""
    return [block.name for block in ir.readers(program, buffer)]


def writers(program: ir.Program, buffer: str) -> list[str]:
    """The blocks that write a buffer: two for an update that stands for itself and its init."""
    return [block.name for block in ir.writers(program, buffer)]


def elementwise_store(block: ir.Block) -> ir.Store | None:
    """The store of a block that computes each element once, by itself; None of any other."""
    plain = block.init is None and spatial_iters(block) == block.iters
    return block.body if plain and isinstance(block.body, ir.Store) else None


def is_output(program: ir.Program, block: ir.Block) -> bool:
    """Return whether the block writes a parameter."""
    return not ir.accessed_buffers(block)[1].isdisjoint(b.name for b in program.params)


def is_cheap(function: str) -> bool:
    """Return whether a function may be computed again rather than stored."""
    return function in _CHEAP


def is_strictly_inlinable(
    program: ir.Program, block: ir.Block, again: Callable[[str], bool] = is_cheap
) -> bool:
    """Return whether a reader may compute it in its place at no cost.

    It alone writes what it writes, and no output of the program. It reads every buffer at its own
    axes (shifted by constants, or at constants), in their order, none of them twice; there is no
    branch in it, and no function that costs much. A block that reads nothing is a constant.

    again  tells which functions cost so little that they may be computed again
    """
    store = elementwise_store(block)
    if store is None or is_output(program, block) or len(writers(program, store.buffer)) > 1:
        return False
    value = store.value
    if not any(True for _ in ir.loads(value)):
        return True
    nodes = list(ir.walk(value))
    if any(isinstance(node, ir.Select) for node in nodes):
        return False
    if any(isinstance(n, ir.Call) and not again(n.function) for n in nodes):
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


def is_inlinable_once(program: ir.Program, block: ir.Block) -> bool:
    """Return whether its only reader may compute it in its place, whatever it costs: it reads
    another element in each iteration.
    """
    if not is_strictly_inlinable(program, block, lambda function: True):
        return False
    buffer = written_by(block)
    reading = [program.blocks[name] for name in readers(program, buffer)]
    loads = [n for b in reading for n in reads_of(b) if n.buffer == buffer]
    if len(loads) != 1:
        return False
    axes = {i.var for i in reading[0].iters if i.extent > 1}
    return axes <= {axis_of(index) for index in loads[0].indices}


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
    """Return whether elements that it reads serve several of its iterations: tiles pay then.

    Two of the places that it reads are indexed without one of its spatial axes of extent above 1;
    or one is, and the block reduces.
    """
    if is_ordered(block):
        return False
    own = ir.accessed_buffers(block)[1] if reduction_of(block) is not None else set()
    missing = sum(
        any(i.extent > 1 and not uses(load, i) for i in spatial_iters(block))
        for load in operands(block)
        if load.buffer not in own
    )
    return missing >= 2 or (missing >= 1 and bool(reduce_iters(block)))


def reads_of(block: ir.Block) -> Iterator[ir.Load]:
    """The reads of a block, without those of the element in which a reduction collects."""
    body = reduction_of(block)
    for value in body.values if body is not None else (block.body,):
        yield from ir.loads(value)


def reduction_of(block: ir.Block) -> ir.Reduce | None:
    """The update of a reduction, of some iterations perhaps; None of any other block."""
    body = block.body.then if isinstance(block.body, ir.If) else block.body
    return body if isinstance(body, ir.Reduce) else None


def fusible_consumer(program: ir.Program, block: ir.Block) -> str | None:
    """The one block that reads what this one writes, if it does so element by element.

    It reads it at its own axes in their order, over the same extents, and reduces nothing unless
    this block does not reduce either. What it reads besides is computed before this block.
    """
    written = ir.accessed_buffers(block)[1]
    if len(written) != 1 or is_output(program, block):
        return None
    (buffer,) = written
    found = [name for name in readers(program, buffer) if name != block.name]
    if len(found) != 1 or len(writers(program, buffer)) > 1:
        return None
    consumer = program.blocks[found[0]]
    shape = program.buffers[buffer].shape
    if reduce_iters(consumer) or is_ordered(consumer) or _waits(program, consumer, block):
        return None
    axes = spatial_iters(consumer)
    if tuple(i.extent for i in axes) != shape or len(spatial_iters(block)) != len(shape):
        return None
    mine = tuple(ir.Var(i.var) for i in axes)
    reads = [load for load in reads_of(consumer) if load.buffer == buffer]
    return consumer.name if all(load.indices == mine for load in reads) else None


def _waits(program: ir.Program, consumer: ir.Block, block: ir.Block) -> bool:
    """Return whether a consumer reads what is computed after a block."""
    order = list(program.blocks)
    late = order[order.index(block.name) + 1 :]
    read = ir.accessed_buffers(consumer)[0]
    return any(
        not read.isdisjoint(ir.accessed_buffers(program.blocks[name])[1])
        for name in late
        if name != consumer.name
    )


def needs_more_reduction_parallelism(block: ir.Block, cores: int) -> bool:
    """Return whether its spatial axes cannot keep the cores busy, but its reduction axes could.

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


FEW, OFTEN = 4, 16
"""Rows that are enough for a register tile, and uses for which an element is worth converting."""
HALVES: Final = ("float16", "bfloat16")


@dataclass(frozen=True)
class Pair:
    """Two axes of a reduction that make a register tile.

    lanes         an operand has it, and another has not; as long as a group (see `in_groups`)
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
    """Return whether it is a reduction of one value, each element at its own axes."""
    return is_reduction(block) and len(ir.accessed_buffers(block)[1]) == 1


def is_reduction(block: ir.Block) -> bool:
    """Return whether it is a reduction, of several values perhaps, each element at its own axes."""
    body = reduction_of(block)
    if body is None or is_ordered(block):
        return False
    axes = [ir.Var(i.var) for i in spatial_iters(block)]
    return bool(reduce_iters(block)) and sorted(map(str, body.indices)) == sorted(map(str, axes))


def operands(block: ir.Block) -> list[ir.Load]:
    """The different places that a block reads."""
    return list(dict.fromkeys(reads_of(block)))


def dimensions(load: ir.Load, axis: ir.Iter) -> list[int]:
    """The dimensions whose index depends on an axis."""
    return [n for n, index in enumerate(load.indices) if axis.var in ir.free_vars(index)]


def uses(load: ir.Load, axis: ir.Iter) -> bool:
    """Return whether the place depends on an axis."""
    return bool(dimensions(load, axis))


def is_read_often(block: ir.Block, load: ir.Load) -> bool:
    """Return whether each element is read for many elements of the result."""
    return math.prod(a.extent for a in spatial_iters(block) if not uses(load, a)) >= OFTEN


def is_last(load: ir.Load, axis: ir.Iter) -> bool:
    """Return whether the axis is used in the last index and in no other."""
    return dimensions(load, axis) == [len(load.indices) - 1]


def is_contiguous(load: ir.Load, axis: ir.Iter, block: ir.Block | None = None) -> bool:
    """Return whether neighbours along the axis are side by side.

    block  whose other axes do not matter at the end of the indices if they have one iteration
    """
    others = block.iters if block else ()
    units = [ir.Var(i.var) for i in others if i.extent == 1 and i != axis]
    while load.indices[1:] and load.indices[-1] in units:
        load = ir.Load(load.buffer, load.indices[:-1], load.dtype)
    if not is_last(load, axis):
        return False
    rest = linear_of(load.indices[-1]).minus(Linear({ir.Var(axis.var): 1}))
    return not rest.mentions_any([axis.var])


def place_of(load: ir.Load, axis: ir.Iter) -> int | None:
    """The dimension that the axis alone indexes, if it is used nowhere else; else None."""
    found = dimensions(load, axis)
    plain = len(found) == 1 and load.indices[found[0]] == ir.Var(axis.var)
    return found[0] if plain else None


def written_place(block: ir.Block, axis: ir.Iter) -> int:
    """The dimension of the result that an axis indexes."""
    body = reduction_of(block)
    assert body is not None
    return body.indices.index(ir.Var(axis.var))


def in_groups(block: ir.Block) -> ir.Block:
    """The block as it is within one group of each axis that its operands divide, such as the output
    channels f of a convolution in groups: `f // 8` is the same for all 8 of a group.
    """
    sizes: dict[str, set[int]] = {}
    for node in ir.walk(block.body):
        match node:
            case ir.Binary("//", ir.Var(axis), ir.Const(int(size))) if size >= FEW:
                sizes.setdefault(axis, set()).add(size)
    groups = {
        i: min(sizes[i.var])
        for i in spatial_iters(block)
        if len(sizes.get(i.var, ())) == 1 and i.extent % min(sizes[i.var]) == 0
    }
    quotients = {ir.Binary("//", ir.Var(i.var), ir.Const(size)) for i, size in groups.items()}

    def constant(node: Any) -> Any:
        return ir.Const(0) if isinstance(node, ir.Binary) and node in quotients else node

    iters = tuple(replace(i, extent=groups.get(i, i.extent)) for i in block.iters)
    return replace(block, iters=iters, body=ir.rewrite(block.body, constant))


def pairs(block: ir.Block, lanes: int = 1) -> list[Pair]:
    """The register tiles that a reduction offers, those that need the least packing first.

    Of the axes that could be rows with some lanes it is the last one that is not too short. A pair
    is left out if the same axes the other way round need less packing, and fill vectors of so many
    lanes as well; or if it packs an operand for lanes that do not fill a vector, such as the images
    of a small batch, and another pair's do; or the result too, for lanes that do not fill two.
    """
    known = _known_pairs(block)
    if lanes not in known:
        known[lanes] = _pairs(block, lanes)
    return list(known[lanes])


@ir.fact
def _known_pairs(block: ir.Block) -> dict[int, list[Pair]]:
    """The pairs of a block by the lanes that were asked for."""
    return {}


def _pairs(block: ir.Block, lanes: int) -> list[Pair]:
    block = in_groups(block)
    if not is_sum(block):
        return []
    found = [p for lanes in spatial_iters(block) for p in _with_lanes(block, lanes)]
    costs = {(p.lanes.var, p.rows.var): _cost(block, p) for p in found}
    best = [p for p in found if not _mirrored_is_better(block, p, costs, lanes)]
    if any(p.lanes.extent >= lanes for p in best):
        best = [p for p in best if p.lanes.extent >= lanes or not p.scattered]
    if any(p.lanes.extent >= 2 * lanes for p in best):
        best = [p for p in best if p.lanes.extent >= 2 * lanes or _cost(block, p) < 2]
    return sorted(best, key=lambda p: _cost(block, p))


def _with_lanes(block: ir.Block, lanes: ir.Iter) -> Sequence[Pair]:
    reads = operands(block)
    mine = [load for load in reads if uses(load, lanes)]
    others = [load for load in reads if not uses(load, lanes)]
    scattered = [load for load in mine if not is_contiguous(load, lanes)]
    if lanes.extent < 2 or any(place_of(load, lanes) is None for load in scattered):
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
            tuple(load for load in mine if place_of(load, lanes) is not None),
            tuple(load for load in others if place_of(load, chosen) is not None),
        )
    ]


def copied(schedule: Schedule, block: str, load: ir.Load) -> str:
    """Copy what a block reads of a buffer, at this place alone; returns the block that copies."""
    places = [o for o in operands(schedule.program.blocks[block]) if o.buffer == load.buffer]
    if len(places) < 2:
        return schedule.cache_read(block, load.buffer, "global")
    return schedule.cache_read(block, load.buffer, "global", place=places.index(load))


def _cost(block: ir.Block, pair: Pair) -> int:
    """The number of arrays that have to be transposed for it."""
    last = written_place(block, pair.lanes) == len(spatial_iters(block)) - 1
    return pair.scattered + (not last)


def pieces(extent: int, lanes: int) -> int:
    """The vectors that hold a row: whole ones, and one for what remains of it, or two scalars."""
    whole, rest = divmod(extent, lanes)
    return whole + (1 if rest > 2 else rest)


def _is_ragged(extent: int, lanes: int) -> bool:
    """Return whether half as many vectors again are needed as the elements of a row would fill."""
    return 2 * pieces(extent, lanes) * lanes > 3 * extent


def _mirrored_is_better(
    block: ir.Block, pair: Pair, costs: dict[tuple[str, str], int], lanes: int
) -> bool:
    if _is_ragged(pair.rows.extent, lanes) and not _is_ragged(pair.lanes.extent, lanes):
        return False
    mirrored = costs.get((pair.rows.var, pair.lanes.var))
    plain = all(
        place_of(load, axis) is not None
        for axis in (pair.lanes, pair.rows)
        for load in operands(block)
        if uses(load, axis)
    )
    return mirrored is not None and plain and mirrored < costs[pair.lanes.var, pair.rows.var]
