"""Primitives that merge a block into its neighbours: compute_inline, reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from minitensor import arith, ir
from minitensor.arith import Simplifier, extent_range
from minitensor.errors import MinitensorError
from minitensor.schedule import edit
from minitensor.schedule.arguments import BlockName
from minitensor.schedule.batch import StepView
from minitensor.schedule.insertion import common_loops
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

LARGEST_BODY: Final = 20_000
"""The most nodes an expression may have after inlining."""


def _only_store(block: ir.Block, rule: str) -> ir.Store:
    """The block's one store, refused if it carries anything from one instance to the next."""
    carried = [i.var for i in block.iters if i.kind is not ir.IterKind.SPATIAL]
    if carried or block.init is not None or not isinstance(block.body, ir.Store):
        marks = ir.Marks(blocks={block.name: "not a plain store"})
        refuse(rule, f"{ir.print_name(block.name)} is a reduction or an update", marks=marks)
    return block.body


def _is_parameter(program: ir.Program, buffer: str) -> bool:
    return any(param.name == buffer for param in program.params)


def _without(program: ir.Program, buffer: str) -> ir.Program:
    kept = tuple([b for b in program.temporaries if b.name != buffer])
    return program.replace(temporaries=kept)


@primitive(
    rules={
        "R1": (
            "the block stores each element once; it is no reduction and no ordered update",
            "compute_at a loop of its readers keeps a reduction whole",
        ),
        "R2": (
            "the block's buffer is not an output of the program",
            "reverse_compute_at moves it to its producer",
        ),
        "R3": (
            "the block is the only one that writes its buffer",
            "inline after the blocks are one",
        ),
        "R4": (
            "each axis of the store is indexed by an iter of its own",
            "inline before transform_layout",
        ),
        "R5": (
            "what it is inlined into stays readable: expressions of at most 20000 nodes, 2000 "
            "deep, in a program of at most 100000 nodes",
            "compute_at stores the values in place of repeating them",
        ),
    }
)
def compute_inline(program: ir.Program, block: BlockName) -> Rewritten[None]:
    """Compute a block's values where they are read, and drop the block and its buffer.

    compute_inline("B")
        for i in range(8):                    for j in range(8):
            B[i] = A[i] * 2.0          =>         C[j] = A[j] * 2.0 + 1.0
        for j in range(8):
            C[j] = B[j] + 1.0

    Preserves  every output.
    """
    found = program.blocks[block]
    store = _only_store(found, "R1")
    if _is_parameter(program, store.buffer):
        refuse("R2", marks=ir.Marks(blocks={block: "writes an output"}))
    _require_only_writer(program, found, store.buffer, "R3")
    axes = edit.plain_store(found)
    if axes is None or len(axes) != len(found.iters):
        refuse("R4", marks=ir.Marks(blocks={block: "stores elsewhere"}))
    inlined = _inliner(store, axes)
    reading = ir.readers(program, store.buffer)
    parts = [part for r in reading for part in (r.body, r.init) if part is not None]
    value = ir.summary(store.value)
    uses = [value.variables.get(axis, 0) for axis in axes]
    _require_room(program, parts, store.buffer, min(value.size, ir.LARGEST), uses, "R5")
    edits: dict[int, Any] = {id(found): None}
    for reader in reading:
        body = _checked(inlined(reader.body), "R5")
        init = None if reader.init is None else _checked(inlined(reader.init), "R5")
        ranges = {i.var: extent_range(i.extent) for i in reader.iters}
        simplifier = Simplifier(ranges, keep_units=True)
        edits[id(reader)] = edit.with_block(
            reader,
            body=_simplified(body, simplifier),
            init=None if init is None else _simplified(init, simplifier),
        )
    return _without(edit.spliced(program, edits), store.buffer), None


def _inliner(store: ir.Store, axes: Sequence[str]) -> Callable[[Any], Any]:
    """The rewrite that puts what is stored in the place of loads of a store's buffer; parts of an
    expression without such a load are left as they are.

    axes  the iters that index the store
    """

    def inlined(node: Any) -> Any:
        if not _reads(node, store.buffer):
            return node
        found = ir.map_children(node, inlined)
        if not isinstance(found, ir.Load) or found.buffer != store.buffer:
            return found
        return ir.substitute(store.value, dict(zip(axes, found.indices)))

    return inlined


def _reads(node: ir.Node, buffer: str) -> bool:
    return buffer in ir.summary(node).reads


def _require_only_writer(program: ir.Program, block: ir.Block, buffer: str, rule: str) -> None:
    others = [b.name for b in ir.writers(program, buffer) if b.name != block.name]
    if others:
        marks = ir.Marks(
            blocks=dict.fromkeys([block.name, *others], f"writes {ir.print_name(buffer)}")
        )
        refuse(rule, f"{ir.print_name(others[0])} writes {ir.print_name(buffer)} too", marks=marks)


@ir.fact
def _size(node: ir.Node) -> int:
    """The number of nodes: a fact of its own, for each step asks it of all nests."""
    return ir.summary(node).size


