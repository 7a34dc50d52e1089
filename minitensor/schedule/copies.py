"""Blocks that compute something of what another block reads or writes, in a buffer of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from minitensor import arith, ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.batch import Batch, Effect, Footprint, StepView, Written
from minitensor.schedule.dependence import accesses, region
from minitensor.schedule.refusal import refuse

Rerouted: TypeAlias = "Callable[[Any, str, str], Any]"
"""A statement that reads a buffer, as one that reads a second instead: given their names."""


def copy_block(
    name: str,
    sources: Mapping[str, str],
    buffers: Sequence[ir.Buffer],
    writing: Sequence[ir.Block],
    value: Callable[[ir.Expr], ir.Expr] = lambda element: element,
) -> ir.Block:
    """The block target[...] = source[...] over all that is ever written of some buffers of one
    shape, its iters still unbound.

    sources  from each target to what is copied there
    buffers  one for each target, of its type
    writing  the blocks that write the buffers; none for an input
    value    what is stored of an element, if not itself
    """
    shape = buffers[0].shape
    extents = shape
    for writer in writing:
        mine = edit.written_extents(writer)
        assert mine is not None
        extents = mine if writer is writing[0] else tuple(map(max, extents, mine))
    iters = tuple(
        ir.Iter(f"ax{n}", min(extent, whole), ir.IterKind.SPATIAL, ir.Var(""))
        for n, (extent, whole) in enumerate(zip(extents, shape))
    )
    index = tuple(ir.Var(i.var) for i in iters)
    copies = [
        ir.Store(target, index, value(ir.Load(source, index, buffer.dtype)))
        for (target, source), buffer in zip(sources.items(), buffers)
    ]
    return ir.Block(name, iters, ir.sequence(*copies))


def rerouted_accesses(stmt: Any, old: str, new: str, loads: bool, stores: bool) -> Any:
    """The statement with accesses to one buffer going to another."""

    def one(node: Any) -> Any:
        if isinstance(node, ir.Load) and node.buffer == old and loads:
            return ir.Load(new, node.indices, node.dtype)
        if isinstance(node, ir.Store) and node.buffer == old and stores:
            return ir.Store(new, node.indices, node.value)
        if isinstance(node, ir.Reduce) and old in node.buffers and stores:
            names = tuple(new if b == old else b for b in node.buffers)
            return ir.Reduce(node.reducer, names, node.indices, node.values)
        return node

    return ir.rewrite(stmt, one)


def computed_first(
    program: ir.Program,
    block: str,
    buffer: str,
    label: str,
    scope: ir.Scope,
    rerouted: Rerouted,
    value: Callable[[ir.Expr], ir.Expr] = lambda element: element,
) -> tuple[ir.Program, str]:
    """The program with a block in front of another one, that computes something of each element
    which that reads of a buffer; and its name. Refuses by the rules R2 to R4 of `cache_read`.

    label     for the name of the new block, and of the buffer that it writes
    rerouted  makes the other block read that
    value     what is computed of an element
    """
    found = program.blocks[block]
    if buffer in ir.accessed_buffers(found)[1]:
        refuse("R2", marks=ir.Marks(blocks={block: "writes it"}))
    sources = ir.writers(program, buffer)
    for writer in sources:
        if edit.plain_store(writer) is None:
            refuse("R3", marks=ir.Marks(blocks={writer.name: f"writes {ir.print_name(buffer)}"}))
    where = edit.loops_around(program, block)
    shared: tuple[ir.For, ...] = ()
    for writer in sources:
        both = insertion.common_loops(edit.loops_around(program, writer.name), where)
        shared = both if len(both) > len(shared) else shared
    old = program.buffers[buffer]
    fresh = edit.Fresh(program)
    name = fresh.block(label)
    reads = [a for a in accesses(program, block) if a.buffer == buffer]
    box = region(program, reads, buffer, {loop.var for loop in shared})
    copy = copy_block(name, {name: buffer}, [old], sources, value)
    domain = {f"ax{n}": span for n, span in enumerate(box)}
    guards = insertion.shared_guards(program, [found], shared, every=True)
    placed = insertion.place(copy, domain, shared, fresh, guards, widen=True)
    point = insertion.point_before(program, shared, {block})
    if insertion.unavailable(program, placed, point, strict=True) is not None:
        refuse("R4", marks=ir.Marks(blocks={block: "reads more than was computed"}))
    init = None if found.init is None else rerouted(found.init, buffer, name)
    changed = edit.with_block(found, body=rerouted(found.body, buffer, name), init=init)
    new = point.insert(program, placed.stmt, {id(found): changed})
    cached = ir.Buffer(name, old.shape, value(ir.Load(buffer, (), old.dtype)).dtype, scope)
    return new.replace(temporaries=(*program.temporaries, cached)), name


def computed_first_batch(view: StepView, rerouted: Rerouted) -> Effect:
    """The effect of `computed_first` on a batch."""
    block, buffer = view.argument("block"), view.argument("buffer")
    copy = view.after.blocks[view.result]
    outside, loops = loops_of_copy(view, copy)
    footprint = Footprint(view, buffer, [block], outside)
    writing = [Written(view, b.name, ()) for b in ir.writers(view.before, buffer)]
    view.follow(lambda body: rerouted(body, buffer, copy.name))

    def effect(batch: Batch) -> None:
        batch.shapes[copy.name] = batch.shapes[buffer]
        size_copy(batch, copy, writing)
        domain = dict(zip([i.var for i in copy.iters], footprint.box(batch)))
        batch.place(copy, domain, loops, widen=True)

    return effect


def loops_of_copy(view: StepView, copy: ir.Block) -> tuple[list[str], list[str]]:
    """The loops around the nest of a copy, and those of the nest."""
    names = view.loops_after(copy.name)
    split = len(names) - len(copy.iters)
    return names[:split], names[split:]


def size_copy(batch: Batch, copy: ir.Block, writing: Sequence[Written]) -> None:
    """Give the iters of a copy their extents: all that is ever written of the buffer."""
    shape = batch.shapes[copy.name]
    sizes: Sequence[Any] = shape
    for n, writer in enumerate(writing):
        own = writer.extents(batch)
        sizes = own if n == 0 else list(map(arith.greater, sizes, own))
    batch.sizes[copy.name] = {
        i.var: arith.lesser(size, whole) for i, size, whole in zip(copy.iters, sizes, shape)
    }
