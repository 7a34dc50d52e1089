"""The data of a graph: values, nodes, constants, and the groups that become kernels.

    graph tiny(x: float32[1, 3, 8, 8]):
        conv2d = conv2d(x, w=weight, bias=bias, padding=1)      # float32[1, 4, 8, 8]
        y = relu(conv2d)                                        # float32[1, 4, 8, 8]
        return y

A node is one call of an operator of `mt.ops`; its name is that of the one value that it computes.
Nothing changes: a rewrite makes another graph. Not here: what a node means (`meaning`), and what a
person does with a graph (`graph`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError, VerifyError, unexpected
from minitensor.ir import DType, numpy_dtype, print_name
from minitensor.lang import OPERATORS, fits

WIDEST: Final = 100
"""The most columns of a line of the text before its type."""


@dataclass(frozen=True, slots=True)
class Value:
    """An array that flows through a graph: an input, a constant, or the result of a node."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Node:
    """One call of an operator.

    result      the value that it computes, which names the node
    operator    its name in `mt.ops`
    operands    the parameters that get `inputs`, in their order (see `lang.Origin`)
    inputs      the names of values
    attributes  pairs of a parameter and plain data, sorted
    """

    result: Value
    operator: str
    operands: tuple[str, ...]
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The name of the node, and of its result."""
        return self.result.name

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute by its name."""
        return dict(self.attributes).get(name, default)

    def replace(self, **changes: Any) -> Node:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        first = OPERATORS[self.operator].operands[:1]
        shown = [
            print_name(name) if (operand,) == first else f"{operand}={print_name(name)}"
            for operand, name in zip(self.operands, self.inputs)
        ]
        shown += [f"{name}={value!r}" for name, value in self.attributes]
        return f"{print_name(self.name)} = {self.operator}({', '.join(shown)})"


@dataclass(frozen=True, eq=False)
class Nodes:
    """The data of a graph; `Graph` adds what a person does with it.

    name       as in the text, and of the function in C
    inputs     the values that a call gives, in order
    nodes      each behind those whose results it reads
    outputs    the names of the values that a call returns, in order
    constants  arrays by name, read-only: weights
    groups     names of nodes that become one kernel each, in an order in which they can run; None
               if each node is its own (see `fuse`)
    layouts    channels that lie side by side, by the names of values between kernels: all of them
               (NHWC), or a block (NCHW16c); others are as written. None if nobody chose
    """

    name: str
    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    constant_values: Mapping[str, Value] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] | None = None
    layouts: Mapping[str, int] | None = None

    # ---- looking things up

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Every value by name."""
        found = {value.name: value for value in self.inputs}
        found.update(self.constant_values)
        found.update((node.name, node.result) for node in self.nodes)
        return found

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Every node by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that read each value, in their order; one that reads it twice appears once."""
        found: dict[str, list[str]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node.name)
        return {name: tuple(users) for name, users in found.items()}

    def node(self, name: str) -> Node:
        """A node by name. Raises ArgumentError, with names that are alike, if there is none."""
        if name not in self.by_name:
            raise unexpected(f"the name of a node, such as {_some(self.by_name)}", "name", name)
        return self.by_name[name]

    def layout_of(self, name: str) -> int:
        """The channels of a value that lie side by side; 0 for the order of its axes."""
        return (self.layouts or {}).get(name, 0)

    @property
    def kernels(self) -> tuple[tuple[str, ...], ...]:
        """The groups; each node by itself where nothing was fused."""
        if self.groups is not None:
            return self.groups
        return tuple((node.name,) for node in self.nodes)

    # ---- making others

    def replace(self, **changes: Any) -> Any:
        """A graph of the same class with some fields changed; `groups` go with `nodes`, and
        `layouts` with both.
        """
        if "nodes" in changes:
            changes.setdefault("groups", None)
        if "groups" in changes:
            changes.setdefault("layouts", None)
        return replace(self, **changes)

    def with_nodes(
        self, nodes: Iterable[Node], constants: Mapping[str, np.ndarray] | None = None
    ) -> Any:
        """The graph of other nodes, in any order, and further constants: sorted, without what no
        output needs.
        """
        known = {**self.constants, **(constants or {})}
        made = {node.name: node for node in nodes}
        order: list[Node] = []
        done: set[str] = set()
        pending = [(name, False) for name in reversed(self.outputs)]
        while pending:
            name, ready = pending.pop()
            if name not in made or (name in done and not ready):
                continue
            if ready:
                order.append(made[name])
                continue
            done.add(name)
            pending.append((name, True))
            pending += [(one, False) for one in reversed(made[name].inputs) if one not in done]
        used = {name for node in order for name in node.inputs} | set(self.outputs)
        kept = {name: array for name, array in known.items() if name in used}
        values = {
            name: self.constant_values.get(name) or constant_value(name, array)
            for name, array in kept.items()
        }
        return self.replace(nodes=tuple(order), constants=kept, constant_values=values)

    # ---- text

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        given = ", ".join(f"{print_name(value.name)}: {value}" for value in self.inputs)
        yield f"graph {print_name(self.name)}({given}):"
        single = self.groups is None
        for group in self.kernels:
            indent = "    " if single or len(group) == 1 else "        "
            if indent != "    ":
                yield "    kernel:"
            for name in group:
                node = self.by_name[name]
                text = f"{indent}{_cut(str(node), WIDEST - len(indent))}"
                layout = layout_name(node.result.shape, self.layout_of(name))
                yield f"{text:<60}  # {node.result}{layout and f', {layout}'}"
        yield f"    return {', '.join(map(print_name, self.outputs))}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def signature(self) -> tuple[Any, ...]:
        """The structure with all names replaced by numbers, constants by their content: equal for
        graphs that differ in names only.
        """
        numbers: dict[str, int] = {}

        def number(name: str) -> int:
            return numbers.setdefault(name, len(numbers))

        def of(value: Value) -> tuple[int, tuple[int, ...], str]:
            return number(value.name), value.shape, str(value.dtype)

        inputs = tuple(map(of, self.inputs))
        nodes = tuple(
            (n.operator, n.operands, tuple(map(number, n.inputs)), n.attributes, of(n.result))
            for n in self.nodes
        )
        constants = tuple(
            (numbers[name], array.dtype.str, array.shape, array.tobytes())
            for name, array in sorted(self.constants.items(), key=lambda one: number(one[0]))
        )
        groups = None
        if self.groups is not None:
            groups = frozenset(frozenset(map(number, group)) for group in self.groups)
        layouts = None
        if self.layouts is not None:
            layouts = frozenset((number(name), block) for name, block in self.layouts.items())
        return inputs, nodes, tuple(map(number, self.outputs)), constants, groups, layouts


