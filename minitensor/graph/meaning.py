"""The meaning of a graph: each node is the program of its operator, unscheduled.

`program_of` makes one program of a group of nodes, with canonical names, so that equal groups are
equal programs; `interpret` runs a graph node by node in the reference interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, MinitensorError
from minitensor.graph.nodes import Node, Nodes, Value
from minitensor.lang import OPERATORS, Tensor, lower, placeholder

LONGEST_NAME: Final = 60
"""The most characters of the name of a group's program."""

Run = Callable[[ir.Program, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a program on its inputs and returns its outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A group of nodes as a program.

    nodes      their names
    program    parameters: the values it reads, in the order in which they are met, x0, x1, … and
               constants w0, w1, …; then the results that others read
    inputs     the names of the values behind the parameters x0, x1, …
    constants  the names of the constants behind each w0, w1, …, by parameter
    outputs    the names of the results
    """

    nodes: tuple[str, ...]
    program: ir.Program
    inputs: tuple[str, ...]
    constants: Mapping[str, str]
    outputs: tuple[str, ...]


def program_of(graph: Nodes, group: Sequence[str]) -> Part:
    """One program for the nodes of a group, which stand in an order in which they can run.

    Its names depend on the structure of the group alone. Raises LoweringError for what does not
    make a program: an extent out of bounds.
    """
    nodes = [graph.by_name[name] for name in group]
    inside = set(group)
    tensors: dict[str, Tensor] = {}
    inputs: list[str] = []
    constants: dict[str, str] = {}
    for node in nodes:
        for name in node.inputs:
            if name in tensors or name in inside:
                continue
            value = graph.values[name]
            if name in graph.constants:
                own = f"w{len(constants)}"
                constants[own] = name
            else:
                own = f"x{len(inputs)}"
                inputs.append(name)
            tensors[name] = placeholder(value.shape, value.dtype, name=own)
        tensors[node.name] = applied(node, [tensors[name] for name in node.inputs])
    outputs = [
        name
        for name in group
        if name in graph.outputs or any(user not in inside for user in graph.users[name])
    ]
    params = [tensors[name] for name in (*inputs, *constants.values(), *outputs)]
    title = "_".join(node.operator for node in nodes)[:LONGEST_NAME].rstrip("_")
    program = lower(params, title, [tensors[name] for name in constants.values()])
    return Part(tuple(group), program, tuple(inputs), constants, tuple(outputs))


def applied(node: Node, inputs: Sequence[Tensor]) -> Tensor:
    """The tensor that a node computes of others."""
    operator = OPERATORS[node.operator]
    return operator.apply(node.operands, inputs, dict(node.attributes))


def result_of(values: Mapping[str, Value], node: Node) -> Value:
    """The value that a node computes from those before it, by its operator."""
    given = tuple((values[name].shape, values[name].dtype) for name in node.inputs)
    shape, dtype = _result(node.operator, node.operands, given, node.attributes)
    return Value(node.name, shape, dtype)


@functools.lru_cache(maxsize=4096)
def _result(
    operator: str,
    operands: tuple[str, ...],
    given: tuple[tuple[tuple[int, ...], ir.DType], ...],
    attributes: tuple[tuple[str, Any], ...],
) -> tuple[tuple[int, ...], ir.DType]:
    tensors = [placeholder(shape, dtype) for shape, dtype in given]
    made = OPERATORS[operator].apply(operands, tensors, dict(attributes))
    return made.shape, made.dtype


def by_interpreter(program: ir.Program, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Run a program in the reference interpreter."""
    return ir.interpret(program, arrays)[0]


def evaluate(
    graph: Nodes, given: Mapping[str, np.ndarray], run: Run = by_interpreter
) -> dict[str, np.ndarray]:
    """Every value of a graph by name, from those of its inputs, group by group.

    Raises what `run` raises, with the node in front of the message.
    """
    known: dict[str, np.ndarray] = {**graph.constants, **given}
    for group in graph.kernels:
        part = program_of(graph, group)
        arrays = {f"x{n}": known[name] for n, name in enumerate(part.inputs)}
        arrays |= {own: known[name] for own, name in part.constants.items()}
        try:
            results = run(part.program, [arrays[b.name] for b in part.program.inputs])
        except MinitensorError as failure:
            failure.message = f"{ir.print_name(group[-1])}: {failure.message}"
            raise
        known.update(zip(part.outputs, results))
    return known


def interpret_graph(graph: Nodes, arrays: Sequence[Any], run: Run = by_interpreter) -> Any:
    """The outputs of a graph on one array for each input, in call order: an array, or a tuple.

    Raises ArgumentError for arrays that do not fit, and what the interpreter raises.
    """
    if len(arrays) != len(graph.inputs):
        names = ", ".join(ir.print_name(value.name) for value in graph.inputs)
        raise ArgumentError(
            f"{ir.print_name(graph.name)} takes {len(graph.inputs)} inputs ({names}), "
            f"but got {len(arrays)}"
        )
    known = evaluate(graph, {v.name: array for v, array in zip(graph.inputs, arrays)}, run)
    results = tuple(known[name] for name in graph.outputs)
    return results[0] if len(results) == 1 else results
