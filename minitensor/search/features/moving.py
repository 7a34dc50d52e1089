"""What the primitives that move or make blocks do to the numbers: new loops over regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from minitensor import ir
from minitensor.arith import Simplifier, extent_range
from minitensor.search.features.bodies import rerouted, unknown
from minitensor.search.features.forms import (
    Form,
    Num,
    StructureError,
    form_of,
    greater,
    lesser,
)
from minitensor.search.features.numbers import Numbers, spatial
from minitensor.search.features.spans import Span, box_of, union
from minitensor.search.features.steps import Effect, Situation, nothing


def _store_of(block: ir.Block) -> list[str]:
    """The iters that index what a block stores."""
    node = next(n for n in ir.walk(block.body) if isinstance(n, (ir.Store, ir.Reduce)))
    return [i.name for i in node.indices if isinstance(i, ir.Var)]


def _around(program: ir.Program, loop: str) -> list[str]:
    site = ir.loop_sites(program)[loop]
    return [outer.var for outer in (*site.outer, site.loop)]


def _reads(s: Situation, block: ir.Block, buffer: str) -> list[ir.Load]:
    found = [load for load in ir.loads(s.bodies.of(block)) if load.buffer == buffer]
    if block.init is not None:
        found += [load for load in ir.loads(block.init) if load.buffer == buffer]
    return found


class _Region:
    """The box of a buffer that some blocks read while the loops outside stand still."""

    def __init__(
        self, s: Situation, buffer: str, readers: Sequence[str], outside: Sequence[str]
    ) -> None:
        self.buffer = buffer
        self.reads: list[tuple[str, list[str], list[Form]]] = []
        for name in readers:
            inner = [loop.var for loop in s.path(name) if loop.var not in outside]
            reads = _reads(s, s.before.blocks[name], buffer)
            for indices in dict.fromkeys(load.indices for load in reads):
                self.reads.append((name, inner, [form_of(index) for index in indices]))

    def box(self, numbers: Numbers) -> list[Span]:
        """The box, for all candidates."""
        shape = numbers.shapes[self.buffer]
        result: list[Span] | None = None
        for name, inner, indices in self.reads:
            values = numbers.values(name)
            forms = [index.replaced(values) for index in indices]
            box = box_of(forms, inner, numbers.extents, shape)
            result = box if result is None else list(map(union, result, box, shape))
        assert result is not None
        return result


class _Written:
    """The box of its buffer that a block writes while the loops outside stand still."""

    def __init__(self, s: Situation, block: str, outside: Sequence[str]) -> None:
        self.block = block
        self.store = _store_of(s.before.blocks[block])
        self.inner = [loop.var for loop in s.path(block) if loop.var not in outside]

    def box(self, numbers: Numbers) -> list[Span]:
        """The box, for all candidates; loops of one iteration are no part of where it begins."""
        bound = numbers.bound[self.block]
        forms = [bound[name] for name in self.store]
        return box_of(forms, self.inner, numbers.extents, self.extents(numbers), units=False)

    def extents(self, numbers: Numbers) -> list[Num]:
        """How far it writes along each axis."""
        sizes = numbers.sizes[self.block]
        return [sizes[name] for name in self.store]


def compute_at(s: Situation) -> Effect | None:
    """A producer goes under a loop of its readers."""
    if s.argument("loop") == "root":
        return nothing(s)
    producer = s.before.blocks[s.argument("block")]
    around = _around(s.before, s.argument("loop"))
    readers = sorted(
        b.name
        for b in s.before.blocks.values()
        if b.name != producer.name and not ir.stored_buffers(producer.body).isdisjoint(_read_by(b))
    )
    regions = [
        _Region(s, buffer, [r for r in readers if buffer in _read_by(s.before.blocks[r])], around)
        for buffer in sorted(ir.stored_buffers(producer.body))
        if any(buffer in _read_by(s.before.blocks[r]) for r in readers)
    ]
    store, axes, loops = _store_of(producer), spatial(producer), s.result
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        domain: dict[str, Span] = {}
        sizes = numbers.sizes[producer.name]
        for region in regions:
            for name, span in zip(store, region.box(numbers)):
                known = domain.get(name)
                domain[name] = span if known is None else union(known, span, sizes[name])
        kept = {name: span for name, span in domain.items() if name in axes}
        numbers.place(producer, kept, loops, widen=True)

    return effect


def _read_by(block: ir.Block) -> set[str]:
    return ir.accessed_buffers(block)[0]


def reverse_compute_at(s: Situation) -> Effect | None:
    """A consumer goes under a loop of its producers."""
    if s.argument("loop") == "root":
        return nothing(s)
    consumer = s.before.blocks[s.argument("block")]
    around = _around(s.before, s.argument("loop"))
    read, own = ir.accessed_buffers(consumer)
    under = s.under(s.argument("loop"))
    sources: list[tuple[_Written, list[tuple[str, int] | None]]] = []
    for buffer in sorted(read - own):
        writers = [
            b for b in s.before.blocks if buffer in ir.accessed_buffers(s.before.blocks[b])[1]
        ]
        if any(b in under for b in writers):
            sources.append((_Written(s, writers[0], around), _read_at(s, consumer, buffer)))
    axes, loops = spatial(consumer), s.result
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        domain: dict[str, Span] = {}
        for written, places in sources:
            for place, span in zip(places, written.box(numbers)):
                if place is not None:
                    name, offset = place
                    domain.setdefault(name, Span(span.low.plus(Form({}, -offset)), span.spread))
        kept = {name: span for name, span in domain.items() if name in axes}
        numbers.place(consumer, kept, loops, widen=False)

    return effect


def _read_at(s: Situation, block: ir.Block, buffer: str) -> list[tuple[str, int] | None]:
    """For each axis of a buffer the iter at which a block reads it, and how much further on; None
    for an axis that is read at a constant.
    """
    simplifier = Simplifier({i.var: extent_range(i.extent) for i in block.iters})
    names = {i.var for i in block.iters}
    found: list[tuple[str, int] | None] = []
    for index in _reads(s, block, buffer)[0].indices:
        if not names.issuperset(ir.free_vars(index)):
            raise StructureError("where partial results are read depends on the numbers")
        form = simplifier.linear(index)
        variables = [atom.name for atom in form.terms if isinstance(atom, ir.Var)]
        found.append((variables[0], form.constant) if variables else None)
    return found


def cache_read(s: Situation) -> Effect:
    """A block copies what another reads of a buffer."""
    block, buffer, copy = s.argument("block"), s.argument("buffer"), s.after.blocks[s.result]
    names = s.names_after(copy.name)
    loops, outside = _own(copy, names)
    region = _Region(s, buffer, [block], outside)
    writers = [
        _Written(s, b.name, ())
        for b in s.before.blocks.values()
        if buffer in ir.accessed_buffers(b)[1]
    ]
    s.bodies.follow(s.before, s.after, rerouted(buffer, copy.name, written=False))

    def effect(numbers: Numbers) -> None:
        shape = numbers.shapes[copy.name] = numbers.shapes[buffer]
        numbers.sizes[copy.name] = _copied(copy, shape, writers, numbers)
        domain = dict(zip([i.var for i in copy.iters], region.box(numbers)))
        numbers.place(copy, domain, loops, widen=True)

    return effect


def cache_write(s: Situation) -> Effect:
    """A block writes a new buffer, and another copies that."""
    block, copy = s.argument("block"), s.after.blocks[s.result]
    buffer = min(ir.stored_buffers(s.before.blocks[block].body))
    loops, outside = _own(copy, s.names_after(copy.name))
    written = _Written(s, block, outside)
    s.bodies.follow(s.before, s.after, rerouted(buffer, copy.name, written=True))

    def effect(numbers: Numbers) -> None:
        shape = numbers.shapes[copy.name] = numbers.shapes[buffer]
        numbers.sizes[copy.name] = _copied(copy, shape, [written], numbers)
        domain = dict(zip([i.var for i in copy.iters], written.box(numbers)))
        numbers.place(copy, domain, loops, widen=False)

    return effect


def _own(copy: ir.Block, names: list[str]) -> tuple[list[str], list[str]]:
    """The loops that were made for a copy, and those outside of them."""
    split = len(names) - len(copy.iters)
    return names[split:], names[:split]


def _copied(
    copy: ir.Block, shape: Sequence[Num], writers: Sequence[_Written], numbers: Numbers
) -> dict[str, Num]:
    """The extents of a copy's iters: all that is ever written of the buffer."""
    sizes = list(shape)
    for n, writer in enumerate(writers):
        own = writer.extents(numbers)
        sizes = own if n == 0 else list(map(greater, sizes, own))
    return {i.var: lesser(size, whole) for i, size, whole in zip(copy.iters, sizes, shape)}


