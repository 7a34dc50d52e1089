"""Primitives about where data lives: cache_read, cache_write, set_scope, storage_align."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from minitensor import arith, ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.arguments import Axis, BlockName, BufferName, ScopeName, Stride
from minitensor.schedule.batch import Batch, Effect, Footprint, StepView, Written, unchanged
from minitensor.schedule.dependence import accesses, region, result_depth
from minitensor.schedule.halves import other_writers
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

Rerouted: TypeAlias = "Callable[[Any, str, str], Any]"
"""A statement that reads a buffer, as one that reads a second instead: given their names."""


def _copy_block(
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


def _name_in(buffer: str, scope: str) -> str:
    """The name of a copy in a scope: A_local, A_input for "acc.input"."""
    return f"{buffer}_{scope.rpartition('.')[2]}"


def _rerouted(stmt: Any, old: str, new: str, loads: bool, stores: bool) -> Any:
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


def _with_access(
    block: ir.Block, renamed: Mapping[str, str], *, loads: bool, stores: bool
) -> ir.Block:
    """The block with its accesses to some buffers going to others."""
    body, init = block.body, block.init
    for old, new in renamed.items():
        body = _rerouted(body, old, new, loads, stores)
        init = None if init is None else _rerouted(init, old, new, loads, stores)
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
    }
)
def cache_read(
    program: ir.Program, block: BlockName, buffer: BufferName, scope: ScopeName
) -> Rewritten[str]:
    """Copy what a block reads of a buffer into a new buffer first, and let it read that.

    cache_read("C", "A", "local")
        for i in range(8):                    for ax0 in range(8):
            C[i] = A[i] + 1.0          =>         A_local[ax0] = A[ax0]
                                              for i in range(8):
                                                  C[i] = A_local[i] + 1.0
    scope  "global", "local", "register", "shared", or a memory of an accelerator: "acc.input", …

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
    return computed_first(program, block, buffer, _name_in(buffer, scope), ir.Scope(scope), _reads)


def _reads(stmt: Any, old: str, new: str) -> Any:
    """The statement where it reads another buffer instead of one."""
    return _rerouted(stmt, old, new, loads=True, stores=False)


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
    copy = _copy_block(name, {name: buffer}, [old], sources, value)
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


@cache_read.on_batch
def _cache_read_batch(view: StepView) -> Effect:
    return computed_first_batch(view, _reads)


def computed_first_batch(view: StepView, rerouted: Rerouted) -> Effect:
    """The effect of `computed_first` on a batch."""
    block, buffer = view.argument("block"), view.argument("buffer")
    copy = view.after.blocks[view.result]
    outside, loops = _loops_of_copy(view, copy)
    footprint = Footprint(view, buffer, [block], outside)
    writing = [Written(view, b.name, ()) for b in ir.writers(view.before, buffer)]
    view.follow(lambda body: rerouted(body, buffer, copy.name))

    def effect(batch: Batch) -> None:
        batch.shapes[copy.name] = batch.shapes[buffer]
        _size_copy(batch, copy, writing)
        domain = dict(zip([i.var for i in copy.iters], footprint.box(batch)))
        batch.place(copy, domain, loops, widen=True)

    return effect


def _loops_of_copy(view: StepView, copy: ir.Block) -> tuple[list[str], list[str]]:
    """The loops around the nest of a copy, and those of the nest."""
    names = view.loops_after(copy.name)
    split = len(names) - len(copy.iters)
    return names[:split], names[split:]


def _size_copy(batch: Batch, copy: ir.Block, writing: Sequence[Written]) -> None:
    """Give the iters of a copy their extents: all that is ever written of the buffer."""
    shape = batch.shapes[copy.name]
    sizes: Sequence[Any] = shape
    for n, writer in enumerate(writing):
        own = writer.extents(batch)
        sizes = own if n == 0 else list(map(arith.greater, sizes, own))
    batch.sizes[copy.name] = {
        i.var: arith.lesser(size, whole) for i, size, whole in zip(copy.iters, sizes, shape)
    }


@cache_read.random_call(often=2)
def _call_cache_read(scene: Scene) -> None:
    block = scene.block()
    program = scene.program
    read = sorted(ir.accessed_buffers(program.blocks[block])[0]) if block in program.blocks else []
    buffer = scene.pick(read) if read and not scene.chance(10) else scene.buffer()
    scene.do("cache_read", block, buffer, scene.pick(["global", "local", "shared", "register"]))


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
    copy = _copy_block(name, renamed, olds, [found])
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
    outside, loops = _loops_of_copy(view, copy)
    written = Written(view, block, outside)

    def rerouted(body: ir.Stmt) -> ir.Stmt:
        for old, new in renamed.items():
            body = _rerouted(body, old, new, loads=True, stores=True)
        return body

    view.follow(rerouted)

    def effect(batch: Batch) -> None:
        for old, new in renamed.items():
            batch.shapes[new] = batch.shapes[old]
        _size_copy(batch, copy, [written])
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
