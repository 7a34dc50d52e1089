"""Primitives about where data lives: cache_read, cache_write, set_scope, storage_align."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitensor import ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.arguments import Axis, BlockName, BufferName, Place, ScopeName, Stride
from minitensor.schedule.batch import Batch, Effect, StepView, Written, unchanged
from minitensor.schedule.copies import (
    Rerouted,
    computed_first,
    computed_first_batch,
    copy_block,
    loops_of_copy,
    rerouted_accesses,
    size_copy,
)
from minitensor.schedule.dependence import result_depth
from minitensor.schedule.halves import other_writers
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene


def _name_in(buffer: str, scope: str) -> str:
    """The name of a copy in a scope: A_local, A_input for "acc.input"."""
    return f"{buffer}_{scope.rpartition('.')[2]}"


def _with_access(
    block: ir.Block, renamed: Mapping[str, str], *, loads: bool, stores: bool
) -> ir.Block:
    """The block with its accesses to some buffers going to others."""
    body, init = block.body, block.init
    for old, new in renamed.items():
        body = rerouted_accesses(body, old, new, loads, stores)
        init = None if init is None else rerouted_accesses(init, old, new, loads, stores)
    return edit.with_block(block, body=body, init=init)


@primitive(
    rules={
        "R1": ("the block reads the buffer", "name a buffer that the block reads"),
        "R2": ("the block does not write the buffer", "cache_write what it writes"),
        "R3": (
            "the buffer is an input, or its writers index each axis by an iter of its own",
            "cache_read before transform_layout",
        ),
        "R4": ("what is copied has been computed before", "cache_read before moving the block"),
        "R5": (
            "0 <= place < the number of different places at which the block reads the buffer",
            "leave place out: all of them read the copy",
        ),
    }
)
def cache_read(
    program: ir.Program,
    block: BlockName,
    buffer: BufferName,
    scope: ScopeName,
    *,
    place: Place = None,
) -> Rewritten[str]:
    """Copy what a block reads of a buffer into a new buffer first, and let it read that.

    cache_read("C", "A", "local")
        for i in range(8):                    for ax0 in range(8):
            C[i] = A[i] + 1.0          =>         A_local[ax0] = A[ax0]
                                              for i in range(8):
                                                  C[i] = A_local[i] + 1.0
    scope  "global", "local", "register", "shared", or a memory of an accelerator: "acc.input", …
    place  the one that reads the copy, of several at which the block reads the buffer, such as
           A[i, k] and A[j, k]: counted from 0, in the order of the text; None for all of them

    The copy stands at the outermost place where the data is complete; compute_at moves it inwards,
    transform_layout changes the order of the copy (packing).

    Preserves  every output.
    Returns    the name of the block that copies; its buffer has the same name.
    """
    read, written = ir.accessed_buffers(program.blocks[block])
    if buffer not in read:
        refuse(
            "R1", marks=ir.Marks(blocks={block: "does not read it"}), choices=sorted(read - written)
        )
    places = len(_places(program.blocks[block].body, buffer))
    if place is not None and place >= places:
        choices = [*map(str, range(places))]
        refuse("R5", f"place={place}, and the block reads it at {places}", choices=choices)
    return computed_first(
        program, block, buffer, _name_in(buffer, scope), ir.Scope(scope), _reading(place)
    )


def _places(stmt: ir.Stmt, buffer: str) -> list[tuple[ir.Expr, ...]]:
    """The indices of the different places at which a statement reads a buffer."""
    return list(dict.fromkeys(n.indices for n in ir.loads(stmt) if n.buffer == buffer))


def _reading(place: int | None) -> Rerouted:
    """The change of a statement that makes it read another buffer, at one place or at all."""

    def changed(stmt: Any, old: str, new: str) -> Any:
        if place is None:
            return rerouted_accesses(stmt, old, new, loads=True, stores=False)
        there = next(iter(_places(stmt, old)[place:]), None)

        def one(node: Any) -> Any:
            here = isinstance(node, ir.Load) and node.buffer == old and node.indices == there
            return ir.Load(new, node.indices, node.dtype) if here else node

        return ir.rewrite(stmt, one)

    return changed


@cache_read.on_batch
def _cache_read_batch(view: StepView) -> Effect:
    return computed_first_batch(view, _reading(view.argument("place")))


@cache_read.random_call(often=2)
def _call_cache_read(scene: Scene) -> None:
    block = scene.block()
    program = scene.program
    read = sorted(ir.accessed_buffers(program.blocks[block])[0]) if block in program.blocks else []
    buffer = scene.pick(read) if read and not scene.chance(10) else scene.buffer()
    scope = scene.pick(["global", "local", "shared", "register"])
    one = {"place": scene.number(0, 1)} if scene.chance(4) else {}
    scene.do("cache_read", block, buffer, scope, **one)


@primitive(
    rules={
        "R1": (
            "the block alone writes its buffers, or with the block that decompose_reduction made "
            "of it, over the same elements",
            "cache_write before a loop is cut in two, or one of the halves moved",
        ),
        "R2": (
            "each axis of the store is indexed by an iter of its own, the same in all stores",
            "cache_write before transform_layout",
        ),
        "R3": (
            "no block in the same nest reads a buffer that it writes",
            "cache_write before moving the reader into the nest",
        ),
        "R4": (
            "the nest writes a box of the buffer",
            "cache_write before the loops are guarded or fused",
        ),
    }
)
def cache_write(program: ir.Program, block: BlockName, scope: ScopeName) -> Rewritten[str]:
    """Let a block write a new buffer, and copy that to the old one afterwards.

    cache_write("C", "local")
        for i in range(8):                    for i in range(8):
            C[i] = A[i] + 1.0          =>         C_local[i] = A[i] + 1.0
                                              for ax0 in range(8):
                                                  C[ax0] = C_local[ax0]
    scope  "global", "local", "register" or "shared"; of an accelerator "acc.input", "acc.weight"
           or "acc.accumulator"

    The copy stands after the block's nest; reverse_compute_at moves it inwards. The block that
    decompose_reduction made of it writes the new buffer too. Each buffer of a reduction of several
    values (argmax) gets one of its own, and one block copies them all.

    Preserves  every output.
    Returns    the name of the block that copies; the new buffer (the first one) has the same name.
    """
    found = program.blocks[block]
    others = other_writers(program, found)
    if others:
        marks = ir.Marks(blocks=dict.fromkeys([block, *others], "writes it"))
        refuse("R1", f"{ir.print_name(others[0])} writes it too", marks=marks)
    buffers, places = _stores(found)
    if edit.plain_store(found) is None or len(places) != 1:
        refuse("R2", marks=ir.Marks(blocks={block: "stores elsewhere"}))
    loops = edit.loops_around(program, block)
    outer = loops[: result_depth(program, found)]
    nest = loops[len(outer)] if len(outer) < len(loops) else found
    for other in ir.blocks_of(nest):
        seen = sorted(ir.accessed_buffers(other)[0].intersection(buffers))
        if other.name != block and seen:
            refuse("R3", marks=ir.Marks(blocks={other.name: f"reads {ir.print_name(seen[0])}"}))
    domain = insertion.exact_domain(found, loops, {loop.var for loop in outer})
    box = None if domain is None else insertion.write_box(found, domain)
    if box is None:
        refuse("R4", marks=ir.Marks(blocks={block: "not known to write a box"}))
    olds = [program.buffers[buffer] for buffer in buffers]
    fresh = edit.Fresh(program)
    renamed = {buffer: fresh.block(_name_in(buffer, scope)) for buffer in buffers}
    name = renamed[buffers[0]]
    copy = copy_block(name, renamed, olds, [found])
    guards = insertion.shared_guards(program, [found], outer, every=True)
    placed = insertion.place(
        copy, {f"ax{n}": span for n, span in enumerate(box)}, outer, fresh, guards
    )
    changed: dict[int, ir.Stmt | None] = {
        id(half): _with_access(half, renamed, loads=True, stores=True)
        for half in ir.writers(program, buffers[0])
    }
    point = insertion.point_after(program, outer, {block})
    new = point.insert(program, placed.stmt, changed)
    added = [ir.Buffer(renamed[x.name], x.shape, x.dtype, ir.Scope(scope)) for x in olds]
    return new.replace(temporaries=(*program.temporaries, *added)), name


def _stores(block: ir.Block) -> tuple[list[str], set[tuple[ir.Expr, ...]]]:
    """The buffers that a block writes, in the order of the text, and the places where."""
    found: dict[str, None] = {}
    places = set()
    for node in ir.walk(block.body):
        if isinstance(node, (ir.Store, ir.Reduce)):
            names = node.buffers if isinstance(node, ir.Reduce) else (node.buffer,)
            found.update(dict.fromkeys(names))
            places.add(node.indices)
    return list(found), places


@cache_write.on_batch
def _cache_write_batch(view: StepView) -> Effect:
    block, copy = view.argument("block"), view.after.blocks[view.result]
    renamed = _copied_to(copy)
    outside, loops = loops_of_copy(view, copy)
    written = Written(view, block, outside)

    def rerouted(body: ir.Stmt) -> ir.Stmt:
        for old, new in renamed.items():
            body = rerouted_accesses(body, old, new, loads=True, stores=True)
        return body

    view.follow(rerouted)

    def effect(batch: Batch) -> None:
        for old, new in renamed.items():
            batch.shapes[new] = batch.shapes[old]
        size_copy(batch, copy, [written])
        domain = dict(zip([i.var for i in copy.iters], written.box(batch)))
        batch.place(copy, domain, loops, widen=False)

    return effect


def _copied_to(copy: ir.Block) -> dict[str, str]:
    """From each buffer that a copy writes to the one that it reads for it."""
    return {
        node.buffer: node.value.buffer
        for node in ir.walk(copy.body)
        if isinstance(node, ir.Store) and isinstance(node.value, ir.Load)
    }


@cache_write.random_call(often=2)
def _call_cache_write(scene: Scene) -> None:
    scene.do("cache_write", scene.block(), scene.pick(["global", "local", "register"]))


@primitive(
    rules={
        "R1": (
            "the buffer is a temporary",
            "cache_read or cache_write it first: the copy has a scope",
        )
    }
)
def set_scope(program: ir.Program, buffer: BufferName, scope: ScopeName) -> Rewritten[None]:
    """Say where a temporary lives: "global", "local", "register" or "shared".

    set_scope("B", "local")
        B = empty(float32[8])          =>     B = empty(float32[8])  # local

    Preserves  every output.
    """
    _require_temporary(program, buffer, "R1")
    old = program.buffers[buffer]
    new = ir.Buffer(buffer, old.shape, old.dtype, ir.Scope(scope), old.alignment)
    return _with_buffer(program, new), None


def _require_temporary(program: ir.Program, buffer: str, rule: str) -> None:
    names = [b.name for b in program.temporaries]
    if buffer not in names:
        refuse(rule, f"{ir.print_name(buffer)} is a parameter", choices=names)


def _with_buffer(program: ir.Program, new: ir.Buffer) -> ir.Program:
    """The program with one temporary declared anew."""
    kept = tuple(new if b.name == new.name else b for b in program.temporaries)
    return program.replace(temporaries=kept)


set_scope.on_batch(unchanged)


@set_scope.random_call()
def _call_set_scope(scene: Scene) -> None:
    scene.do("set_scope", scene.buffer(), scene.pick(["global", "local", "register"]))


@primitive(
    rules={
        "R1": (
            "the buffer is a temporary",
            "cache_read or cache_write it first: the copy can be padded",
        ),
        "R2": (
            "the axis is one of the buffer's, and not the last",
            "choose an axis before the last",
        ),
        "R3": ("0 <= offset < factor", "choose an offset below the factor"),
    }
)
def storage_align(
    program: ir.Program, buffer: BufferName, axis: Axis, factor: Stride, offset: Stride = 0
) -> Rewritten[None]:
    """Pad a temporary so that the stride of an axis is `offset` more than a multiple of `factor`.

    storage_align("B", 0, 32, 1)
        B = empty(float32[8, 32])      =>     B = empty(float32[8, 32])  # rows 33 elements apart

    Keeps the elements of a column in different cache sets, or in different banks of a GPU's shared
    memory. The indices of the program do not change.

    Preserves  every output.
    """
    _require_temporary(program, buffer, "R1")
    old = program.buffers[buffer]
    place_of = axis + len(old.shape) if axis < 0 else axis
    if not 0 <= place_of < len(old.shape) - 1:
        refuse("R2", f"{ir.print_name(buffer)} has rank {len(old.shape)}, axis={axis}")
    if not 0 <= offset < factor:
        refuse("R3", f"factor={factor}, offset={offset}")
    rest = tuple(a for a in old.alignment if a[0] != place_of)
    alignment = tuple(sorted((*rest, (place_of, factor, offset))))
    new = ir.Buffer(buffer, old.shape, old.dtype, old.scope, alignment)
    return _with_buffer(program, new), None


storage_align.on_batch(unchanged)


@storage_align.random_call()
def _call_storage_align(scene: Scene) -> None:
    axis = scene.number(-2, 2)
    scene.do("storage_align", scene.buffer(), axis, scene.pick([2, 4, 8]), scene.pick([0, 1, 3]))


class StoragePrimitives:
    """The primitives of this file, as methods of a Schedule."""

    cache_read = cache_read
    cache_write = cache_write
    set_scope = set_scope
    storage_align = storage_align
