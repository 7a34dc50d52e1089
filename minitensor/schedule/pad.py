"""The primitive that computes more than is asked for, so that nothing is left over: pad.

What an instruction does has a fixed size. Where the extents of a program are no multiples of it,
the operands get zeros behind their last elements, which change no sum, and the result gets
elements that are never read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from minitensor import arith, ir
from minitensor.errors import ScheduleError
from minitensor.schedule import edit
from minitensor.schedule.arguments import LoopName, ints
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.reciprocal import use_reciprocal
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.widen import widen

LARGEST: Final = 1024
Multiple: TypeAlias = Annotated[int, ints(1, LARGEST)]
"""A number of iterations."""


@primitive(
    rules={
        "R1": (
            "the loop alone drives an axis of the one block under it, which runs unconditionally",
            "pad before the loop is split, fused or joined by another block",
        ),
        "R2": (
            "the block alone writes one temporary, of which it is a plain store or a reduction",
            "cache_write the block first",
        ),
        "R3": (
            "what the block reads along the axis are copies that it alone reads, each at the axis "
            "itself, and each written by one block in loops of its own",
            "cache_read or widen the buffer first",
        ),
        "R4": (
            "along an axis that is not spatial, terms beyond its end are zero: they are summed, "
            "and each is a product of what is padded (of integers, one factor is enough)",
            "cache_read or widen each factor first",
        ),
    },
    alternatives="loop",
)
def pad(program: ir.Program, loop: LoopName, multiple: Multiple) -> Rewritten[None]:
    """Run a loop up to the next multiple of a number, on copies that end in zeros.

    pad("k", 4)                               # A_global and B_global are copies
        for ax0 in range(7):                      for ax0 in range(8):
            A_global[ax0] = A[ax0]                    A_global[ax0] = A[ax0] if ax0 < 7 else 0
        ...                              =>       ...
        for k in range(7):                        for k in range(8):
            C += A_global[k] * B_global[k]            C += A_global[k] * B_global[k]
    multiple  in iterations; the loop may be one already

    An axis of the result is padded in the same way: the temporary that the block writes gets
    elements that are never read.

    Preserves  every output.
    """
    site = ir.loop_sites(program)[loop]
    block = ir.blocks_of(site.loop)[0]
    driven = [i for i in block.iters if i.binding == ir.Var(loop)]
    if not driven or _driver(program, block, driven[0].var) is not site.loop:
        refuse("R1", marks=ir.Marks(loops={loop: "to pad"}))
    axis = driven[0].var
    padded = -(-site.loop.extent // multiple) * multiple
    target, place = _result(program, block, axis, site.loop.extent)
    copies = [_copy(program, block, name, axis) for name in _read_along(block, axis)]
    spatial = driven[0].kind is ir.IterKind.SPATIAL
    if not spatial and not _adds_nothing(block, {c.name for c in copies}):
        refuse("R4", marks=ir.Marks({loop: "to pad"}, {block.name: "adds other terms"}))
    if padded == site.loop.extent:
        return program, None
    longer = {copy.name: copy.place for copy in copies} | ({target: place} if place >= 0 else {})
    edits: dict[int, ir.Stmt | None] = {}
    for changed, name in ((block, axis), *((copy.writer, copy.axis) for copy in copies)):
        driver = _driver(program, changed, name)
        assert driver is not None
        filled = _filled(changed, name) if changed is not block else changed
        edits[id(driver)] = _extended(driver, filled, name, padded)
    kept = tuple(
        _longer(b, longer[b.name], padded) if b.name in longer else b for b in program.temporaries
    )
    return edit.spliced(program, edits).replace(temporaries=kept), None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A temporary that is read along the axis.

    writer  the block that writes it
    axis    the iter of the writer that indexes the axis
    place   the dimension
    """

    name: str
    writer: ir.Block
    axis: str
    place: int


def _driver(program: ir.Program, block: ir.Block, axis: str) -> ir.For | None:
    """The serial loop that drives an axis of a block, if it drives nothing else."""
    binding = next(i.binding for i in block.iters if i.var == axis)
    for loop in edit.loops_around(program, block.name):
        if binding == ir.Var(loop.var) and loop.kind is ir.LoopKind.SERIAL:
            driven = [i for i in block.iters if ir.mentions(i.binding, loop.var)]
            alone = len(driven) == len(ir.blocks_of(loop)) == 1 and block.predicate == ir.TRUE
            return loop if alone and driven[0].extent == loop.extent else None
    return None


def _result(program: ir.Program, block: ir.Block, axis: str, extent: int) -> tuple[str, int]:
    """The buffer that a block writes, and the dimension that the axis indexes; -1 if none."""
    store, names = edit.plain_store(block), sorted(ir.stored_buffers(block.body))
    shapes = {b.name: b.shape for b in program.temporaries}
    simple = store is not None and isinstance(block.body, (ir.Store, ir.Reduce))
    if not simple or names[1:] or names[0] not in shapes or ir.writers(program, names[0])[1:]:
        refuse("R2", marks=ir.Marks(blocks={block.name: "to pad"}))
    place = store.index(axis) if store is not None and axis in store else -1
    if place >= 0 and shapes[names[0]][place] != extent:
        refuse("R2", f"{ir.print_name(names[0])} has other elements than are written")
    return names[0], place


