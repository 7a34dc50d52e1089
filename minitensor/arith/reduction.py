"""Starting a reduction in a nest of its own: when that is right, and the nest.

Shared by the primitive decompose_reduction and by code generation, which does the same where a
schedule has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitensor import ir
from minitensor.arith.injectivity import separates
from minitensor.arith.interval import Ranges, extent_range
from minitensor.arith.prefetch import other_notes
from minitensor.arith.simplify import Simplifier


def carries(block: ir.Block, loop: str) -> bool:
    """Return whether the loop drives a REDUCE or ORDERED iter of the block."""
    return _drives(block, loop, spatial=False)


def mixes(block: ir.Block, loop: str) -> bool:
    """Return whether the loop drives both such an iter and a spatial one."""
    return carries(block, loop) and _drives(block, loop, spatial=True)


def _drives(block: ir.Block, loop: str, spatial: bool) -> bool:
    return any(
        (i.kind is ir.IterKind.SPATIAL) == spatial and loop in ir.free_vars(i.binding)
        for i in block.iters
    )


def starts(block: ir.Block, loops: Sequence[ir.For], depth: int) -> bool:
    """Return whether the reduction is known to begin where the loops from `depth` inwards begin.

    It does not in the second part of a loop that a split has cut in two, nor before what its init
    reads is computed.
    """
    if comes_late(block, loops[depth]):
        return False
    first: dict[str, ir.Expr] = {loop.var: ir.Const(0) for loop in loops[depth:]}
    simplifier = Simplifier({loop.var: extent_range(loop.extent) for loop in loops[:depth]})
    return all(
        simplifier.expr(ir.substitute(i.binding, first)) == ir.Const(0)
        for i in block.iters
        if i.kind is not ir.IterKind.SPATIAL
    )


def comes_late(block: ir.Block, loop: ir.For) -> str:
    """A buffer that a block's init reads, and that another block in the loop computes; "" if there
    is none.
    """
    read = {load.buffer for load in ir.loads(block.init)} if block.init is not None else set()
    others = [b for b in ir.blocks_of(loop) if b is not block] if read else []
    return min(read & {name for b in others for name in ir.stored_buffers(b.body)}, default="")


def repeats(block: ir.Block, loops: Sequence[ir.For], depth: int) -> str | None:
    """A loop from `depth` inwards, not part of the reduction, that computes elements again."""
    inner = loops[depth:]
    free = frozenset(loop.var for loop in inner)
    ranges: Ranges = {loop.var: extent_range(loop.extent) for loop in loops}
    outside = Simplifier(ranges, keep_units=True)
    bindings = {i.var: outside.linear(i.binding) for i in block.iters}
    simplifier = Simplifier(ranges, bindings, keep_units=True)
    store = next(n for n in ir.walk(block.body) if isinstance(n, (ir.Store, ir.Reduce)))
    index = [simplifier.linear(e) for e in store.indices]
    for loop in inner:
        if not carries(block, loop.var) and not separates(loop.var, index, index, free, ranges):
            return loop.var
    return None


def init_nest(
    block: ir.Block,
    loops: Sequence[ir.For],
    depth: int,
    name: str,
    fresh: Callable[[str, str], str],
) -> tuple[tuple[ir.For, ...], ir.Block]:
    """The loops and the block that initialise what the loops from `depth` inwards reduce.

    name   of the new block
    fresh  gives the name of a new loop, from that of the loop it copies (without that of its
           block) and `name`
    """
    copied = [loop for loop in loops[depth:] if not carries(block, loop.var)]
    prefix = f"{block.name}_"
    renamed = {loop.var: fresh(loop.var.removeprefix(prefix), name) for loop in copied}
    values: dict[str, ir.Expr] = {loop.var: ir.Const(0) for loop in loops[depth:]}
    values.update({old: ir.Var(new) for old, new in renamed.items()})
    own = tuple(
        ir.For(renamed[loop.var], loop.extent, loop.body, loop.kind, other_notes(loop))
        for loop in copied
    )
    ranges = {loop.var: extent_range(loop.extent) for loop in (*loops[:depth], *own)}
    simplifier = Simplifier(ranges, keep_units=True)
    assert block.init is not None
    init = ir.Block(
        name,
        tuple(
            ir.Iter(i.var, i.extent, i.kind, simplifier.expr(ir.substitute(i.binding, values)))
            for i in block.iters
            if i.kind is ir.IterKind.SPATIAL
        ),
        block.init,
        predicate=ir.conjunction(
            simplifier.expr(ir.substitute(part, values)) for part in ir.conjuncts(block.predicate)
        ),
    )
    return own, init
