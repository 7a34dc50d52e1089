"""Loads that a compiler makes once, though the text makes them again: those of an element that
stays in a register while loops run that do not move it.

A loop that is written out leaves one load of each element, and a serial one, innermost, none of an
element that it does not move. Neither does where the array is stored to in the loop, or where
threads meet that may have stored to it. Loads of neighbours in shared memory become one of 8 or 16
bytes where that is known to be aligned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from minitensor import arith, ir
from minitensor.gpu.kernels import Kernel, Site, size_of

MOST: Final = 4096
"""The most iterations of unrolled loops that are looked at."""


@dataclass(frozen=True, slots=True)
class Held:
    """Executions of an access that remain.

    loops         in each of whose iterations it is made
    unrolled      values of other loops in which it is made, an array (combinations,) for each
    combinations  the number of them
    elements      that one of them accesses side by side
    """

    loops: tuple[ir.For, ...]
    unrolled: Mapping[str, Any] = field(default_factory=dict)
    combinations: int = 1
    elements: int = 1


def held(kernel: Kernel, site: Site) -> Held:
    """The executions of an access that remain."""
    if site.writes or site.buffer is None or site.together:
        return Held(site.loops)
    parts = (*site.indices, *(guard for guard, _ in site.guards))
    moving = {name for part in parts for name in ir.free_vars(part)}
    left, unrolled = list(site.loops), list[ir.For]()
    while left:
        loop = left[-1]
        if _changes(loop, site.buffer):
            break
        if loop.var in moving:
            if loop.kind is not ir.LoopKind.UNROLL:
                break
            unrolled.insert(0, loop)
        left.pop()
    total = math.prod(loop.extent for loop in unrolled)
    if not 1 < total <= MOST:
        return Held((*left, *unrolled))
    return _merged(site, Held(tuple(left), *_first_of_each(kernel, site, unrolled)))


def _merged(site: Site, each: Held) -> Held:
    """The executions that remain where all loads of neighbours become wide ones."""
    assert site.buffer is not None
    size = size_of(site.buffer)
    if site.buffer.scope is not ir.Scope.SHARED or site.guards:
        return each
    form = address_form(site)
    fixed = [(atom, step) for atom, step in form.terms.items()
             if each.unrolled.keys().isdisjoint(ir.free_vars(atom))]  # fmt: skip
    offset = ir.value_by_numpy(form.plus(arith.Linear(dict(fixed)), -1).expr(), each.unrolled)
    for width in (16, 8):
        count = width // size
        if count < 2 or offset is None or any(int(step) % width for _, step in fixed):
            continue
        starts = offset % width == 0
        wanted = (offset[starts][:, None] + np.arange(count) * size).ravel()
        if np.array_equal(np.sort(offset), np.sort(wanted)):
            unrolled = {name: one[starts] for name, one in each.unrolled.items()}
            return Held(each.loops, unrolled, int(starts.sum()), count)
    return each


def address_form(site: Site) -> arith.Linear:
    """The first byte that an access touches, from the begin of its array on."""
    assert site.buffer is not None
    form, simplifier = arith.constant_form(0), arith.Simplifier({})
    for index, stride in zip(site.indices, ir.strides_of(site.buffer)):
        first = lane_of(index, 0)
        form = form.plus(simplifier.linear(first), stride * size_of(site.buffer))
    return form


def lane_of(expr: ir.Expr, number: int) -> ir.Expr:
    """The index that a lane of a vector has, without the checks that are made at run time."""
    match expr:
        case ir.Ramp(base, stride):
            return lane_of(base, 0) + stride * number
        case ir.Broadcast(a):
            return lane_of(a, 0)
        case ir.Lanes(var, _, a):
            return ir.substitute(a, {var: ir.Const(number)})
        case ir.Call("in_bounds", (a, _)):
            return lane_of(a, number)
    return ir.map_children(expr, lambda child: lane_of(child, number))


def _changes(loop: ir.For, buffer: ir.Buffer) -> bool:
    """Tell whether elements of the array may be others after an iteration."""
    if buffer.name in ir.stored_buffers(loop.body):
        return True
    meets = any(isinstance(stmt, ir.Barrier) for stmt in ir.stmts_of(loop.body))
    return meets and buffer.scope is ir.Scope.SHARED


def _first_of_each(kernel: Kernel, site: Site, loops: list[ir.For]) -> tuple[dict[str, Any], int]:
    """The first combination of the loops for each element: elements are compared where all other
    variables are 0, and where they are 1, 2, …
    """
    assert site.buffer is not None
    number = np.arange(math.prod(loop.extent for loop in loops), dtype=np.int64)
    values, rest = dict[str, Any](), number
    for loop in reversed(loops):
        rest, values[loop.var] = np.divmod(rest, loop.extent)
    others = (*kernel.parts.blocks, *kernel.parts.threads, *site.loops)
    zeros = {loop.var: 0 for loop in others}
    ones = {loop.var: min(n, loop.extent - 1) for n, loop in enumerate(others, start=1)}
    keys = []
    for part in (*site.indices, *(guard for guard, _ in site.guards)):
        for known in (zeros, ones):
            found = ir.value_by_numpy(lane_of(part, 0), {**known, **values})
            keys.append(number if found is None else np.broadcast_to(found, number.shape))
    _, found = np.unique(np.stack(keys), axis=1, return_index=True)
    first = np.sort(found)
    return {name: one[first] for name, one in values.items()}, len(first)
