"""The primitive that leaves out of a sum what lies in the padding of an image: skip_padding.

A convolution whose image is padded multiplies zeros at the borders. They are few along the sides of
a large image, but a third of all in an image of two planes under a window of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.arguments import BlockName, LoopName
from minitensor.schedule.batch import Effect, StepView
from minitensor.schedule.halves import other_writers
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.skip_zeros import skip_zeros
from minitensor.schedule.sums import Sized, made_batch, summed, under, variables
from minitensor.schedule.zeros import choice_of, is_choice, unless


@primitive(
    rules={
        "R1": (
            "the loop is an axis of the block, and no part of one",
            "skip_padding before the loops are split or fused",
        ),
        "R2": (
            "the block has its init, and sums terms that are zero, or zero times something, where "
            "the axis and a reduction axis leave an image",
            "name a block that sums mt.if_then_else(0 < y + k, value, 0), for an axis y and a "
            "reduction axis k, or reads a buffer that stores such values",
        ),
        "R3": (
            "what the zeros are multiplied with does not depend on the axis",
            "skip_padding only where zeros meet weights",
        ),
        "R4": (
            "what the zeros are multiplied with has been computed before the nest",
            "skip_padding before the block that computes it is moved",
        ),
        "R5": (
            "what the zeros are multiplied with can be read under no condition",
            "skip_padding before steps that guard the sum",
        ),
    },
    alternatives="loop",
)
def skip_padding(program: ir.Program, block: BlockName, loop: LoopName) -> Rewritten[None]:
    """Leave out of a sum the terms that lie in the padding of an image along an axis.

    skip_padding("C", "y")
        for y in range(8):                       for y in range(8):
            for k in range(3):                       for k in range(3):
                if k == 0:                               if k == 0:
                    C[y] = 0.0                               C[y] = C_padding_sum[y]
                C[y] += P[y + k] * W[k]    =>            if 0 < y + k and y + k < 9:
                                                             C[y] += P[y + k] * W[k]

    P stores zeros outside of an image. The condition is asked once for all loops that do not change
    it, so loops over a tile that is kept in registers should not be y. A floating-point zero times
    an infinity or NaN is NaN, and so was the sum: blocks C_padding and C_padding_sum add up 0 times
    every factor that is left out, with which each sum begins (+0 if all are finite).

    Preserves  every output.
    """
    found = program.blocks[block]
    axis = _axis_of(found, loop)
    terms = _terms_of(program, found, axis)
    reduce, conditions = _parts(found)
    assert reduce is not None and isinstance(found.init, ir.Store)  # of a sum with terms
    inside = [part for part in terms.inside if part not in conditions]
    if not inside:
        refuse("R2", f"what is outside along {axis} is left out already")
    update = ir.Reduce(reduce.reducer, reduce.buffers, reduce.indices, (terms.value,))
    body = under([*conditions, *inside], update)
    if terms.factor is None:
        changed = edit.with_block(found, body=body)
        return edit.spliced(program, {id(found): changed}), None
    loops = edit.loops_around(program, block)
    nest: ir.Stmt = loops[0] if loops else found
    _require_readable(program, found, terms.factor, nest)
    each, total, start = _zeros(program, found, axis, terms)
    old = found.init.value
    first = start if isinstance(old, ir.Const) else ir.Binary("+", old, start)
    init = ir.Store(found.init.buffer, found.init.indices, first)
    whole = edit.splice(nest, {id(found): edit.with_block(found, body=body, init=init)})
    assert whole is not None
    new = edit.spliced(program, {id(nest): ir.sequence(each[0], total[0], whole)})
    return new.replace(temporaries=(*program.temporaries, each[1], total[1])), None


@dataclass(frozen=True)
class _Terms:
    """The terms of a sum.

    inside  the conditions along an axis for one to lie in the image
    value   of those that do
    factor  what floating-point zeros are multiplied with; None if nothing
    """

    inside: list[ir.Expr]
    value: ir.Expr
    factor: ir.Expr | None = None


def _axis_of(block: ir.Block, loop: str) -> str:
    """The iter that a loop drives. Rule R1."""
    driven = [i for i in block.iters if ir.mentions(i.binding, loop)]
    spatial = [i.var for i in driven if i.kind is ir.IterKind.SPATIAL]
    if len(driven) != 1 or not spatial or driven[0].binding != ir.Var(loop):
        refuse("R1", marks=ir.Marks(loops={loop: "this one"}, blocks={block.name: "the block"}))
    return spatial[0]


def _terms_of(program: ir.Program, block: ir.Block, axis: str) -> _Terms:
    """The terms of a sum that has zeros along an axis. Rules R2 and R3."""
    name, (reduce, _) = ir.print_name(block.name), _parts(block)
    if reduce is None or not isinstance(block.init, ir.Store) or other_writers(program, block):
        refuse("R2", f"{name} is no such sum")
    value = reduce.values[0]
    inside, left = _inside(program, block, axis, value)
    found = [_Terms(inside, left)] if inside else []
    for zero, factor in _factors(value):
        inside, left = _inside(program, block, axis, zero)
        if not inside:
            continue
        if ir.mentions(factor, axis):
            refuse("R3", f"{ir.print_expr(factor)} depends on {axis}")
        pair = (left, factor) if ir.Binary("*", zero, factor) == value else (factor, left)
        poison = factor if value.dtype.kind == "float" else None
        found.append(_Terms(inside, ir.Binary("*", *pair), poison))
    if not found:
        refuse("R2", f"no term of {name} is outside along {axis}")
    return found[0]


def _addends(value: ir.Expr) -> list[ir.Expr]:
    """The parts of a term that may make it zero: itself, or a factor."""
    return [value, *(zero for zero, _ in _factors(value))]


def _factors(value: ir.Expr) -> list[tuple[ir.Expr, ir.Expr]]:
    """The factors of a product, each with the other one; none of anything else."""
    match value:
        case ir.Binary("*", a, b):
            return [(a, b), (b, a)]
    return []


def _parts(block: ir.Block) -> tuple[ir.Reduce | None, list[ir.Expr]]:
    """The sum of a block, and the conditions under which it adds; None if it is none."""
    stmt: ir.Stmt = block.body
    conditions: list[ir.Expr] = []
    if isinstance(stmt, ir.If) and stmt.otherwise is None:
        conditions = list(ir.conjuncts(stmt.condition))
        stmt = stmt.then
    is_sum = isinstance(stmt, ir.Reduce) and ir.operator_of(stmt.reducer) == "+"
    return (stmt if is_sum and isinstance(stmt, ir.Reduce) else None), conditions


def _inside(
    program: ir.Program, block: ir.Block, axis: str, value: ir.Expr
) -> tuple[list[ir.Expr], ir.Expr]:
    """The conditions along an axis without which a value is zero, none if nothing is known; and the
    value where they hold.
    """
    simplifier = arith.Simplifier(
        {i.var: arith.extent_range(i.extent) for i in block.iters}, keep_units=True
    )
    taps = {i.var for i in block.iters if i.kind is ir.IterKind.REDUCE}

    def along(part: ir.Expr) -> bool:
        used = set(ir.free_vars(part))
        places = axis in used and bool(used & taps) and used <= {axis, *taps}
        return places and not ir.loads(part)

    match value:
        case ir.Cast(dtype, a):
            inside, left = _inside(program, block, axis, a)
            return inside, ir.Cast(dtype, left)
        case ir.Load(buffer, indices):
            parts = [simplifier.expr(part) for part in _stored(program, buffer, indices)]
            return [part for part in parts if along(part)], value
    if not is_choice(value):
        return [], value
    parts = list(ir.conjuncts(value.condition))
    inside = [part for part in parts if along(part)]
    return inside, unless(value, [part for part in parts if part not in inside])


def _stored(program: ir.Program, buffer: str, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The conditions without which a buffer holds zero at some indices, as far as they are known:
    those of the only block that writes it.
    """
    writers = ir.writers(program, buffer)
    choice = choice_of(writers[0]) if len(writers) == 1 else None
    store = edit.plain_store(writers[0]) if choice is not None else None
    if choice is None or store is None or any(b.name == buffer for b in program.params):
        return []
    places = dict(zip(store, indices))
    parts = ir.conjuncts(choice.condition)
    known = [part for part in parts if set(ir.free_vars(part)) <= places.keys()]
    return [ir.substitute(part, places) for part in known]


