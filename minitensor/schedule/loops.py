"""Primitives that restructure loops: fuse, reorder, add_unit_loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NoReturn

import numpy as np

from minitensor import arith, ir
from minitensor.schedule.arguments import LoopName, LoopOrBlockName
from minitensor.schedule.batch import Batch, Effect, StepView, unchanged
from minitensor.schedule.dependence import conflict, require_serial
from minitensor.schedule.edit import Fresh, chain, rebind, spliced
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

LARGEST: Final = 1 << 62
"""A modulus that changes no number."""


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
            _refuse_order(sites, loops, outer, inner)
    fused = [sites[name].loop for name in loops]
    for loop in fused:
        require_serial(loop)
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
    return spliced(program, {id(site.loop): ir.nest([new], body)}), name


def _refuse_order(
    sites: Mapping[str, ir.LoopSite], loops: Sequence[str], outer: str, inner: str
) -> NoReturn:
    """Refuse loops that do not follow each other, with the call if only their order is wrong."""
    marks = ir.Marks(loops={outer: "outer", inner: "inner"})
    if sites[inner].loop not in sites[outer].outer:
        detail = f"{ir.print_name(inner)} is not all there is in {ir.print_name(outer)}"
        refuse("R2", detail, marks=marks)
    order = sorted(loops, key=lambda name: len(sites[name].outer))
    call = ", ".join(f'"{name}"' for name in order)
    near = all(sites[a].loop.body is sites[b].loop for a, b in pairwise(order))
    detail = f"{ir.print_name(outer)} is inside {ir.print_name(inner)}: the outermost comes first"
    refuse("R2", detail, marks=marks, advice=f"fuse({call})" if near else "")


@fuse.on_batch
def _fuse_batch(view: StepView) -> Effect:
    loops, name = view.argument("loops"), view.result
    blocks = view.under(loops[-1])
    view.follow()

    def effect(batch: Batch) -> None:
        extents = [batch.extents.pop(loop) for loop in loops]
        batch.extents[name] = arith.product_of(extents)
        forms = [form for block in blocks for form in batch.bound[block].values()]
        if not any(arith.is_inside_operation(form, loops) for form in forms):
            batch.digits.add(name)
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
        below = arith.product_of(extents[last:])
        if last < len(loops):
            digit = arith.operation("//", digit, arith.constant_form(below))
        length = arith.product_of(extents[first:last])
        outer = arith.product_of(extents[:first])
        modulus = _modulus(outer, length, np.equal(below, 1) if first == 0 else False)
        if modulus is not None:
            digit = arith.operation("%", digit, arith.constant_form(modulus))
        found = found.plus(digit, steps[last - 1])
        last = first
    return found


def _modulus(outer: arith.Num, length: arith.Num, whole: arith.Num | bool) -> arith.Num | None:
    """The modulus of a digit; None for none. As in a program: a digit that leads has none, and one
    of a single value is 0, unless it is the whole number.

    outer   the values of the digits before it
    length  those of its own
    """
    leads, single = np.equal(outer, 1), np.equal(length, 1) & ~np.asarray(whole)
    if np.all(leads & ~single):
        return None
    if not np.any(leads & ~single):
        return length
    found: arith.Num = np.where(single, 1, np.where(leads, LARGEST, length))
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
            "keep these loops in their order; a reduction may be rfactored first",
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
    new = ir.nest([by_name[name] for name in wanted], found[-1].body)
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

    fuse = fuse
    reorder = reorder
    add_unit_loop = add_unit_loop
