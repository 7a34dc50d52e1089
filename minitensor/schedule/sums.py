"""New nests of sums, and what steps that make them do to the numbers of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.batch import Batch, Effect, StepView

Sized: TypeAlias = "list[tuple[str, int]]"
"""Names of iters, and their extents."""


def axis_loops(
    fresh: edit.Fresh, block: str, spatial: Sized, taps: Sized | None = None
) -> tuple[list[ir.For], tuple[ir.Iter, ...]]:
    """New loops and the iters that they drive, one each."""
    loops, iters = [], []
    for kind, axes in ((ir.IterKind.SPATIAL, spatial), (ir.IterKind.REDUCE, taps or [])):
        for name, extent in axes:
            loops.append(ir.For(fresh.loop(name, block), extent, ir.NOTHING))
            iters.append(ir.Iter(name, extent, kind, ir.Var(loops[-1].var)))
    return loops, tuple(iters)


def summed(
    fresh: edit.Fresh,
    reducer: ir.Reducer,
    block: str,
    buffer: str,
    spatial: Sized,
    taps: Sized,
    value: ir.Expr,
    inside: Sequence[ir.Expr] = (),
) -> tuple[ir.Stmt, ir.Buffer]:
    """A nest that sums a value over taps into a buffer; stores it where there are none."""
    loops, iters = axis_loops(fresh, block, spatial, taps)
    where, start = variables(spatial), reducer.identity[0]
    body: ir.Stmt = ir.Store(buffer, where, value)
    init: ir.Stmt | None = None
    if taps:
        body = ir.Reduce(reducer, (buffer,), where, (value,))
        init = ir.Store(buffer, where, start)
    made = ir.Block(block, iters, under(inside, body), init)
    shape = tuple(extent for _, extent in spatial)
    return ir.nest(loops, made), ir.Buffer(buffer, shape, value.dtype)


def variables(iters: Sized) -> tuple[ir.Expr, ...]:
    """The variables of some iters."""
    return tuple(ir.Var(name) for name, _ in iters)


def under(conditions: Sequence[ir.Expr], stmt: ir.Stmt) -> ir.Stmt:
    """A statement under conditions; itself where there are none."""
    return ir.If(ir.conjunction(conditions), stmt) if conditions else stmt


def made_batch(view: StepView) -> Effect:
    """The effect of a step that makes new blocks, and changes others, where the extents of their
    loops are the same for all candidates.
    """
    before, after = view.before, view.after
    changed = [b for name, b in after.blocks.items() if before.blocks.get(name) is not b]
    loops = {b.name: view.loops_after(b.name) for b in changed}
    old = {x.var: x.extent for b in changed for x in ir.paths(before).get(b.name, ())}
    extents = {name: site.loop.extent for name, site in ir.loop_sites(after).items()}
    shapes = {name: buffer.shape for name, buffer in after.buffers.items()}
    view.follow()

    def effect(batch: Batch) -> None:
        if not all(arith.same(batch.extents[name], extent) for name, extent in old.items()):
            raise arith.BatchError("sums are made of loops whose extents depend on the numbers")
        for block in changed:
            batch.extents.update({name: extents[name] for name in loops[block.name]})
            batch.sizes[block.name] = {i.var: i.extent for i in block.iters}
            batch.bound[block.name] = {i.var: arith.opened(i.binding) for i in block.iters}
            for buffer in ir.stored_buffers(block.body):
                batch.shapes[buffer] = shapes[buffer]

    return effect
