"""The primitive that moves a consumer under its producer's loop: reverse_compute_at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from minitensor import arith, ir
from minitensor.schedule import edit, insertion
from minitensor.schedule.arguments import BlockName, Location
from minitensor.schedule.batch import Batch, Effect, StepView, Written
from minitensor.schedule.dependence import accesses, accesses_of, driven, region
from minitensor.schedule.elements import PLAIN, Elements, common_elements, elements_of
from minitensor.schedule.halves import half_that_starts, other_writers
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene


@primitive(
    rules={
        "R1": ("the loop does not enclose the block", "choose a loop around its producer"),
        "R2": (
            "the block reads a buffer that is computed under the loop, or read there before",
            "choose a loop around its producer",
        ),
        "R3": (
            "the loop is not part of a reduction or an ordered update that computes it",
            "choose a loop outside the reduction",
        ),
        "R4": (
            "each such buffer has one writer (and the block that decompose_reduction made of it), "
            "whose nest computes a box of it in each iteration",
            "choose an outer loop, or split the producer's loops evenly",
        ),
        "R5": (
            "where the block reads it gives for each iteration a box of the block's instances, and "
            "an iteration for each instance",
            "compute_at moves the producer to it instead",
        ),
        "R6": (
            "a reduction or ordered update has all of its axes in one iteration",
            "choose a loop that leaves its reduction whole",
        ),
        "R7": (
            "the loop is not vectorized, nor inside a vectorized loop",
            "vectorize after moving",
        ),
        "R8": (
            "everything else the block reads is computed before it",
            "move what it reads first, or choose an outer loop",
        ),
        "R9": (
            "no other block that reads or writes the block's buffers comes before it then",
            "move the other block first",
        ),
        "R10": (
            "a block that updates what it finds, or that comes to another reader, is executed once "
            "for each element",
            "choose a loop that does not repeat it",
        ),
    },
    alternatives="loop",
)
def reverse_compute_at(
    program: ir.Program, block: BlockName, loop: Location
) -> Rewritten[tuple[str, ...]]:
    """Move a consumer under its producer's loop: each iteration consumes what it has computed.

    reverse_compute_at("D", "i_0")
        for i_0 in range(4):                  for i_0 in range(4):
            for i_1 in range(8):                  for i_1 in range(8):
                C[i_0*8 + i_1] = f(..)     =>         C[i_0*8 + i_1] = f(..)
        for i in range(32):                       for i in range(8):
            D[i] = C[i] + 1.0                         D[i_0*8 + i] = C[i_0*8 + i] + 1.0
    loop  a loop around the producer, one that was fused of the loops of tiles too; "root" leaves
          the block where it is

    The consumer may read windows (pooling), mirrored rows or another shape of what is computed: an
    iteration gets the instances that read nothing but its own part, and each must be in one. Where
    windows overlap at the ends of a tile there is none. A block that reads what another one reads
    under the loop can come there too, if each iteration has instances of its own. The consumer's
    loops are built anew, one for each of its iters.

    Preserves  every output.
    Returns    the names of the consumer's new loops.
    """
    if loop == "root":
        return program, ()
    consumer = program.blocks[block]
    target = ir.loop_sites(program)[loop]
    around = (*target.outer, target.loop)
    if target.loop in edit.loops_around(program, block):
        refuse("R1", marks=ir.Marks(loops={loop: "target"}, blocks={block: "inside it"}))
    found, producers = _computed_under(program, consumer, around)
    siblings: set[str] = set()
    if not found:
        found, siblings = _read_under(program, consumer, around)
    if not found:
        marks = ir.Marks(loops={loop: "target"}, blocks={block: "reads nothing computed there"})
        refuse("R2", marks=marks)
    insertion.require_not_vectorized(program, loop)
    domain = _instances(consumer, found, around)
    _check_every_instance(consumer, domain, around)
    _check_complete_axes(consumer, edit.loops_around(program, block), domain)
    point = insertion.point_after(program, around, producers | siblings)
    guards = insertion.shared_guards(
        program, [program.blocks[name] for name in sorted(producers)], around, False
    )
    placed = insertion.place(consumer, domain, around, edit.Fresh(program), guards)
    _check_order(program, consumer, point)
    _check_once(placed, around, always=bool(siblings))
    halves = [half_that_starts(program, program.blocks[name]) for name in sorted(producers)]
    missing = insertion.unavailable(
        program,
        placed,
        point,
        strict=bool(siblings) or not insertion.runs_whole(program, consumer),
        starting=[half.name for half in halves if half is not None],
    )
    if missing is not None:
        late = {b.name: f"computes {ir.print_name(missing)}" for b in ir.writers(program, missing)}
        refuse("R8", f"{ir.print_name(missing)} is not complete there", marks=ir.Marks(blocks=late))
    return point.insert(program, placed.stmt, {id(consumer): None}), placed.names


def _computed_under(
    program: ir.Program, consumer: ir.Block, around: tuple[ir.For, ...]
) -> tuple[dict[str, Computed], set[str]]:
    """The parts that one iteration computes of what the consumer reads, and the blocks that do."""
    inside = {b.name for b in ir.blocks_of(around[-1])}
    read, own = ir.accessed_buffers(consumer)
    found: dict[str, Computed] = {}
    producers: set[str] = set()
    for buffer in sorted(read - own):
        if any(w.name in inside for w in ir.writers(program, buffer)):
            producer, found[buffer] = _computed_box(program, buffer, around)
            producers.add(producer)
    return found, producers


def _read_under(
    program: ir.Program, consumer: ir.Block, around: tuple[ir.For, ...]
) -> tuple[dict[str, Computed], set[str]]:
    """The parts that one iteration reads of what the consumer reads too, and the blocks that do:
    those are before it in the text, so that it moves up.
    """
    order = list(program.blocks)
    before = order[: order.index(consumer.name)]
    names = {loop.var for loop in around}
    read, own = ir.accessed_buffers(consumer)
    found: dict[str, Computed] = {}
    siblings: set[str] = set()
    for buffer in sorted(read - own):
        reading = [b for b in ir.blocks_of(around[-1]) if buffer in ir.accessed_buffers(b)[0]]
        if not reading or not all(b.name in before for b in reading):
            continue
        writing = ir.writers(program, buffer)
        elements = (common_elements(writing) if writing else None) or PLAIN
        reads = [a for b in reading for a in accesses(program, b.name)]
        reads = [a for a in reads if a.buffer == buffer and not a.writes]
        box = region(program, reads, buffer, names, elements)
        found[buffer] = Computed(box, elements.shape_in(program.buffers[buffer]), elements)
        siblings.update(b.name for b in reading)
    return found, siblings


class Computed(NamedTuple):
    """The box of a buffer that one iteration computes (or reads), the extents of all that is
    computed, and how its elements are counted.
    """

    box: arith.Box
    extents: tuple[int, ...]
    elements: Elements


def _computed_box(
    program: ir.Program, buffer: str, around: tuple[ir.For, ...]
) -> tuple[str, Computed]:
    """The one block that computes a buffer, and what of it."""
    writing = ir.writers(program, buffer)
    producer = writing[-1]
    if other_writers(program, producer):
        marks = ir.Marks(blocks={b.name: f"writes {ir.print_name(buffer)}" for b in writing})
        refuse("R4", f"{ir.print_name(buffer)} has {len(writing)} writers", marks=marks)
    path = edit.loops_around(program, producer.name)
    if around[-1] not in path:
        marks = ir.Marks({around[-1].var: "target"}, {producer.name: "is updated outside of it"})
        refuse("R2", f"{ir.print_name(buffer)} is only initialised there", marks=marks)
    for loop in around:
        if driven(producer, loop.var, (ir.IterKind.REDUCE, ir.IterKind.ORDERED)):
            marks = ir.Marks({loop.var: f"part of computing {ir.print_name(buffer)}"})
            refuse("R3", f"{ir.print_name(loop.var)} is", marks=marks)
    domain = insertion.exact_domain(producer, path, {loop.var for loop in around})
    box = None if domain is None else insertion.write_box(producer, domain)
    if box is None:
        marks = ir.Marks(blocks={producer.name: "not known to write a box"})
        refuse("R4", f"the nest of {ir.print_name(producer.name)}", marks=marks)
    elements = elements_of(producer)
    assert elements is not None
    if any(i.extent == 0 for i in producer.iters):
        return producer.name, Computed(box, (0,) * len(box), elements)
    return producer.name, Computed(box, elements.extents, elements)


def _instances(
    consumer: ir.Block, computed: Mapping[str, Computed], around: tuple[ir.For, ...]
) -> dict[str, arith.Span]:
    """The consumer's iters that read what one iteration computes, and nothing else of it."""
    simplifier = arith.Simplifier({i.var: arith.extent_range(i.extent) for i in consumer.iters})
    found: dict[str, arith.Span] = {}
    along: dict[str, arith.Span] = {}
    for buffer, one in computed.items():
        places = list(dict.fromkeys(x.indices for x in edit.loads_of(consumer, [buffer])))
        for indices in places:
            forms = [simplifier.linear(index) for index in indices]
            forms = list(one.elements.counted(forms, simplifier.ranges))
            for var, span in _reading(consumer, buffer, one, forms, around).items():
                if found.setdefault(var, span) != span:
                    _refuse_two_places(consumer, buffer, len(places))
            if len(places) == 1:
                along.update(_along(forms, one, simplifier.ranges))
    return {**along, **found}


