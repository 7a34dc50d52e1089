"""Building a nest for a block that is put somewhere else, over the part of its domain needed there.

Shared by compute_at, reverse_compute_at, cache_read and cache_write: from a box of the block's
iters to loops over it, with guards where the box may leave the domain; which values are computed
where the block is going; and whether a nest writes all of a box and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.dependence import (
    Access,
    accesses,
    accesses_of,
    counted,
    iter_domain,
    region,
)
from minitensor.schedule.elements import PLAIN, Elements, common_elements, elements_of
from minitensor.schedule.refusal import refuse


@dataclass(frozen=True, slots=True)
class Placed:
    """A block in a nest of its own."""

    block: ir.Block
    loops: tuple[ir.For, ...]

    @property
    def stmt(self) -> ir.Stmt:
        """The whole nest."""
        return ir.nest(self.loops, self.block)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the loops."""
        return tuple(loop.var for loop in self.loops)


def place(
    block: ir.Block,
    domain: Mapping[str, arith.Span],
    outer: tuple[ir.For, ...],
    fresh: edit.Fresh,
    guards: Iterable[ir.Expr] = (),
    widen: bool = False,
) -> Placed:
    """The block in new loops over `domain` (for iters not in it: all), in the order of its iters.

    outer   the loops that the nest will stand in
    guards  conditions on those loops under which alone the block runs (see `shared_guards`)
    widen   whether an axis whose span is as long as the axis may be taken whole, wherever it lies
    """
    ranges = dict(edit.ranges_of(outer))
    loops: list[ir.For] = []
    iters: list[ir.Iter] = []
    conditions = list(guards)
    for i in block.iters:
        low, extent = placed_axis(domain.get(i.var), i.extent, widen)
        loop = ir.For(fresh.loop(i.var, block.name), extent, block)
        loops.append(loop)
        ranges[loop.var] = arith.extent_range(extent)
        value = low.plus(arith.variable(loop.var)).expr()
        iters.append(ir.Iter(i.var, i.extent, i.kind, value))
        conditions.extend(
            guard
            for guard in (ir.at_most(0, value), ir.less(value, i.extent))
            if arith.prove(guard, ranges) is not True
        )
    simplifier = arith.Simplifier(ranges, keep_units=True)
    predicate = ir.conjunction(simplifier.expr(condition) for condition in conditions)
    return Placed(edit.with_block(block, iters=tuple(iters), predicate=predicate), tuple(loops))


def placed_axis(
    span: arith.Span | None, size: arith.Num, widen: bool
) -> tuple[arith.Linear, arith.Num]:
    """The first value and the trip count of a new loop over a span of an axis; over all for None.

    widen  whether an axis whose span is as long as the axis is taken whole, wherever it lies
    """
    if span is None:
        return arith.Linear({}), size
    if not widen:
        return span.low, span.extent
    low = span.low.times(arith.as_number(span.extent < size))
    return low, arith.lesser(span.extent, size)


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """A place for a new statement: among the parts of a loop's body, or of the whole program's."""

    loops: tuple[ir.For, ...]
    """The loops around it; none at the top."""
    position: int
    """The number of parts before it."""

    def before(self, program: ir.Program) -> set[str]:
        """The blocks that stand before it in the text."""
        pieces = edit.parts(self.loops[-1].body if self.loops else program.body)
        order = list(program.blocks)
        behind = {b.name for part in pieces[self.position :] for b in ir.blocks_of(part)}
        ahead = [b.name for part in pieces[: self.position] for b in ir.blocks_of(part)]
        if behind:
            return set(order[: min(order.index(name) for name in behind)])
        return set(order[: max(order.index(name) for name in ahead) + 1])

    def insert(
        self, program: ir.Program, stmt: ir.Stmt, edits: Mapping[int, ir.Stmt | None] | None = None
    ) -> ir.Program:
        """The program with the statement put there, and other statements edited (see `splice`)."""
        changes = dict(edits or {})
        pieces = edit.parts(self.loops[-1].body if self.loops else program.body)
        kept = [edit.splice(piece, changes) for piece in pieces]
        kept.insert(self.position, stmt)
        body = ir.sequence(*[piece for piece in kept if piece is not None])
        if not self.loops:
            return program.replace(body=body)
        level = self.loops[-1]
        return edit.spliced(program, {**changes, id(level): ir.with_body(level, body)})


def point_before(
    program: ir.Program, loops: tuple[ir.For, ...], blocks: set[str]
) -> InsertionPoint:
    """Before the first part of the innermost loop's body that holds one of the blocks."""
    pieces = edit.parts(loops[-1].body if loops else program.body)
    return InsertionPoint(
        loops, next(n for n, part in enumerate(pieces) if edit.holds_block(part, blocks))
    )


def point_after(program: ir.Program, loops: tuple[ir.For, ...], blocks: set[str]) -> InsertionPoint:
    """After the last part of the innermost loop's body that holds one of the blocks."""
    pieces = edit.parts(loops[-1].body if loops else program.body)
    return InsertionPoint(
        loops, max(n for n, part in enumerate(pieces) if edit.holds_block(part, blocks)) + 1
    )


