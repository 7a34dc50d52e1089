"""Loops that a compiler must not make vectors of: those that read or store under a condition, or
that read backwards with gaps.

gcc (12 at least) with AVX-512 makes such a loop a masked load; where the mask turns out a constant,
as it does in a short loop, a later pass takes the load for one of the whole vector and merges it
into a blend. That reads what the condition was there to avoid: up to a vector behind a buffer.

It loses masked stores too, with AVX2 already, where the array is small and read right after: what
is read then was never written (`if (i*16 + j < 2) P[i*16 + j] = 1.0`, i below 3, j below 16).

It reads from wrong places, with AVX2 already, where an iteration reads under one condition as many
elements as it passes (in ? A[i*2 - 4] : 0 and in ? A[i*2 - 3] : 0, or one of the two twice): it
loads a group with a mask, as if they were all different and in order. A short loop that it writes
out makes such groups too.

Where a short loop is written out inside one that goes backwards (A[j - i*4 + 126], j below 2), it
loads each group with the gap behind it; it peels the last iteration for that where a loop goes
forwards, but not here, where the group behind which there is nothing is the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from minitensor import arith, ir

Loops: TypeAlias = tuple[ir.For, ...]

MASKED_LOADS: Final = 512
"""Bits of vectors from which on loads are masked."""
MASKED_STORES: Final = 256
"""Bits of vectors from which on stores are, and loads of groups."""
WRITTEN_OUT: Final = 16
"""Iterations of a loop up to which a compiler may write it out."""
KEEP_SCALAR: Final = '__asm__ volatile("");'
"""An instruction that does nothing and has no vector form."""


Position: TypeAlias = "Callable[[str, tuple[ir.Expr, ...]], arith.Linear]"
"""The position of an element in a buffer."""


def why_scalar(
    loop: ir.For,
    bits: int,
    position: Position,
    buffers: Collection[str],
    parameters: Collection[str],
) -> str:
    """The reason for which a compiler must not make vectors of a loop; empty if it may.

    bits        of its vectors
    buffers     all but those of an iteration's own
    parameters  those of the function
    """
    if bits >= MASKED_LOADS and may_be_masked(loop):
        return "a masked load may read all"
    if bits >= MASKED_STORES and stores_under_condition(loop):
        return "a masked store may be lost"
    if has_vectors(loop):
        return ""
    if bits >= MASKED_STORES and _reads_guarded_group(loop, position, buffers):
        return "a masked load of a group may read another"
    if _reads_backwards(loop, position, parameters):
        return "a load of a group backwards may read behind it"
    return ""


def _reads_guarded_group(loop: ir.For, position: Position, buffers: Collection[str]) -> bool:
    """Tell whether an iteration reads, under conditions, as many elements of a buffer as it
    passes.
    """
    groups: Counter[tuple[str, int]] = Counter()
    for load, inside in guarded_reads(loop.body):
        if load.buffer not in buffers:
            continue
        step = abs(position(load.buffer, load.indices).coefficient(loop.var))
        if step == 0 and loop.var in ir.free_vars(load):  # an index that is checked
            step = 2
        if step > 1 and all(one.extent <= WRITTEN_OUT for one in inside):
            groups[load.buffer, step] += math.prod(one.extent for one in inside)
    return any(count >= step for (_, step), count in groups.items())


def _reads_backwards(loop: ir.For, position: Position, parameters: Collection[str]) -> bool:
    """Tell whether a read goes back by more than an element from one iteration to the next."""
    reads = {n for n in ir.walk(loop.body) if isinstance(n, ir.Load) and n.buffer in parameters}
    return any(position(n.buffer, n.indices).coefficient(loop.var) < -1 for n in reads)


def may_be_masked(loop: ir.For) -> bool:
    """Tell whether a compiler could make vectors of a loop, with masks on what it reads.

    That is, whether an iteration reads, outside of loops inside it, what a condition may forbid
    (but not what the condition reads itself), and nothing in it lies in memory as a vector already:
    one whose lanes are apart is loaded and stored lane by lane, each a number to a compiler.
    """
    return not has_vectors(loop, side_by_side=True) and reads_under_condition(loop.body)


def stores_under_condition(loop: ir.For) -> bool:
    """Tell whether a compiler could make vectors of a loop, with masks on what it stores: whether
    there is a condition in it, outside of loops inside it, with no loop inside that.
    """
    guards = [s for s in _own(loop.body) if isinstance(s, ir.If)]
    alone = any(not any(ir.loops_of(guard)) for guard in guards)
    return alone and not has_vectors(loop, side_by_side=True)


def _own(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    """The statements that are not in a loop of their own."""
    match stmt:
        case ir.For():
            return
        case ir.Seq(stmts):
            for child in stmts:
                yield from _own(child)
        case ir.Alloc(body=body):
            yield from _own(body)
        case _:
            yield stmt


def has_vectors(loop: ir.For, side_by_side: bool = False) -> bool:
    """Tell whether something in a loop is a vector already; `side_by_side`: an access of one whose
    lanes are side by side in memory.
    """
    if side_by_side:
        return any(
            isinstance(node, (ir.Load, ir.Store)) and _is_side_by_side(node.indices)
            for node in ir.walk(loop.body)
        )
    return any(
        isinstance(node, (ir.Load, ir.Ramp, ir.Broadcast)) and node.dtype.lanes > 1
        for node in ir.walk(loop.body)
    )


def _is_side_by_side(indices: tuple[ir.Expr, ...]) -> bool:
    ramps = [n for index in indices for n in ir.walk(index) if isinstance(n, ir.Ramp)]
    return len(ramps) == 1 and ramps[0] == indices[-1] and ramps[0].stride == 1


def reads_under_condition(node: ir.Node) -> bool:
    """Tell whether a condition below the node, but for loops, may forbid a read there."""
    return any(not loops for _, loops in guarded_reads(node))


def guarded_reads(node: ir.Node, loops: Loops = ()) -> Iterator[tuple[ir.Load, Loops]]:
    """The reads below a node that a condition there may forbid, each with the loops around it that
    are below the node too.
    """
    match node:
        case ir.For(body=body):
            yield from guarded_reads(body, (*loops, node))
            return
        case ir.If(condition, then, otherwise):
            parts: tuple[ir.Node, ...] = (then,) if otherwise is None else (then, otherwise)
        case ir.Select(condition, a, b, lazy=True):
            parts = (a, b)
        case ir.Binary("and" | "or", condition, b):
            parts = (b,)
        case _:
            for child in ir.children(node):
                yield from guarded_reads(child, loops)
            return
    yield from guarded_reads(condition, loops)
    made = {load for load, _ in _reads(condition, loops)}
    for part in parts:
        yield from (found for found in _reads(part, loops) if found[0] not in made)


def _reads(node: ir.Node, loops: Loops) -> Iterator[tuple[ir.Load, Loops]]:
    """All reads below a node, as `guarded_reads` gives them."""
    inside = (*loops, node) if isinstance(node, ir.For) else loops
    if isinstance(node, ir.Load):
        yield node, loops
    for child in ir.children(node):
        yield from _reads(child, inside)
