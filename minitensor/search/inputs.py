"""Random inputs of a search: small integers, whose sums are exact in any order; for what indexes,
positions that are there.

An access with the index `2 * ids[i] + 1` of an axis of 100 elements is in bounds if `ids` holds
integers from 0 to 49. That is found where an index is a sum; elsewhere (`ids[i] % 8`) the
positions of the axis are taken.
Not here: data that goes through a temporary before it indexes (see `measure.reference`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.arith import Interval, Linear, Ranges, extent_range, linear_of

LARGEST_INPUT: Final = 4


def random_inputs(
    program: ir.Program, seed: int, least: int = -LARGEST_INPUT, most: int = LARGEST_INPUT
) -> list[np.ndarray]:
    """One array for each input of a program, of integers from `least` to `most` (from 0 if
    unsigned); of an input that indexes, of the positions that are there.
    """
    rng, places = np.random.default_rng(seed), indexed(program)
    arrays = []
    for buffer in program.inputs:
        low = max(least, 0) if buffer.dtype.kind in ("uint", "bool") else least
        high = min(most, 1) if buffer.dtype.kind == "bool" else most
        if buffer.name in places:
            low, high = places[buffer.name]
        values = rng.integers(low, high + 1, buffer.shape)
        arrays.append(ir.pack(values, buffer.dtype))
    return arrays


def indexed(program: ir.Program) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each input of integers that is used in an index, with
    which its accesses are in bounds; 0 for both where there are no such values.
    """
    inputs = {b.name: b.dtype for b in program.inputs if b.dtype.kind in ("int", "uint")}
    found = {name: Interval(d.min_value, d.max_value) for name, d in inputs.items()}
    used: set[str] = set()
    for block in program.blocks.values():
        ranges = {i.var: extent_range(i.extent) for i in block.iters}
        for index, extent in _indices(program, block):
            for name, fits in _fitting(index, extent, ranges):
                if name in inputs:
                    low, high = found[name]
                    found[name] = Interval(max(low, fits.lo), min(high, fits.hi))
                    used.add(name)
    return {name: _integers(found[name]) for name in used}


def _integers(interval: Interval) -> tuple[int, int]:
    low, high = interval
    return (0, 0) if low > high else (int(low), int(high))


def _indices(program: ir.Program, block: ir.Block) -> Iterator[tuple[ir.Expr, int]]:
    """Each index of an access in a block, with the extent of its axis."""
    for node in ir.walk(block):
        if isinstance(node, (ir.Load, ir.Store)):
            yield from zip(node.indices, program.buffers[node.buffer].shape)


def _fitting(index: ir.Expr, extent: int, ranges: Ranges) -> Iterator[tuple[str, Interval]]:
    """The values of each buffer in an index with which it is in bounds."""
    form = _sum_of(index)
    data = {atom: c for atom, c in form.terms.items() if ir.loads(atom)}
    rest = Linear({a: c for a, c in form.terms.items() if a not in data}, form.constant)
    around = rest.interval(ranges)
    for atom, factor in data.items():
        if isinstance(atom, ir.Load) and around.is_bounded:
            share = factor * len(data)
            ends = (-around.lo / share, (extent - 1 - around.hi) / share)
            low, high = ends if factor > 0 else ends[::-1]
            yield atom.buffer, Interval(math.ceil(low), math.floor(high))
        else:
            yield from ((load.buffer, extent_range(extent)) for load in ir.loads(atom))


def _sum_of(expr: ir.Expr) -> Linear:
    """An index as a sum, that of data in integers too: what is in bounds does not wrap."""
    match expr:
        case ir.Cast(_, a) if a.dtype.kind in ("int", "uint", "index"):
            return _sum_of(a)
        case ir.Binary("+", a, b):
            return _sum_of(a).plus(_sum_of(b))
        case ir.Binary("-", a, b):
            return _sum_of(a).minus(_sum_of(b))
        case ir.Binary("*", a, ir.Const(int(factor))) | ir.Binary("*", ir.Const(int(factor)), a):
            return _sum_of(a).times(factor)
    return linear_of(expr)
