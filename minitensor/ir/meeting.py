"""Threads of a block that meet: at a barrier, or to combine what each of them holds.

A thread that the interpreter runs pauses at a `Stop`; `combined` is what a reducer makes of values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minitensor.ir.expr import Binary
from minitensor.ir.memory import Frame, Memory
from minitensor.ir.numbers import Value, binary
from minitensor.ir.stmt import Barrier, Reducer, Stmt, ThreadReduce
from minitensor.ir.visit import apply_reducer, walk

Combine: TypeAlias = Callable[..., None]
"""A change of a frame; what it needs besides comes behind the frame."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A statement that a thread must reach with all others.

    place     the statement and the iterations of the serial loops around it
    combines  what the threads combine there; None at a barrier
    frames    of the threads that wait there
    """

    place: tuple[object, ...]
    combines: ThreadReduce | None = field(compare=False)
    frames: tuple[Frame, ...] = field(compare=False)


def has_stop(stmt: Stmt) -> bool:
    """Tell whether threads meet in a statement."""
    return any(isinstance(node, (Barrier, ThreadReduce)) for node in walk(stmt))


def combined(memory: Memory, reducer: Reducer) -> Callable[[Frame, list[Value]], list[Value]]:
    """The values that a reducer makes of those of its two sides."""
    made = apply_reducer(reducer, reducer.lhs, reducer.rhs)
    match made:
        case (Binary(op, a, b),) if ((a,), (b,)) == (reducer.lhs, reducer.rhs):
            if not a.dtype.is_packed:  # as of a sum: there is nothing to look up
                one = binary(op, a.dtype)
                return lambda frame, sides: [one(*sides)]
    results = [memory.evaluator.expr(e) for e in made]
    names = [v.name for v in reducer.lhs + reducer.rhs]

    def evaluate(frame: Frame, sides: list[Value]) -> list[Value]:
        inner = frame.child(dict(zip(names, sides)))
        return [result(inner) for result in results]

    return evaluate


def meet(memory: Memory, stmt: ThreadReduce, frames: Sequence[Frame]) -> None:
    """Combine what threads hold, and give it to each of them."""
    reads = [memory.reader(name, ()) for name in stmt.buffers]
    writes = [memory.writer(name, ()) for name in stmt.buffers]
    evaluate = combined(memory, stmt.reducer)
    held = [[read(frame) for read in reads] for frame in frames]
    result = functools.reduce(lambda old, new: evaluate(frames[0], old + new), held)
    for frame in frames:
        for write, value in zip(writes, result):
            write(frame, value)


def as_one(block: str, loops: frozenset[str]) -> Callable[[Combine], Combine]:
    """Has iterations of loops touch what they combine as one member of their team, the block."""
    if not loops:
        return lambda run: run

    def changed(run: Combine) -> Combine:
        def run_as_one(frame: Frame, *rest: object) -> None:
            members = [(team, team.member) for team in frame.teams if team.loop.var in loops]
            for team, _ in members:
                team.member = block
            run(frame, *rest)
            for team, member in members:
                team.member = member

        return run_as_one

    return changed
