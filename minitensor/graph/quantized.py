"""The rewrite of networks that say where they are quantised: products of bytes in the place of
products of the floats that bytes stand for.

    conv2d(dequantize(x, s, z), dequantize(w, t)) = dequantize(conv_integer(x, w, z), s * t)

What follows stays as it is (a bias, a rectifier, quantize), and fusion makes it one kernel.
Exporters write networks in this form (ONNX: QDQ). Scales and zero points of x are single numbers;
those of w single numbers, or one for each filter or column, where they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor.graph.nodes import Node, Nodes
from minitensor.graph.rewrite import Made, Match, Rule

PRODUCTS: Final = {
    "conv1d": ("x", "w", 0),
    "conv2d": ("x", "w", 0),
    "conv3d": ("x", "w", 0),
    "matmul": ("a", "b", 1),
    "gemm": ("a", "b", 1),
}
"""The operands of each product of floats, and the axis of the second that has its own scales."""


@dataclass(frozen=True, slots=True)
class _Quantised:
    """An operand that was bytes: their name, one scale or several, and zero points."""

    name: str
    scale: np.ndarray
    zero: np.ndarray
    axis: int


def _operand(graph: Nodes, node: Node, operand: str) -> _Quantised | None:
    """The bytes behind an operand; None if it is no dequantised value, or too little is known."""
    at = node.operands.index(operand) if operand in node.operands else -1
    source = graph.by_name.get(node.inputs[at]) if at >= 0 else None
    if source is None or source.operator != "dequantize":
        return None
    parts = dict(zip(source.operands, source.inputs))
    bytes_ = graph.values[parts["x"]]
    found: dict[str, np.ndarray] = {}
    for name, otherwise in (("scale", None), ("zero_point", 0)):
        if name not in parts:
            found[name] = np.asarray(source.attribute(name, otherwise)).reshape(-1)
        elif parts[name] in graph.constants:
            found[name] = graph.constants[parts[name]].reshape(-1)
    if len(found) < 2 or bytes_.dtype not in ("int8", "uint8") or not bytes_.shape:
        return None
    axis = int(source.attribute("axis", 1)) % len(bytes_.shape)
    return _Quantised(bytes_.name, found["scale"].astype(np.float32), found["zero_point"], axis)


def is_of_product(graph: Nodes, node: Node) -> bool:
    """Tell whether a dequantised value is an operand of a product: it is not folded into floats."""
    for name in graph.users[node.name]:
        user = graph.by_name.get(name)
        names = PRODUCTS.get(user.operator, ())[:2] if user is not None else ()
        if user is not None and any(
            own == node.name and operand in names
            for operand, own in zip(user.operands, user.inputs)
        ):
            return True
    return False


def _products_of_bytes(found: Match, made: Made) -> str | None:
    graph, node = found.graph, found.node
    first, second, own = PRODUCTS.get(node.operator, ("", "", 0))
    if not first:
        return None
    left, right = (_operand(graph, node, name) for name in (first, second))
    plain = node.operator != "gemm" or _is_plain(node)
    if left is None or right is None or left.scale.size > 1 or left.zero.size > 1 or not plain:
        return None
    rank = len(graph.values[right.name].shape)
    transposed = node.operator == "gemm" and bool(node.attribute("transpose_b", False))
    columns = rank - 1 if own else 0
    if max(right.scale.size, right.zero.size) > 1 and right.axis != (0 if transposed else columns):
        return None
    name = made.transpose(right.name, axes=(1, 0)) if transposed else right.name
    zero: Any = int(right.zero[0]) if _is_single(right.zero) else right.zero
    if own:
        sums = made.matmul_integer(left.name, name, int(left.zero[0]), zero)
    else:
        window = dict(node.attributes)
        sums = made.conv_integer(left.name, name, zero, x_zero_point=int(left.zero[0]), **window)
    scale = left.scale[0] * right.scale
    one = scale.size == 1
    axis = len(node.result.shape) - 1 if own else 1
    given: Any = float(np.format_float_positional(scale[0])) if one else scale
    result = made.dequantize(sums, given, axis=axis)
    bias = dict(zip(node.operands, node.inputs)).get("bias" if not own else "c")
    if bias is None:
        return result
    if not own:
        bias = made.reshape(bias, shape=(-1, *(1,) * (len(node.result.shape) - 2)))
    return made.add(result, bias)


def _is_plain(node: Node) -> bool:
    """Tell whether a gemm is a product and a sum."""
    scaled = node.attribute("alpha", 1.0) != 1.0 or node.attribute("beta", 1.0) != 1.0
    return not scaled and not node.attribute("transpose_a", False)


def _is_single(values: np.ndarray) -> bool:
    return bool((values == values[0]).all())


def _moved(found: Match, made: Made) -> str | None:
    """A reshape or a transpose of what was bytes moves the bytes."""
    node, source = found.node, _dequantised(found)
    if node.operator not in ("reshape", "transpose") or source is None:
        return None
    return made.dequantize(made.node(node, *source.inputs), **dict(source.attributes))


def _again(found: Match, made: Made) -> str | None:
    """The bytes themselves, where they are quantised as they were."""
    after, before = found.node, _dequantised(found)
    if after.operator != "quantize" or after.operands != ("x",) or before is None:
        return None
    same = all(
        before.attribute(name, usual) == after.attribute(name, usual)
        for name, usual in (("scale", None), ("zero_point", 0))
    )
    alike = found.graph.values[before.inputs[0]].dtype == after.result.dtype
    return before.inputs[0] if same and alike else None


def _dequantised(found: Match) -> Node | None:
    """The node that made floats of bytes by numbers, where the first operand is its result."""
    source = found.graph.by_name.get(found.node.inputs[0]) if found.node.inputs else None
    alone = source is not None and source.operator == "dequantize" and source.operands == ("x",)
    return source if alone else None


QUANTIZED: Final = (
    Rule("products of bytes", None, _products_of_bytes, "linear in both operands; sums are exact"),
    Rule("moved bytes", None, _moved, "the same bits"),
    Rule("quantize of dequantize", None, _again, "x * s / s rounds to x for 16 bits"),
)
"""The rules, in order."""