def _require_readable(program: ir.Program, block: ir.Block, factor: ir.Expr, nest: ir.Stmt) -> None:
    """Rules R4 and R5."""
    within = {id(one) for one in ir.blocks_of(nest)}
    ranges = {i.var: arith.extent_range(i.extent) for i in block.iters}
    for load in ir.loads(factor):
        name = ir.print_name(load.buffer)
        for writer in ir.writers(program, load.buffer):
            if id(writer) in within:
                marks = ir.Marks(blocks={writer.name: "computes it"})
                refuse("R4", f"{name} has not", marks=marks)
        for index, extent in zip(load.indices, program.buffers[load.buffer].shape):
            reached = arith.interval_of(index, ranges)
            if not 0 <= reached.lo <= reached.hi < extent:
                refuse("R5", f"{ir.print_expr(load)} may lie outside of {name}")


_Made: TypeAlias = "tuple[ir.Stmt, ir.Buffer]"


def _zeros(
    program: ir.Program, block: ir.Block, axis: str, terms: _Terms
) -> tuple[_Made, _Made, ir.Load]:
    """The nests that add up 0 times what is left out, with their buffers: for each tap, and for
    each place along the axis. Then what reads that.
    """
    reduce, _ = _parts(block)
    assert reduce is not None and terms.factor is not None
    fresh, reducer, factor = edit.Fresh(program), reduce.reducer, terms.factor

    def sized(names: set[str]) -> Sized:
        return [(i.var, i.extent) for i in block.iters if i.var in names]

    taps = {name for part in terms.inside for name in ir.free_vars(part)} - {axis}
    used = {i.var for i in block.iters if ir.mentions(factor, i.var)}
    places = used & {i.var for i in block.iters if i.kind is ir.IterKind.SPATIAL}
    zero = ir.const(0, terms.value.dtype)
    kept = sized(used & taps) + sized(places)
    name = fresh.block(f"{block.name}_padding")
    value: ir.Expr = ir.Binary("*", zero, factor)
    each = summed(fresh, reducer, name, name, kept, sized(used - taps - places), value)
    read = ir.Load(name, variables(kept), zero.dtype)
    along = sized({axis}) + sized(places)
    name = fresh.block(f"{block.name}_padding_sum")
    value = ir.Select(ir.conjunction(terms.inside), zero, read)
    total = summed(fresh, reducer, name, name, along, sized(taps), value)
    return each, total, ir.Load(name, variables(along), zero.dtype)


@skip_padding.on_batch
def _skip_padding_batch(view: StepView) -> Effect:
    return made_batch(view)


@skip_padding.random_call(often=2)
def _call_skip_padding(scene: Scene) -> None:
    program, padded = scene.program, []
    for name, block in program.blocks.items():
        reduce, _ = _parts(block)
        zeros = [] if reduce is None else _addends(reduce.values[0])
        padded += [
            (name, i.binding.name)
            for i in block.iters
            if isinstance(i.binding, ir.Var)
            if any(_inside(program, block, i.var, zero)[0] for zero in zeros)
        ]
    if padded and not scene.chance(10):
        scene.do("skip_padding", *scene.pick(padded))
    else:
        name = scene.block()
        scene.do("skip_padding", name, scene.pick(scene.loops(name)))


class ZeroPrimitives:
    """The primitives of this file and of `skip_zeros`, as methods of a Schedule."""

    skip_zeros = skip_zeros
    skip_padding = skip_padding
