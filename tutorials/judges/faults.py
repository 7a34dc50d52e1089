"""Transformations of programs, right ones and faulty ones, that tests of lesson 14 have to tell.

Each is a function from a program to a program, for all definitions: where there is nothing to do,
the program stays as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule

Transformation: TypeAlias = Callable[[ir.Program], ir.Program]


def each(kind: type, change: Callable[[Any], Any]) -> Transformation:
    """Replace all nodes of a kind."""

    def transform(program: ir.Program) -> ir.Program:
        def at(node: Any) -> Any:
            return change(node) if isinstance(node, kind) else node

        return program.replace(body=ir.rewrite(program.body, at))

    return transform


def steps(do: Callable[[Schedule, str], Any], of: str = "loops") -> Transformation:
    """A step for each loop or block of a program, where it is accepted."""

    def transform(program: ir.Program) -> ir.Program:
        s = Schedule(program)
        for name in ir.loop_sites(program) if of == "loops" else program.blocks:
            with contextlib.suppress(ScheduleError):
                do(s, name)
        return s.program

    return transform


def _reordered(s: Schedule, block: str) -> None:
    s.reorder(*reversed(s.get_loops(block)))


def _driven(block: ir.Block, loop: str, kind: ir.IterKind) -> bool:
    return any(i.kind is kind and loop in ir.free_vars(i.binding) for i in block.iters)


def backwards(program: ir.Program, kind: ir.IterKind) -> ir.Program:
    """Loops that drive an iter of a kind run from their ends to their starts."""

    def at(node: Any) -> Any:
        if not isinstance(node, ir.For):
            return node
        if not any(_driven(b, node.var, kind) for b in ir.blocks_of(node.body)):
            return node
        last = ir.Const(node.extent - 1) - ir.Var(node.var)
        return replace(node, body=ir.substitute(node.body, {node.var: last}))

    return program.replace(body=ir.rewrite(program.body, at))


def _sums_backwards(program: ir.Program) -> ir.Program:
    """Reductions from their ends to their starts, which come first all the same."""
    s = Schedule(program)
    for name, block in program.blocks.items():
        loops = s.get_loops(name)
        over = [loop for loop in loops if _driven(block, loop, ir.IterKind.REDUCE)]
        if over and block.init is not None:
            with contextlib.suppress(ScheduleError):
                s.decompose_reduction(name, over[0])
    free = {name for name, block in s.program.blocks.items() if block.init is not None}
    return s.program if free else backwards(s.program, ir.IterKind.REDUCE)


def _tiles(size: int, too_far: bool) -> Transformation:
    """Loops in tiles whose tail is forgotten, or that run too far."""

    def cut(loop: ir.For) -> ir.For:
        outer, inner = ir.Var(f"{loop.var}_tile"), ir.Var(f"{loop.var}_in_tile")
        count = -(-loop.extent // size) if too_far else loop.extent // size
        body = ir.substitute(loop.body, {loop.var: outer * size + inner})
        return ir.For(outer.name, count, ir.For(inner.name, size, body))

    return each(ir.For, cut)


def _near(load: ir.Load) -> ir.Load:
    """An element that is read at an offset, one nearer."""

    def index(expr: Any) -> Any:
        match expr:
            case ir.Binary("+", a, ir.Const(offset)) if offset and isinstance(offset, int):
                return a + (offset - 1 if offset > 0 else offset + 1)
        return expr

    return replace(load, indices=tuple(map(index, load.indices)))


def _starting(block: ir.Block, zero: Collection[float], value: int) -> ir.Block:
    """A reduction that starts from another value, where it started from one of these."""
    init = block.init
    if not isinstance(init, ir.Store) or not isinstance(init.value, ir.Const):
        return block
    if (init.value.value == 0) != (0 in zero):
        return block
    return replace(block, init=replace(init, value=ir.const(value, init.value.dtype)))


def _transposed(program: ir.Program) -> ir.Program:
    """Square arrays are read with their axes exchanged."""

    def at(load: ir.Load) -> ir.Load:
        shape = program.buffers[load.buffer].shape
        square = len(shape) == 2 and shape[0] == shape[1]
        return replace(load, indices=load.indices[::-1]) if square else load

    return each(ir.Load, at)(program)


def _swapped(e: ir.Binary) -> ir.Binary:
    return ir.Binary("-", e.b, e.a) if e.op == "-" and e.dtype != ir.INDEX else e


def _commuted(e: ir.Binary) -> ir.Binary:
    return ir.Binary(e.op, e.b, e.a) if e.op in "+*" and e.dtype != ir.INDEX else e


def _one_short(program: ir.Program) -> ir.Program:
    """Sums leave out their last term."""

    def at(loop: ir.For) -> ir.For:
        sums = any(_driven(b, loop.var, ir.IterKind.REDUCE) for b in ir.blocks_of(loop.body))
        return replace(loop, extent=loop.extent - 1) if sums and loop.extent > 1 else loop

    return each(ir.For, at)(program)


def _other(old: str, new: str) -> Transformation:
    def at(e: ir.Binary) -> ir.Binary:
        return ir.Binary(new, e.a, e.b) if e.op == old else e  # type: ignore[arg-type]

    return each(ir.Binary, at)


def _first(e: ir.Binary) -> ir.Expr:
    return e.a if e.op == "max" else e


RIGHT: Final[Mapping[str, Callable[[int], Transformation]]] = {
    "that changes nothing": lambda size: lambda program: program,
    "that cuts loops into guarded tiles": lambda size: steps(
        lambda s, loop: s.split(loop, [None, size])
    ),
    "that puts the loops of each block in another order": lambda size: steps(_reordered, "blocks"),
    "that runs sums backwards": lambda size: _sums_backwards,
    "that exchanges the operands of + and *": lambda size: each(ir.Binary, _commuted),
    "that makes loops parallel": lambda size: steps(lambda s, loop: s.parallel(loop)),
}
"""Transformations that keep all results; of a sum of floats, but for its rounding."""

WRONG: Final[Mapping[str, Callable[[int], Transformation]]] = {
    "that forgets the tails of tiles": lambda size: _tiles(size, too_far=False),
    "whose tiles run too far": lambda size: _tiles(size, too_far=True),
    "that exchanges the operands of -": lambda size: each(ir.Binary, _swapped),
    "that reads neighbours one too near": lambda size: each(ir.Load, _near),
    "that never starts a sum": lambda size: each(ir.Block, lambda b: replace(b, init=None)),
    "that starts sums from 1": lambda size: each(ir.Block, lambda b: _starting(b, [0], 1)),
    "that starts maxima from 0": lambda size: each(ir.Block, lambda b: _starting(b, [], 0)),
    "that runs updates in order backwards": lambda size: (
        lambda program: backwards(program, ir.IterKind.ORDERED)
    ),
    "that reads a square array with its axes exchanged": lambda size: _transposed,
}
"""Transformations that some program and some inputs show to be wrong."""

MUTANTS: Final[Mapping[str, Transformation]] = {
    **{name: make(3) for name, make in WRONG.items() if "start" in name or "near" in name},
    "that exchanges the operands of -": each(ir.Binary, _swapped),
    "that reads a square array with its axes exchanged": _transposed,
    "that leaves out the last term of sums": _one_short,
    "that takes max(x, 0) for x": each(ir.Binary, _first),
    "that takes `or` for `and`": _other("and", "or"),
    "that takes + for -": _other("-", "+"),
}
"""Faults that inputs have to see, in programs that they change."""


def transformation(name: str, size: int) -> Transformation:
    """The transformation of a name, for scripts; `size` is that of its tiles."""
    return {**RIGHT, **WRONG}[name](size)


sums_backwards: Final = RIGHT["that runs sums backwards"](1)
