"""Dependence: which iterations may run at the same time, or in another order.

Everything rests on one question about a loop: can two of its iterations touch the same element, one
of them writing? `conflict` answers it from the accesses under the loop, as linear forms of the loop
variables, and the mixed-radix test of `arith.injectivity`. It errs on the side of a conflict.
Buffers that live inside the loop (`ir.lifetime`) are private to an iteration and cannot conflict.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NoReturn

from minitensor import arith, ir
from minitensor.schedule.edit import loops_around, ranges_of
from minitensor.schedule.elements import PLAIN, Elements
from minitensor.schedule.refusal import refuse


class Forms:
    """Linear forms of what stands in a block, in terms of the loops around it; each is found when
    it is asked for, as most questions are about few of the accesses.
    """

    def __init__(self, block: ir.Block, loops: tuple[ir.For, ...]) -> None:
        self._block, self._loops = block, loops
        self._simplifier: arith.Simplifier | None = None
        self._known: dict[int, tuple[arith.Linear, ...]] = {}

    def of(self, part: ir.Load | ir.Store | ir.Reduce) -> tuple[arith.Linear, ...]:
        """The indices of a part of the block."""
        known = self._known.get(id(part))
        if known is None:
            if self._simplifier is None:
                self._simplifier = _simplifier_in(self._block, self._loops)
            known = self._known[id(part)] = tuple(map(self._simplifier.linear, part.indices))
        return known


def _simplifier_in(block: ir.Block, loops: tuple[ir.For, ...]) -> arith.Simplifier:
    """A simplifier that puts in for the iters of a block what binds them to these loops."""
    ranges = ranges_of(loops)
    outside = arith.Simplifier(ranges, keep_units=True)
    bindings = {i.var: outside.linear(i.binding) for i in block.iters}
    return arith.Simplifier(ranges, bindings, keep_units=True)


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a block.

    part         the Load, Store or Reduce in the block, for pointing at it
    accumulates  whether it only combines into the element, by the block's commutative reducer
    """

    block: ir.Block
    buffer: str
    writes: bool
    accumulates: bool
    part: ir.Load | ir.Store | ir.Reduce
    forms: Forms = field(compare=False, repr=False)

    @property
    def indices(self) -> tuple[arith.Linear, ...]:
        """Its indices as linear forms of the loop variables."""
        return self.forms.of(self.part)


def accesses(program: ir.Program, name: str) -> tuple[Access, ...]:
    """Every access of a block."""
    block, loops = program.blocks[name], loops_around(program, name)
    known = _known_accesses(loops[0] if loops else block)
    if name not in known:
        known[name] = accesses_of(block, loops)
    return known[name]


@ir.fact
def _known_accesses(nest: ir.Stmt) -> dict[str, tuple[Access, ...]]:
    """The accesses of the blocks of a nest that have been asked about."""
    return {}


