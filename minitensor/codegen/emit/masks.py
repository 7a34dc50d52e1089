"""The width of a condition for each lane: in how many bits a comparison gives all ones or zeros.

A condition of several comparisons is put together in the width that most of them have, and brought
to that of what it selects once: each conversion is several instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from minitensor import ir
from minitensor.codegen.emit.c_types import computed


def width_of(condition: ir.Expr, wanted: int) -> int:
    """The bits that most comparisons of a condition have; of several widths the one wanted."""
    found = Counter(_widths(condition))
    return max(found, key=lambda bits: (found[bits], bits == wanted, bits), default=wanted)


def own_width(comparison: ir.Expr) -> int:
    """The bits of a lane of a comparison, or of what is compared with 0: those of its operands."""
    match comparison:
        case ir.Binary(_, a, _) | ir.Cast(_, a) | ir.Call(_, (a,)) if a.dtype.scalar != ir.BOOL:
            return computed(a.dtype.scalar).bits
    return 8


def _widths(condition: ir.Expr) -> Iterator[int]:
    match condition:
        case ir.Binary("and" | "or", a, b):
            parts: tuple[ir.Expr, ...] = (a, b)
        case ir.Unary("not", a):
            parts = (a,)
        case ir.Broadcast():
            parts = ()
        case ir.Select(test, a, b):
            parts = (a, b) if test.dtype.lanes == 1 else (test, a, b)
        case _:
            yield own_width(condition)
            return
    for part in parts:
        yield from _widths(part)
