"""Quotients by the sum of a softmax: one reciprocal for each row, and products.

That rounds once more, and goes wrong where a divisor is so small that its reciprocal is an
infinity. A sum of exp(x - the maximum of all x) is 1 at least, so there it does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from minitensor import ir
from minitensor.search.sketch.blocks import (
    elementwise_store,
    is_sum,
    reduce_iters,
    reduction_of,
    spatial_iters,
    uses,
    writers,
)
from minitensor.search.sketch.rule import Rule, State, unless_refused, where


def divisors(block: ir.Block) -> list[str]:
    """The buffers by whose elements it divides, the same one for several of its instances."""
    found = {
        node.b.buffer
        for node in ir.walk(block.body)
        if isinstance(node, ir.Binary) and node.op == "/" and isinstance(node.b, ir.Load)
        if any(i.extent > 1 and not uses(node.b, i) for i in spatial_iters(block))
    }
    return sorted(found)


def is_one_or_more(program: ir.Program, buffer: str) -> bool:
    """Return whether a buffer has sums over all j of exp(x[j] - the maximum of the same x)."""
    total, term = _reduced_into(program, buffer, "+")
    if total is None or not isinstance(term, ir.Load):
        return False
    powers = _only_writer(program, term.buffer)
    if powers is None:
        return False
    axes_of_powers = tuple(ir.Var(i.var) for i in powers.iters)
    match elementwise_store(powers):
        case ir.Store(
            _, at, ir.Call("exp_nonpositive", (ir.Binary("-", x, ir.Load() as most),))
        ) if at == axes_of_powers:
            largest, value = _reduced_into(program, most.buffer, "max")
        case _:
            return False
    if largest is None or value is None:
        return False
    placed = {name for index in most.indices for name in ir.free_vars(index)}
    left = [i for i in powers.iters if i.var not in placed]
    theirs = [*spatial_iters(largest), *reduce_iters(largest)]
    ours = [*most.indices, *(ir.Var(i.var) for i in left)]
    if [i.extent for i in left] != [i.extent for i in reduce_iters(largest)]:
        return False
    maximized = ir.substitute(value, {i.var: v for i, v in zip(theirs, ours)})
    summed = {i.var: i.extent for i in reduce_iters(total)}
    axes = [v.name for v in term.indices if isinstance(v, ir.Var)]
    added_up = {i.var: summed.get(v) for i, v in zip(powers.iters, axes)}
    return (
        maximized == x
        and len({*axes}) == len(term.indices)
        and all(added_up[i.var] == (i.extent if i in left else None) for i in powers.iters)
    )


def _only_writer(program: ir.Program, buffer: str) -> ir.Block | None:
    writing = [program.blocks[name] for name in writers(program, buffer)]
    return writing[0] if len(writing) == 1 and writing[0].predicate == ir.TRUE else None


def _reduced_into(
    program: ir.Program, buffer: str, op: str
) -> tuple[ir.Block, ir.Expr] | tuple[None, None]:
    """The block that combines values into a buffer by an operation, if it alone writes that, each
    element at its axes; and the values.
    """
    block = _only_writer(program, buffer)
    if block is None or not is_sum(block):
        return None, None
    axes = tuple(ir.Var(i.var) for i in spatial_iters(block))
    match reduction_of(block):
        case ir.Reduce(reducer, _, at, (value,)) if at == axes and ir.combines(reducer) == op:
            return block, value
    return None, None


def _sums(state: State) -> list[str]:
    """The buffers by which the block divides that have sums of 1 or more."""
    return [b for b in divisors(state.block) if is_one_or_more(state.program, b)]


@unless_refused
def _apply(state: State, cores: int) -> list[State]:
    """One state: the block is looked at again, and the reciprocals after it."""
    schedule = state.schedule.copy()
    made = [schedule.use_reciprocal(state.name, buffer) for buffer in _sums(state)]
    what = "one division for each row, and products"
    after = state.after("reciprocals", what, schedule, stay=True)
    return [replace(after, pending=(state.name, *made, *after.pending[1:]))]


RECIPROCALS: Final = Rule("reciprocals", where(lambda state: bool(_sums(state))), _apply)
