"""Starting a reduction in a nest of its own: when that is right, and the nest.

Shared by the primitive decompose_reduction and by code generation, which does the same where a
schedule has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitensor.arith.digits import separates
from minitensor.arith.interval import Ranges, extent_range
from minitensor.arith.simplify import Simplifier
from minitensor.ir import (
    Block,
    Const,
    Expr,
    For,
    Iter,
    IterKind,
    Reduce,
    Store,
    Var,
    conjunction,
    conjuncts,
    free_vars,
    substitute,
    walk,
)


def carries(block: Block, loop: str) -> bool:
    """Whether the loop drives a REDUCE or ORDERED iter of the block."""
    return _drives(block, loop, spatial=False)


def mixes(block: Block, loop: str) -> bool:
    """Whether the loop drives both such an iter and a spatial one."""
    return carries(block, loop) and _drives(block, loop, spatial=True)


def _drives(block: Block, loop: str, spatial: bool) -> bool:
    return any(
        (i.kind is IterKind.SPATIAL) == spatial and loop in free_vars(i.binding)
        for i in block.iters
    )


def repeats(block: Block, loops: Sequence[For], depth: int) -> str | None:
    """A loop from `depth` inwards, not part of the reduction, that computes elements again."""
    inner = loops[depth:]
    free = frozenset(loop.var for loop in inner)
    ranges: Ranges = {loop.var: extent_range(loop.extent) for loop in loops}
    outside = Simplifier(ranges, keep_units=True)
    bindings = {i.var: outside.linear(i.binding) for i in block.iters}
    simplifier = Simplifier(ranges, bindings, keep_units=True)
    store = next(n for n in walk(block.body) if isinstance(n, (Store, Reduce)))
    index = [simplifier.linear(e) for e in store.indices]
    for loop in inner:
        if not carries(block, loop.var) and not separates(loop.var, index, index, free, ranges):
            return loop.var
    return None


def init_nest(
    block: Block, loops: Sequence[For], depth: int, name: str, fresh: Callable[[str], str]
) -> tuple[tuple[For, ...], Block]:
    """The loops and the block that initialise what the loops from `depth` inwards reduce.

    name   of the new block
    fresh  gives the name of a new loop, from that of the loop it copies
    """
    copied = [loop for loop in loops[depth:] if not carries(block, loop.var)]
    renamed = {loop.var: fresh(loop.var) for loop in copied}
    values: dict[str, Expr] = {loop.var: Const(0) for loop in loops[depth:]}
    values.update({old: Var(new) for old, new in renamed.items()})
    own = tuple(
        For(renamed[loop.var], loop.extent, loop.body, loop.kind, loop.annotations)
        for loop in copied
    )
    ranges = {loop.var: extent_range(loop.extent) for loop in (*loops[:depth], *own)}
    simplifier = Simplifier(ranges, keep_units=True)
    assert block.init is not None
    init = Block(
        name,
        tuple(
            Iter(i.var, i.extent, i.kind, simplifier.expr(substitute(i.binding, values)))
            for i in block.iters
            if i.kind is IterKind.SPATIAL
        ),
        block.init,
        predicate=conjunction(
            simplifier.expr(substitute(part, values)) for part in conjuncts(block.predicate)
        ),
    )
    return own, init