def constant_value(name: str, array: np.ndarray, dtype: DType | None = None) -> Value:
    """The value of a constant; its dtype is that of the array unless it is given (bfloat16)."""
    return Value(name, tuple(array.shape), DType.of(array.dtype) if dtype is None else dtype)


def frozen(name: str, array: Any) -> np.ndarray:
    """A constant as it is kept: C-contiguous, read-only, a copy. Raises ArgumentError for what is
    no array of numbers.
    """
    try:
        kept = np.array(array, order="C")
        DType.of(kept.dtype)
    except (ValueError, TypeError) as failure:
        reason = getattr(failure, "message", str(failure))
        raise ArgumentError(
            f"the constant {print_name(name)} is no array of numbers: {reason}"
        ) from None
    if kept.dtype.byteorder == ">":
        kept = kept.astype(kept.dtype.newbyteorder("="))
    kept.flags.writeable = False
    return kept


def verify_graph(graph: Nodes, result_of: Callable[[Mapping[str, Value], Node], Value]) -> None:
    """Raise VerifyError, naming node and rule, for a graph that is malformed.

    result_of  the value that a node computes from those before it
    """
    known: dict[str, Value] = {}

    def define(value: Value, what: str) -> None:
        if not isinstance(value.name, str) or not value.name:
            raise VerifyError(f"{what} has no name")
        if value.name in known:
            raise VerifyError(f"two values are called {print_name(value.name)}; names are unique")
        if any(extent < 1 for extent in value.shape):
            raise VerifyError(
                f"{what} {print_name(value.name)} has shape {value.shape}: an extent is not >= 1"
            )
        known[value.name] = value

    for value in graph.inputs:
        define(value, "the input")
    for name, array in graph.constants.items():
        own = graph.constant_values.get(name)
        if own is None or own.shape != array.shape or numpy_dtype(own.dtype) != array.dtype:
            raise VerifyError(f"the constant {print_name(name)} is not as its value says: {own}")
        define(own, "the constant")
    for node in graph.nodes:
        if node.operator not in OPERATORS:
            raise VerifyError(f"{print_name(node.name)}: there is no operator {node.operator!r}")
        for name in node.inputs:
            if name not in known:
                later = "a later node: a cycle" if name in graph.by_name else "nothing"
                raise VerifyError(
                    f"{print_name(node.name)} reads {print_name(name)}, which is the result of "
                    f"{later}"
                )
        computed = result_of(known, node)
        if computed != node.result:
            raise VerifyError(f"{print_name(node.name)} computes {computed}, not {node.result}")
        define(node.result, "the result")
    if not graph.outputs:
        raise VerifyError(f"the graph {print_name(graph.name)} returns nothing")
    for name in graph.outputs:
        if name not in known:
            raise VerifyError(f"the output {print_name(name)} is computed by no node")
    if graph.groups is not None:
        _verify_groups(graph)
    for name, block in (graph.layouts or {}).items():
        if name not in graph.by_name or name in graph.outputs:
            raise VerifyError(f"{print_name(name)} has a layout, and is no value between kernels")
        if not fits(graph.values[name].shape, block):
            value = graph.values[name]
            raise VerifyError(f"{print_name(name)}: {value} has no blocks of {block} channels")


def layout_name(shape: Sequence[int], block: int) -> str:
    """The usual name of a layout, such as NHWC or NCHW16c; "" for that of the axes."""
    if not block:
        return ""
    spatial = "DHW"[-(len(shape) - 2) :]
    return f"N{spatial}C" if block == shape[1] else f"NC{spatial}{block}c"


def _verify_groups(graph: Nodes) -> None:
    """Raise VerifyError where the groups are no partition of the nodes that can run in order."""
    assert graph.groups is not None
    every = [name for group in graph.groups for name in group]
    if sorted(every) != sorted(graph.by_name):
        raise VerifyError("the groups do not have each node once")
    done = {value.name for value in graph.inputs} | set(graph.constants)
    for group in graph.groups:
        for name in group:
            missing = [one for one in graph.by_name[name].inputs if one not in done]
            if missing:
                raise VerifyError(
                    f"the group of {print_name(name)} runs before {print_name(missing[0])}"
                )
            done.add(name)


def _some(names: Iterable[str]) -> str:
    listed = [print_name(name) for name in names]
    return ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
