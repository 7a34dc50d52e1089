"""Primitives that restructure loops: split, fuse, reorder, add_unit_loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from minitensor import arith, ir
from minitensor.arith import Ranges, interval_of
from minitensor.schedule.arguments import FACTORS, Factors, LoopName, LoopOrBlockName, Tail
from minitensor.schedule.batch import Batch, Effect, StepView, unchanged
from minitensor.schedule.dependence import conflict, is_serial
from minitensor.schedule.edit import Fresh, chain, nest, ranges_of, rebind, spliced, with_block
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

WIDEST: int = 1 << 16
"""The largest factor that may exceed the loop it splits."""


@primitive(
    rules={
        "R1": ("the loop is serial", "split it before deciding how it runs"),
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
    _require_serial(site.loop)
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


def _require_serial(loop: ir.For, rule: str = "R1") -> None:
    if not is_serial(loop):
        marks = ir.Marks(loops={loop.var: f"is {loop.kind.value}"})
        refuse(rule, f"{ir.print_name(loop.var)} is {loop.kind.value}", marks=marks)


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
    return nest(loops, body)


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
    renamed = {inner.var: fresh.loop(inner.var) for inner in ir.loops_of(site.loop.body)}
    blocks = {b.name: fresh.block(f"{b.name}_tail") for b in ir.blocks_of(site.loop)}
    shifted = ir.For(tail_loop, rest, site.loop.body)
    body = rebind(site.loop.body, (*site.outer, shifted), {loop: ir.Var(tail_loop) + total})
    ranges = ranges_of((*site.outer, shifted, *ir.loops_of(site.loop.body)))
    tail = ir.For(tail_loop, rest, _renamed(body, renamed, blocks, ranges))
    return spliced(program, {id(site.loop): ir.sequence(main, tail)}), names


def _shared_target(program: ir.Program, block: ir.Block) -> str | None:
    targets = ir.stored_buffers(block.body)
    for other in program.blocks.values():
        if other.name != block.name and targets & ir.stored_buffers(other.body):
            return f"{ir.print_name(block.name)} and {ir.print_name(other.name)} write one buffer"
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
    for block in blocks:
        for form in batch.bound[block].values():
            if any(loop in arith.variables(arg) for a in arith.operations(form) for arg in a.args):
                raise arith.BatchError("a fused loop is split into more iterations than it has")


@split.random_call(often=4)
def _call_split(scene: Scene) -> None:
    count = scene.number(1, 3)
    factors: list[int | None] = [scene.pick((1, 2, 3, 4, 5, 7, 8, 16, 64)) for _ in range(count)]
    if not scene.chance(10):
        factors[scene.number(0, count - 1)] = None
    scene.do("split", scene.loop(), factors, tail=scene.pick(["guard", "guard", "cut", "exact"]))


@primitive(
    rules={
        "R1": ("the loops are serial", "fuse them before deciding how they run"),
        "R2": (
            "at least two loops are given, each one all there is in the one before",
            "reorder the loops until they are neighbours, outermost first",
        ),
        "R3": ("none of them is empty", "leave the empty loop alone"),
    }
)
def fuse(program: ir.Program, *loops: LoopName) -> Rewritten[str]:
    """Fuse nested loops, given outermost first, into one.

    fuse("i", "j")
        for i in range(4):                    for i_j in range(32):
            for j in range(8):         =>         C[i_j // 8, i_j % 8] = f(i_j // 8, i_j % 8)
                C[i, j] = f(i, j)

    The new loop has the annotations of all.

    Preserves  the order of iterations, every output.
    Returns    the name of the new loop.
    """
    if len(loops) < 2:
        refuse("R2", f"{len(loops)} given")
    sites = ir.loop_sites(program)
    for outer, inner in pairwise(loops):
        if sites[outer].loop.body is not sites[inner].loop:
            marks = ir.Marks(loops={outer: "outer", inner: "inner"})
            refuse(
                "R2",
                f"{ir.print_name(inner)} is not all there is in {ir.print_name(outer)}",
                marks=marks,
            )
    fused = [sites[name].loop for name in loops]
    for loop in fused:
        _require_serial(loop)
        if loop.extent == 0:
            refuse("R3", marks=ir.Marks(loops={loop.var: "is empty"}))
    name = Fresh(program).loop("_".join(loops))
    notes = tuple({k: v for loop in fused for k, v in loop.annotations}.items())
    new = ir.For(name, math.prod(loop.extent for loop in fused), fused[-1].body, annotations=notes)
    values: dict[str, ir.Expr] = {}
    below = 1
    for loop in reversed(fused):
        digit: ir.Expr = ir.Var(name) if below == 1 else ir.Var(name) // below
        values[loop.var] = digit if loop is fused[0] else digit % loop.extent
        below *= loop.extent
    site = sites[loops[0]]
    body = rebind(fused[-1].body, (*site.outer, new), values)
    return spliced(program, {id(site.loop): nest([new], body)}), name


@fuse.on_batch
def _fuse_batch(view: StepView) -> Effect:
    loops, name = view.argument("loops"), view.result
    blocks = view.under(loops[-1])
    view.follow()

    def effect(batch: Batch) -> None:
        extents = [batch.extents.pop(loop) for loop in loops]
        batch.extents[name] = arith.product_of(extents)
        for block in blocks:
            bound = batch.bound[block]
            for iter_, form in bound.items():
                if not arith.variables(form).isdisjoint(loops):
                    bound[iter_] = _fused(form, loops, extents, name)

    return effect


def _fused(
    form: arith.Linear, loops: Sequence[str], extents: Sequence[arith.Num], name: str
) -> arith.Linear:
    """A form in which loops are digits of one; those that make up a number again stay together."""
    found = arith.Linear({}, form.constant)
    for atom, coefficient in form.terms.items():
        if isinstance(atom, arith.Operation):
            inside = (_fused(arg, loops, extents, name) for arg in atom.args)
            found = found.plus(arith.operation(atom.op, *inside), coefficient)
        elif atom.name not in loops:
            found = found.plus(arith.Linear({atom: coefficient}))
    steps = [form.coefficient(loop) for loop in loops]
    last = len(loops)
    while last:
        first = last - 1
        while first and arith.same(steps[first - 1], arith.product(steps[first], extents[first])):
            first -= 1
        digit = arith.variable(name)
        if last < len(loops):
            below = arith.product_of(extents[last:])
            digit = arith.operation("//", digit, arith.constant_form(below))
        if first:
            length = arith.product_of(extents[first:last])
            digit = arith.operation("%", digit, arith.constant_form(length))
        found = found.plus(digit, steps[last - 1])
        last = first
    return found


@fuse.random_call(often=2)
def _call_fuse(scene: Scene) -> None:
    loops = scene.loops()
    start = scene.number(0, max(0, len(loops) - 2))
    scene.do("fuse", *loops[start : start + scene.number(2, 3)])


@primitive(
    rules={
        "R1": (
            "at least two different loops are given",
            "name the loops to reorder in the order wanted",
        ),
        "R2": (
            "the loops stand around each other, with nothing else in between",
            "name loops of one nest; move what stands between them with compute_at",
        ),
        "R3": (
            "no two loops whose order matters change places",
            "keep these loops in their order, or rfactor the reduction first",
        ),
    }
)
def reorder(program: ir.Program, *loops: LoopName) -> Rewritten[None]:
    """Put nested loops into another order; loops in between that are not named stay in place.

    reorder("k", "i")
        for i in range(4):                    for k in range(8):
            for j in range(5):                    for j in range(5):
                for k in range(8):     =>             for i in range(4):
                    C[i, j] += A[i, j, k]                 C[i, j] += A[i, j, k]

    The order of two loops matters if both carry dependences: one iteration touches what another
    wrote. The loops of one commutative reduction may change places with each other.

    Preserves  every output (floating point sums: up to rounding).
    """
    if len(loops) < 2 or len(set(loops)) != len(loops):
        refuse("R1", f"{len(loops)} given, {len(set(loops))} different")
    sites = ir.loop_sites(program)
    outermost = min((sites[name] for name in loops), key=lambda site: len(site.outer))
    innermost = max((sites[name] for name in loops), key=lambda site: len(site.outer))
    found = chain(outermost.loop, innermost.loop.var)
    if found is None or not set(loops) <= {loop.var for loop in found}:
        refuse("R2", marks=ir.Marks(loops=dict.fromkeys(loops, "to reorder")))
    order = iter(loops)
    wanted = [next(order) if loop.var in loops else loop.var for loop in found]
    _check_order(program, [loop.var for loop in found], wanted)
    by_name = {loop.var: loop for loop in found}
    new = nest([by_name[name] for name in wanted], found[-1].body)
    return spliced(program, {id(found[0]): new}), None


def _check_order(program: ir.Program, was: Sequence[str], wanted: Sequence[str]) -> None:
    """Rule R3: of two loops that change places one is independent, or both drive a reduction."""
    place = {name: n for n, name in enumerate(wanted)}
    swapped = [
        (outer, inner)
        for n, outer in enumerate(was)
        for inner in was[n + 1 :]
        if place[outer] > place[inner]
    ]
    independent: dict[tuple[str, bool], bool] = {}

    def is_independent(name: str, reductions: bool) -> bool:
        key = (name, reductions)
        if key not in independent:
            independent[key] = conflict(program, name, was, reductions) is None
        return independent[key]

    for outer, inner in swapped:
        if is_independent(inner, True) or is_independent(outer, True):
            continue
        if is_independent(inner, False) and is_independent(outer, False):
            continue
        found = conflict(program, inner, was) or conflict(program, outer, was)
        assert found is not None
        refuse(
            "R3",
            f"{ir.print_name(outer)} and {ir.print_name(inner)}: {found.describe(inner)}",
            marks=found.marks(inner, "cannot move out of " + ir.print_name(outer)),
        )


reorder.on_batch(unchanged)


@reorder.random_call(often=3)
def _call_reorder(scene: Scene) -> None:
    loops = scene.loops()
    order = scene.shuffled(loops)
    scene.do("reorder", *order[: scene.number(min(2, len(order)), len(order))])


@primitive(rules={})
def add_unit_loop(program: ir.Program, target: LoopOrBlockName) -> Rewritten[str]:
    """Put a loop of one iteration around a loop or a block.

    add_unit_loop("C")
        for i in range(4):             =>     for i in range(4):
            C[i] = f(i)                           for u in range(1):
                                                      C[i] = f(i)

    Preserves  every output.
    Returns    the name of the new loop.
    """
    sites = ir.loop_sites(program)
    inside: ir.Stmt = sites[target].loop if target in sites else program.blocks[target]
    name = Fresh(program).loop("u")
    return spliced(program, {id(inside): ir.For(name, 1, inside)}), name


@add_unit_loop.on_batch
def _add_unit_loop_batch(view: StepView) -> Effect:
    view.follow()
    return lambda batch: batch.extents.update({view.result: 1})


@add_unit_loop.random_call()
def _call_add_unit_loop(scene: Scene) -> None:
    scene.do("add_unit_loop", scene.loop())


class LoopPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    split = split
    fuse = fuse
    reorder = reorder
    add_unit_loop = add_unit_loop
