"""Random annotation: which loops of a tiled program become threads, vectors and straight code.

What may be annotated (`Annotatable`) depends on the structure of a program alone; how much of it
is, on the extents of its loops and on numbers that a search chooses, one for each nest and one for
each block. So the amounts are computed for many candidates at once, and the steps for those that
are to be measured.

    parallel    the outermost loops that a nest has for itself are fused until each core gets its
                share of iterations
    vectorize   the innermost loop along which a block stores elements side by side; two loops if
                one is short
    unroll      the loops around that, from the inside, while few copies come of it; a tile that is
                unrolled already is passed, and its copies count, as do the instructions of a vector
                that no register holds, or whose elements come one by one

Source: Zheng et al., Ansor, OSDI 2020, section 4.2 and appendix A.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

import numpy as np
import numpy.typing as npt

from minitensor import ir
from minitensor.arith import Integers, Num, linear_of
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.search.features import Marks
from minitensor.search.sketch.blocks import accepts, elementwise_store, fused

VECTOR: Final = 64
"""The most elements of a vector that is made of several loops, or cut from a single one."""
PERIOD: Final = 8
"""The fewest elements that are worth a vector, of those after which operands repeat."""
MOST_MOVES: Final = 64
"""The most moves of single elements that unrolling writes out in a nest of several blocks."""
SQUARE: Final = 4
"""The fewest rows of a square that is transposed in registers (see `codegen.emit.transposes`)."""


@dataclass(frozen=True, slots=True)
class Root:
    """A nest, by the block whose result it is for, its last one; and the outermost loops that may
    be threads, outermost first.
    """

    block: str
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A block, and what its loops may become.

    vector   the innermost loops that become one vector, outermost first
    unroll   those that may be unrolled, innermost first
    passed   for each of them, the unrolled loops between it and the one before it
    lanes    the loops that are one vector: those of `vector`, or what is a vector already
    apart    whether it moves elements that do not lie side by side, one instruction for each, in a
             nest with other blocks, which is written out once for each border
    """

    block: str
    vector: tuple[str, ...]
    unroll: tuple[str, ...]
    passed: tuple[tuple[str, ...], ...]
    lanes: tuple[str, ...]
    apart: bool


@dataclass(frozen=True)
class Amounts:
    """The extent of annotation: arrays (candidates,) of numbers of loops.

    parallel  for each root, how many of its loops are fused
    unroll    for each leaf
    """

    parallel: tuple[Integers, ...]
    unroll: tuple[Integers, ...]


