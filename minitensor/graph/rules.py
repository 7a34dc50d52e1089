"""The rewrites of `graph.optimize`: each a rule with its obligation, which tests prove on drawn
graphs.

Order matters where several apply to one node. "Equal" is equal as numbers in exact arithmetic; a
rule that keeps every bit says so.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import CompileError
from minitensor.graph.meaning import by_interpreter, program_of
from minitensor.graph.nodes import Node, Nodes, constant_value
from minitensor.graph.quantized import QUANTIZED, is_of_product
from minitensor.graph.rewrite import Made, Match, Number, Rule, Var, call
from minitensor.runtime import find_toolchain, load_program, native_target

X, Y, W, B = Var("x"), Var("y"), Var("w", constant=True), Var("b", constant=True)
GAMMA = Var("gamma")
MEAN, VARIANCE = Var("mean", constant=True), Var("variance", constant=True)
SCALE, SHIFT = Var("scale", constant=True), Var("shift", constant=True)

INTERPRETED: Final = 20_000
"""The most instances of blocks that folding leaves to the interpreter."""
LARGEST_FOLDED: Final = 1 << 26
"""Bytes of the largest constant that folding makes of smaller ones: a broadcast is left alone."""


# ---- nothing is computed


def _same(found: Match, made: Made) -> str | None:
    """The input itself, where it has the shape and the dtype of the result."""
    value = found.value("x")
    result = found.node.result
    return found.x if (value.shape, value.dtype) == (result.shape, result.dtype) else None


def _transposed_by(node: Node, rank: int) -> tuple[int, ...]:
    axes = node.attribute("axes")
    return tuple(range(rank))[::-1] if axes is None else tuple(axis % rank for axis in axes)


def _no_transpose(found: Match, made: Made) -> str | None:
    rank = len(found.node.result.shape)
    return found.x if _transposed_by(found.node, rank) == tuple(range(rank)) else None


def _one_transpose(found: Match, made: Made) -> str | None:
    rank = len(found.node.result.shape)
    inner, outer = (_transposed_by(n, rank) for n in (found.nodes["inner"], found.node))
    return made.transpose(found.x, axes=tuple(inner[axis] for axis in outer))


def _as_reshape(found: Match, made: Made) -> str | None:
    return made.reshape(found.x, shape=found.node.result.shape)


def _moved_units(found: Match, made: Made) -> str | None:
    """A transpose that only moves axes of extent 1 is a reshape."""
    shape = found.value("x").shape
    order = _transposed_by(found.node, len(shape))
    kept = [axis for axis in order if shape[axis] != 1]
    return made.reshape(found.x, shape=found.node.result.shape) if kept == sorted(kept) else None


# ---- constants


def _folded(found: Match, made: Made) -> str | None:
    """The value of a node all of whose inputs are constants."""
    graph, node = found.graph, found.node
    if not all(name in graph.constants for name in node.inputs):
        return None
    if node.operator == "dequantize" and is_of_product(graph, node):
        return None
    given = sum(graph.values[name].nbytes for name in node.inputs)
    if node.result.nbytes > max(given, LARGEST_FOLDED) or node.result.dtype.is_packed:
        return None
    return made.constant(fold(node, [graph.constants[name] for name in node.inputs]), node.operator)


def fold(node: Node, arrays: list[np.ndarray]) -> np.ndarray:
    """The result of a node on arrays: by numpy where elements only move, else by its program."""
    if node.operator == "reshape":
        return arrays[0].reshape(node.result.shape)
    if node.operator == "transpose":
        return np.ascontiguousarray(arrays[0].transpose(_transposed_by(node, arrays[0].ndim)))
    values = {name: constant_value(name, array) for name, array in zip(node.inputs, arrays)}
    alone = Nodes("fold", tuple(values.values()), (node,), (node.name,))
    part = program_of(alone, (node.name,))
    inputs = [arrays[node.inputs.index(name)] for name in part.inputs]
    return np.asarray(_run(part.program, inputs))


def _run(program: ir.Program, arrays: list[np.ndarray]) -> Any:
    """The result of a program: compiled where it is long and there is a compiler."""
    instances = sum(math.prod(i.extent for i in b.iters) for b in program.blocks.values())
    if instances > INTERPRETED:
        with contextlib.suppress(CompileError):
            target = native_target(Target.of("c"))
            return load_program(program, target, "", find_toolchain())(*arrays)
    return by_interpreter(program, arrays)[0]


# ---- batch normalisation


def _scale_and_shift(found: Match) -> tuple[np.ndarray, np.ndarray]:
    """batch_norm(x) = x * scale + shift, for each channel, in float64."""
    gamma, beta, mean, variance = (
        found.array(name).astype(np.float64) for name in ("gamma", "beta", "mean", "variance")
    )
    scale = gamma / np.sqrt(variance + float(found.node.attribute("eps", 1e-5)))
    return scale, beta - mean * scale


def _into_convolution(found: Match, made: Made) -> str | None:
    """batch_norm(conv(x, w, b)) = conv(x, w * scale, b * scale + shift)."""
    conv = found.nodes["conv"]
    weight, (scale, shift) = found.array("w"), _scale_and_shift(found)
    bias = found.array("b").astype(np.float64) if "b" in found.values else 0.0
    if conv.operator.startswith("conv_transpose"):
        groups = conv.attribute("groups", 1)
        own = np.repeat(scale.reshape(groups, -1), len(weight) // groups, axis=0)
        per_channel = own.reshape(*own.shape, *(1,) * (weight.ndim - 2))
    else:
        per_channel = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    folded = (weight * per_channel).astype(weight.dtype)
    return made.__getattr__(conv.operator)(
        found.x, folded, (bias * scale + shift).astype(weight.dtype), **dict(conv.attributes)
    )


def _norm_rules() -> list[Rule]:
    rules = []
    for operator in (f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)):
        for inputs in ((X, W), (X, W, B)):
            conv = call(operator, *inputs, name="conv")
            statistics = (Var("gamma", True), Var("beta", True), MEAN, VARIANCE)
            pattern = call("batch_norm", conv, *statistics)
            rules.append(
                Rule(
                    f"batch_norm into {operator}",
                    pattern,
                    _into_convolution,
                    "linear in the weights",
                )
            )
    return rules


# ---- names for what is written out


def _layer_norm(found: Match, made: Made) -> str | None:
    """The mean of a last axis, taken off; divided by the root of the mean of squares."""
    axes = [found.nodes[name].attribute("axes") for name in ("first", "second")]
    rank = len(found.value("x").shape)
    if any(a is None or tuple(x % rank for x in a) != (rank - 1,) for a in axes):
        return None
    if not all(found.nodes[name].attribute("keepdims", True) for name in ("first", "second")):
        return None
    return made.layer_norm(found.x, eps=found.nodes["epsilon"].attribute("b"))


def _with_parameter(found: Match, made: Made) -> str | None:
    """A layer norm with the scale, or the shift, that follows it."""
    norm, last = found.nodes["norm"], found.node.result.shape[-1:]
    name = "gamma" if found.node.operator == "mul" else "beta"
    if found.value("w").shape != last or name in norm.operands or "beta" in norm.operands:
        return None
    parts = dict(zip(norm.operands[1:], norm.inputs[1:])) | {name: found.w}
    return made.layer_norm(found.x, **parts, **dict(norm.attributes))


def _layer_norm_rules() -> list[Rule]:
    centred = call("sub", X, call("reduce_mean", X, name="first"))
    for_both = []
    for square in (call("power", centred, 2.0), call("mul", centred, centred)):
        variance = call("reduce_mean", square, name="second")
        root = call("sqrt", call("add", variance, Number(), name="epsilon"))
        for_both.append(call("div", centred, root))
    rules = [Rule("layer_norm", norm, _layer_norm, "its definition") for norm in for_both]
    bare, scaled = call("layer_norm", X, name="norm"), call("layer_norm", X, GAMMA, name="norm")
    for operator, norm in (("mul", bare), ("add", bare), ("add", scaled)):
        pattern = call(operator, norm, W)
        rules.append(Rule("parameter of layer_norm", pattern, _with_parameter, "its definition"))
    return rules


def _gelu_rules() -> list[Rule]:
    """x/2 * (1 + erf(x / sqrt 2)), in the orders in which exporters write the factors."""
    rules = []
    for inner in (call("div", X, math.sqrt(2)), call("mul", X, 1 / math.sqrt(2))):
        one = call("add", call("erf", inner), 1.0)
        for pattern in (
            call("mul", call("mul", X, one), 0.5),
            call("mul", call("mul", X, 0.5), one),
            call("mul", X, call("mul", one, 0.5)),
        ):
            rules.append(Rule("gelu", pattern, lambda m, made: made.gelu(m.x), "its definition"))
    cube = [
        call("power", X, 3.0),
        call("mul", X, call("mul", X, X)),
        call("mul", call("mul", X, X), X),
    ]
    for third in cube:
        sum_ = call("add", X, call("mul", third, 0.044715))
        one = call("add", call("tanh", call("mul", sum_, math.sqrt(2 / math.pi))), 1.0)
        for pattern in (
            call("mul", call("mul", X, 0.5), one),
            call("mul", call("mul", X, one), 0.5),
        ):
            rules.append(
                Rule(
                    "gelu by tanh",
                    pattern,
                    lambda m, made: made.gelu(m.x, approximate="tanh"),
                    "its definition",
                )
            )
    return rules


def _plus_nothing(found: Match, made: Made) -> str | None:
    """x + 0 = x; only -0 becomes 0 in the sum."""
    return _same(found, made) if not found.array("w").any() else None


RULES: Final[tuple[Rule, ...]] = (
    Rule("identity", call("identity", X), _same, "the same bits"),
    Rule("cast to its own type", call("cast", X), _same, "the same bits"),
    *QUANTIZED,
    Rule("constant folding", None, _folded, "computed by the same program, now"),
    Rule("reshape of reshape", call("reshape", call("reshape", X)), _as_reshape, "the same bits"),
    Rule("reshape to its own shape", call("reshape", X), _same, "the same bits"),
    Rule(
        "transpose of transpose",
        call("transpose", call("transpose", X, name="inner")),
        _one_transpose,
        "the same bits",
    ),
    Rule("transpose in order", call("transpose", X), _no_transpose, "the same bits"),
    Rule("transpose of units as reshape", call("transpose", X), _moved_units, "the same bits"),
    *_norm_rules(),
    Rule(
        "silu", call("mul", X, call("sigmoid", X)), lambda m, made: made.silu(m.x), "its definition"
    ),
    Rule(
        "hard_swish",
        call(
            "mul",
            X,
            call(
                "hard_sigmoid",
                X,
                alpha=lambda a: a is not None and math.isclose(a, 1 / 6, rel_tol=1e-6),
                beta=0.5,
            ),
        ),
        lambda m, made: made.hard_swish(m.x),
        "its definition",
    ),
    *_gelu_rules(),
    *_layer_norm_rules(),
    Rule("plus nothing", call("add", X, W), _plus_nothing, "-0 may become 0"),
)
"""The rules of `optimize`, in order."""
