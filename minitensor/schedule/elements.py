"""The elements of a buffer as their writer counts them: by its iters, however they are laid out.

What a block needs, and what it leaves to others, is a box of its iters. Where transform_layout has
put the elements somewhere else, the box is found through the inverse of the layout, which brings
the index of a reader back to what it was: i//8*8 + i%8 is i.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import arith, ir
from minitensor.schedule import edit


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements that a block writes.

    iters    the iters of the block by which they are counted
    extents  of these
    undone   for each of them its value where an element is, as a form of the indices, which are
             called "0", "1" …; None where the n-th iter is the n-th index
    """

    iters: tuple[str, ...]
    extents: tuple[int, ...]
    undone: tuple[arith.Linear, ...] | None = None

    def counted(
        self, indices: Sequence[arith.Linear], ranges: arith.Ranges
    ) -> tuple[arith.Linear, ...]:
        """Indices of the buffer as the block counts, under the ranges of what they are written in.

        Right for every element that there is. (What would be read outside is guarded, and has no
        place that could be wrong.)
        """
        if self.undone is None:
            return tuple(indices)
        values = {str(n): index for n, index in enumerate(indices)}
        simplifier = arith.Simplifier(ranges, values, keep_units=True)
        return tuple(simplifier.linear(form.expr()) for form in self.undone)

    def shape_in(self, buffer: ir.Buffer) -> tuple[int, ...]:
        """The extents along the axes in which a buffer's elements are counted."""
        return buffer.shape if self.undone is None else self.extents


PLAIN: Final = Elements((), ())
"""For the elements of a buffer by its indices."""


def elements_of(block: ir.Block) -> Elements | None:
    """The elements that a block writes; None if it is not known which instance writes one."""
    sizes = {i.var: i.extent for i in block.iters}
    names = edit.plain_store(block)
    if names is not None:
        return Elements(names, tuple(sizes[name] for name in names))
    indices = next(n.indices for n in ir.walk(block.body) if isinstance(n, (ir.Store, ir.Reduce)))
    order = [part.name for index in indices for part in ir.walk(index) if isinstance(part, ir.Var)]
    ranges = {name: arith.extent_range(size) for name, size in sizes.items()}
    simplifier = arith.Simplifier(ranges)
    point = [arith.Span(arith.variable(str(n)), 0) for n in range(len(indices))]
    spans = arith.preimage([simplifier.linear(i) for i in indices], point, ranges, met=True)
    names = tuple(dict.fromkeys(order))
    if spans is None or any(sizes[name] > 1 and name not in spans for name in names):
        return None
    undone = tuple(spans[n].low if n in spans else arith.constant_form(0) for n in names)
    return Elements(names, tuple(sizes[name] for name in names), undone)


def common_elements(blocks: Iterable[ir.Block]) -> Elements | None:
    """The elements of the first of some blocks, if all count them alike; None if not."""
    found = [elements_of(block) for block in blocks]
    first = found[0]
    for other in found[1:]:
        if first is None or other is None or first.undone != other.undone:
            return None
        if first.undone is not None and first.extents != other.extents:
            return None
    return first