def _reading(
    consumer: ir.Block,
    buffer: str,
    computed: Computed,
    forms: Sequence[arith.Linear],
    around: tuple[ir.For, ...],
) -> dict[str, arith.Span]:
    """The iters for which one place of a buffer is computed in an iteration.

    Every instance must be found that way: where the index lies outside of the buffer (it is
    padding, and does not read), it would belong to no iteration.
    """
    ranges = {i.var: arith.extent_range(i.extent) for i in consumer.iters}
    found: dict[str, arith.Span] | None = {}
    axes = enumerate(zip(*computed[:2]))
    cut = [n for n, (span, size) in axes if not insertion.is_whole(span, size)]
    for count, n in enumerate(cut, 1):
        if forms[n].interval(ranges).within(0, computed.extents[n] - 1):
            those, box = [forms[m] for m in cut[:count]], [computed.box[m] for m in cut[:count]]
            found = arith.preimage(those, box, ranges, edit.ranges_of(around))
        else:
            found = None
        if found is None:
            load = edit.loads_of(consumer, [buffer])[0]
            marks = ir.Marks(parts=[(consumer.name, load, "read here")])
            refuse("R5", f"index {n} of {ir.print_name(buffer)} does not", marks=marks)
    assert found is not None
    return found


def _along(
    forms: Sequence[arith.Linear], computed: Computed, ranges: arith.Ranges
) -> dict[str, arith.Span]:
    """The iters that run along axes of which an iteration computes all, and the spans of those: so
    a loop over a part of an axis and one over all of it have the same extent where they meet.
    """
    found: dict[str, arith.Span] = {}
    for form, span, extent in zip(forms, *computed[:2]):
        match list(form.terms.items()):
            case [(ir.Var(name), 1)] if form.interval(ranges).within(0, extent - 1):
                if insertion.is_whole(span, extent):
                    found[name] = arith.Span(span.low.shifted(-form.constant), span.spread)
    return found


