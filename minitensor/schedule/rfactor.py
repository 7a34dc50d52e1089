"""The primitive that turns a loop of a reduction into an axis: rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.arguments import Axis, LoopName
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.dependence import driven, result_depth
from minitensor.schedule.halves import half_that_starts, in_terms_of, other_writers
from minitensor.schedule.insertion import outer_guard, point_after
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

CARRIED = (ir.IterKind.REDUCE, ir.IterKind.ORDERED)


@primitive(
    rules={
        "R1": (
            "the loop is part of exactly one reduction below it, by a commutative reducer",
            "name a loop of one reduction",
        ),
        "R2": (
            "the reduction alone writes its buffers, or with the block that decompose_reduction "
            "made of it, over the same elements",
            "rfactor before a loop is cut in two, or one of the halves moved",
        ),
        "R3": (
            "neither the loop nor those it shares an axis with are part of another axis; nor is, "
            "after decompose_reduction, any loop part of both an element and a sum",
            "split the fused loop so that the reduction has loops of its own",
        ),
        "R4": (
            "0 <= axis <= the number of axes of the reduction's buffer (negative: from the end)",
            "choose an axis of the partial results",
        ),
    },
    alternatives="loop",
)
def rfactor(program: ir.Program, loop: LoopName, *, axis: Axis = 0) -> Rewritten[str]:
    """Turn one loop of a reduction into an axis of a new buffer of partial results.

    rfactor("k_0")
        for k_0 in range(4):                  for k_0 in range(4):
            for k_1 in range(16):                 for k_1 in range(16):
                s[()] += A[k_0*16 + k_1]  =>          if k_1 == 0:
                                                          s_rf[k_0] = 0.0
                                                      s_rf[k_0] += A[k_0*16 + k_1]
                                              for k_0_2 in range(4):
                                                  s[()] += s_rf[k_0_2]
    axis  where the new axis stands in the buffer of partial results

    The partial results are independent of each other, so the loop can now be parallel or
    vectorized (Suriana et al., Parallel associative reductions in Halide, CGO 2017). What
    decompose_reduction took out of the reduction stays out of the final one.

    Preserves  every output (floating point: up to rounding).
    Returns    the name of the new block, <block>_rf; the old name stays with the final reduction.
    """
    found = _the_reduction(program, loop)
    init = _init_of(program, found)
    reduce = _update(found)
    rank = len(reduce.indices)
    position = axis + rank + 1 if axis < 0 else axis
    if not 0 <= position <= rank:
        refuse("R4", f"axis={axis}, the rank is {rank}", choices=[*map(str, range(rank + 1))])
    split = _split_axes(program, found, loop)
    depth = result_depth(program, found)
    if found.init is None:
        _check_once(program, found, depth)
    fresh = edit.Fresh(program)
    name = fresh.block(f"{found.name}_rf")
    buffers = {b: name if n == 0 else fresh.block(f"{b}_rf") for n, b in enumerate(reduce.buffers)}
    whole = edit.with_block(found, init=init)
    partial = _partial_block(whole, split, loop, name, buffers, position)
    loops = edit.loops_around(program, found.name)
    final, final_loops = _final_block(found, split, loops, depth, loop, buffers, position, fresh)
    point = point_after(program, loops[:depth], {found.name})
    new = point.insert(program, ir.nest(final_loops, final), {id(found): partial})
    extent = ir.loop_sites(program)[loop].loop.extent
    added = []
    for old, renamed in buffers.items():
        shape = list(program.buffers[old].shape)
        shape.insert(position, extent)
        added.append(ir.Buffer(renamed, tuple(shape), program.buffers[old].dtype))
    return new.replace(temporaries=(*program.temporaries, *added)), name


def _the_reduction(program: ir.Program, loop: str) -> ir.Block:
    inside = ir.blocks_of(ir.loop_sites(program)[loop].loop)
    found = [b for b in inside if driven(b, loop, CARRIED)]
    marks = ir.Marks(loops={loop: "the loop"}, blocks={b.name: "an update of it" for b in found})
    if len(found) != 1:
        refuse("R1", f"it is part of {len(found)}", marks=marks)
    body = found[0].body
    if not isinstance(body.then if isinstance(body, ir.If) else body, ir.Reduce):
        refuse("R1", f"{ir.print_name(found[0].name)} is an ordered update", marks=marks)
    return found[0]


def _init_of(program: ir.Program, found: ir.Block) -> ir.Stmt:
    """The init of a reduction, its own or what decompose_reduction took out. Rule R2."""
    others = other_writers(program, found)
    half = half_that_starts(program, found)
    init = found.init if half is None else in_terms_of(half, found)
    if others or init is None:
        detail = f"{ir.print_name(others[0])} writes it too" if others else "it has no init"
        marks = ir.Marks(blocks=dict.fromkeys([found.name, *others], "here"))
        refuse("R2", detail, marks=marks)
    return init


def _check_once(program: ir.Program, found: ir.Block, depth: int) -> None:
    """Refuse a final reduction that would combine an element with the partial results again in
    each iteration of a loop that is a part of a sum too. (Its init would start it anew.) Rule R3.
    """
    both = [
        x.var
        for x in edit.loops_around(program, found.name)[depth:]
        if driven(found, x.var, CARRIED) and driven(found, x.var, (ir.IterKind.SPATIAL,))
    ]
    if both:
        marks = ir.Marks(loops={both[0]: "of an element and of a sum"})
        refuse("R3", f"{ir.print_name(both[0])} is part of both", marks=marks)


@rfactor.on_batch
def _rfactor_batch(view: StepView) -> Effect:
    return factored(view, int(view.argument("axis")))


def factored(view: StepView, axis: int) -> Effect:
    """The effect of a step that gives `loop` partial results, with their new axis at `axis`."""
    loop, partial = view.argument("loop"), view.after.blocks[view.result]
    found = _the_reduction(view.before, loop)
    axes, known = edit.spatial_iters(found), {i.var for i in found.iters}
    made = {i.binding.name: i.var for i in partial.iters if isinstance(i.binding, ir.Var)}
    made = {name: iter_ for name, iter_ in made.items() if iter_ not in known}
    reduce = _update(found)
    position = axis + len(reduce.indices) + 1 if axis < 0 else axis
    buffers = dict(zip(reduce.buffers, _stored(partial)))
    body = _partial_body(view.bodies.of(found), partial.body, buffers, position, made[loop])
    old_loops, new_loops = view.loops(found.name), view.loops_after(found.name)
    depth = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old_loops, new_loops)))
    own = new_loops[depth:]
    single = len(edit.spatial_iters(partial)) == len(partial.iters)
    view.bodies.known.pop(found.name, None)
    view.follow()
    view.bodies.known[partial.name] = body

    def effect(batch: Batch) -> None:
        if single and found.name in batch.guarded:
            raise arith.BatchError(
                "whether an element is stored or combined depends on the numbers"
            )
        if found.name in batch.guarded:
            batch.guarded.add(partial.name)
        bound, sizes = batch.bound[found.name], batch.sizes[found.name]
        extent = batch.extents[loop]
        replaced, loops = _shared(bound, [name for name in bound if name not in axes], loop)
        taken = {*known, *made.values()}
        new = {x: made.get(x) or ir.fresh_name(x, taken) for x in old_loops if x in loops}
        as_iter = {name: arith.variable(iter_) for name, iter_ in new.items()}
        values = {name: arith.replaced(bound[name], as_iter) for name in replaced}
        before = batch.hidden.pop(found.name, {})
        hidden = {name: arith.replaced(form, values) for name, form in before.items()}
        batch.hidden[partial.name] = {**hidden, **values}
        kept = [name for name in bound if name not in replaced]
        batch.bound[partial.name] = {
            **{name: bound[name] for name in kept},
            **{iter_: arith.variable(name) for name, iter_ in new.items()},
        }
        batch.sizes[partial.name] = {
            **{name: sizes[name] for name in kept},
            **{iter_: batch.extents[name] for name, iter_ in new.items()},
        }
        driving = {name for one in axes for name in arith.variables(bound[one])}
        copied = [name for name in old_loops[depth:] if name in driving]
        if len(copied) != len(own) - 1:
            raise arith.BatchError("which loops a reduction has depends on the numbers")
        if found.init is None and any(
            not arith.variables(bound[one]).isdisjoint(copied) for one in bound if one not in axes
        ):
            raise arith.BatchError("how often an element is combined depends on the numbers")
        renamed = {old: arith.variable(name) for old, name in zip(copied, own)}
        batch.extents.update({name: batch.extents[old] for old, name in zip(copied, own)})
        batch.extents[own[-1]] = extent
        batch.bound[found.name] = {one: arith.replaced(bound[one], renamed) for one in axes}
        batch.bound[found.name][made[loop]] = arith.variable(own[-1])
        batch.sizes[found.name] = {**{one: sizes[one] for one in axes}, made[loop]: extent}
        for old, name in buffers.items():
            shape = batch.shapes[old]
            batch.shapes[name] = (*shape[:position], extent, *shape[position:])

    return effect


def _shared(
    bound: Mapping[str, arith.Linear], reduced: Sequence[str], loop: str
) -> tuple[list[str], set[str]]:
    """The axes that a loop takes part in, directly or through other axes, and all their loops.

    For some candidates there may be fewer: what a fused loop drives is simpler if it is cut at the
    border of an axis. The values are the same.
    """
    loops, found = {loop}, list[str]()
    while True:
        reached = [n for n in reduced if not loops.isdisjoint(arith.variables(bound[n]))]
        loops |= {name for one in reached for name in arith.variables(bound[one])}
        if len(reached) == len(found):
            return reached, loops
        found = reached


def _partial_body(
    body: ir.Stmt, like: ir.Stmt, buffers: Mapping[str, str], position: int, axis: str
) -> ir.Stmt:
    """The body of partial results, the axes of the reduction as they were.

    body      of the reduction
    like      the body that rfactor made
    buffers   the new name of each buffer
    position  where the new axis stands, and `axis` the iter that indexes it
    """
    found = next(node for node in ir.walk(body) if isinstance(node, ir.Reduce))
    where = (*found.indices[:position], ir.Var(axis), *found.indices[position:])
    names = tuple(buffers[b] for b in found.buffers)
    inside = like.then if isinstance(like, ir.If) else like
    if isinstance(inside, ir.Reduce):
        return ir.Reduce(found.reducer, names, where, found.values)
    return ir.sequence(*[ir.Store(b, where, value) for b, value in zip(names, found.values)])


def _stored(block: ir.Block) -> list[str]:
    """The buffers that a block writes, in the order of the text."""
    found: list[str] = []
    for node in ir.walk(block.body):
        if isinstance(node, ir.Reduce):
            found += node.buffers
        elif isinstance(node, ir.Store):
            found.append(node.buffer)
    return found


@rfactor.random_call(often=3)
def _call_rfactor(scene: Scene) -> None:
    """Mostly of a loop that drives a reduction."""
    program = scene.program
    loop = scene.loop()
    if not scene.chance(20):
        driving = [
            name
            for block in scene.schedule.get_blocks()
            for i in program.blocks[block].iters
            if i.kind is ir.IterKind.REDUCE
            for name in sorted(ir.free_vars(i.binding))
        ]
        loop = scene.pick(driving or [loop])
    scene.do("rfactor", loop, axis=scene.number(-2, 2))


def _update(block: ir.Block) -> ir.Reduce:
    """The update of a reduction."""
    found = block.body.then if isinstance(block.body, ir.If) else block.body
    assert isinstance(found, ir.Reduce)
    return found


class _Axes:
    """The axes of a reduction that a loop takes part in, and the loops that share them.

    axes    the REDUCE iters that are replaced
    loops   the loops that drive them; each becomes an iter of its own
    names   the names of those iters
    """

    def __init__(self, axes: list[ir.Iter], loops: list[ir.For], names: dict[str, str]) -> None:
        self.axes, self.loops, self.names = axes, loops, names
        self.loop_names = {loop.var for loop in loops}

    def mixes(self, condition: ir.Expr) -> bool:
        """Return whether a condition depends on one of the loops."""
        return not self.loop_names.isdisjoint(ir.free_vars(condition))


def _split_axes(program: ir.Program, block: ir.Block, loop: str) -> _Axes:
    names: set[str] = {loop}
    axes: list[ir.Iter] = []
    while True:  # the axes that share loops, directly or through other axes
        reached = [
            i
            for i in block.iters
            if i.kind is ir.IterKind.REDUCE and not names.isdisjoint(ir.free_vars(i.binding))
        ]
        names.update(name for i in reached for name in ir.free_vars(i.binding))
        if len(reached) == len(axes):
            break
        axes = reached
    loops = [x for x in edit.loops_around(program, block.name) if x.var in names]
    spatial = [i for i in block.iters if i.kind is ir.IterKind.SPATIAL]
    mixed = [x.var for x in loops if any(x.var in ir.free_vars(i.binding) for i in spatial)]
    for part in ir.conjuncts(block.predicate):
        variables = set(ir.free_vars(part))
        if variables & names and not variables <= names:
            mixed.extend(sorted(variables - names))
    if mixed:
        refuse("R3", f"{ir.print_name(mixed[0])} is", marks=ir.Marks(loops={mixed[0]: "shared"}))
    taken = {i.var for i in block.iters}
    return _Axes(axes, loops, {x.var: ir.fresh_name(x.var, taken) for x in loops})


def _partial_block(
    block: ir.Block, split: _Axes, loop: str, name: str, buffers: Mapping[str, str], position: int
) -> ir.Block:
    """The block of partial results, in the loops of the old one.

    A condition on the loops that were split up may have left out whole rows of partial results,
    which must still be initialised: it guards the update only.
    """
    kept = [i for i in block.iters if i not in split.axes]
    new = [
        ir.Iter(
            split.names[x.var],
            x.extent,
            ir.IterKind.SPATIAL if x.var == loop else ir.IterKind.REDUCE,
            ir.Var(x.var),
        )
        for x in split.loops
    ]
    as_iter: dict[str, ir.Expr] = {old: ir.Var(name) for old, name in split.names.items()}
    values = {i.var: ir.substitute(i.binding, as_iter) for i in split.axes}
    parts = ir.conjuncts(block.predicate)
    guards = [ir.substitute(part, as_iter) for part in parts if split.mixes(part)]
    outer = ir.conjunction(part for part in parts if not split.mixes(part))

    def with_axis(indices: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        return (*indices[:position], ir.Var(split.names[loop]), *indices[position:])

    def moved(stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.Store(buffer, indices, value):
                return ir.Store(buffers[buffer], with_axis(indices), value)
            case ir.Reduce(reducer, names, indices, given):
                renamed = tuple(buffers[b] for b in names)
                terms = tuple(ir.substitute(value, values) for value in given)
                return ir.Reduce(reducer, renamed, with_axis(indices), terms)
            case ir.If(condition, then):
                return ir.If(ir.substitute(condition, values), moved(then))
            case _:
                return ir.sequence(*[moved(child) for child in getattr(stmt, "stmts", ())])

    assert block.init is not None
    body, init = moved(block.body), moved(block.init)
    if guards:
        body = ir.If(ir.conjunction(guards), body)
    single = all(i.kind is ir.IterKind.SPATIAL for i in (*kept, *new))
    if single and isinstance(body, ir.Reduce):
        stores = [ir.Store(b, body.indices, v) for b, v in zip(body.buffers, body.values)]
        return ir.Block(name, (*kept, *new), ir.sequence(*stores), None, outer, block.annotations)
    return ir.Block(name, (*kept, *new), body, init, outer, block.annotations)


def _final_block(
    block: ir.Block,
    split: _Axes,
    loops: tuple[ir.For, ...],
    depth: int,
    loop: str,
    buffers: Mapping[str, str],
    position: int,
    fresh: edit.Fresh,
) -> tuple[ir.Block, tuple[ir.For, ...]]:
    """The block that reduces the partial results, and its new loops."""
    spatial = [i for i in block.iters if i.kind is ir.IterKind.SPATIAL]
    copied = [x for x in loops[depth:] if any(x.var in ir.free_vars(i.binding) for i in spatial)]
    renamed = {x.var: fresh.loop(x.var, block.name) for x in copied}
    values: dict[str, ir.Expr] = {old: ir.Var(new) for old, new in renamed.items()}
    extent = next(x.extent for x in split.loops if x.var == loop)
    last = ir.For(fresh.loop(loop, block.name), extent, block)
    iters = [
        *(ir.Iter(i.var, i.extent, i.kind, ir.substitute(i.binding, values)) for i in spatial),
        ir.Iter(split.names[loop], extent, ir.IterKind.REDUCE, ir.Var(last.var)),
    ]
    reduce = _update(block)
    where = reduce.indices
    index = (*where[:position], ir.Var(split.names[loop]), *where[position:])
    loads = tuple(
        ir.Load(buffers[b], index, value.dtype) for b, value in zip(reduce.buffers, reduce.values)
    )
    around = {x.var for x in (*loops[:depth], *copied)}
    asked = [
        outer_guard(part, around, edit.ranges_of(loops))
        for part in ir.conjuncts(block.predicate)
        if not split.mixes(part)
    ]
    predicate = ir.conjunction(ir.substitute(part, values) for part in asked if part is not None)
    final = ir.Block(
        block.name,
        tuple(iters),
        ir.Reduce(reduce.reducer, reduce.buffers, where, loads),
        block.init,
        predicate,
    )
    own = [ir.For(renamed[x.var], x.extent, block, x.kind) for x in copied]
    return final, (*own, last)


class ReductionPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    rfactor = rfactor
