"""The primitive that moves a producer under its consumer's loop: compute_at."""

from __future__ import annotations

from minitensor import arith, ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.arguments import BlockName, Location
from minitensor.schedule.batch import Batch, Effect, Footprint, StepView
from minitensor.schedule.dependence import accesses, region
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene


@primitive(
    rules={
        "R1": (
            "the producer alone writes its buffers (it is not half of a split reduction)",
            "compute_at before decompose_reduction",
        ),
        "R2": ("the loop does not enclose the producer", "choose a loop around its readers"),
        "R3": (
            "the producer's buffers are not outputs of the program",
            "reverse_compute_at moves an output to its producer",
        ),
        "R4": (
            "every reader of the buffers is under the loop, and there is one",
            "choose a loop around all readers",
        ),
        "R5": (
            "everything the producer reads is computed before it",
            "move what it reads first, or choose an outer loop",
        ),
        "R6": (
            "each axis of the producer's store is indexed by an iter of its own",
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
    loop  a loop around all readers; "root" leaves the block where it is

    Elements that several iterations read are computed again in each. The producer's own loops are
    built anew, one for each of its iters, so schedule it after moving it.

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
    reading = {b.name for name in buffers for b in edit.readers(program, name)} - {block}
    around = (*target.outer, target.loop)
    names = {outer.var for outer in around}
    store = edit.plain_store(producer)
    if store is None:
        refuse("R6", marks=ir.Marks(blocks={block: "stores elsewhere"}))
    found = [
        access
        for name in sorted(reading)
        for access in accesses(program, name)
        if access.buffer in buffers and not access.writes
    ]
    domain: dict[str, arith.Span] = {}
    for buffer in sorted({access.buffer for access in found}):
        box = region(program, [a for a in found if a.buffer == buffer], buffer, names)
        for var, span in zip(store, box):
            domain[var] = span if var not in domain else _wider(domain[var], span)
    for i in producer.iters:
        if i.kind is not ir.IterKind.SPATIAL:
            domain.pop(i.var, None)
    point = insertion.point_before(program, around, reading)
    guards = insertion.shared_guards(
        program, [program.blocks[name] for name in sorted(reading)], around, every=True
    )
    placed = insertion.place(producer, domain, around, edit.Fresh(program), guards, widen=True)
    missing = insertion.unavailable(
        program, placed, point, strict=not insertion.runs_whole(program, producer)
    )
    if missing is not None:
        late = {
            b.name: f"computes {ir.print_name(missing)}" for b in edit.writers(program, missing)
        }
        refuse("R5", f"{ir.print_name(missing)} is not complete there", marks=ir.Marks(blocks=late))
    return point.insert(program, placed.stmt, {id(producer): None}), placed.names


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
    for buffer in buffers:
        others = [b.name for b in edit.writers(program, buffer) if b.name != block]
        if others:
            marks = ir.Marks(
                blocks=dict.fromkeys([block, *others], f"writes {ir.print_name(buffer)}")
            )
            refuse("R1", f"{ir.print_name(others[0])} writes it too", marks=marks)
    if target.loop in edit.loops_around(program, block):
        marks = ir.Marks(loops={loop: "target"}, blocks={block: "inside it"})
        refuse("R2", marks=marks)
    for buffer in buffers:
        if any(buffer == param.name for param in program.params):
            refuse(
                "R3", f"{ir.print_name(buffer)} is one", marks=ir.Marks(blocks={block: "an output"})
            )
    inside = {b.name for b in ir.blocks_of(target.loop)}
    reading = [b for name in buffers for b in edit.readers(program, name) if b.name != block]
    outside = [b for b in reading if b.name not in inside]
    if outside or not reading:
        parts = [
            (b.name, load, f"also reads {ir.print_name(load.buffer)}")
            for b in outside
            for load in edit.loads_of(b, buffers)[:1]
        ]
        marks = ir.Marks(loops={loop: "target"}, parts=parts)
        detail = f"{ir.print_name(outside[0].name)} is not" if outside else "nothing reads them"
        refuse("R4", detail, marks=marks)
    insertion.require_not_vectorized(program, loop)


@compute_at.on_batch
def _compute_at_batch(view: StepView) -> Effect | None:
    if view.argument("loop") == "root":
        return None
    producer = view.before.blocks[view.argument("block")]
    around = view.around(view.argument("loop"))
    footprints = []
    for buffer in sorted(ir.stored_buffers(producer.body)):
        reading = sorted({b.name for b in edit.readers(view.before, buffer)} - {producer.name})
        if reading:
            footprints.append(Footprint(view, buffer, reading, around))
    store, axes, loops = edit.plain_store(producer) or (), edit.spatial_iters(producer), view.result
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

    return effect


@compute_at.random_call(often=4)
def _call_compute_at(scene: Scene) -> None:
    block = scene.producer()
    scene.do("compute_at", block, scene.near(scene.schedule.get_consumers, block))


class PlacementPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    compute_at = compute_at