def _refuse_two_places(consumer: ir.Block, buffer: str, places: int) -> NoReturn:
    """Rule R5, for reads of which an iteration has one and not the other."""
    name = ir.print_name(buffer)
    if places == 1:
        refuse("R5", f"{name} gives another box than the rest")
    marks = ir.Marks(blocks={consumer.name: f"reads {name}"})
    refuse("R5", f"{name} is read at {places} places, which give different ones", marks=marks)


def _check_every_instance(
    consumer: ir.Block, domain: dict[str, arith.Span], around: tuple[ir.For, ...]
) -> None:
    """Rule R5 for all buffers together: each alone may give every row and every column, and the two
    together no more than blocks on the diagonal.
    """
    names = list(domain)
    taken = arith.swept(tuple(domain.values()), edit.ranges_of(around))
    if any(loop.extent == 0 for loop in around) and all(i.extent for i in consumer.iters):
        refuse("R5", "there are no iterations", marks=ir.Marks({around[-1].var: "target"}))
    extents = {i.var: i.extent for i in consumer.iters}
    for n, name in enumerate(names):
        if taken is None or not (taken[n].start <= 0 and extents[name] <= taken[n].stop):
            marks = ir.Marks(blocks={consumer.name: "has other instances too"})
            refuse("R5", f"not for all of {ir.print_name(name)}", marks=marks)


def _check_complete_axes(
    consumer: ir.Block, loops: tuple[ir.For, ...], domain: dict[str, arith.Span]
) -> None:
    """Rule R6, for where the consumer stands (another block may do the rest) and where it goes."""
    now = insertion.exact_domain(consumer, loops, ())
    for n, i in enumerate(consumer.iters):
        if i.kind is ir.IterKind.SPATIAL:
            continue
        here = None if now is None else now[n]
        if here is None or not (
            here.low.is_constant and here.low.constant <= 0 and here.extent >= i.extent
        ):
            marks = ir.Marks(blocks={consumer.name: f"may do a part of {ir.print_name(i.var)}"})
            refuse("R6", f"another block may do the rest of {ir.print_name(i.var)}", marks=marks)
        span = domain.get(i.var)
        if span is None:
            continue
        whole = span.low.is_constant and span.low.constant <= 0
        if not (whole and span.low.constant + span.spread >= i.extent - 1):
            marks = ir.Marks(blocks={consumer.name: f"is computed along {ir.print_name(i.var)}"})
            refuse("R6", f"{ir.print_name(i.var)} is cut into pieces", marks=marks)
        del domain[i.var]


