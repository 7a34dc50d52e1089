"""The primitive that moves a producer under its consumer's loop: compute_at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

from minitensor import arith, ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.arguments import BlockName, Location
from minitensor.schedule.batch import Batch, Effect, Footprint, StepView
from minitensor.schedule.dependence import accesses, region
from minitensor.schedule.elements import elements_of
from minitensor.schedule.halves import half_that_starts, other_writers
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

T = TypeVar("T")


@primitive(
    rules={
        "R1": (
            "the producer alone writes its buffers, or with the block that decompose_reduction "
            "made of it, over the same elements",
            "compute_at before a loop is cut in two, or one of the halves moved",
        ),
        "R2": ("the loop does not enclose the producer", "choose a loop around its readers"),
        "R3": (
            "the producer's buffers are not outputs of the program",
            "reverse_compute_at moves an output to its producer",
        ),
        "R4": (
            "a reader of the buffers is under the loop; each other one comes after the loop, whose "
            "iterations compute all that it reads",
            "choose a loop around all readers",
        ),
        "R5": (
            "everything the producer reads is computed before it",
            "move what it reads first, or choose an outer loop",
        ),
        "R6": (
            "each axis of the producer's store is indexed by an iter of its own, or by digits of "
            "them that give them back",
            "compute_at before transform_layout",
        ),
        "R7": (
            "the loop is not vectorized, nor inside a vectorized loop",
            "vectorize after moving",
        ),
    },
    alternatives="loop",
)
def compute_at(program: ir.Program, block: BlockName, loop: Location) -> Rewritten[tuple[str, ...]]:
    """Move a producer under a consumer's loop, shrunk to the region one iteration reads.

    compute_at("P", "y_0")
        for y in range(34):                   for y_0 in range(8):
            P[y] = f(y)                           for y in range(6):
        for y_0 in range(8):           =>             P[y_0*4 + y] = f(y_0*4 + y)
            for y_1 in range(4):                  for y_1 in range(4):
                C[..] = P[y_0*4 + y_1]                C[..] = P[y_0*4 + y_1] + …
                        + P[y_0*4 + y_1 + 2]
    loop  a loop around all readers, or around the first of them, if others come after it and read
          what all its iterations have computed; "root" leaves the block where it is

    Elements that several iterations read are computed again in each. The producer's own loops are
    built anew, one for each of its iters, so schedule it after moving it. The block that
    decompose_reduction made of it goes along, in a nest of its own.

    Preserves  every output.
    Returns    the names of the producer's new loops.
    Not done   shrinking the buffer: code generation does it once, for all.
    """
    if loop == "root":
        return program, ()
    producer = program.blocks[block]
    buffers = sorted(ir.stored_buffers(producer.body))
    target = ir.loop_sites(program)[loop]
    _check_producer(program, producer, buffers, loop)
    around = (*target.outer, target.loop)
    inside = {b.name for b in ir.blocks_of(target.loop)}
    readers = {b.name for name in buffers for b in ir.readers(program, name)} - {block}
    reading = readers & inside
    domain = _needed(program, producer, buffers, reading, around)
    point = insertion.point_before(program, around, reading)
    guards = insertion.shared_guards(
        program, [program.blocks[name] for name in sorted(reading)], around, every=True
    )
    fresh = edit.Fresh(program)
    init = half_that_starts(program, producer)
    placed = insertion.place(producer, domain, around, fresh, guards, widen=True)
    nests = [placed]
    if init is not None:
        started = _of_init(init, producer, domain)
        nests.insert(0, insertion.place(init, started, around, fresh, guards, widen=True))
    for nest in nests:
        _require_available(program, nest, point)
    moved = ir.sequence(*[nest.stmt for nest in nests])
    gone: list[ir.Block] = [producer] if init is None else [init, producer]
    changed = point.insert(program, moved, {id(one): None for one in gone})
    for name in sorted(readers - inside):
        if not insertion.finds_all(changed, name, buffers):
            _refuse_reader(program, program.blocks[name], buffers, loop, "is not: it reads more")
    return changed, placed.names


def _needed(
    program: ir.Program,
    producer: ir.Block,
    buffers: list[str],
    reading: set[str],
    around: tuple[ir.For, ...],
) -> dict[str, arith.Span]:
    """The spans of the producer's spatial iters that one iteration reads."""
    elements = elements_of(producer)
    if elements is None:
        refuse("R6", marks=ir.Marks(blocks={producer.name: "stores elsewhere"}))
    names = {loop.var for loop in around}
    found = [
        access
        for name in sorted(reading)
        for access in accesses(program, name)
        if access.buffer in buffers and not access.writes
    ]
    domain: dict[str, arith.Span] = {}
    for buffer in sorted({access.buffer for access in found}):
        reads = [a for a in found if a.buffer == buffer]
        box = region(program, reads, buffer, names, elements)
        for var, span in zip(elements.iters, box):
            domain[var] = span if var not in domain else _wider(domain[var], span)
    for i in producer.iters:
        if i.kind is not ir.IterKind.SPATIAL:
            domain.pop(i.var, None)
    return domain