def decompose_reduction(s: Situation) -> Effect:
    """A reduction is initialised in a nest of its own."""
    block, init = s.before.blocks[s.argument("block")], s.after.blocks[s.result]
    path = [loop.var for loop in s.path(block.name)]
    depth = path.index(s.argument("loop"))
    own = s.names_after(init.name)[depth:]
    axes = spatial(block)
    reduced = [i.var for i in block.iters if i.var not in axes]
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        bound = numbers.bound[block.name]
        carrying = {name for axis in reduced for name in bound[axis].variables()}
        copied = [name for name in path[depth:] if name not in carrying]
        if len(copied) != len(own):
            raise StructureError("which loops are part of a reduction depends on the numbers")
        values = {name: Form({}) for name in path[depth:]}
        for old, new in zip(copied, own):
            numbers.extents[new] = numbers.extents[old]
            values[old] = Form({new: 1})
        numbers.bound[init.name] = {axis: bound[axis].replaced(values) for axis in axes}
        sizes = numbers.sizes[block.name]
        numbers.sizes[init.name] = {axis: sizes[axis] for axis in axes}

    return effect


MOVING: Final[Mapping[str, Callable[[Situation], Effect | None]]] = {
    "compute_at": compute_at,
    "reverse_compute_at": reverse_compute_at,
    "cache_read": cache_read,
    "cache_write": cache_write,
    "decompose_reduction": decompose_reduction,
}
"""Steps that move blocks or make some."""
