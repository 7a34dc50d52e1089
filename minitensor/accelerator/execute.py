"""Instructions on arrays, in any order that the tokens allow.

An *adversary* chooses which queue goes on, by a seed: it lets one queue run ahead as far as it can,
or the others, or changes its mind at each step. What an instruction needs must be done when it
begins; if it is not, the tokens allow a race, and it is named. Memories begin with noise, so a read
of what nothing loaded is a wrong result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.accelerator.lower import QUEUES, Operation
from minitensor.accelerator.stream import Instruction, Stream
from minitensor.accelerator.tokens import Needs, deadlock, race

Arrays: TypeAlias = Mapping[str, np.ndarray]
_STEADY: Final = 0.7
"""The odds that an adversary goes on as before."""


def execute(
    stream: Stream, inputs: Mapping[str, np.ndarray], outputs: Arrays, order: int | None
) -> None:
    """Do all instructions.

    inputs   by the name of the parameter; not changed
    outputs  the same, to be filled
    order    the seed of an adversary; None for the order of the program

    Raises ExecutionError for a race or a deadlock.
    """
    noise = np.random.default_rng(0 if order is None else order)
    arrays: dict[str, np.ndarray] = {**inputs, **outputs}
    for name, buffer in stream.buffers.items():
        if name not in arrays:
            arrays[name] = _noise(buffer, noise)
    actions: dict[int, Callable[[Instruction], None]] = {}
    for one in _ordered(stream, order):
        key = id(one.operation)
        if key not in actions:
            actions[key] = _action(one.operation, arrays)
        actions[key](one)


def _noise(buffer: ir.Buffer, rng: np.random.Generator) -> np.ndarray:
    dtype = ir.numpy_dtype(buffer.dtype)
    size = max(1, int(np.prod(buffer.shape, dtype=np.int64)))
    found: np.ndarray = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype)
    filled: np.ndarray = found[: int(np.prod(buffer.shape, dtype=np.int64))]
    return np.array(filled.reshape(buffer.shape))


def _ordered(stream: Stream, order: int | None) -> Sequence[Instruction]:
    """The instructions in an order that the tokens allow. Raises ExecutionError."""
    if order is None:
        return stream.instructions
    rng = random.Random(order)
    needs = Needs(stream)
    position = dict.fromkeys(QUEUES, 0)
    tokens: dict[tuple[str, str], int] = {}
    found: list[Instruction] = []
    favourite = rng.choice(QUEUES)

    def is_ready(queue: str) -> bool:
        instructions = needs.queues[queue]
        if position[queue] == len(instructions):
            return False
        pops = instructions[position[queue]].pops
        return all(tokens.get((source, queue), 0) >= pops.count(source) for source in pops)

    while len(found) < len(stream):
        ready = [queue for queue in QUEUES if is_ready(queue)]
        if not ready:
            left = [
                q[position[name]] for name, q in needs.queues.items() if position[name] < len(q)
            ]
            raise deadlock(left, tokens)
        if favourite not in ready or rng.random() > _STEADY:
            favourite = rng.choice(ready)
        one = needs.queues[favourite][position[favourite]]
        for queue, count in enumerate(needs.needed[one.number]):
            if count > position[QUEUES[queue]]:
                raise race(needs, one, needs.queues[QUEUES[queue]][count - 1])
        for source in one.pops:
            tokens[source, favourite] -= 1
        position[favourite] += 1
        for target in one.pushes:
            tokens[favourite, target] = tokens.get((favourite, target), 0) + 1
        found.append(one)
    return found


# ---- what an operation does


def _action(operation: Operation, arrays: dict[str, np.ndarray]) -> Callable[[Instruction], None]:
    """The effect of an operation on arrays, for an iteration of the loops around it."""
    inner: dict[str, Any] = {}
    for axis, loop in enumerate(operation.inner):
        shape = [1] * len(operation.inner)
        shape[axis] = loop.extent
        inner[loop.var] = np.arange(loop.extent, dtype=np.int64).reshape(shape)
    extents = tuple(loop.extent for loop in operation.inner)
    names = [loop.var for loop in operation.loops]
    store = operation.store
    target = arrays[store.buffer]

    def places(indices: Sequence[ir.Expr], values: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(ir.value_by_numpy(index, values)) for index in indices)

    if operation.kind == "product":
        first, second = (
            _load(operation, name, indices, arrays) for name, indices in operation.reads
        )
        driven = {name for index in store.indices for name in ir.free_vars(index)}
        summed = tuple(axis for axis, loop in enumerate(operation.inner) if loop.var not in driven)

        def multiply(one: Instruction) -> None:
            values = {**inner, **dict(zip(names, one.at))}
            products = first(values).astype(np.int32) * second(values).astype(np.int32)
            sums = np.broadcast_to(products, extents).sum(axis=summed, dtype=np.int32)
            where = places(store.indices, values)
            kept = tuple(
                w.reshape([n for axis, n in enumerate(_shape(w, extents)) if axis not in summed])
                for w in where
            )
            target[kept] += sums

        return multiply

    evaluate = _value(store.value, arrays)
    is_guarded = operation.guard != ir.TRUE

    def assign(one: Instruction) -> None:
        values = {**inner, **dict(zip(names, one.at))}
        result = np.broadcast_to(evaluate(values), extents)
        where = tuple(np.broadcast_to(w, extents) for w in places(store.indices, values))
        if is_guarded:
            mask = np.broadcast_to(ir.value_by_numpy(operation.guard, values), extents)
            where, result = tuple(w[mask] for w in where), result[mask]
        target[where] = result

    return assign


def _shape(array: np.ndarray, extents: tuple[int, ...]) -> tuple[int, ...]:
    return array.shape if array.ndim == len(extents) else (1,) * len(extents)


def _load(
    operation: Operation, name: str, indices: Sequence[ir.Expr], arrays: Arrays
) -> Callable[[Mapping[str, Any]], np.ndarray]:
    source = arrays[name]

    def load(values: Mapping[str, Any]) -> np.ndarray:
        where = [np.asarray(ir.value_by_numpy(index, values)) for index in indices]
        inside = tuple(np.clip(w, 0, n - 1) for w, n in zip(where, source.shape))
        return np.asarray(source[inside])

    return load


def _value(value: ir.Expr, arrays: Arrays) -> Callable[[Mapping[str, Any]], np.ndarray]:
    """The values of an expression, for all iterations at once; a place outside of a buffer, which a
    load pads, has any value.
    """

    def evaluate(values: Mapping[str, Any]) -> np.ndarray:
        def measure(node: ir.Expr, below: list[np.ndarray]) -> np.ndarray:
            match node:
                case ir.Var(name):
                    return np.asarray(values[name])
                case ir.Const(number):
                    return np.asarray(number, ir.numpy_dtype(node.dtype))
                case ir.Load(buffer):
                    source = arrays[buffer]
                    inside = (np.clip(w, 0, n - 1) for w, n in zip(below, source.shape))
                    return np.asarray(source[tuple(inside)])
            return ir.apply_by_numpy(node, below)

        with np.errstate(all="ignore"):
            return ir.measured(value, measure)

    return evaluate
