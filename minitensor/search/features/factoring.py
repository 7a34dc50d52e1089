"""What rfactor does to the numbers: a loop of a reduction becomes an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from minitensor import ir
from minitensor.search.features.bodies import partial_body, unknown
from minitensor.search.features.forms import Form, StructureError, variable
from minitensor.search.features.numbers import Numbers, spatial
from minitensor.search.features.steps import Effect, Situation


def rfactor(s: Situation) -> Effect:
    """A block of partial results, and one that reduces them."""
    loop, partial = s.argument("loop"), s.after.blocks[s.result]
    found = _reduction(s, loop)
    axes, known = spatial(found), {i.var for i in found.iters}
    made = {i.binding.name: i.var for i in partial.iters if isinstance(i.binding, ir.Var)}
    made = {name: iter_ for name, iter_ in made.items() if iter_ not in known}
    rank = len(_stores(found)[0].indices)
    axis = int(s.argument("axis"))
    position = axis + rank + 1 if axis < 0 else axis
    buffers = dict(zip(_buffers(found), _buffers(partial)))
    body = partial_body(s.bodies.of(found), partial.body, buffers, position, made[loop])
    old_loops, new_loops = [x.var for x in s.path(found.name)], s.names_after(found.name)
    depth = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old_loops, new_loops)))
    own = new_loops[depth:]
    single = len(spatial(partial)) == len(partial.iters)
    s.bodies.known.pop(found.name, None)
    s.bodies.follow(s.before, s.after, unknown)
    s.bodies.known[partial.name] = body

    def effect(numbers: Numbers) -> None:
        if single and found.name in numbers.guarded:
            raise StructureError("whether an element is stored or combined depends on the numbers")
        if found.name in numbers.guarded:
            numbers.guarded.add(partial.name)
        bound, sizes = numbers.bound[found.name], numbers.sizes[found.name]
        extent = numbers.extents[loop]
        replaced, loops = _split_axes(bound, [name for name in bound if name not in axes], loop)
        taken = {*known, *made.values()}
        new = {x: made.get(x) or ir.fresh_name(x, taken) for x in old_loops if x in loops}
        as_iter = {name: variable(iter_) for name, iter_ in new.items()}
        values = {name: bound[name].replaced(as_iter) for name in replaced}
        before = numbers.hidden.pop(found.name, {})
        hidden = {name: form.replaced(values) for name, form in before.items()}
        numbers.hidden[partial.name] = {**hidden, **values}
        kept = [name for name in bound if name not in replaced]
        numbers.bound[partial.name] = {
            **{name: bound[name] for name in kept},
            **{iter_: variable(name) for name, iter_ in new.items()},
        }
        numbers.sizes[partial.name] = {
            **{name: sizes[name] for name in kept},
            **{iter_: numbers.extents[name] for name, iter_ in new.items()},
        }
        driving = {name for one in axes for name in bound[one].variables()}
        copied = [name for name in old_loops[depth:] if name in driving]
        if len(copied) != len(own) - 1:
            raise StructureError("which loops a reduction has depends on the numbers")
        renamed = {old: variable(name) for old, name in zip(copied, own)}
        numbers.extents.update({name: numbers.extents[old] for old, name in zip(copied, own)})
        numbers.extents[own[-1]] = extent
        numbers.bound[found.name] = {one: bound[one].replaced(renamed) for one in axes}
        numbers.bound[found.name][made[loop]] = variable(own[-1])
        numbers.sizes[found.name] = {**{one: sizes[one] for one in axes}, made[loop]: extent}
        for old, name in buffers.items():
            shape = numbers.shapes[old]
            numbers.shapes[name] = (*shape[:position], extent, *shape[position:])

    return effect


def _split_axes(
    bound: Mapping[str, Form], reduced: Sequence[str], loop: str
) -> tuple[list[str], set[str]]:
    """The axes that a loop takes part in, directly or through other axes, and all their loops.

    For some candidates there may be fewer: what a fused loop drives is simpler if it is cut at the
    border of an axis. The values are the same.
    """
    loops, found = {loop}, list[str]()
    while True:
        reached = [name for name in reduced if not loops.isdisjoint(bound[name].variables())]
        loops |= {name for one in reached for name in bound[one].variables()}
        if len(reached) == len(found):
            return reached, loops
        found = reached


def _reduction(s: Situation, loop: str) -> ir.Block:
    """The block of whose reduction the loop is part."""
    inside = ir.blocks_of(ir.loop_sites(s.before)[loop].loop)
    changed = (b for b in inside if s.after.blocks[b.name] is not b)
    return next(b for b in changed if any(i.kind is not ir.IterKind.SPATIAL for i in b.iters))


def _stores(block: ir.Block) -> list[ir.Store | ir.Reduce]:
    return [n for n in ir.walk(block.body) if isinstance(n, (ir.Store, ir.Reduce))]


def _buffers(block: ir.Block) -> list[str]:
    found: list[str] = []
    for node in _stores(block):
        found += node.buffers if isinstance(node, ir.Reduce) else (node.buffer,)
    return found
