"""Lanes that need not be collected one by one, though they are no constant distance apart.

In `A[j // 2]` some in a row read the same element, 0 0 1 1 2 2 3 3: that is one load of a shorter
vector, whose elements are then repeated in registers. Those of `j % 2` are numbers, 0 1 0 1.
"""

from __future__ import annotations

import numpy as np

from minitensor import arith, ir


def repeats(lanes: ir.Lanes, ranges: arith.Ranges) -> int:
    """Count the lanes in a row that read each element, where they read neighbours; 0 for any other.

    ranges  of the variables around
    """
    load, var = lanes.a, ir.Var(lanes.var)
    if not isinstance(load, ir.Load) or not load.indices or load.dtype.lanes > 1:
        return 0
    *rows, last = load.indices
    known = {**ranges, lanes.var: arith.extent_range(lanes.lanes)}
    form = arith.linear_of(arith.simplify(last, known))
    own = form.part(lambda atom, _: ir.mentions(atom, lanes.var))
    if any(ir.mentions(row, lanes.var) for row in rows):
        return 0
    match list(own.terms.items()):
        case [(ir.Binary("//", base, ir.Const(times)), 1)] if base == var:
            whole = lanes.lanes & (lanes.lanes - 1) == 0
            return int(times) if whole and lanes.lanes % times == 0 and times < lanes.lanes else 0
    return 0


def numbers(lanes: ir.Lanes, ranges: arith.Ranges) -> list[int]:
    """The indices in the lanes if they are the same numbers in each iteration; none otherwise."""
    known = {**ranges, lanes.var: arith.extent_range(lanes.lanes)}
    if lanes.a.dtype != ir.INDEX or ir.loads(lanes.a):
        return []
    value = arith.simplify(lanes.a, known)
    if set(ir.free_vars(value)) != {lanes.var}:
        return []
    return [int(n) for n in ir.value_by_numpy(value, {lanes.var: np.arange(lanes.lanes)})]


def is_gathered(lanes: ir.Lanes, ranges: arith.Ranges) -> bool:
    """Return whether lanes are put together one by one as the kernel runs."""
    return not repeats(lanes, ranges) and not numbers(lanes, ranges)
