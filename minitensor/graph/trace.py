"""Graphs from functions: the operators that a function of tensors calls.

    def block(x, w, b):
        return mt.ops.relu(mt.ops.conv2d(x, w, b, padding=1))

    graph = mt.graph.trace(block, x=((1, 3, 8, 8), "float32"), w=weights, b=bias)

The function runs once, on placeholders; its result remembers how it was made (`Tensor.origin`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, unexpected
from minitensor.graph.graph import Graph
from minitensor.graph.nodes import Node, Value, constant_value, frozen
from minitensor.lang import Tensor, placeholder


def trace(function: Callable[..., Any], /, **examples: Any) -> Graph:
    """The graph of the operators that a function calls.

    function  takes a tensor for each example, by name, and returns a tensor, or several in a tuple
    examples  for each parameter a pair of a shape and a dtype, which makes it an input, or an
              array, which makes it a constant

    Raises ArgumentError for examples that are neither, and for a result that operators of `mt.ops`
    did not make of these tensors alone; what the function raises.
    """
    if not callable(function):
        raise unexpected("a function of tensors", "function", function)
    inputs: list[Tensor] = []
    constants: dict[str, np.ndarray] = {}
    tensors: dict[str, Tensor] = {}
    for name, example in examples.items():
        if isinstance(example, (np.ndarray, np.generic)):
            constants[name] = frozen(name, example)
            value = constant_value(name, constants[name])
            tensors[name] = placeholder(value.shape, value.dtype, name)
        elif isinstance(example, (tuple, list)) and len(example) == 2:
            tensors[name] = placeholder(example[0], example[1], name)
            inputs.append(tensors[name])
        else:
            raise unexpected(
                'a pair of a shape and a dtype, ((1, 64), "float32"), or an array', name, example
            )
    try:
        inspect.signature(function).bind(**tensors)
    except TypeError as failure:
        raise ArgumentError(f"the function does not take these examples: {failure}") from None
    except ValueError:
        pass  # it has no signature
    result = function(**tensors)
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    for one in results:
        if not isinstance(one, Tensor):
            raise unexpected("a tensor, or several in a tuple", "the result of the function", one)
    name = getattr(function, "__name__", "graph")
    title = name if name.isidentifier() else "graph"
    return graph_of(title, inputs, {id(tensors[n]): a for n, a in constants.items()}, results)


def graph_of(
    name: str,
    inputs: Sequence[Tensor],
    constants: Mapping[int, np.ndarray],
    outputs: Sequence[Tensor],
) -> Graph:
    """The graph behind tensors: their operators, back to the inputs and the constants.

    constants  arrays, read-only, by the `id` of their placeholder

    Values are named after their tensors, with numbers where names meet. Raises ArgumentError for a
    tensor that no operator made.
    """
    taken: set[str] = set()
    names: dict[int, str] = {id(t): ir.fresh_name(t.name, taken) for t in inputs}
    kept: dict[str, np.ndarray] = {}
    nodes: list[Node] = []
    for tensor in _in_order(outputs, set(names)):
        own = names[id(tensor)] = ir.fresh_name(tensor.name, taken)
        if id(tensor) in constants:
            kept[own] = constants[id(tensor)]
            continue
        origin = tensor.origin
        if origin is None:
            made = "is a placeholder of its own" if tensor.stage is None else "is an mt.compute"
            raise ArgumentError(
                f"{ir.print_name(tensor.name)} {made}, and not the result of an operator: a graph "
                "has operators of mt.ops only; inputs and arrays are given as examples"
            )
        nodes.append(
            Node(
                Value(own, tensor.shape, tensor.dtype),
                origin.operator,
                origin.operands,
                tuple(names[id(one)] for one in origin.inputs),
                tuple(sorted(origin.attributes.items())),
            )
        )
    given = tuple(Value(names[id(t)], t.shape, t.dtype) for t in inputs)
    values = {own: constant_value(own, array) for own, array in kept.items()}
    wanted = tuple(names[id(t)] for t in outputs)
    return Graph(name, given, tuple(nodes), wanted, kept, values)


def _in_order(outputs: Sequence[Tensor], known: set[int]) -> Iterator[Tensor]:
    """Every tensor behind the outputs that is not known, after those that it is made of."""
    done = set(known)
    pending = [(tensor, False) for tensor in reversed(outputs)]
    while pending:
        tensor, ready = pending.pop()
        if ready:
            yield tensor
        elif id(tensor) not in done:
            done.add(id(tensor))
            pending.append((tensor, True))
            inputs = tensor.origin.inputs if tensor.origin is not None else ()
            pending += [(one, False) for one in reversed(inputs) if id(one) not in done]
