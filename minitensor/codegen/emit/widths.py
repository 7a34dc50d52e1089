"""Facts about the accesses of a kernel: how wide its indices are, and of what it copies vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from minitensor import arith, ir

_LIMIT: Final = (1 << 31) - 1


def fits_int(
    stmt: ir.Stmt, ranges: Mapping[str, arith.Interval], buffers: Mapping[str, ir.Buffer]
) -> bool:
    """Tell whether 32 bits hold every index, every position of an element, and every step of their
    computation.

    ranges   those of the variables around the statement
    buffers  those in scope; the statement may allocate others
    """
    return all(_is_small(form, known) for form, known in _forms(stmt, ranges, buffers))


def _is_small(form: arith.Linear, ranges: Mapping[str, arith.Interval]) -> bool:
    total: float = abs(form.constant)
    for atom, coefficient in form.terms.items():
        span = arith.interval_of(atom, ranges)
        if not span.is_bounded:
            return False
        total += abs(coefficient) * max(abs(span.lo), abs(span.hi))
    return total <= _LIMIT


def _forms(
    node: ir.Node, ranges: Mapping[str, arith.Interval], buffers: Mapping[str, ir.Buffer]
) -> Iterator[tuple[arith.Linear, Mapping[str, arith.Interval]]]:
    """The linear forms of what the text computes as an index, with the ranges of variables."""
    if isinstance(node, ir.For):
        ranges = {**ranges, node.var: arith.extent_range(node.extent)}
        yield arith.linear_of(ir.Const(node.extent)), ranges
    if isinstance(node, ir.Alloc):
        buffers = {**buffers, node.buffer.name: node.buffer}
    if isinstance(node, (ir.Load, ir.Store)):
        total = arith.linear_of(ir.Const(0))
        for index, stride in zip(node.indices, ir.strides_of(buffers[node.buffer])):
            base = index.base if isinstance(index, ir.Ramp) else index
            total = total.plus(arith.linear_of(base), stride)
        yield total, ranges
    if isinstance(node, (ir.Binary, ir.Select)) and node.dtype == ir.INDEX:
        yield arith.linear_of(node), ranges
    if isinstance(node, ir.Binary) and node.op in ir.COMPARISONS and node.a.dtype == ir.INDEX:
        yield arith.linear_of(node.a), ranges
        yield arith.linear_of(node.b), ranges
    for child in ir.children(node):
        yield from _forms(child, ranges, buffers)


def wide_buffers(stmt: ir.Stmt) -> set[str]:
    """The buffers of which a statement copies vectors."""
    accesses = (node for node in ir.walk(stmt) if isinstance(node, (ir.Load, ir.Store)))
    return {a.buffer for a in accesses if any(isinstance(i, ir.Ramp) for i in a.indices)}
