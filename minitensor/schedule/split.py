"""The primitive that cuts a loop into tiles: split."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minitensor import arith, ir
from minitensor.arith import Ranges, interval_of
from minitensor.schedule.arguments import FACTORS, Factors, LoopName, Tail
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.dependence import require_serial
from minitensor.schedule.edit import Fresh, ranges_of, rebind, spliced, with_block
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

WIDEST: int = 1 << 16
"""The largest factor that may exceed the loop it splits."""


@primitive(
    rules={
        "R1": ("the loop is serial", "make it serial again first"),
        "R2": ("the factors cover the loop", "write None for one factor and it is inferred"),
        "R3": (
            'with tail="exact" the factors multiply to the extent',
            'choose divisors, or tail="guard"',
        ),
        "R4": (
            'with tail="cut" at least one whole tile fits',
            'choose smaller factors, or tail="guard"',
        ),
        "R5": (
            'with tail="cut" no block under the loop writes a buffer that another block writes',
            'use tail="guard"',
        ),
        "R6": ("a factor larger than the loop is at most 65536", "choose a smaller factor"),
    }
)
def split(
    program: ir.Program, loop: LoopName, factors: Factors, *, tail: Tail = "guard"
) -> Rewritten[tuple[str, ...]]:
    """Split a loop into a nest of loops, outermost first.

    split("i", [None, 8])
        for i in range(20):                   for i_0 in range(3):
            C[i] = f(i)                =>         for i_1 in range(8):
                                                      if i_0*8 + i_1 < 20:
                                                          C[i_0*8 + i_1] = f(i_0*8 + i_1)
    factors  the extents of the new loops; one may be None and is inferred
    tail     what happens if they do not divide the extent:
             "guard"  the iterations too many do nothing
             "exact"  refused
             "cut"    the rest gets a loop of its own after the nest, so that the nest needs no
                      guard; its blocks are copies named <block>_tail

    Annotations of the loop stay with the outermost new loop.

    Preserves  the order of iterations, every output.
    Returns    the names of the new loops (of the nest, for "cut").
    """
    site = ir.loop_sites(program)[loop]
    require_serial(site.loop)
    extent = site.loop.extent
    given = tuple(factors)
    if 0 in given and (extent or None in given):
        refuse("A2", f"expected {FACTORS}, but got factors={list(given)}")
    inner = math.prod(f for f in given if f is not None) or 1
    if any(f is not None and f > max(extent, WIDEST) for f in given):
        refuse("R6", f"{ir.print_name(loop)} has extent {extent}, the factors are {list(given)}")
    covered = extent // inner if tail == "cut" else -(-extent // inner)
    extents = tuple(covered if f is None else f for f in given)
    total = math.prod(extents)
    if tail == "exact" and total != extent:
        refuse("R3", _product(loop, extent, extents, total), choices=_divisors(extent))
    if tail == "cut" and total < extent:
        return _split_and_cut(program, loop, extents)
    if tail == "cut" and total > extent:
        refuse("R4", _product(loop, extent, extents, total))
    if total < extent:
        refuse("R2", _product(loop, extent, extents, total))
    fresh = Fresh(program)
    names = tuple(fresh.loop(f"{loop}_{n}") for n in range(len(extents)))
    new = _nest_of_tiles(site.loop, site.outer, names, extents, total)
    return spliced(program, {id(site.loop): new}), names


def _product(loop: str, extent: int, extents: Sequence[int], total: int) -> str:
    product = " * ".join(map(str, extents))
    return f"{ir.print_name(loop)} has extent {extent}, but {product} = {total}"


def _divisors(extent: int) -> tuple[str, ...]:
    return tuple(str(n) for n in range(1, min(extent, 1024) + 1) if extent % n == 0)[:16]


def _nest_of_tiles(
    loop: ir.For,
    outer: tuple[ir.For, ...],
    names: Sequence[str],
    extents: Sequence[int],
    total: int,
) -> ir.Stmt:
    """The loop as a nest of `extents`, guarded if they make more than its iterations."""
    loops = tuple(
        ir.For(name, n, loop.body, annotations=loop.annotations if position == 0 else ())
        for position, (name, n) in enumerate(zip(names, extents))
    )
    value = _digits(names, extents).expr()
    guards = [ir.less(value, loop.extent)] if total > loop.extent else []
    body = rebind(loop.body, (*outer, *loops), {loop.var: value}, guards)
    return ir.nest(loops, body)


def _digits(names: Sequence[str], extents: Sequence[arith.Num]) -> arith.Linear:
    """The number whose digits are the loops, the outermost leading."""
    value = arith.Linear({})
    for name, extent in zip(names, extents):
        value = value.times(extent).plus(arith.variable(name))
    return value


def _split_and_cut(
    program: ir.Program, loop: str, extents: Sequence[int]
) -> Rewritten[tuple[str, ...]]:
    """The loop as a nest without guard, followed by a loop over what remains."""
    site = ir.loop_sites(program)[loop]
    total, rest = math.prod(extents), site.loop.extent - math.prod(extents)
    if total == 0:
        refuse("R4", _product(loop, site.loop.extent, extents, total))
    for block in ir.blocks_of(site.loop):
        shared = _shared_target(program, block)
        if shared is not None:
            refuse("R5", shared, marks=ir.Marks(blocks={block.name: "under the loop"}))
    fresh = Fresh(program)
    names = tuple(fresh.loop(f"{loop}_{n}") for n in range(len(extents)))
    whole = ir.For(loop, total, site.loop.body, annotations=site.loop.annotations)
    main = _nest_of_tiles(whole, site.outer, names, extents, total)
    tail_loop = fresh.loop(f"{loop}_tail")
    renamed = {inner.var: fresh.loop(inner.var, tail_loop) for inner in ir.loops_of(site.loop.body)}
    blocks = {b.name: fresh.block(f"{b.name}_tail") for b in ir.blocks_of(site.loop)}
    shifted = ir.For(tail_loop, rest, site.loop.body)
    body = rebind(site.loop.body, (*site.outer, shifted), {loop: ir.Var(tail_loop) + total})
    ranges = ranges_of((*site.outer, shifted, *ir.loops_of(site.loop.body)))
    tail = ir.For(tail_loop, rest, _renamed(body, renamed, blocks, ranges))
    return spliced(program, {id(site.loop): ir.sequence(main, tail)}), names


def _shared_target(program: ir.Program, block: ir.Block) -> str | None:
    targets = ir.stored_buffers(block.body)
    writing = {b.name for target in targets for b in ir.writers(program, target)} - {block.name}
    for other in program.blocks:
        if other in writing:
            return f"{ir.print_name(block.name)} and {ir.print_name(other)} write one buffer"
    return None


def _renamed(
    stmt: ir.Stmt, loops: dict[str, str], blocks: dict[str, str], ranges: Ranges
) -> ir.Stmt:
    """A copy with other names; a reduction that cannot start here loses its init."""

    def go(current: ir.Stmt) -> ir.Stmt:
        if isinstance(current, ir.For):
            name = loops[current.var]
            return ir.For(name, current.extent, go(current.body), current.kind, current.annotations)
        if isinstance(current, ir.Block):
            return _renamed_block(current, loops, blocks[current.name], ranges)
        return ir.sequence(*[go(child) for child in getattr(current, "stmts", ())])

    return go(stmt)


def _renamed_block(block: ir.Block, loops: dict[str, str], name: str, ranges: Ranges) -> ir.Block:
    values: dict[str, ir.Expr] = {old: ir.Var(new) for old, new in loops.items()}
    moved = ir.substitute(block, values)
    starts = [
        interval_of(i.binding, ranges).lo for i in block.iters if i.kind is not ir.IterKind.SPATIAL
    ]
    return with_block(moved, name=name, init=None if any(n > 0 for n in starts) else block.init)


@split.on_batch
def _split_batch(view: StepView) -> Effect:
    if len(view.after.blocks) != len(view.before.blocks):
        raise arith.BatchError("whether a loop is cut in two depends on the numbers")
    loop, names = view.argument("loop"), view.result
    given, tail = view.step.arguments["factors"], view.step.arguments["tail"]
    blocks = view.under(loop)
    view.follow()

    def effect(batch: Batch) -> None:
        factors = given if isinstance(given, tuple) else batch.number(given)
        factors = [None if factor is None else batch.number(factor) for factor in factors]
        extent = batch.extents.pop(loop)
        inner = arith.product_of(f for f in factors if f is not None)
        if any(f is None for f in factors) and not np.all(np.greater(inner, 0)):
            raise arith.BatchError("a loop of no iterations is split")
        extents = [arith.ceil_div(extent, inner) if f is None else f for f in factors]
        total = arith.product_of(extents)
        whole = np.equal(total, extent)
        if tail == "cut" and not np.all(whole):
            raise arith.BatchError("whether a loop is cut in two depends on the numbers")
        if tail == "exact":
            view.require(whole, "the factors do not multiply to the extent")
        view.require(np.greater_equal(total, extent), "the factors do not cover the loop")
        if not np.all(whole):
            _run_over(batch, blocks, loop)
        batch.extents.update(zip(names, extents))
        batch.replace(blocks, {loop: _digits(names, extents)})

    return effect


def _run_over(batch: Batch, blocks: Sequence[str], loop: str) -> None:
    """Note that a loop is split into more iterations than it had, those too many guarded off.

    Expressions that were simplified for the values that the loop had then may not hold for others.
    """
    batch.guarded.update(blocks)
    for block in blocks if loop not in batch.digits else ():
        for form in batch.bound[block].values():
            if arith.is_inside_operation(form, [loop]):
                raise arith.BatchError("a fused loop is split into more iterations than it has")


@split.random_call(often=4)
def _call_split(scene: Scene) -> None:
    """The simplest is split(loop, [None, 2]), to which a failure is made smaller in one step."""
    count = scene.pick((2, 1, 3))
    factors: list[int | None] = [scene.pick((2, 1, 3, 4, 5, 7, 8, 16, 64)) for _ in range(count)]
    if not scene.chance(10):
        factors[scene.number(0, count - 1)] = None
    scene.do("split", scene.loop(), factors, tail=scene.pick(["guard", "guard", "cut", "exact"]))


class SplitPrimitives:
    """The primitive of this file, as a method of a Schedule."""

    split = split
