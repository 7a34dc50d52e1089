"""Classes of operators, as fusion asks for them: derived from what a node computes, not declared.

    elementwise  each element of the result is a function of the elements at the same place
    broadcast    the same, with some inputs repeated along axes
    injective    each element reads one element of each input, at a place that is a function of its
                 own: transpose, reshape, slice, pad, gather
    reduction    some elements are combined: pools, softmax, layer norm
    product      sums of products of two inputs: convolution, matrix product; what follows may run
                 on its result while that is in a cache
    opaque       anything else: scans

Source: Chen et al., TVM, OSDI'18, §3 (Operator Fusion): its four classes; broadcast and product are
those of TVM's code.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from minitensor import ir
from minitensor.graph.meaning import applied
from minitensor.graph.nodes import Node, Nodes, Value
from minitensor.lang import Tensor, placeholder


class Kind(IntEnum):
    """The class of an operator; a group has the highest of its nodes."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    PRODUCT = 4
    OPAQUE = 5

    @property
    def word(self) -> str:
        """The name in texts."""
        return self.name.lower()


def kind_of_node(graph: Nodes, node: Node) -> Kind:
    """The class of a node, from the stages of its operator."""
    given = tuple((graph.values[name].shape, graph.values[name].dtype) for name in node.inputs)
    return _kind(
        node.replace(result=Value("", (), node.result.dtype), inputs=("",) * len(node.inputs)),
        given,
    )


@functools.lru_cache(maxsize=4096)
def _kind(node: Node, given: tuple[tuple[tuple[int, ...], ir.DType], ...]) -> Kind:
    inputs = [placeholder(shape, dtype) for shape, dtype in given]
    result = applied(node, inputs)
    return max((_kind_of_stage(tensor) for tensor in _stages(result)), default=Kind.OPAQUE)


def _stages(result: Tensor) -> Iterator[Tensor]:
    """The tensors behind a result that are computed, the result first."""
    done: set[int] = set()
    pending = [result]
    while pending:
        tensor = pending.pop()
        if id(tensor) in done or tensor.stage is None:
            continue
        done.add(id(tensor))
        yield tensor
        for value in (*tensor.stage.values, *tensor.stage.init):
            pending += [load.buffer.tensor for load in ir.loads(value)]  # type: ignore[attr-defined]


def _kind_of_stage(tensor: Tensor) -> Kind:
    stage = tensor.stage
    assert stage is not None
    if stage.init or any(
        axis.kind is ir.IterKind.ORDERED for axis in (*stage.axes, *stage.reduced)
    ):
        return Kind.OPAQUE
    if stage.reducer is not None:
        products = [n for value in stage.values for n in ir.walk(value) if _is_product(n)]
        return Kind.PRODUCT if products and ir.operator_of(stage.reducer) == "+" else Kind.REDUCTION
    own = [axis.var for axis in stage.axes]
    return max(
        (_kind_of_load(load, own, tensor) for v in stage.values for load in ir.loads(v)),
        default=Kind.ELEMENTWISE,
    )


def _is_product(node: Any) -> bool:
    """Tell whether a node multiplies elements of two different inputs."""
    if not isinstance(node, ir.Binary) or node.op != "*" or node.dtype.kind == "index":
        return False
    left, right = ({load.buffer for load in ir.loads(side)} for side in (node.a, node.b))
    return bool(left and right and left != right)


def _kind_of_load(load: ir.Load, own: list[Any], result: Tensor) -> Kind:
    """The place of an element in an input: the same, repeated, or another."""
    source: Tensor = load.buffer.tensor  # type: ignore[attr-defined]
    names = [index.name if isinstance(index, ir.Var) else index for index in load.indices]
    if names == own:
        return Kind.ELEMENTWISE if source.shape == result.shape else Kind.INJECTIVE
    places = own[len(own) - len(names) :]
    repeated = all(
        name == place or (isinstance(name, ir.Const) and extent == 1)
        for name, place, extent in zip(names, places, source.shape)
    )
    return Kind.BROADCAST if repeated and len(names) <= len(own) else _along_axes(names, own)


def _along_axes(names: list[Any], own: list[Any]) -> Kind:
    """Broadcast where the indices are axes of the result in their order, such as the channel of a
    bias; injective elsewhere.
    """
    kept = [name for name in names if not isinstance(name, ir.Const)]
    if all(name in own for name in kept) and len(names) == len(kept):
        places = [own.index(name) for name in kept]
        if places == sorted(set(places)):
            return Kind.BROADCAST
    return Kind.INJECTIVE
