"""The primitive that leaves out of a sum what is zero by its place: skip_zeros.

In a transposed convolution the image is spread out, with zeros in between. Which terms of the sum
are zero depends on the remainder (the *phase*) of an axis of the result, so each phase has a sum of
its own, over a part of the window.

Not here: zeros at the border of an image; see skip_padding.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.arguments import BlockName
from minitensor.schedule.batch import Effect, StepView
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.sums import Sized, axis_loops, made_batch, summed, under, variables
from minitensor.schedule.zeros import (
    Spread,
    Terms,
    choice_of,
    has_zeros,
    place_of,
    terms_of,
    unless,
)


@primitive(
    rules={
        "R1": (
            "the block sums terms that are zero, or zero times something, unless an axis plus a "
            "reduction axis leaves a certain remainder",
            "name a block that sums mt.if_then_else((y + k) % 2 == 0, value, 0), for an axis y and "
            "a reduction axis k, or reads a buffer that stores such values",
        ),
        "R2": (
            "each loop around the block, and around the one that stores the zeros, is serial and "
            "an axis of it, and there is nothing else in them",
            "skip_zeros before the loops are scheduled",
        ),
        "R3": (
            "one block stores the zeros, in a temporary that this block alone reads, at one place",
            "cache_read the spread buffer for this block first, or compute_inline it",
        ),
        "R4": (
            "the reduction axis has at least as many iterations as the period",
            "leave this step out: some elements would be sums of nothing",
        ),
        "R5": (
            "what the zeros are multiplied with does not depend on the axis",
            "skip_zeros only where zeros meet weights",
        ),
    },
    alternatives="block",
)
def skip_zeros(program: ir.Program, block: BlockName) -> Rewritten[str]:
    """Leave out of a sum the terms that are zero by their place.

    skip_zeros("C")
        for y in range(8):                      for y_1 in range(2):
            for k in range(4):                      for y_0 in range(4):
                C[y] += (f(y, k)         =>             for k_0 in range(2):
                    if (y + k)%2 == 0                       C_phases[y_1, y_0] +=
                    else 0)                                     f(y_0*2 + y_1, k_0*2 + y_1)
                                                for C_phases_y_1 in range(2):
                                                    for C_phases_y_0 in range(4):
                                                        C[C_phases_y_0*2 + C_phases_y_1] =
                                                            C_phases[C_phases_y_1, C_phases_y_0]

    The axis is cut into phases: in each, another part of the window meets what is not zero. Zeros
    that are stored in a buffer are left out of it too. A floating-point zero times an infinity or
    NaN is NaN, and so was the sum: blocks C_zeros and C_zeros_sum add up 0 times every factor that
    is left out, once for each phase, and the copy adds that (+0 if all are finite).

    Preserves  every output.
    Returns    the name of the block that copies, <block>_phases; the old name stays with the sum.

    Source: the decomposition of strided transposed convolutions into convolutions, one for each
    phase; Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016.
    """
    found = program.blocks[block]
    terms = terms_of(program, found)
    for one in (found, *ir.writers(program, terms.buffer)):
        _require_own_loops(program, one)
    return _Rewrite(program, found, terms).result()


def _require_own_loops(program: ir.Program, block: ir.Block) -> None:
    """Rule R2."""
    loops = edit.loops_around(program, block.name)
    axes = sorted(i.binding.name for i in block.iters if isinstance(i.binding, ir.Var))
    chain = edit.chain(loops[0], loops[-1].var) if loops else None
    serial = all(x.kind is ir.LoopKind.SERIAL and not x.annotations for x in loops)
    alone = chain is not None and chain[-1].body is block and block.predicate == ir.TRUE
    if not (serial and alone and axes == sorted(x.var for x in loops)):
        marks = ir.Marks(blocks={block.name: "in these loops"})
        refuse("R2", f"those of {ir.print_name(block.name)} are not", marks=marks)


class _Rewrite:
    """One call, and the iters of the sum by phases.

    phase    of each axis that is cut
    outer    the rest of each axis and tap that is cut
    values   those axes and taps, in terms of these
    spatial  all spatial iters, phases before the first axis that is cut
    taps     all reduce iters
    inside   of each axis and tap that its period does not divide, the condition for being one
    """

    def __init__(self, program: ir.Program, block: ir.Block, terms: Terms) -> None:
        assert isinstance(block.body, ir.Reduce)
        self.program, self.block, self.terms, self.reduce = program, block, terms, block.body
        self.fresh, self.spreads = edit.Fresh(program), terms.spreads
        self.summed = functools.partial(summed, self.fresh, self.reduce.reducer)
        taken = {i.var for i in block.iters}

        def named(name: str) -> ir.Var:
            taken.add(made := ir.fresh_name(name, taken))
            return ir.Var(made)

        self.phase = {s.axis: named(f"{s.axis}_1") for s in self.spreads}
        self.outer = {name: named(f"{name}_0") for s in self.spreads for name in (s.axis, s.tap)}
        self.values: dict[str, ir.Expr] = {}
        for s in self.spreads:
            phase = self.phase[s.axis]
            first = (phase * (s.period - 1) + s.rest) % s.period  # as rest - phase, but natural
            self.values[s.axis] = self.outer[s.axis] * s.period + phase
            self.values[s.tap] = self.outer[s.tap] * s.period + first
        self.spatial: Sized = []
        self.taps: Sized = []
        periods = {name: s.period for s in self.spreads for name in (s.axis, s.tap)}
        phases = [(self.phase[s.axis].name, s.period) for s in self.spreads]
        for i in block.iters:
            period, outer = periods.get(i.var, 1), self.outer.get(i.var, ir.Var(i.var))
            if i.var in self.phase:
                self.spatial += phases
                phases = []
            found = self.taps if i.kind is ir.IterKind.REDUCE else self.spatial
            found.append((outer.name, -(-i.extent // period)))
        self.simplifier = _simplifier([*self.spatial, *self.taps])
        self.inside = {
            i.var: self.simplifier.expr(ir.less(self.values[i.var], i.extent))
            for i in block.iters
            if i.extent % periods.get(i.var, 1)
        }

    def result(self) -> Rewritten[str]:
        """The program by phases, and the name of the block that copies."""
        label = self.block.name
        name, zeros, by_phase = (
            self.fresh.block(f"{label}_{what}") for what in ("phases", "zeros", "zeros_sum")
        )
        value = self.moved(self.terms.value)
        others = [load for load in ir.loads(self.terms.value) if load.buffer != self.terms.buffer]
        inside = [  # zeros are stored beyond an axis, but nothing of what else the sum reads
            c
            for var, c in self.inside.items()
            if var not in self.phase
            or not self.terms.buffer
            or any(ir.mentions(load, var) for load in others)
        ]
        made = [self.summed(label, name, self.spatial, self.taps, value, inside)]
        left: ir.Expr | None = None
        if self.terms.factor is not None:
            stored, read = self.zeros(zeros, self.terms.factor)
            added, left = self.zeros_by_phase(by_phase, self.terms.factor, read)
            made = [stored, added, *made]
        stmts = [*(nest for nest, _ in made), self.copy(name, left)]
        edits: dict[int, ir.Stmt | None] = {id(self.nest_of(self.block)): ir.sequence(*stmts)}
        kept = {buffer.name: buffer for buffer in self.program.temporaries}
        for writer in ir.writers(self.program, self.terms.buffer):
            edits[id(self.nest_of(writer))], kept[self.terms.buffer] = self.packed(writer)
        temporaries = (*kept.values(), *(buffer for _, buffer in made))
        return edit.spliced(self.program, edits).replace(temporaries=temporaries), name

    def nest_of(self, block: ir.Block) -> ir.Stmt:
        """The outermost loop of a block."""
        return edit.loops_around(self.program, block.name)[0]

    def copy(self, name: str, left: ir.Expr | None) -> ir.Stmt:
        """The copy of the sums to where they belong; what the zeros left is added."""
        loops, iters = axis_loops(self.fresh, name, self.spatial)
        value: ir.Expr = ir.Load(name, variables(self.spatial), self.terms.value.dtype)
        if left is not None:
            value = ir.Binary("+", value, left)
        indices = tuple(ir.substitute(e, self.values) for e in self.reduce.indices)
        store = ir.Store(self.reduce.buffers[0], indices, value)
        inside = [c for var, c in self.inside.items() if var in self.phase]
        return ir.nest(loops, ir.Block(name, iters, under(inside, store)))

    def zeros(self, name: str, factor: ir.Expr) -> tuple[tuple[ir.Stmt, ir.Buffer], ir.Load]:
        """0 times the other factor, summed over all but its axes and the taps; and what reads it.

        A tap that the factor is indexed with in reverse is reversed: memory is read forwards.
        """
        tapped = {s.tap for s in self.spreads}
        used = [i for i in self.block.iters if ir.mentions(factor, i.var)]
        kept = [i for i in used if i.kind is ir.IterKind.SPATIAL or i.var in tapped]
        indices = [index for load in ir.loads(factor) for index in load.indices]
        turned = {
            i.var: (i.extent - 1) - ir.Var(i.var)
            for i in kept
            if any(arith.linear_of(index).coefficient(i.var) == -1 for index in indices)
        }
        spatial = [(i.var, i.extent) for i in kept]
        rest = [(i.var, i.extent) for i in used if i not in kept]
        zero = ir.const(0, self.terms.value.dtype)
        value = ir.Binary(
            "*", zero, _simplifier([*spatial, *rest]).expr(ir.substitute(factor, turned))
        )
        read = tuple(turned.get(i.var, ir.Var(i.var)) for i in kept)
        return self.summed(name, name, spatial, rest, value), ir.Load(name, read, zero.dtype)

    def zeros_by_phase(
        self, name: str, factor: ir.Expr, read: ir.Load
    ) -> tuple[tuple[ir.Stmt, ir.Buffer], ir.Load]:
        """The sum, for each phase, over the taps that meet zeros in it; and what reads it."""
        sizes = {i.var: i.extent for i in self.block.iters}
        axes = [i for i in self.block.iters if i.kind is ir.IterKind.SPATIAL]
        spatial = [(i.var, i.extent) for i in axes if ir.mentions(factor, i.var)]
        spatial += [(self.phase[s.axis].name, s.period) for s in self.spreads]
        taps = [(s.tap, sizes[s.tap]) for s in self.spreads]
        met = [
            ir.equal((self.phase[s.axis] + ir.Var(s.tap)) % s.period, s.rest) for s in self.spreads
        ]
        value = ir.Select(ir.conjunction(met), self.reduce.reducer.identity[0], read)
        return (
            self.summed(name, name, spatial, taps, value),
            ir.Load(name, variables(spatial), read.dtype),
        )

    def packed(self, writer: ir.Block) -> tuple[ir.Stmt, ir.Buffer]:
        """The block that stores zeros, and its buffer, without them."""
        choice, store = choice_of(writer), edit.plain_store(writer)
        assert choice is not None and store is not None and isinstance(writer.body, ir.Store)
        old = self.program.buffers[self.terms.buffer]
        known = {(s.place, s.period, s.first) for s in self.spreads}
        parts = [p for p in ir.conjuncts(choice.condition) if place_of(writer, p) not in known]
        sizes, values = dict(zip(store, old.shape)), dict[str, ir.Expr]()
        for s in self.spreads:
            name = store[s.place]
            values[name] = ir.Var(name) * s.period + s.first
            parts.append(ir.less(ir.Var(name), sizes[name]))
            sizes[name] = self.reach(s)
        axes = [(i.var, sizes[i.var]) for i in writer.iters]
        value = _simplifier(axes).expr(ir.substitute(unless(choice, parts), values))
        loops, iters = axis_loops(self.fresh, writer.name, axes)
        body = ir.Store(old.name, writer.body.indices, value)
        made = edit.with_block(writer, iters=iters, body=body)
        shape = tuple(sizes[name] for name in store)
        return ir.nest(loops, made), dataclasses.replace(old, shape=shape)

    def reach(self, spread: Spread) -> int:
        """The elements along a dimension without zeros that the sums read, those of a last phase
        that the axis does not fill included.
        """
        ranges = {name: arith.extent_range(n) for name, n in (*self.spatial, *self.taps)}
        last = arith.interval_of(self.place(spread), ranges).hi
        return max(0, int(last) + 1) if math.isfinite(last) else 0

    def place(self, spread: Spread) -> ir.Expr:
        """The element along a dimension without zeros that a term reads."""
        first = (spread.rest + spread.shift - spread.first) // spread.period
        place = self.outer[spread.axis] + self.outer[spread.tap] + self.step(spread) + first
        return self.simplifier.expr(place)

    def moved(self, value: ir.Expr) -> ir.Expr:
        """The terms that are left, by phases: of stored zeros none is read."""

        def index(expr: ir.Expr) -> ir.Expr:
            values = dict(self.values)
            for s in self.spreads:
                if ir.mentions(expr, s.axis) and ir.mentions(expr, s.tap):  # the phase is no part
                    tap = (self.outer[s.tap] + self.step(s)) * s.period
                    values[s.tap] = tap + s.rest - self.phase[s.axis]
            return self.simplifier.expr(ir.substitute(expr, values))

        def one(node: ir.Node) -> ir.Node:
            match node:
                case ir.Load(name, indices, dtype):
                    new = [index(e) for e in indices]
                    for s in self.spreads if name == self.terms.buffer else ():
                        new[s.place] = self.place(s)
                    return ir.Load(name, tuple(new), dtype)
                case ir.Binary(op, a) if op in ir.COMPARISONS and a.dtype == ir.INDEX:
                    return index(node)
            return node

        return ir.substitute(ir.rewrite(value, one), self.values)

    def step(self, spread: Spread) -> ir.Expr:
        """1 in the phases that are above `rest`, whose first tap is a period further; else 0."""
        return (self.phase[spread.axis] + (spread.period - 1 - spread.rest)) // spread.period


def _simplifier(iters: Sized) -> arith.Simplifier:
    ranges = {name: arith.extent_range(extent) for name, extent in iters}
    return arith.Simplifier(ranges, keep_units=True)


@skip_zeros.on_batch
def _skip_zeros_batch(view: StepView) -> Effect:
    return made_batch(view)


@skip_zeros.random_call(often=2)
def _call_skip_zeros(scene: Scene) -> None:
    sums = [name for name, b in scene.program.blocks.items() if has_zeros(scene.program, b)]
    scene.do("skip_zeros", scene.block() if not sums or scene.chance(10) else scene.pick(sums))
