"""The meaning of a graph: each node is the program of its operator, unscheduled.

`program_of` makes one program of a group of nodes, with canonical names, so that equal groups are
equal programs; `interpret` runs a graph node by node in the reference interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, MinitensorError
from minitensor.graph.nodes import Node, Nodes, Value, layout_name
from minitensor.lang import OPERATORS, Tensor, lower, merged, placeholder, relaid

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


def program_of(
    graph: Nodes,
    group: Sequence[str],
    layouts: Mapping[str, int] | None = None,
    *,
    merge: bool = False,
) -> Part:
    """One program for the nodes of a group, which stand in an order in which they can run.

    layouts  those of its values; None for those of the graph
    merge    whether axes that always come together are one, and those of extent 1 are left out, as
             in the kernels of a model: arrays have the elements of the graph's values in their
             order, and fewer dimensions

    Its names depend on the structure of the group alone. Raises LoweringError for what does not
    make a program: an extent out of bounds.
    """
    shape = _shape_of(graph, group, layouts)
    return Part(
        tuple(group),
        _lowered(shape.leaves, shape.calls, shape.outputs, shape.title, merge),
        shape.inputs,
        dict(shape.constants),
        tuple(graph.by_name[group[n]].name for n in shape.outputs),
    )


def title_of(graph: Nodes, group: Sequence[str], layouts: Mapping[str, int]) -> str:
    """The name of the program that `program_of` makes."""
    return _shape_of(graph, group, layouts).title


class Leaf(NamedTuple):
    """A value that a group reads: a parameter of its program."""

    name: str
    shape: tuple[int, ...]
    dtype: ir.DType
    block: int


class _Call(NamedTuple):
    """A node of a group; what it reads are leaves, from 0, and nodes, from -1 down.

    spelled  the attributes as text: 1 and True are other attributes, and equal
    """

    operator: str
    operands: tuple[str, ...]
    inputs: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    spelled: str
    block: int


class _Shape(NamedTuple):
    """The structure of a group, and the values behind it; see `Part`."""

    leaves: tuple[Leaf, ...]
    calls: tuple[_Call, ...]
    outputs: tuple[int, ...]
    title: str
    inputs: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]


def _shape_of(graph: Nodes, group: Sequence[str], layouts: Mapping[str, int] | None) -> _Shape:
    blocks = (graph.layouts if layouts is None else layouts) or {}
    inside = {name: -1 - n for n, name in enumerate(group)}
    leaves: dict[str, Leaf] = {}
    inputs: list[str] = []
    constants: dict[str, str] = {}
    calls = []
    for name in group:
        node = graph.by_name[name]
        for read in node.inputs:
            if read in leaves or read in inside:
                continue
            value = graph.values[read]
            if read in graph.constants:
                own = f"w{len(constants)}"
                constants[own] = read
            else:
                own = f"x{len(inputs)}"
                inputs.append(read)
            leaves[read] = Leaf(own, value.shape, value.dtype, blocks.get(read, 0))
        order = {read: n for n, read in enumerate(leaves)} | inside
        places = tuple(order[read] for read in node.inputs)
        given = (node.attributes, repr(node.attributes), blocks.get(name, 0))
        calls.append(_Call(node.operator, node.operands, places, *given))
    outputs = tuple(
        n
        for n, name in enumerate(group)
        if name in graph.outputs or any(user not in inside for user in graph.users[name])
    )
    title = "_".join(call.operator for call in calls)[:LONGEST_NAME].rstrip("_")
    laid = [layout_name(leaf.shape, leaf.block) for leaf in leaves.values()]
    laid += [layout_name(graph.values[n].shape, blocks.get(n, 0)) for n in group]
    title = "_".join([title, *dict.fromkeys(one.lower() for one in laid if one)])
    return _Shape(
        tuple(leaves.values()), tuple(calls), outputs, title, tuple(inputs), (*constants.items(),)
    )


@functools.lru_cache(maxsize=1024)
def _lowered(
    leaves: tuple[Leaf, ...],
    calls: tuple[_Call, ...],
    outputs: tuple[int, ...],
    title: str,
    merge: bool,
) -> ir.Program:
    """The program of a group."""
    given = [placeholder(leaf.shape, leaf.dtype, name=leaf.name) for leaf in leaves]
    made: list[Tensor] = []
    for call in calls:
        inputs = [given[n] if n >= 0 else made[-1 - n] for n in call.inputs]
        operator = OPERATORS[call.operator]
        made.append(operator.apply(call.operands, inputs, dict(call.attributes)))
    blocks = {t: leaf.block for t, leaf in zip(given, leaves) if leaf.block}
    blocks |= {t: call.block for t, call in zip(made, calls) if call.block}
    # parameters: what is given at each call, constants, results
    first = [n for n, leaf in enumerate(leaves) if leaf.name.startswith("x")]
    weights = [n for n in range(len(leaves)) if n not in first]
    params = [*(given[n] for n in (*first, *weights)), *(made[n] for n in outputs)]
    if blocks:
        known = params[len(first) : len(leaves)]
        params = relaid(params, blocks, known)
    if merge:
        params = merged(params)
    known = params[len(first) : len(leaves)]
    return lower(params, title, known)


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