def shared_guards(
    program: ir.Program, blocks: Iterable[ir.Block], outer: tuple[ir.For, ...], every: bool
) -> list[ir.Expr]:
    """The conditions that some blocks put on the loops around them alone.

    Such a guard says that whole iterations are too many (the loop was split into more than it had),
    so it holds for whatever else is put there as well. `every`: what all the blocks ask, else what
    one of them asks.
    """
    names = {loop.var for loop in outer}
    asked = []
    for block in blocks:
        ranges = edit.ranges_of(edit.loops_around(program, block.name))
        found = (outer_guard(part, names, ranges) for part in ir.conjuncts(block.predicate))
        asked.append([guard for guard in found if guard is not None])
    if not every:
        return [guard for guards in asked for guard in guards]
    return [guard for guard in asked[0] if all(guard in guards for guards in asked)]


def outer_guard(condition: ir.Expr, names: Collection[str], ranges: arith.Ranges) -> ir.Expr | None:
    """The condition on the variables in `names` that a condition implies: it does not hold
    for any values of those where this does not. None if that is nothing, or not known.
    """
    variables = set(ir.free_vars(condition))
    if variables <= set(names):
        return condition
    forms = arith.at_least_zero(condition, ranges) or ()
    asked: list[ir.Expr] = []
    for form in forms:
        rest = form.part(lambda atom, _: not set(ir.free_vars(atom)) <= set(names))
        most = rest.interval(ranges).hi
        if math.isfinite(most):
            guard = ir.at_most(0, form.minus(rest).shifted(int(most)).expr())
            if arith.prove(guard, ranges) is not True:
                asked.append(arith.simplify(guard, ranges))
    return ir.conjunction(asked) if asked else None


def common_loops(a: Sequence[ir.For], b: Sequence[ir.For]) -> tuple[ir.For, ...]:
    """The loops that two positions share, outermost first (compared by name)."""
    shared = []
    for x, y in zip(a, b):
        if x.var != y.var:
            break
        shared.append(x)
    return tuple(shared)


def unavailable(
    program: ir.Program,
    placed: Placed,
    point: InsertionPoint,
    strict: bool = False,
    starting: Collection[str] = (),
) -> str | None:
    """A buffer that the placed block reads and that is not computed by then; None if all are.

    strict    whether the block may read elements that nothing has read before, as a copy does
    starting  blocks that only initialise what another one updates (see `halves`), which counts

    Elements that are computed in a shared loop must be those that the writers compute in one
    iteration of it. Elements computed elsewhere are all there, if they were needed before.
    """
    own = ir.accessed_buffers(placed.block)[1]
    before = point.before(program)
    for access in accesses_of(placed.block, (*point.loops, *placed.loops)):
        if access.writes or access.buffer in own:
            continue
        passed = (placed.block.name, *starting)
        sources = [b for b in ir.writers(program, access.buffer) if b.name not in passed]
        if any(b.name not in before for b in sources):
            return access.buffer
        if sources and not _covered(program, sources, access, placed, point.loops, strict):
            return access.buffer
    return None


def _covered(
    program: ir.Program,
    sources: Sequence[ir.Block],
    access: Access,
    placed: Placed,
    outer: tuple[ir.For, ...],
    strict: bool,
) -> bool:
    """Return whether the writers have computed all that an access reads, shared loops fixed."""
    where = ir.paths(program)
    loops = (*outer, *placed.loops)
    known = arith.facts_of([placed.block.predicate], edit.ranges_of(loops))
    elements = common_elements(sources)
    shape = (elements or PLAIN).shape_in(program.buffers[access.buffer])
    have: arith.Box | None = None
    shared: tuple[ir.For, ...] = ()
    for writer in sources:
        both = common_loops(where[writer.name], outer)
        if have is not None and len(both) != len(shared):
            return False
        shared = both
        for guard in shared_guards(program, [writer], shared, every=True):
            if arith.prove(guard, edit.ranges_of(shared), known) is not True:
                return False
        if elements is None:
            if shared or strict:
                return False
            continue
        names = {loop.var for loop in shared}
        exact = strict or (bool(shared) and _cut_short(writer, where[writer.name], names))
        box = _written(program, writer, access.buffer, names, elements, exact)
        if box is None:
            return False
        have = box if have is None else arith.union_box(have, box, shape)
    if not shared and not strict:
        return True
    assert have is not None and elements is not None
    names = {loop.var for loop in shared}
    inner = frozenset(loop.var for loop in loops if loop.var not in names)
    ranges = edit.ranges_of(loops)
    indices = counted(access, elements, loops)
    need = arith.clipped_box(arith.box_of(indices, shape, inner, ranges), shape)
    cut = [n for n, (span, extent) in enumerate(zip(have, shape)) if not is_whole(span, extent)]
    return arith.contains(tuple(have[n] for n in cut), tuple(need[n] for n in cut), ranges)