def _require_room(
    program: ir.Program,
    parts: Sequence[ir.Stmt],
    buffer: str,
    plain: int,
    uses: Sequence[int],
    rule: str,
) -> None:
    """Refuse if inlining would make the program too large to be read or compiled. Counted before it
    is done, for a few steps that double an expression would make one that no memory holds.

    parts  the statements of the program in which loads of the buffer are replaced
    plain  the nodes of what replaces them
    uses   how often each index of a load occurs in it
    """

    def grown(node: ir.Node) -> int:
        if not _reads(node, buffer):
            return _size(node)
        below = [grown(child) for child in ir.children(node)]
        if not isinstance(node, ir.Load) or node.buffer != buffer:
            return 1 + sum(below)
        return plain + sum(use * (index - 1) for use, index in zip(uses, below))

    def at_most(part: ir.Stmt) -> int:
        size, _, longest, reads, _ = ir.summary(part)
        return size + plain + sum(uses) * longest if reads.get(buffer) == 1 else grown(part)

    whole = isinstance(program.body, ir.Seq) + sum([_size(nest) for nest in ir.nests(program)])
    others = min(whole, ir.LARGEST) - sum(min(_size(part), ir.LARGEST) for part in parts)
    if sum(map(at_most, parts)) <= min(LARGEST_BODY, ir.LARGEST - others):
        return
    sizes = [grown(part) for part in parts]
    if max(sizes, default=0) > LARGEST_BODY:
        refuse(rule, "the expressions would become too large")
    if others + sum(sizes) > ir.LARGEST:
        refuse(rule, "the program would become too large")


def _checked(stmt: Any, rule: str) -> Any:
    """A rewritten statement, refused if it has become too deep to be read or compiled."""
    try:
        ir.make_room(stmt)
    except MinitensorError:
        refuse(rule, "the expressions would be nested too deep")
    return stmt


def _simplified(stmt: Any, simplifier: Simplifier) -> Any:
    """The statement with each of its expressions simplified."""

    def one(node: Any) -> Any:
        return simplifier.value(node)

    if isinstance(stmt, ir.Store):
        return ir.Store(stmt.buffer, stmt.indices, one(stmt.value))
    if isinstance(stmt, ir.If):
        return ir.If(stmt.condition, _simplified(stmt.then, simplifier))
    if hasattr(stmt, "stmts"):
        return type(stmt)(tuple(_simplified(child, simplifier) for child in stmt.stmts))
    return type(stmt)(stmt.reducer, stmt.buffers, stmt.indices, tuple(map(one, stmt.values)))


@compute_inline.on_batch
def _inline_batch(view: StepView) -> None:
    block = view.before.blocks[view.argument("block")]
    _require_plain(view, block.name)
    store, axes = block.body, edit.plain_store(block)
    if not isinstance(store, ir.Store) or axes is None:
        raise arith.BatchError("a block of several statements is inlined")
    view.follow(_inliner(store, axes))


def _require_plain(view: StepView, block: str) -> None:
    if block in view.bodies.known:
        raise arith.BatchError("what a block that rfactor made is inlined into holds numbers")


@compute_inline.random_call()
def _call_compute_inline(scene: Scene) -> None:
    scene.do("compute_inline", scene.producer())


@primitive(
    rules={
        "R1": (
            "the block stores each element once; it is no reduction and no ordered update",
            "reverse_compute_at moves it under a loop of its producer",
        ),
        "R2": (
            "it reads exactly one temporary, which one block computes and no other block reads",
            "compute_inline its other producers first",
        ),
        "R3": (
            "that producer stores each element once; it is no reduction and no ordered update",
            "reverse_compute_at moves it under a loop of its producer",
        ),
        "R4": (
            "the block reads it at its own iters, each used once, and does not go on behind it",
            "reverse_compute_at, or compute_inline the producer",
        ),
        "R5": (
            "everything else it reads is a parameter, or complete before the producer's nest",
            "compute_inline what it reads besides first",
        ),
        "R6": (
            "each axis of both stores is indexed by an iter of its own",
            "inline before transform_layout",
        ),
        "R7": (
            "what it is inlined into stays readable: expressions of at most 20000 nodes, 2000 "
            "deep, in a program of at most 100000 nodes",
            "reverse_compute_at stores the values in place of repeating them",
        ),
    }
)
def reverse_compute_inline(program: ir.Program, block: BlockName) -> Rewritten[None]:
    """Compute a block in place of its producer, and drop the producer's buffer.

    reverse_compute_inline("C")
        for i in range(8):                    for i in range(8):
            B[i] = A[i] * 2.0          =>         C[i] = A[i] * 2.0 + 1.0
        for j in range(8):
            C[j] = B[j] + 1.0

    The merged block keeps the producer's name, loops and schedule.

    Preserves  every output.
    """
    consumer = program.blocks[block]
    store = _only_store(consumer, "R1")
    producer = _single_producer(program, consumer)
    inner = _only_store(producer, "R3")
    index = _common_index(consumer, inner.buffer)
    target, source = edit.plain_store(consumer), edit.plain_store(producer)
    if target is None or source is None or len(source) != len(producer.iters):
        refuse("R6", marks=ir.Marks(blocks={block: "consumer", producer.name: "producer"}))
    _require_no_padding(consumer, producer, dict(zip(index, source)))
    _require_inputs_complete(program, consumer, producer, inner.buffer)
    iter_of = dict(zip(index, source))  # the consumer's iter -> the producer's
    moved = {old: ir.Var(new) for old, new in iter_of.items()}

    def inlined(node: Any) -> Any:
        if isinstance(node, ir.Load) and node.buffer == inner.buffer:
            return inner.value
        return node

    _require_room(program, [store], inner.buffer, ir.summary(inner.value).size, (), "R7")
    value: ir.Expr = ir.rewrite(_renamed_reads(store.value, moved, inner.buffer), inlined)
    merged: Any = ir.Store(store.buffer, tuple(moved[name] for name in target), value)
    extents = {i.var: i.extent for i in producer.iters}
    guards = [
        ir.less(moved[i.var], i.extent)
        for i in consumer.iters
        if i.extent < extents[iter_of[i.var]]
    ]
    if guards:
        merged = ir.If(ir.conjunction(guards), merged)
    merged = _checked(merged, "R7")
    edits = {id(consumer): None, id(producer): edit.with_block(producer, body=merged)}
    return _without(edit.spliced(program, edits), inner.buffer), None