def accesses_of(block: ir.Block, loops: tuple[ir.For, ...]) -> tuple[Access, ...]:
    """Every access of a block that stands in these loops."""
    forms = Forms(block, loops)
    reducing = any(isinstance(node, ir.Reduce) for node in ir.walk(block.body))
    found: list[Access] = []

    def add(
        buffer: str, part: ir.Load | ir.Store | ir.Reduce, writes: bool, accumulates: bool
    ) -> None:
        found.append(Access(block, buffer, writes, accumulates, part, forms))

    for stmt in (block.init, block.body):
        for node in ir.walk(stmt) if stmt is not None else ():
            if isinstance(node, ir.Store):
                add(node.buffer, node, True, reducing)
            elif isinstance(node, ir.Reduce):
                for buffer in node.buffers:
                    add(buffer, node, True, True)
            elif isinstance(node, ir.Load):
                add(node.buffer, node, False, False)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses that may touch one element in different iterations of a loop."""

    write: Access
    other: Access

    def describe(self, loop: str) -> str:
        """In words, for the error."""
        buffer = ir.print_name(self.write.buffer)
        if self.write.block is self.other.block and self.write.accumulates:
            return f"iterations of {ir.print_name(loop)} combine into the same elements of {buffer}"
        verb = "write" if self.other.writes else "read"
        return (
            f"one iteration of {ir.print_name(loop)} may write an element of {buffer} "
            f"that another may {verb}"
        )

    def marks(self, loop: str, label: str) -> ir.Marks:
        """The loop and the access, pointed at."""
        parts: list[tuple[str, ir.Expr, str]] = []
        for access in (self.write, self.other):
            part = access.part
            if isinstance(part, ir.Load):
                parts.append((access.block.name, part, "read here"))
        blocks = {self.write.block.name: "writes " + ir.print_name(self.write.buffer)}
        return ir.Marks({loop: label}, blocks, parts)


def conflict(
    program: ir.Program, name: str, also_free: Collection[str] = (), reductions: bool = True
) -> Conflict | None:
    """Two accesses under a loop that may conflict between its iterations; None if there are none.

    also_free   loops outside this one whose variables may differ as well
    reductions  whether combining into one element counts, where the loop drives the reduction
    """
    site = ir.loop_sites(program)[name]
    blocks = ir.blocks_of(site.loop)
    inside = {loop.var for loop in ir.loops_of(site.loop)}
    free = frozenset(inside) | frozenset(also_free)
    living = ir.lifetimes(program)
    by_buffer: dict[str, list[Access]] = {}
    for block in blocks:
        for access in accesses(program, block.name):
            if living.get(access.buffer) not in inside:
                by_buffer.setdefault(access.buffer, []).append(access)
    ranges = ranges_of((*site.outer, *ir.loops_of(site.loop)))
    for found in by_buffer.values():
        for position, write in enumerate(found):
            if not write.writes:
                continue
            for place, other in enumerate(found):
                if other.writes and place < position:
                    continue
                if not reductions and _is_one_reduction(write, other, name):
                    continue
                if not arith.separates(name, write.indices, other.indices, free, ranges):
                    return Conflict(write, other)
    return None


def _is_one_reduction(a: Access, b: Access, loop: str) -> bool:
    """Return whether both accesses belong to one reduction, and the loop drives nothing but that.

    A loop that drives another axis as well (a fused one) may not be moved: the instances that
    initialise would no longer come first.
    """
    same = a.block is b.block and a.accumulates and b.accumulates
    return same and arith.carries(a.block, loop) and not arith.mixes(a.block, loop)


def combines(program: ir.Program, block: ir.Block, loop: str) -> bool:
    """Return whether the iterations of a loop combine partial results that `rfactor` left: all that
    it drives is an axis of a reduction, which finds the element of a temporary.
    """
    body = block.body.then if isinstance(block.body, ir.If) else block.body
    if not isinstance(body, ir.Reduce) or arith.mixes(block, loop):
        return False
    own = {i.var for i in block.iters if loop in ir.free_vars(i.binding)}
    params = {buffer.name for buffer in program.params}
    return all(
        isinstance(value, ir.Load)
        and value.buffer not in params
        and any(not own.isdisjoint(ir.free_vars(index)) for index in value.indices)
        for value in body.values
    )


def driven(block: ir.Block, loop: str, kinds: Collection[ir.IterKind]) -> bool:
    """Return whether the loop drives an iter of one of these kinds."""
    return any(i.kind in kinds and loop in ir.free_vars(i.binding) for i in block.iters)


def counted(
    access: Access, elements: Elements, loops: tuple[ir.For, ...]
) -> tuple[arith.Linear, ...]:
    """The place of an access as the writer of its buffer counts the elements.

    Found in terms of the iters, of which more is known than of loops that run too far.
    """
    if elements.undone is None:
        return access.indices
    block = access.block
    own = arith.Simplifier({i.var: arith.extent_range(i.extent) for i in block.iters}, None, True)
    place = elements.counted([own.linear(index) for index in access.part.indices], own.ranges)
    simplifier = _simplifier_in(block, loops)
    return tuple(simplifier.linear(form.expr()) for form in place)


def region(
    program: ir.Program,
    found: Collection[Access],
    buffer: str,
    outside: Collection[str],
    elements: Elements = PLAIN,
) -> arith.Box:
    """The box of a buffer that some accesses touch while all loops but those in `outside` run.

    elements  the axes of the box: how the elements are counted
    """
    shape = elements.shape_in(program.buffers[buffer])
    result: arith.Box | None = None
    for access in found:
        loops = loops_around(program, access.block.name)
        inner = frozenset(loop.var for loop in loops if loop.var not in outside)
        ranges = ranges_of(loops)
        indices = counted(access, elements, loops)
        box = arith.clipped_box(arith.box_of(indices, shape, inner, ranges), shape)
        result = box if result is None else arith.union_box(result, box, shape)
    assert result is not None
    return result


def iter_domain(block: ir.Block, loops: tuple[ir.For, ...], outside: Collection[str]) -> arith.Box:
    """The box of a block's iters that is executed while all loops but those in `outside` run."""
    ranges = {loop.var: arith.extent_range(loop.extent) for loop in loops}
    simplifier = arith.Simplifier(ranges)
    inner = frozenset(loop.var for loop in loops if loop.var not in outside)
    bindings = [simplifier.linear(i.binding) for i in block.iters]
    return arith.box_of(bindings, [i.extent for i in block.iters], inner, ranges)


def is_serial(loop: ir.For) -> bool:
    """Return whether nothing has been decided about the loop's execution."""
    return loop.kind is ir.LoopKind.SERIAL


def require_serial(loop: ir.For, rule: str = "R1") -> ir.For:
    """The loop. Refuses one whose execution is decided already."""
    if not is_serial(loop):
        refuse_kind(rule, loop)
    return loop


def refuse_kind(rule: str, culprit: ir.For) -> NoReturn:
    """Refuse for the way in which a loop runs."""
    fact = f"is {culprit.kind.value}"
    marks = ir.Marks(loops={culprit.var: fact})
    refuse(rule, f"{ir.print_name(culprit.var)} {fact}", marks=marks)


def result_depth(program: ir.Program, block: ir.Block) -> int:
    """The number of loops around the point where a block's results are complete: around its own
    nest (the largest statement that holds no other block), and around every loop of its reduction.
    """
    loops = loops_around(program, block.name)
    depth = len(loops)
    while depth and ir.blocks_of(loops[depth - 1]) == [block]:
        depth -= 1
    for position, loop in enumerate(loops):
        if arith.carries(block, loop.var):
            return min(depth, position)
    return depth