def finds_all(program: ir.Program, block: str, buffers: Collection[str]) -> bool:
    """Return whether all that a block reads of some buffers is known to be computed before it, with
    the loops fixed that it shares with their writers.
    """
    reader, loops = program.blocks[block], edit.loops_around(program, block)
    return all(
        _covered(program, ir.writers(program, a.buffer), a, Placed(reader, ()), loops, strict=True)
        for a in accesses_of(reader, loops)
        if a.buffer in buffers and not a.writes
    )


def is_whole(span: arith.Span, extent: int) -> bool:
    """Return whether a span is all of an axis: whatever is read along that is in it."""
    begin = span.low.constant
    return span.low.is_constant and begin <= 0 and 0 < extent <= begin + span.spread + 1


def _written(
    program: ir.Program,
    writer: ir.Block,
    buffer: str,
    names: Collection[str],
    elements: Elements,
    strict: bool,
) -> arith.Box | None:
    """The box that a writer computes while the loops in `names` are fixed.

    strict  whether it must be known that all of the box is written
    """
    shape = elements.shape_in(program.buffers[buffer])
    if strict:
        domain = exact_domain(writer, ir.paths(program)[writer.name], names)
        box = None if domain is None else write_box(writer, domain)
        return None if box is None else arith.clipped_box(box, shape)
    written = [a for a in accesses(program, writer.name) if a.writes and a.buffer == buffer]
    return region(program, written, buffer, names, elements)


def exact_domain(
    block: ir.Block, loops: tuple[ir.For, ...], outside: Collection[str]
) -> arith.Box | None:
    """The box of iters that a nest executes while the loops not in `outside` run, if exactly that.

    Exactly: every point of the box that lies in the block's domain, and no other. None if it is
    not, or not known: the map from loops to iters may overlap, leave holes, or be guarded by
    something else than the bounds of the domain.
    """
    ranges = edit.ranges_of(loops)
    inner = [loop for loop in loops if loop.var not in outside]
    free = frozenset(loop.var for loop in inner)
    bindings = _bindings(block, ranges)
    box = iter_domain(block, loops, outside)
    if math.prod(loop.extent for loop in inner) != math.prod(span.extent for span in box):
        return None
    if not all(arith.separates(loop.var, bindings, bindings, free, ranges) for loop in inner):
        return None
    return box if _only_bounds(block, ir.conjuncts(block.predicate), ranges) else None


def _bindings(block: ir.Block, ranges: arith.Ranges) -> list[arith.Linear]:
    simplifier = arith.Simplifier(ranges)
    return [simplifier.linear(i.binding) for i in block.iters]


def _only_bounds(block: ir.Block, guards: Iterable[ir.Expr], ranges: arith.Ranges) -> bool:
    """Tell whether guards of a block hold wherever its iters are in their domain."""
    bindings = _bindings(block, ranges)
    bounds = [
        form
        for i, binding in zip(block.iters, bindings)
        for form in (binding, binding.times(-1).shifted(i.extent - 1))
    ]
    bounds += arith.undivided(bounds, ranges)
    for part in guards:
        forms = arith.at_least_zero(part, ranges)
        if forms is None or not all(arith.is_nonnegative(f, ranges, bounds) for f in forms):
            return False
    return True


def _cut_short(block: ir.Block, loops: tuple[ir.For, ...], shared: Collection[str]) -> bool:
    """Tell whether a guard may leave out some of what the loops inside the shared ones store."""
    inner = [p for p in ir.conjuncts(block.predicate) if not ir.free_vars(p).keys() <= set(shared)]
    return not _only_bounds(block, inner, edit.ranges_of(loops))


def write_box(block: ir.Block, box: arith.Box) -> arith.Box | None:
    """The box of the block's elements that executing a box of its iters writes; None if unknown."""
    elements = elements_of(block)
    if elements is None:
        return None
    position = {i.var: n for n, i in enumerate(block.iters)}
    return arith.clipped_box([box[position[name]] for name in elements.iters], elements.extents)


def require_not_vectorized(program: ir.Program, loop: str) -> None:
    """Rule R7 of the primitives that move a block: nothing goes into the lanes of a vector."""
    target = ir.loop_sites(program)[loop]
    for outer in (*target.outer, target.loop):
        if outer.kind is ir.LoopKind.VECTORIZE:
            refuse("R7", marks=ir.Marks(loops={outer.var: "is vectorized"}))


def runs_whole(program: ir.Program, block: ir.Block) -> bool:
    """Return whether the block is known to run all of its domain: else, elsewhere, it may run more
    instances than it did, and read what was not needed before.
    """
    box = exact_domain(block, edit.loops_around(program, block.name), ())
    return box is not None and all(
        span.low.is_constant and span.low.constant <= 0 and span.extent >= i.extent
        for span, i in zip(box, block.iters)
    )