def _check_once(placed: insertion.Placed, around: tuple[ir.For, ...], always: bool) -> None:
    """Rule R10: iterations of the loops around it now do not repeat what it does.

    always  whether that is asked of blocks that could be repeated too
    """
    block = placed.block
    loops = (*around, *placed.loops)
    found = accesses_of(block, loops)
    written = [access for access in found if access.writes]
    own = {access.buffer for access in written}
    updates = any(a.accumulates or (a.buffer in own and not a.writes) for a in found)
    if not always and (block.init is not None or not updates):
        return
    free, ranges = frozenset(loop.var for loop in loops), edit.ranges_of(loops)
    for access in written:
        for loop in around:
            if not arith.separates(loop.var, access.indices, access.indices, free, ranges):
                fact = "updates what it finds" if updates else "is not computed from what is there"
                marks = ir.Marks({loop.var: "would repeat it"}, {block.name: fact})
                refuse("R10", f"iterations of {ir.print_name(loop.var)} repeat it", marks=marks)


def _check_order(program: ir.Program, consumer: ir.Block, point: insertion.InsertionPoint) -> None:
    """Rule R9: nothing that touches what the consumer writes is passed by."""
    order = list(program.blocks)
    touched = ir.accessed_buffers(consumer)[1]
    passed = set(order[: order.index(consumer.name)]) - point.before(program)
    for name in sorted(passed):
        read, written = ir.accessed_buffers(program.blocks[name])
        if touched & (read | written):
            marks = ir.Marks(blocks={name: f"touches what {ir.print_name(consumer.name)} writes"})
            refuse("R9", f"{ir.print_name(name)} is one", marks=marks)


@reverse_compute_at.on_batch
def _reverse_compute_at_batch(view: StepView) -> Effect | None:
    if view.argument("loop") == "root":
        return None
    consumer = view.before.blocks[view.argument("block")]
    around, under = view.around(view.argument("loop")), view.under(view.argument("loop"))
    read, own = ir.accessed_buffers(consumer)
    sources: list[tuple[Written, list[tuple[str, int] | None]]] = []
    for buffer in sorted(read - own):
        writing = [b.name for b in ir.writers(view.before, buffer)]
        if any(b in under for b in writing):
            sources.append((Written(view, writing[-1], around), _read_at(view, consumer, buffer)))
    if not sources:
        raise arith.BatchError("what other readers need is not known without replaying")
    axes, loops = edit.spatial_iters(consumer), view.result
    view.follow()

    def effect(batch: Batch) -> None:
        domain: dict[str, arith.Span] = {}
        for written, places in sources:
            for axis, span in zip(places, written.box(batch)):
                if axis is not None:
                    name, offset = axis
                    moved = arith.Span(span.low.shifted(-offset), span.spread)
                    if not _same_span(domain.setdefault(name, moved), moved):
                        raise arith.BatchError("what a block reads along two axes is not known")
        kept = {name: span for name, span in domain.items() if name in axes}
        batch.place(consumer, kept, loops, widen=False)

    return effect


def _same_span(a: arith.Span, b: arith.Span) -> bool:
    """Return whether two spans are equal for all candidates."""
    return arith.alike(a.low, b.low) and arith.same(a.spread, b.spread)


def _read_at(view: StepView, block: ir.Block, buffer: str) -> list[tuple[str, int] | None]:
    """For each axis of a buffer the iter at which a block reads it, and how much further on; None
    for an axis that is read at a constant.

    Raises BatchError for a block that reads otherwise.
    """
    simplifier = arith.Simplifier({i.var: arith.extent_range(i.extent) for i in block.iters})
    names = {i.var for i in block.iters}
    found: list[tuple[str, int] | None] = []
    places = {load.indices for load in view.bodies.loads(block, buffer)}
    extents = edit.written_extents(ir.writers(view.before, buffer)[-1]) or ()
    for index, extent in zip(next(iter(places)), extents):
        if not names.issuperset(ir.free_vars(index)):
            raise arith.BatchError("where partial results are read depends on the numbers")
        form = simplifier.linear(index)
        inside = form.interval(simplifier.ranges).within(0, extent - 1)
        match list(form.terms.items()):
            case []:
                found.append(None)
            case [(ir.Var(name), 1)] if inside and len(places) == 1:
                found.append((name, form.constant))
            case _:
                raise arith.BatchError("which instances read a box is not known without replaying")
    return found


@reverse_compute_at.random_call(often=4)
def _call_reverse_compute_at(scene: Scene) -> None:
    block = scene.block()
    if scene.chance(80):
        scene.do("reverse_compute_at", block, scene.near(scene.schedule.get_producers, block))
    else:
        scene.do("reverse_compute_at", block, scene.loop())


class ReversePlacementPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    reverse_compute_at = reverse_compute_at