@dataclass(frozen=True, slots=True)
class Annotatable:
    """The loops of a program that may be annotated.

    roots   for each of its nests
    leaves  for each block
    """

    roots: tuple[Root, ...]
    leaves: tuple[Leaf, ...]

    @property
    def stages(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The blocks whose nests may have threads, and those that may be unrolled."""
        threads = tuple(root.block for root in self.roots if root.loops)
        return threads, tuple(leaf.block for leaf in self.leaves if leaf.unroll)

    @staticmethod
    def of(schedule: Schedule, on_gpu: bool = False) -> Annotatable:
        """Those of a schedule in which nothing is parallel yet; on a GPU those that may be
        unrolled, for its sketches say the rest.
        """
        program = schedule.program
        leaves = tuple(
            _leaf(schedule, block, _own(ir.paths(program)[name]), on_gpu)
            for name, block in program.blocks.items()
        )
        vectors = {loop for leaf in leaves for loop in leaf.vector}
        roots = tuple(
            Root(ir.blocks_of(nest)[-1].name, _root(schedule, nest, vectors))
            for nest in ir.nests(program)
            if not on_gpu
        )
        return Annotatable(roots, leaves)

    def amounts(
        self,
        extents: Mapping[str, Num],
        parallel: Mapping[str, Integers],
        unroll: Mapping[str, Integers],
        cores: int,
        lanes: int,
    ) -> Amounts:
        """The numbers of loops that are fused and unrolled, each an array (candidates,).

        extents   of each loop, an int or (candidates,)
        parallel  by the block of a nest, (candidates,): iterations that each core gets at least, if
                  there are as many
        unroll    by block, (candidates,): copies that unrolling may make
        lanes     of a register: a longer vector is several copies
        """
        threaded, written_out = [], []
        for root in self.roots:
            share = parallel[root.block]
            count, product = np.zeros_like(share), np.ones_like(share)
            for loop in root.loops:
                wanted = product < share * cores
                count += wanted
                product = np.where(wanted, product * extents[loop], product)
            threaded.append(np.where(product > 1, count, 0))
        threads = self._threads(threaded)
        for leaf in self.leaves:
            most = np.minimum(unroll[leaf.block], MOST_MOVES) if leaf.apart else unroll[leaf.block]
            count, elements = np.zeros_like(most), np.ones_like(most)
            for name in leaf.lanes:
                elements = elements * extents[name]
            copies = elements if leaf.apart else -(-elements // lanes)
            open_ = np.ones(most.shape, np.bool_)
            for loop, passed in zip(leaf.unroll, leaf.passed):
                for name in (*passed, loop):
                    copies = copies * extents[name]
                open_ &= copies <= most
                if loop in threads:
                    open_ &= ~threads[loop]
                count += open_
            written_out.append(count)
        return Amounts(tuple(threaded), tuple(written_out))

    def marks(
        self, amounts: Amounts, loops: Mapping[str, Sequence[str]], count: int
    ) -> dict[str, Marks]:
        """The execution of the loops around each block, for `count` candidates.

        loops  of each block, outermost first
        """
        threads, found = self._threads(amounts.parallel), {}
        for leaf, amount in zip(self.leaves, amounts.unroll):
            names = loops[leaf.block]
            marks = Marks(*(np.zeros((count, len(names)), np.bool_) for _ in range(3)))
            for column, loop in enumerate(names):
                if loop in threads:
                    marks.parallel[:, column] = threads[loop]
                if loop in leaf.vector:
                    marks.vectorize[:, column] = True
                if loop in leaf.unroll:
                    marks.unroll[:, column] = leaf.unroll.index(loop) < amount
            found[leaf.block] = marks
        return found

    def _threads(self, counts: Sequence[Integers]) -> dict[str, npt.NDArray[np.bool_]]:
        """For each loop that may be a thread, the candidates (candidates,) in which it is."""
        return {
            loop: place < count
            for root, count in zip(self.roots, counts)
            for place, loop in enumerate(root.loops)
        }

    def apply(self, schedule: Schedule, amounts: Amounts) -> None:
        """Annotate a schedule as the first candidate of the amounts is."""
        for leaf in self.leaves:
            if leaf.vector:
                schedule.vectorize(fused(schedule, leaf.vector))
        for leaf, unroll in zip(self.leaves, amounts.unroll):
            for loop in leaf.unroll[: unroll[0]]:
                schedule.unroll(loop)
        for root, parallel in zip(self.roots, amounts.parallel):
            loops = root.loops[: parallel[0]]
            if loops:
                schedule.parallel(fused(schedule, loops))


def cut_long_loops(schedule: Schedule) -> None:
    """Cut what is a single long loop in two: one part for threads, one for a vector. The innermost
    loop of elements whose operands repeat along it is cut into these: one part is a vector's. One
    with a single iteration is not left innermost.
    """
    for name, block in schedule.program.blocks.items():
        _put_units_outside(schedule, name)
        period = _period(block, ir.paths(schedule.program)[name])
        if period:
            schedule.split(schedule.get_loops(name)[-1], [None, period])
    for nest in ir.nests(schedule.program):
        if not isinstance(nest, ir.For) or not isinstance(nest.body, ir.Block):
            continue
        if nest.extent > VECTOR and _vector(schedule, nest.body, (nest,)):
            schedule.split(nest.var, [None, VECTOR])


def _put_units_outside(schedule: Schedule, name: str) -> None:
    """Put the loops of axes with one iteration that are the innermost of a block outside of its
    others. (A part of a longer axis has one in some candidates, and more in others.)
    """
    own = _own(ir.paths(schedule.program)[name])
    short = {i.binding for i in schedule.program.blocks[name].iters if i.extent == 1}
    units = list(takewhile(lambda loop: ir.Var(loop.var) in short, reversed(own)))
    moved = [*units[::-1], *own[: len(own) - len(units)]]
    if units and len(moved) > len(units) and all(n.kind is ir.LoopKind.SERIAL for n in moved):
        with contextlib.suppress(ScheduleError):
            schedule.reorder(*(loop.var for loop in moved))


def _period(block: ir.Block, path: Sequence[ir.For]) -> int:
    """The number of iterations of the innermost loop after which what is read begins anew, or goes
    on at another place, as in A[j % 32] and A[j // 32]; 0 if that is not so, or too few.
    """
    axis = block.iters[-1] if block.iters else None
    if axis is None or elementwise_store(block) is None or not path:
        return 0
    whole = axis.binding == ir.Var(path[-1].var) and path[-1].extent == axis.extent
    sizes = set()
    for node in ir.walk(block.body) if whole and path[-1].kind is ir.LoopKind.SERIAL else ():
        match node:
            case ir.Binary("//" | "%", digits, ir.Const(int(size))):
                form = linear_of(digits)
                rest = form.minus(linear_of(ir.Var(axis.var)))
                if form.coefficient(axis.var) == 1 and rest.divisor % size == 0:
                    sizes.add(size)
    least = min(sizes, default=0)
    fits = PERIOD <= least < axis.extent and axis.extent % least == 0
    return least if fits and all(size % least == 0 for size in sizes) else 0


def _own(path: Sequence[ir.For]) -> tuple[ir.For, ...]:
    """The loops of a path that hold nothing but its block."""
    return tuple(loop for loop in path if len(ir.blocks_of(loop)) == 1)


def _root(schedule: Schedule, nest: ir.Stmt, vectors: set[str]) -> tuple[str, ...]:
    loops: list[str] = []
    while isinstance(nest, ir.For) and nest.kind is ir.LoopKind.SERIAL and nest.var not in vectors:
        if _reduces(schedule.program, nest) or not accepts(schedule, "parallel", nest.var):
            break
        loops.append(nest.var)
        nest = nest.body
    return tuple(loops)


def _reduces(program: ir.Program, loop: ir.For) -> bool:
    """Return whether the loop is part of a reduction. (With one iteration it could be parallel.)"""
    return any(
        i.kind is not ir.IterKind.SPATIAL and loop.var in ir.free_vars(i.binding)
        for block in ir.blocks_of(loop)
        for i in block.iters
    )


def _leaf(schedule: Schedule, block: ir.Block, own: tuple[ir.For, ...], on_gpu: bool) -> Leaf:
    vector = () if on_gpu else _vector(schedule, block, own)
    unroll: list[str] = []
    passed: list[tuple[str, ...]] = []
    between: list[str] = []
    lanes = [loop.var for loop in vector]
    for loop in reversed(own[: len(own) - len(vector)]):
        if loop.kind in (ir.LoopKind.UNROLL, ir.LoopKind.VTHREAD):  # written out
            between.append(loop.var)
        elif loop.kind is ir.LoopKind.SERIAL:
            if lanes and loop.extent >= SQUARE and _transposes(block, loop.var, lanes[-1]):
                break
            unroll.append(loop.var)
            passed.append(tuple(between))
            between = []
        elif loop.kind is ir.LoopKind.VECTORIZE:
            lanes.append(loop.var)
        else:
            break
    chosen = tuple(loop.var for loop in vector)
    program, lane = schedule.program, lanes[max(0, len(vector) - 1) :][:1]  # the innermost
    inside = len(own) < len(ir.paths(program)[block.name])
    apart = inside and any(_apart(program, block, name) for name in lane)
    return Leaf(block.name, chosen, tuple(unroll), tuple(passed), tuple(lanes), apart)


def _apart(program: ir.Program, block: ir.Block, lane: str) -> bool:
    """Return whether the lanes of a block that stores what it computes read or write elements that
    do not lie side by side.
    """
    target = block.body.then if isinstance(block.body, ir.If) else block.body
    if not isinstance(target, ir.Store):
        return False
    accesses = [(target.buffer, target.indices)]
    accesses += [(load.buffer, load.indices) for load in ir.loads(target)]
    for buffer, indices in accesses:
        reached = _reached(program, block, buffer, indices, lane)
        if any(reached[:-1]) or not {*reached[-1:]} <= {0, 1}:
            return True
    return False


def _transposes(block: ir.Block, loop: str, lane: str) -> bool:
    """Return whether a loop copies along rows of which each lane takes one: as long as it is not
    unrolled, squares of both are transposed in registers.
    """
    if not isinstance(block.body, ir.Store):
        return False
    bindings = {i.var: i.binding for i in block.iters}
    value = ir.substitute(block.body.value, bindings)
    loads = [value] if isinstance(value, ir.Load) else []
    if isinstance(value, ir.Select):
        loads = [arm for arm in (value.a, value.b) if isinstance(arm, ir.Load)]
    for load in loads:
        *others, last = (linear_of(index) for index in load.indices)
        if last.coefficient(loop) == 1 and not last.coefficient(lane):
            return any(form.coefficient(lane) for form in others)
    return False


def _vector(schedule: Schedule, block: ir.Block, own: tuple[ir.For, ...]) -> tuple[ir.For, ...]:
    """The loops that become a vector: one, two if both are whole and short, or none."""
    if not own or own[-1].kind is not ir.LoopKind.SERIAL:
        return ()
    if _stride(schedule.program, block, own[-1]) != 1:
        return ()
    if _reduces(schedule.program, own[-1]) or not accepts(schedule, "vectorize", own[-1].var):
        return ()
    for outer, inner in pairwise(own[-2:]):
        short = outer.extent > 1 and 0 < outer.extent * inner.extent <= VECTOR
        if (
            short
            and outer.kind is ir.LoopKind.SERIAL
            and _side_by_side(schedule, block, outer, inner)
        ):
            return (outer, inner)
    return own[-1:]


def _stride(program: ir.Program, block: ir.Block, loop: ir.For) -> int:
    """The distance of the elements that two iterations store; 0 if it is not known."""
    target = block.body.then if isinstance(block.body, ir.If) else block.body
    if not isinstance(target, (ir.Store, ir.Reduce)):
        return 0
    buffer = target.buffer if isinstance(target, ir.Store) else target.buffers[0]
    reached = _reached(program, block, buffer, target.indices, loop.var)
    return reached[-1] if reached and not any(reached[:-1]) else 0


def _reached(
    program: ir.Program, block: ir.Block, buffer: str, indices: Sequence[ir.Expr], loop: str
) -> list[int]:
    """The distances along the axes of a buffer, those of one element left out, by which an access
    moves on in an iteration of a loop.
    """
    bindings = {i.var: i.binding for i in block.iters}
    return [
        linear_of(ir.substitute(index, bindings)).coefficient(loop)
        for index, extent in zip(indices, program.buffers[buffer].shape)
        if extent > 1
    ]


def _side_by_side(schedule: Schedule, block: ir.Block, outer: ir.For, inner: ir.For) -> bool:
    """Return whether the rows that the inner loop stores follow each other in the outer one:
    both are whole axes, and the last ones of the buffer. (Nothing is whole inside other loops,
    though it may be in one candidate.)
    """
    target = block.body.then if isinstance(block.body, ir.If) else block.body
    if any(len(ir.blocks_of(loop)) > 1 for loop in ir.paths(schedule.program)[block.name]):
        return False
    assert isinstance(target, (ir.Store, ir.Reduce))
    bindings = {i.var: i.binding for i in block.iters}
    buffer = target.buffer if isinstance(target, ir.Store) else target.buffers[0]
    shape = schedule.program.buffers[buffer].shape
    last = [ir.substitute(index, bindings) for index in target.indices[-2:]]
    whole = last == [ir.Var(outer.var), ir.Var(inner.var)] and shape[-1] == inner.extent
    return whole and accepts(schedule, "vectorize", outer.var)
