"""Lower precision by choice: products and convolutions of halves, which have 16 bits.

    conv2d(x, w, bias)  ->  conv2d(cast(x), cast(w), bias, out_dtype="float32")

The operands are rounded; the product of two halves is exact in float32, and sums are float32 as
before. So is everything else: biases, normalisations, softmax. Weights are rounded when the graph
is made, and any value once for all products that read it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError, unexpected
from minitensor.graph.nodes import Node, Nodes, Value
from minitensor.graph.quantized import PRODUCTS
from minitensor.ir import DType, fresh_name, print_name, to_bfloat16

NARROWED: Final = {name: (a, b) for name, (a, b, _) in PRODUCTS.items()} | {
    f"conv_transpose{n}d": ("x", "w") for n in (1, 2, 3)
}
"""The two operands of each product."""
WIDE: Final = "float32"
_NAMES: Final = {
    "bf16": "bfloat16", "bfloat16": "bfloat16", "f16": "float16", "float16": "float16",
    "f32": WIDE, "float32": WIDE,
}  # fmt: skip


def narrowed(graph: Nodes, precision: object) -> Any:
    """The graph with the operands of products in a precision; see `Graph.in_precision`."""
    dtype = _NAMES.get(precision) if isinstance(precision, str) else None
    if dtype is None:
        raise unexpected('"bf16", "f16" or "f32"', "precision", precision)
    return graph if dtype == WIDE else _Narrowing(graph, DType.of(dtype)).made()


class _Narrowing:
    """The nodes and constants that are made of a graph."""

    def __init__(self, graph: Nodes, dtype: DType) -> None:
        self.graph, self.dtype = graph, dtype
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, Value] = {}
        self._taken = set(graph.values)
        self._known: dict[str, str] = {}

    def made(self) -> Any:
        """The new graph."""
        for node in self.graph.nodes:
            self.nodes.append(self.product(node) if self.is_wide_product(node) else node)
        values = {**self.graph.constant_values, **self.values}
        return self.graph.replace(constant_values=values).with_nodes(self.nodes, self.constants)

    def is_wide_product(self, node: Node) -> bool:
        """Tell whether a node multiplies float32, both operands of it tensors, and adds up more
        than a window: a depthwise convolution has nothing to gain.
        """
        factors = NARROWED.get(node.operator, ())
        found = [self.graph.values[n] for o, n in zip(node.operands, node.inputs) if o in factors]
        if len(found) != 2 or any(value.dtype != WIDE for value in found):
            return False
        groups = node.attribute("groups", 1)
        depthwise = groups > 1 and groups == found[0].shape[1]
        return not depthwise and node.attribute("out_dtype") is None

    def product(self, node: Node) -> Node:
        """The product of what a node multiplies, rounded."""
        factors = NARROWED[node.operator]
        inputs = [self.half(n) if o in factors else n for o, n in zip(node.operands, node.inputs)]
        attributes = sorted({**dict(node.attributes), "out_dtype": WIDE}.items())
        return node.replace(inputs=tuple(inputs), attributes=tuple(attributes))

    def half(self, name: str) -> str:
        """The name of a value, rounded."""
        if name not in self._known:
            own = fresh_name(f"{name}_{self.dtype}", self._taken)
            value = Value(own, self.graph.values[name].shape, self.dtype)
            if name in self.graph.constants:
                self.constants[own], self.values[own] = self.rounded(name), value
            else:
                cast = (("dtype", str(self.dtype)),)
                self.nodes.append(Node(value, "cast", ("x",), (name,), cast))
            self._known[name] = own
        return self._known[name]

    def rounded(self, name: str) -> np.ndarray:
        """A constant, rounded. Raises ArgumentError for one that is too large."""
        given = self.graph.constants[name]
        with np.errstate(over="ignore"):
            plain = given.astype(np.float16) if self.dtype == "float16" else None
        if plain is not None and (np.isinf(plain) & np.isfinite(given)).any():
            raise ArgumentError(
                f"the constant {print_name(name)} has numbers up to {np.abs(given).max():.3g}, and "
                f'float16 holds 65504 at most; precision="bf16" holds what float32 does'
            )
        found = to_bfloat16(given) if plain is None else plain
        found.flags.writeable = False
        return found
