"""Evaluation of a definition by numpy: a second oracle that shares nothing with the interpreter.

It takes a program as `mt.lower` makes it. A stage is computed for all its elements at once: indices
are grids, a read is a gather. Reductions and updates go step by step along their own axes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, ExecutionError

Array = np.ndarray
Values = Mapping[str, Array]


def evaluate_by_numpy(program: ir.Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a definition, in call order.

    arrays  one for each input, in call order

    Raises ArgumentError for a program that has been scheduled, or uses a type that
    numpy lacks (bfloat16); ExecutionError for a read outside a buffer.
    """
    held = [*program.params, *program.temporaries]
    if lacking := ir.lacking_in_numpy(b.dtype for b in held):
        raise ArgumentError(f"numpy has no {lacking}")
    memory = {b.name: np.zeros(b.shape, ir.numpy_dtype(b.dtype)) for b in held}
    memory |= {b.name: np.asarray(array) for b, array in zip(program.inputs, arrays)}
    with np.errstate(all="ignore"):
        for stmt in program.body.stmts if isinstance(program.body, ir.Seq) else (program.body,):
            _Stage(memory, _block_of(stmt)).run()
    return [memory[b.name] for b in program.outputs]


def _block_of(stmt: ir.Stmt) -> ir.Block:
    """The block of a nest as `lower` makes it."""
    loops: list[tuple[str, int]] = []
    while isinstance(stmt, ir.For):
        loops.append((stmt.var, stmt.extent))
        stmt = stmt.body
    own = isinstance(stmt, ir.Block) and [(i.binding, i.extent) for i in stmt.iters]
    if not isinstance(stmt, ir.Block) or own != [(ir.Var(var), extent) for var, extent in loops]:
        raise ArgumentError("numpy computes definitions, and this program has been scheduled")
    return stmt


class _Stage:
    """One block: its spatial axes all at once, its others in order.

    In a grid the spatial axes come first, in the order of the iters.
    """

    def __init__(self, memory: dict[str, Array], block: ir.Block) -> None:
        self.memory = memory
        self.block = block
        self.free = [i for i in block.iters if i.kind is ir.IterKind.SPATIAL]
        self.steps = [i for i in block.iters if i.kind is not ir.IterKind.SPATIAL]
        self.shape = tuple(i.extent for i in self.free)
        self.grid = dict(zip([i.var for i in self.free], np.indices(self.shape, np.int64)))

    def run(self) -> None:
        """Store the elements of the buffers that the block writes."""
        if any(i.extent == 0 for i in self.block.iters):
            return
        if self.block.init is not None:
            self.statement(self.block.init, self.at([0] * len(self.steps)))
        for position in np.ndindex(*[i.extent for i in self.steps]):
            self.statement(self.block.body, self.at(position))

    def at(self, position: Sequence[int]) -> dict[str, Array]:
        """The values of the iters at one step."""
        fixed = {i.var: np.full(self.shape, n) for i, n in zip(self.steps, position)}
        return {**self.grid, **fixed}

    def statement(self, stmt: ir.Stmt, values: Values) -> None:
        match stmt:
            case ir.Seq(stmts):
                for part in stmts:
                    self.statement(part, values)
            case ir.Store(buffer, indices, value):
                self.store(buffer, indices, self.value(value, values), values)
            case ir.Reduce(reducer, buffers, indices, new):
                names = [v.name for v in reducer.lhs + reducer.rhs]
                old = [ir.Load(b, indices, v.dtype) for b, v in zip(buffers, reducer.lhs)]
                both = [self.value(e, values) for e in (*old, *new)]
                inner = dict(zip(names, both))
                for buffer, result in zip(buffers, [self.value(r, inner) for r in reducer.results]):
                    self.store(buffer, indices, result.astype(self.memory[buffer].dtype), values)
            case _:
                raise ArgumentError("numpy computes definitions, and this statement is none")

    def store(self, buffer: str, indices: Sequence[ir.Expr], value: Array, values: Values) -> None:
        where = tuple(self.value(index, values) for index in indices)
        self.memory[buffer][where] = value

    def value(self, expr: ir.Expr, values: Values) -> Array:
        return _Values(self.memory, values, self.shape).of(expr, np.ones(self.shape, bool))


@dataclass(frozen=True)
class _Values:
    """Expressions on a grid. A mask selects the wanted values: elsewhere nothing is read."""

    memory: Mapping[str, Array]
    vars: Values
    shape: tuple[int, ...]

    def of(self, expr: ir.Expr, wanted: Array) -> Array:
        """The value of an expression, of the type that the expression has."""
        match expr:
            case ir.Var(name):
                return self.vars[name]
            case ir.Const(value, dtype):
                return np.full(self.shape, value, ir.numpy_dtype(dtype))
            case ir.Select(condition, a, b, lazy):
                test = self.of(condition, wanted)
                yes, no = (wanted & test, wanted & ~test) if lazy else (wanted, wanted)
                return np.where(test, self.of(a, yes), self.of(b, no))
            case ir.Load(buffer, indices):
                return self.load(buffer, [self.of(index, wanted) for index in indices], wanted)
        parts: Any = ir.children(expr)
        return ir.apply_by_numpy(expr, [self.of(part, wanted) for part in parts])

    def load(self, buffer: str, indices: list[Array], wanted: Array) -> Array:
        array = self.memory[buffer]
        places = []
        for axis, (index, extent) in enumerate(zip(indices, array.shape)):
            outside = wanted & ((index < 0) | (index >= extent))
            if outside.any():
                bad = index[outside].flat[0]
                raise ExecutionError(
                    f"{buffer} is read at {bad} of axis {axis}, outside [0, {extent})",
                    "out of bounds",
                )
            places.append(np.clip(index, 0, max(0, extent - 1)))
        if array.size == 0:  # and nothing is wanted of it
            return np.zeros(self.shape, array.dtype)
        return np.broadcast_to(array[tuple(places)], self.shape)
