"""What is known of a schedule's numbers after some of its steps, for many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minitensor import ir
from minitensor.search.features.forms import (
    Form,
    Num,
    StructureError,
    form_of,
    lesser,
    variable,
)
from minitensor.search.features.spans import Span, as_number

Decided: TypeAlias = "Num | tuple[Num, ...]"


@dataclass
class Numbers:
    """The numbers of a program between two steps.

    count    the number of candidates
    decided  what the decisions chose, by the number of the step
    extents  of each loop
    sizes    for each block the extents of its iters
    bound    for each block what its iters are bound to, as forms of the loops
    hidden   for some blocks, variables of their bodies (see `Body`) as forms of their iters
    shapes   of each buffer
    guarded  the blocks of which splits run more than all instances, for some of the candidates
    """

    count: int
    decided: dict[int, Decided]
    extents: dict[str, Num]
    sizes: dict[str, dict[str, Num]]
    bound: dict[str, dict[str, Form]]
    hidden: dict[str, dict[str, Form]] = field(default_factory=dict)
    shapes: dict[str, tuple[Num, ...]] = field(default_factory=dict)
    guarded: set[str] = field(default_factory=set)

    def values(self, block: str) -> Mapping[str, Form]:
        """All that the body of a block is written in, as forms of the loops."""
        bound = self.bound[block]
        hidden = self.hidden.get(block)
        if not hidden:
            return bound
        return {**bound, **{name: form.replaced(bound) for name, form in hidden.items()}}

    def replace(self, blocks: Sequence[str], values: Mapping[str, Form]) -> None:
        """Replace loops in what the iters of some blocks are bound to."""
        for block in blocks:
            bound = self.bound[block]
            for name, form in bound.items():
                if not form.variables().isdisjoint(values):
                    bound[name] = form.replaced(values)

    def place(
        self, block: ir.Block, domain: Mapping[str, Span], loops: Sequence[str], widen: bool
    ) -> None:
        """Put a block, whose sizes are known, into new loops over a domain (for iters not in it:
        all); see `schedule.place`.
        """
        if any(form.atoms for form in self.hidden.get(block.name, {}).values()):
            raise StructureError("which loops drive an axis of partial results is not known")
        sizes = self.sizes[block.name]
        bound = self.bound[block.name] = {}
        for i, loop in zip(block.iters, loops):
            size, span = sizes[i.var], domain.get(i.var)
            low, extent = Form({}), size
            if span is not None:
                low, extent = span.low, span.extent
                if widen:
                    low = low.times(as_number(extent < size))
                    extent = lesser(extent, size)
            self.extents[loop] = extent
            bound[i.var] = low.plus(variable(loop))


def start(program: ir.Program, count: int, decided: dict[int, Decided]) -> Numbers:
    """The numbers of a program as it is, the same for all candidates."""
    blocks = program.blocks.values()
    return Numbers(
        count,
        decided,
        {name: site.loop.extent for name, site in ir.loop_sites(program).items()},
        {b.name: {i.var: i.extent for i in b.iters} for b in blocks},
        {b.name: {i.var: form_of(i.binding) for i in b.iters} for b in blocks},
        {},
        {b.name: b.shape for b in program.buffers.values()},
    )


def spatial(block: ir.Block) -> list[str]:
    """The names of its spatial iters."""
    return [i.var for i in block.iters if i.kind is ir.IterKind.SPATIAL]