def _of_init(init: ir.Block, producer: ir.Block, domain: Mapping[str, T]) -> dict[str, T]:
    """The values known for the producer's iters, by the iters of the half that starts it."""
    started, updated = elements_of(init), elements_of(producer)
    assert started is not None and updated is not None
    names = zip(started.iters, updated.iters)
    return {theirs: domain[mine] for theirs, mine in names if mine in domain}


def _require_available(
    program: ir.Program, placed: insertion.Placed, point: insertion.InsertionPoint
) -> None:
    """Rule R5."""
    strict = not insertion.runs_whole(program, program.blocks[placed.block.name])
    missing = insertion.unavailable(program, placed, point, strict=strict)
    if missing is not None:
        late = {b.name: f"computes {ir.print_name(missing)}" for b in ir.writers(program, missing)}
        refuse("R5", f"{ir.print_name(missing)} is not complete there", marks=ir.Marks(blocks=late))


def _wider(a: arith.Span, b: arith.Span) -> arith.Span:
    """A span that holds both; unbounded (so: the whole axis) if they cannot be compared."""
    distance = b.low.minus(a.low)
    if not distance.is_constant:
        return arith.Span(a.low, 1 << 60)
    start, end = min(0, distance.constant), max(a.spread, distance.constant + b.spread)
    return arith.Span(a.low.shifted(start), end - start)


def _check_producer(program: ir.Program, producer: ir.Block, buffers: list[str], loop: str) -> None:
    """Rules R1 to R4 and R7 of compute_at."""
    target = ir.loop_sites(program)[loop]
    block = producer.name
    others = other_writers(program, producer)
    if others:
        writing = {name: _writes(program, name, buffers) for name in (block, *others)}
        refuse("R1", f"{ir.print_name(others[0])} writes it too", marks=ir.Marks(blocks=writing))
    init = half_that_starts(program, producer)
    for half in (producer, *([init] if init is not None else [])):
        if target.loop in edit.loops_around(program, half.name):
            marks = ir.Marks(loops={loop: "target"}, blocks={half.name: "inside it"})
            refuse("R2", marks=marks)
    for buffer in buffers:
        if any(buffer == param.name for param in program.params):
            refuse(
                "R3", f"{ir.print_name(buffer)} is one", marks=ir.Marks(blocks={block: "an output"})
            )
    inside = {b.name for b in ir.blocks_of(target.loop)}
    reading = [b for name in buffers for b in ir.readers(program, name) if b.name != block]
    order = list(program.blocks)
    last = max(map(order.index, inside))
    outside = [b for b in reading if b.name not in inside]
    early = [b for b in outside if order.index(b.name) < last]
    if not reading:
        refuse("R4", "nothing reads them", marks=ir.Marks(loops={loop: "target"}))
    if early or len(outside) == len(reading):
        _refuse_reader(program, (early or outside)[0], buffers, loop, "is not")
    insertion.require_not_vectorized(program, loop)


def _refuse_reader(
    program: ir.Program, reader: ir.Block, buffers: list[str], loop: str, why: str
) -> NoReturn:
    """Rule R4, for a reader outside of the loop."""
    parts = [
        (reader.name, load, f"also reads {ir.print_name(load.buffer)}")
        for load in edit.loads_of(reader, buffers)[:1]
    ]
    marks = ir.Marks(loops={loop: "target"}, parts=parts)
    refuse("R4", f"{ir.print_name(reader.name)} {why}", marks=marks)


def _writes(program: ir.Program, block: str, buffers: list[str]) -> str:
    """The label of a block that writes one of the buffers."""
    written = ir.stored_buffers(program.blocks[block].body)
    return f"writes {ir.print_name(min(written.intersection(buffers)))}"


@compute_at.on_batch
def _compute_at_batch(view: StepView) -> Effect | None:
    if view.argument("loop") == "root":
        return None
    producer = view.before.blocks[view.argument("block")]
    around, under = view.around(view.argument("loop")), view.under(view.argument("loop"))
    footprints = []
    for buffer in sorted(ir.stored_buffers(producer.body)):
        reading = sorted({b.name for b in ir.readers(view.before, buffer)} & {*under})
        if reading:
            footprints.append(Footprint(view, buffer, reading, around))
    store, axes, loops = edit.plain_store(producer), edit.spatial_iters(producer), view.result
    if store is None:
        raise arith.BatchError("what is needed of a layout is not known without replaying")
    init = half_that_starts(view.before, producer)
    own = [] if init is None else view.loops_after(init.name)[len(around) :]
    view.follow()

    def effect(batch: Batch) -> None:
        domain: dict[str, arith.Span] = {}
        sizes = batch.sizes[producer.name]
        for footprint in footprints:
            for name, span in zip(store, footprint.box(batch)):
                known = domain.get(name)
                domain[name] = span if known is None else arith.union(known, span, sizes[name])
        kept = {name: span for name, span in domain.items() if name in axes}
        batch.place(producer, kept, loops, widen=True)
        if init is not None:
            batch.place(init, _of_init(init, producer, kept), own, widen=True)

    return effect


@compute_at.random_call(often=4)
def _call_compute_at(scene: Scene) -> None:
    block = scene.producer()
    scene.do("compute_at", block, scene.near(scene.schedule.get_consumers, block))


class PlacementPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    compute_at = compute_at
