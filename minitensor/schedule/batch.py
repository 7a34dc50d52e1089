"""A batch of candidates: schedules that differ from one in the numbers of their decisions only.

A step of a trace is seen once, with the programs before and after it of one candidate (`StepView`);
what comes of that is an `Effect`, a function that changes the numbers of all candidates as the step
would change each. Extents, index maps and shapes are ints where all candidates agree, else int64
arrays (candidates,), in the arithmetic that the primitives compute with (`arith.numeric`).

A primitive declares its effect below its rewrite (`@split.on_batch`). Where the numbers of other
candidates is unknown, it raises BatchError: they are replayed then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from minitensor import arith, ir
from minitensor.arith import BatchError, Linear, Num
from minitensor.errors import ArgumentError
from minitensor.schedule.edit import plain_store
from minitensor.schedule.insertion import placed_axis
from minitensor.schedule.step import OPERATORS, Derived, Ref, Step, resolved


@dataclass
class Batch:
    """The numbers of many programs between two steps.

    count    the number of candidates
    decided  what the decisions chose, by the number of the step
    extents  of each loop
    sizes    for each block the extents of its iters
    bound    for each block what its iters are bound to, as forms of the loops
    hidden   for some blocks, variables of their bodies (see `Bodies`) as forms of their iters
    shapes   of each buffer
    guarded  the blocks of which splits run more than all instances, for some of the candidates
    digits   fused loops, of which all forms hold for values beyond their extents too
    """

    count: int
    decided: dict[int, Any]
    extents: dict[str, Num]
    sizes: dict[str, dict[str, Num]]
    bound: dict[str, dict[str, Linear]]
    hidden: dict[str, dict[str, Linear]] = field(default_factory=dict)
    shapes: dict[str, tuple[Num, ...]] = field(default_factory=dict)
    guarded: set[str] = field(default_factory=set)
    digits: set[str] = field(default_factory=set)

    @staticmethod
    def of(program: ir.Program, count: int, decided: dict[int, Any]) -> Batch:
        """The numbers of a program as it is, the same for all candidates."""
        blocks = program.blocks.values()
        return Batch(
            count,
            decided,
            {name: site.loop.extent for name, site in ir.loop_sites(program).items()},
            {b.name: {i.var: i.extent for i in b.iters} for b in blocks},
            {b.name: {i.var: arith.opened(i.binding) for i in b.iters} for b in blocks},
            shapes={b.name: b.shape for b in program.buffers.values()},
        )

    def values(self, block: str) -> Mapping[str, Linear]:
        """All that the body of a block is written in, as forms of the loops."""
        bound = self.bound[block]
        hidden = self.hidden.get(block)
        if not hidden:
            return bound
        return {**bound, **{name: arith.replaced(form, bound) for name, form in hidden.items()}}

    def replace(self, blocks: Sequence[str], values: Mapping[str, Linear]) -> None:
        """Replace loops in what the iters of some blocks are bound to."""
        for block in blocks:
            bound = self.bound[block]
            for name, form in bound.items():
                if not arith.variables(form).isdisjoint(values):
                    bound[name] = arith.replaced(form, values)

    def box(
        self,
        forms: Sequence[Linear],
        shape: Sequence[Num],
        inner: Sequence[str],
        units: bool = True,
    ) -> arith.Box:
        """The box that indices reach while the `inner` loops run."""
        return arith.batch_box(forms, shape, inner, self.extents, units)

    def place(
        self, block: ir.Block, domain: Mapping[str, arith.Span], loops: Sequence[str], widen: bool
    ) -> None:
        """Put a block, whose sizes are known, into new loops over a domain, as `place` does."""
        if any(arith.operations(form) for form in self.hidden.get(block.name, {}).values()):
            raise BatchError("which loops drive an axis of partial results is not known")
        sizes = self.sizes[block.name]
        bound = self.bound[block.name] = {}
        for i, loop in zip(block.iters, loops):
            low, self.extents[loop] = placed_axis(domain.get(i.var), sizes[i.var], widen)
            bound[i.var] = low.plus(arith.variable(loop))

    def number(self, value: Any) -> Num:
        """An argument that decisions may have given, for all candidates."""
        match value:
            case Ref(step) if step not in self.decided:
                raise BatchError(f"step {step + 1} gives a number, and is no decision")
            case Ref(step, item):
                found = self.decided[step]
                return found[item] if isinstance(found, tuple) and item is not None else found
            case Derived(op, arguments):
                values = [self.number(argument) for argument in arguments]
                if op in ("//", "%") and not np.all(values[1]):
                    raise BatchError("a number that divides is 0 for some of them")
                return OPERATORS[op](*values)
        return value


Effect: TypeAlias = Callable[[Batch], None]


@dataclass(frozen=True)
class StepView:
    """A step, seen from outside.

    number  of the step in the trace
    steps   all of the trace
    before  the program before it, and `after` the one after it
    bodies  the bodies that hold numbers; an effect leaves them as they are after the step
    """

    number: int
    steps: Sequence[Step]
    before: ir.Program
    after: ir.Program
    bodies: Bodies

    @property
    def step(self) -> Step:
        """The step itself."""
        return self.steps[self.number]

    @property
    def result(self) -> Any:
        """The result that it returned."""
        return self.step.result

    def argument(self, name: str) -> Any:
        """An argument, as the step got it."""
        return resolved(self.step.arguments[name], [step.result for step in self.steps])

    def loops(self, block: str) -> list[str]:
        """The names of the loops around a block before the step."""
        return [loop.var for loop in ir.paths(self.before)[block]]

    def loops_after(self, block: str) -> list[str]:
        """The names of the loops around a block after the step."""
        return [loop.var for loop in ir.paths(self.after)[block]]

    def under(self, loop: str) -> list[str]:
        """The blocks under a loop before the step."""
        return [b.name for b in ir.blocks_of(ir.loop_sites(self.before)[loop].loop)]

    def around(self, loop: str) -> list[str]:
        """The names of a loop and of those around it, before the step."""
        site = ir.loop_sites(self.before)[loop]
        return [outer.var for outer in (*site.outer, site.loop)]

    def follow(self, change: Callable[[ir.Stmt], ir.Stmt] | None = None) -> None:
        """Change the bodies that hold numbers as the step changed those of the program."""
        self.bodies.follow(self.before, self.after, change)

    def require(self, holds: Any, why: str) -> None:
        """Raise ArgumentError if some candidate breaks a rule."""
        if not np.all(holds):
            first = np.flatnonzero(~np.atleast_1d(holds))[0]
            raise ArgumentError(f"step {self.number + 1} refuses candidate {first}: {why}")


def unchanged(view: StepView) -> None:
    """The effect of a step that changes no numbers."""
    view.follow()


class Bodies:
    """For the blocks whose bodies hold numbers of a candidate: the bodies without them.

    `rfactor` writes the axes of a reduction in terms of loops: A[k] becomes A[k_0*8 + k_1], and the
    8 is a number of one candidate. Such a body is kept as it was before, in terms of k; the value
    of k in terms of the new iters is among the numbers (`Batch.hidden`).
    """

    def __init__(self) -> None:
        self.known: dict[str, ir.Stmt] = {}

    def of(self, block: ir.Block) -> ir.Stmt:
        """The body of a block, without numbers of a candidate."""
        return self.known.get(block.name, block.body)

    def checked(self, block: ir.Block) -> ir.Stmt:
        """The same, if it touches what the body of the block does: inlining may have simplified."""
        body = self.of(block)
        if body is not block.body and _touched(body) != _touched(block.body):
            raise BatchError("what a block reads that rfactor made depends on the numbers")
        return body

    def loads(self, block: ir.Block, buffer: str) -> list[ir.Load]:
        """The loads of a buffer in a block, those of its init too."""
        parts = [self.of(block), *([block.init] if block.init is not None else [])]
        return [load for part in parts for load in ir.loads(part) if load.buffer == buffer]

    def follow(
        self,
        before: ir.Program,
        after: ir.Program,
        change: Callable[[ir.Stmt], ir.Stmt] | None = None,
    ) -> None:
        """Change these bodies as a step changed them (None: not known); drop what is gone."""
        for name, body in list(self.known.items()):
            now = after.blocks.get(name)
            if now is None:
                del self.known[name]
            elif now.body is not before.blocks[name].body:
                if change is None:
                    raise BatchError(
                        "what a step does to the body of a block that rfactor made is not known "
                        "without replaying"
                    )
                self.known[name] = change(body)


def _touched(body: ir.Stmt) -> tuple[int, list[tuple[type, str]]]:
    """The number of places that are read, and each access: its kind and its buffer."""
    found: list[tuple[type, str]] = []
    for node in ir.walk(body):
        if isinstance(node, (ir.Load, ir.Store)):
            found.append((type(node), node.buffer))
        elif isinstance(node, ir.Reduce):
            found += [(ir.Reduce, buffer) for buffer in node.buffers]
    return len({(load.buffer, load.indices) for load in ir.loads(body)}), found


class Footprint:
    """The box of a buffer that some blocks read while the loops outside stand still."""

    def __init__(
        self, view: StepView, buffer: str, readers: Sequence[str], outside: Sequence[str]
    ) -> None:
        self.buffer = buffer
        self.reads: list[tuple[str, list[str], list[Linear]]] = []
        for name in readers:
            inner = [loop for loop in view.loops(name) if loop not in outside]
            loads = view.bodies.loads(view.before.blocks[name], buffer)
            for indices in dict.fromkeys(load.indices for load in loads):
                self.reads.append((name, inner, [arith.opened(index) for index in indices]))

    def box(self, batch: Batch) -> arith.Box:
        """The box, for all candidates."""
        shape = batch.shapes[self.buffer]
        boxes = []
        for name, inner, indices in self.reads:
            values = batch.values(name)
            boxes.append(batch.box([arith.replaced(i, values) for i in indices], shape, inner))
        return functools.reduce(lambda a, b: arith.union_box(a, b, shape), boxes)


class Written:
    """The box of its buffer that a block writes while the loops outside stand still."""

    def __init__(self, view: StepView, block: str, outside: Sequence[str]) -> None:
        self.block = block
        store = plain_store(view.before.blocks[block])
        if store is None:
            raise BatchError("what a block writes of a layout is not known without replaying")
        self.store = store
        self.inner = [loop for loop in view.loops(block) if loop not in outside]

    def box(self, batch: Batch) -> arith.Box:
        """The box, for all candidates; loops of one iteration are no part of where it begins."""
        forms = [batch.bound[self.block][name] for name in self.store]
        return batch.box(forms, self.extents(batch), self.inner, units=False)

    def extents(self, batch: Batch) -> list[Num]:
        """The extents of the block along each axis."""
        return [batch.sizes[self.block][name] for name in self.store]