def _renamed_reads(value: ir.Expr, moved: Mapping[str, ir.Expr], buffer: str) -> ir.Expr:
    """The consumer's expression in the producer's iters; loads of `buffer` become placeholders."""

    def blank(node: Any) -> Any:
        if isinstance(node, ir.Load) and node.buffer == buffer:
            return ir.Load(buffer, (), node.dtype)
        return node

    return ir.substitute(ir.rewrite(value, blank), moved)


def _single_producer(program: ir.Program, consumer: ir.Block) -> ir.Block:
    read = ir.accessed_buffers(consumer)[0]
    candidates = [
        name
        for name in sorted(read)
        if ir.writers(program, name) and not _is_parameter(program, name)
    ]
    only = [
        name
        for name in candidates
        if len(ir.writers(program, name)) == 1
        and [b.name for b in ir.readers(program, name)] == [consumer.name]
    ]
    if len(only) != 1:
        names = ", ".join(ir.print_name(name) for name in candidates) or "none"
        marks = ir.Marks(blocks={consumer.name: "to inline into its producer"})
        refuse("R2", f"temporaries it reads: {names}", marks=marks)
    return ir.writers(program, only[0])[0]


def _common_index(consumer: ir.Block, buffer: str) -> tuple[str, ...]:
    """The consumer's iters in the order in which every load of the buffer uses them."""
    assert isinstance(consumer.body, ir.Store)
    found = {load.indices for load in ir.loads(consumer.body) if load.buffer == buffer}
    index = next(iter(found))
    names = tuple(i.name for i in index if isinstance(i, ir.Var))
    iters = {i.var for i in consumer.iters}
    if len(found) != 1 or len(names) != len(index) or set(names) != iters:
        refuse("R4", marks=ir.Marks(blocks={consumer.name: "reads it elsewhere"}))
    if len(set(names)) != len(names):
        refuse("R4", marks=ir.Marks(blocks={consumer.name: "uses an iter twice"}))
    return names


def _require_no_padding(consumer: ir.Block, producer: ir.Block, iter_of: Mapping[str, str]) -> None:
    """Rule R4: where the consumer goes on behind what the producer computes (it is padding there),
    there would be no instance to merge with.
    """
    computed = {i.var: i.extent for i in producer.iters}
    for i in consumer.iters:
        extent = computed[iter_of[i.var]]
        if i.extent > extent:
            marks = ir.Marks(blocks={consumer.name: f"computes {i.extent} along {i.var}"})
            refuse("R4", f"the producer computes {extent} along {i.var}", marks=marks)


def _require_inputs_complete(
    program: ir.Program, consumer: ir.Block, producer: ir.Block, buffer: str
) -> None:
    order = list(program.blocks)
    around = edit.loops_around(program, producer.name)
    for name in sorted(ir.accessed_buffers(consumer)[0] - {buffer}):
        for writer in ir.writers(program, name):
            late = order.index(writer.name) > order.index(producer.name)
            if late or common_loops(edit.loops_around(program, writer.name), around):
                marks = ir.Marks(blocks={writer.name: f"computes {ir.print_name(name)}"})
                refuse("R5", f"{ir.print_name(name)} is computed too late", marks=marks)


@reverse_compute_inline.on_batch
def _reverse_inline_batch(view: StepView) -> None:
    _require_plain(view, view.argument("block"))
    view.follow()


@reverse_compute_inline.random_call()
def _call_reverse_compute_inline(scene: Scene) -> None:
    scene.do("reverse_compute_inline", scene.consumer())


class InlinePrimitives:
    """The primitives of this file, as methods of a Schedule."""

    compute_inline = compute_inline
    reverse_compute_inline = reverse_compute_inline
