"""Instructions on arrays, in any order that the tokens allow.

What an instruction needs must be done when it begins; if it is not, the tokens allow a race, and it
is named. Memories begin with noise, so a read of what nothing loaded is a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.accelerator.lower import QUEUES, Operation
from minitensor.accelerator.stream import Instruction, Stream
from minitensor.accelerator.tokens import Needs, in_order


def execute(stream: Stream, arrays: Mapping[str, np.ndarray], order: int | None) -> None:
    """Do all instructions.

    arrays  by the name of the parameter; those of outputs are filled
    order   the seed of an adversary; None for the order of the program

    Raises ExecutionError for a race or a deadlock.
    """
    noise = np.random.default_rng(0 if order is None else order)
    memory = {name: _noise(buffer, noise) for name, buffer in stream.buffers.items()} | dict(arrays)
    actions: dict[Operation, Callable[[Instruction], None]] = {}
    for one in stream if order is None else _checked(stream, order):
        if one.operation not in actions:
            actions[one.operation] = _action(one.operation, memory)
        actions[one.operation](one)


def _checked(stream: Stream, order: int) -> list[Instruction]:
    """The instructions in the order of an adversary."""
    needs, done, found = Needs(stream), [0] * len(QUEUES), []
    for one in in_order(stream, order):
        needs.require(one, done)
        done[QUEUES.index(one.queue)] += 1
        found.append(one)
    return found


def _noise(buffer: ir.Buffer, rng: np.random.Generator) -> np.ndarray:
    dtype = ir.numpy_dtype(buffer.dtype)
    found = np.frombuffer(rng.bytes(max(1, buffer.nbytes)), np.uint8)[: buffer.nbytes]
    return np.array(found).view(dtype).reshape(buffer.shape)


def _action(operation: Operation, memory: Mapping[str, np.ndarray]) -> Callable[..., None]:
    """The effect of an operation on arrays, for an iteration of the loops around it."""
    extents = tuple(loop.extent for loop in operation.inner)
    grid = np.ogrid[tuple(slice(n) for n in extents)]
    inner = dict(zip((loop.var for loop in operation.inner), grid))
    names = [loop.var for loop in operation.loops]
    store = operation.store
    target = memory[store.buffer]

    def places(indices: Sequence[ir.Expr], values: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(ir.value_by_numpy(index, values)) for index in indices)

    def multiply(one: Instruction) -> None:
        values = {**inner, **dict(zip(names, one.at))}
        first, second = (_evaluated(load, values, memory) for load in operation.reads)
        products = np.broadcast_to(first.astype(np.int32) * second, extents)
        where = [w.reshape(w.shape or (1,) * len(extents)) for w in places(store.indices, values)]
        driven = np.broadcast_shapes(*(w.shape for w in where))  # other axes have extent 1
        summed = tuple(axis for axis, n in enumerate(driven) if n == 1)
        target[tuple(where)] += products.sum(axis=summed, dtype=np.int32, keepdims=True)

    def assign(one: Instruction) -> None:
        values = {**inner, **dict(zip(names, one.at))}
        result = np.broadcast_to(_evaluated(store.value, values, memory), extents)
        where = tuple(np.broadcast_to(w, extents) for w in places(store.indices, values))
        if operation.guard != ir.TRUE:
            mask = np.broadcast_to(ir.value_by_numpy(operation.guard, values), extents)
            where, result = tuple(w[mask] for w in where), result[mask]
        target[where] = result

    return multiply if operation.kind == "product" else assign


def _evaluated(
    value: ir.Expr, values: Mapping[str, Any], memory: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The values of an expression, for all iterations at once; a place outside of a buffer, which a
    load pads, has any value.
    """

    def measure(node: ir.Expr, below: list[np.ndarray]) -> np.ndarray:
        match node:
            case ir.Var(name):
                return np.asarray(values[name])
            case ir.Const(number):
                return np.asarray(number, ir.numpy_dtype(node.dtype))
            case ir.Load(buffer):
                source = memory[buffer]
                inside = (np.clip(w, 0, n - 1) for w, n in zip(below, source.shape))
                return np.asarray(source[tuple(inside)])
        return ir.apply_by_numpy(node, below)

    with np.errstate(all="ignore"):
        return ir.measured(value, measure)