def _read_along(block: ir.Block, axis: str) -> list[str]:
    """The buffers that a block reads at places that depend on an axis."""
    loads = ir.loads(block.body)
    return sorted({x.buffer for x in loads if any(ir.mentions(i, axis) for i in x.indices)})


def _copy(program: ir.Program, block: ir.Block, name: str, axis: str) -> _Copy:
    """The copy that a block reads along an axis."""
    marks = ir.Marks(blocks={block.name: f"reads {ir.print_name(name)}"})
    shapes = {b.name: b.shape for b in program.temporaries}
    writers, readers = ir.writers(program, name), ir.readers(program, name)
    if name not in shapes or len(writers) != 1 or [b.name for b in readers] != [block.name]:
        refuse("R3", f"{ir.print_name(name)} is no copy for it alone", marks=marks)
    (writer,) = writers
    places = {
        n if index == ir.Var(axis) else -1
        for load in ir.loads(block.body)
        if load.buffer == name
        for n, index in enumerate(load.indices)
        if ir.mentions(index, axis)
    }
    place, store = min(places), edit.plain_store(writer)
    if len(places) > 1 or place < 0 or store is None or not isinstance(writer.body, ir.Store):
        refuse("R3", f"{ir.print_name(name)} is read or written at other places", marks=marks)
    driver = _driver(program, writer, store[place])
    if driver is None or driver.extent != shapes[name][place]:
        refuse("R3", f"{ir.print_name(name)} is not written by a loop of its own", marks=marks)
    return _Copy(name, writer, store[place], place)


def _adds_nothing(block: ir.Block, padded: Collection[str]) -> bool:
    """Return whether a block adds zero where what it reads of some buffers is zero."""

    def zero(value: ir.Expr) -> bool:
        match value:
            case ir.Load(name):
                return name in padded
            case ir.Cast(a=a):
                return zero(a)
            case ir.Binary("*", a, b):  # zero times infinity is NaN
                return zero(a) and zero(b) if value.dtype.is_float else zero(a) or zero(b)
        return False

    body = block.body
    return (
        isinstance(body, ir.Reduce) and ir.operator_of(body.reducer) == "+" and zero(body.values[0])
    )


def _filled(block: ir.Block, axis: str) -> ir.Block:
    """The block of a copy, with zero beyond the end of an axis."""
    extent = next(i.extent for i in block.iters if i.var == axis)
    body = block.body
    assert isinstance(body, ir.Store)
    zero = ir.const(0, body.value.dtype)
    value = ir.Select(ir.less(ir.Var(axis), extent), body.value, zero, lazy=True)
    return edit.with_block(block, body=ir.Store(body.buffer, body.indices, value))


def _extended(loop: ir.For, block: ir.Block, axis: str, extent: int) -> ir.Stmt:
    """A loop around a block, both of another extent."""
    iters = tuple(
        dataclasses.replace(i, extent=extent) if i.var == axis else i for i in block.iters
    )
    body = edit.map_blocks(loop.body, lambda old, path: edit.with_block(block, iters=iters))
    return ir.For(loop.var, extent, body, loop.kind, loop.annotations)


def _longer(buffer: ir.Buffer, place: int, extent: int) -> ir.Buffer:
    shape = (*buffer.shape[:place], extent, *buffer.shape[place + 1 :])
    return dataclasses.replace(buffer, shape=shape)


@pad.on_batch
def _pad_batch(view: StepView) -> Effect:
    before, after = view.before, view.after
    changed = [b for name, b in after.blocks.items() if before.blocks.get(name) is not b]
    around = {x.var: x.extent for b in changed for x in ir.paths(before)[b.name]}
    extents = {x.var: x.extent for b in changed for x in ir.paths(after)[b.name]}
    shapes = {name: b.shape for name, b in after.buffers.items() if b != before.buffers[name]}
    view.follow()

    def effect(batch: Batch) -> None:
        if not all(arith.same(batch.extents[name], extent) for name, extent in around.items()):
            raise arith.BatchError("loops whose extents depend on the numbers are padded")
        batch.extents.update(extents)
        batch.shapes.update(shapes)
        for block in changed:
            batch.sizes[block.name] = {i.var: i.extent for i in block.iters}

    return effect


@pad.random_call(often=2)
def _call_pad(scene: Scene) -> None:
    """Mostly an axis that can be padded, after what it takes."""
    program = scene.program
    block = scene.block()
    if block in program.blocks and scene.chance(70):
        with suppress(ScheduleError):
            scene.do("cache_write", block, "global")
            for buffer in sorted(ir.accessed_buffers(program.blocks[block])[0]):
                scene.do("cache_read", block, buffer, "global")
    names = [x.var for x in ir.paths(scene.schedule.program).get(block, ())]
    loop = scene.pick(names) if names and not scene.chance(10) else scene.loop()
    scene.do("pad", loop, scene.pick([1, 2, 3, 4, 8]))


class OperandPrimitives:
    """The primitives that prepare what a block reads, as methods of a Schedule."""

    use_reciprocal = use_reciprocal
    widen = widen
    pad = pad
