"""Operators on each element, with numpy's broadcasting.

Every operator here is one stage whose loads are at the element's own place (or repeated along an
axis), so a schedule can inline it and fusion may join it to what stands before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from minitensor.errors import ArgumentError, is_real, unexpected
from minitensor.ir import DType
from minitensor.lang import elementwise as functions
from minitensor.lang import scalar
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.tensor import Tensor, compute
from minitensor.lang.workloads.arguments import labelled

Number: TypeAlias = int | float
Operand: TypeAlias = Tensor | Number
"""A tensor, or a number that stays a literal in the expression."""

LABELS = "ijklmnpqrstuvw"


def loops(rank: int) -> list[str]:
    """Names for the loops of a result: i, j, k, …"""
    return list(LABELS[:rank]) if rank <= len(LABELS) else [f"i{axis}" for axis in range(rank)]


def stage(shape: Sequence[int], name: str, element: Callable[..., Any]) -> Tensor:
    """A tensor whose element at an index, given as a tuple, is `element(index)`."""
    made: Tensor = compute(
        tuple(shape), labelled(loops(len(shape)), lambda *index: element(index)), name=name
    )
    return made


def index_of(*parts: Any) -> tuple[Any, ...]:
    """The index of an element, of single places and unpacked ones."""
    return parts


def broadcast_shape(name: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that others broadcast to, as in numpy. Raises ArgumentError where they do not."""
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis}
        wide = extents - {1}
        if len(wide) > 1:
            listed = " and ".join(str(tuple(shape)) for shape in shapes)
            raise ArgumentError(
                f"ops.{name}: the shapes {listed} do not broadcast: axis {axis} has extents "
                f"{', '.join(map(str, sorted(wide)))}; they must be equal, or 1"
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def at(operand: Operand, shape: Sequence[int], index: Sequence[Any]) -> Any:
    """The element of an operand behind an element of the broadcast result; a number itself."""
    if not isinstance(operand, Tensor):
        return operand
    own = index[len(shape) - operand.ndim :]
    return operand[
        tuple(
            0 if n == 1 != m else i
            for n, m, i in zip(operand.shape, shape[len(shape) - operand.ndim :], own)
        )
    ]


def _of_one(name: str, x: Tensor, function: Callable[[Any], Any]) -> Tensor:
    tensor(f"ops.{name}: x", x)
    return stage(x.shape, name, lambda i: function(x[i]))


def _of_two(name: str, a: Operand, b: Operand, function: Callable[[Any, Any], Any]) -> Tensor:
    given = [one for one in (a, b) if isinstance(one, Tensor)]
    for label, one in (("a", a), ("b", b)):
        if not isinstance(one, Tensor) and (not given or not is_real(one, -math.inf, math.inf)):
            raise unexpected("a tensor, or a number beside a tensor", f"ops.{name}: {label}", one)
    if len({one.dtype for one in given}) > 1:
        raise ArgumentError(
            f"ops.{name}: a is {given[0].dtype} and b is {given[1].dtype}; ops.cast converts one"
        )
    shape = broadcast_shape(name, *(one.shape for one in given))
    return stage(shape, name, lambda i: function(at(a, shape, i), at(b, shape, i)))


# ---- of one tensor: x and the result have one shape; the dtype is that of x


@operator("x")
def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return _of_one("relu", x, lambda v: scalar.maximum(v, 0))


@operator("x")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x where it is positive, alpha * x elsewhere."""
    return _of_one("leaky_relu", x, lambda v: scalar.select(v > 0, v, v * alpha))


@operator("x")
def clip(x: Tensor, *, low: Number | None = None, high: Number | None = None) -> Tensor:
    """x, at least `low` and at most `high`; None for no bound."""

    def between(v: Any) -> Any:
        v = v if low is None else scalar.maximum(v, low)
        return v if high is None else scalar.minimum(v, high)

    return _of_one("clip", x, between)


@operator("x")
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _of_one("sigmoid", x, functions.sigmoid)


@operator("x")
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return _of_one("silu", x, lambda v: v * functions.sigmoid(v))


@operator("x")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """max(0, min(1, alpha * x + beta))."""
    return _of_one(
        "hard_sigmoid", x, lambda v: scalar.maximum(scalar.minimum(v * alpha + beta, 1.0), 0.0)
    )


@operator("x")
def hard_swish(x: Tensor) -> Tensor:
    """x * max(0, min(1, x / 6 + 1/2))."""
    return _of_one(
        "hard_swish",
        x,
        lambda v: v * scalar.maximum(scalar.minimum(v * (1 / 6) + 0.5, 1.0), 0.0),
    )


@operator("x")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x * Phi(x), the normal distribution by erf; "tanh" for the approximation by tanh.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, §2.
    """
    if approximate not in ("none", "tanh"):
        raise unexpected('"none" or "tanh"', "ops.gelu: approximate", approximate)

    def by_erf(v: Any) -> Any:
        return v * 0.5 * (functions.erf(v * (1 / math.sqrt(2))) + 1.0)

    def by_tanh(v: Any) -> Any:
        return v * 0.5 * (functions.tanh((v + v * v * v * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)

    return _of_one("gelu", x, by_erf if approximate == "none" else by_tanh)


@operator("x")
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return _of_one("tanh", x, functions.tanh)


@operator("x")
def erf(x: Tensor) -> Tensor:
    """The error function."""
    return _of_one("erf", x, functions.erf)


@operator("x")
def exp(x: Tensor) -> Tensor:
    """The exponential."""
    return _of_one("exp", x, functions.exp)


@operator("x")
def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return _of_one("log", x, functions.log)


@operator("x")
def sqrt(x: Tensor) -> Tensor:
    """The square root."""
    return _of_one("sqrt", x, functions.sqrt)


@operator("x")
def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return _of_one("rsqrt", x, functions.rsqrt)


@operator("x")
def reciprocal(x: Tensor) -> Tensor:
    """1 / x."""
    return _of_one("reciprocal", x, lambda v: 1.0 / v)


@operator("x")
def abs(x: Tensor) -> Tensor:
    """The absolute value."""
    return _of_one("abs", x, scalar.abs_)


@operator("x")
def neg(x: Tensor) -> Tensor:
    """-x."""
    return _of_one("neg", x, lambda v: -v)


@operator("x")
def floor(x: Tensor) -> Tensor:
    """The largest integer that is not above x."""
    return _of_one("floor", x, functions.floor)


@operator("x")
def ceil(x: Tensor) -> Tensor:
    """The least integer that is not below x."""
    return _of_one("ceil", x, functions.ceil)


@operator("x")
def round(x: Tensor) -> Tensor:
    """The nearest integer, ties to even."""
    return _of_one("round", x, functions.round_)


@operator("x")
def sin(x: Tensor) -> Tensor:
    """The sine."""
    return _of_one("sin", x, functions.sin)


@operator("x")
def cos(x: Tensor) -> Tensor:
    """The cosine."""
    return _of_one("cos", x, functions.cos)


@operator("x")
def identity(x: Tensor) -> Tensor:
    """x itself."""
    return _of_one("identity", x, lambda v: v)


@operator("x")
def cast(x: Tensor, *, dtype: str) -> Tensor:
    """x as another dtype: to an integer by truncation, to bool whether it is not 0."""
    wanted = DType.of(dtype)
    return _of_one("cast", x, lambda v: v.astype(wanted))


@operator("x")
def logical_not(x: Tensor) -> Tensor:
    """True where x, of bool, does not hold."""
    return _of_one("logical_not", x, scalar.logical_not)


# ---- of two, which broadcast; one of them may be a number


@operator("a", "b")
def add(a: Operand, b: Operand) -> Tensor:
    """a + b."""
    return _of_two("add", a, b, lambda u, v: u + v)


@operator("a", "b")
def sub(a: Operand, b: Operand) -> Tensor:
    """a - b."""
    return _of_two("sub", a, b, lambda u, v: u - v)


@operator("a", "b")
def mul(a: Operand, b: Operand) -> Tensor:
    """a * b."""
    return _of_two("mul", a, b, lambda u, v: u * v)


@operator("a", "b")
def div(a: Operand, b: Operand) -> Tensor:
    """a / b of floats. Raises ArgumentError for integers."""
    for one in (a, b):
        if isinstance(one, Tensor) and not one.dtype.is_float:
            raise ArgumentError(f"ops.div: expected floats, but got {one.dtype}; cast them first")
    return _of_two("div", a, b, lambda u, v: u / v)


@operator("a", "b")
def power(a: Operand, b: Operand) -> Tensor:
    """a to the power of b; squares and cubes of a number b are products."""
    if not isinstance(b, Tensor) and b in (2, 3):
        return _of_two("power", a, b, lambda u, v: u * u if v == 2 else u * u * u)
    return _of_two("power", a, b, scalar.power)


@operator("a", "b")
def maximum(a: Operand, b: Operand) -> Tensor:
    """The larger of two; NaN if one is."""
    return _of_two("maximum", a, b, scalar.maximum)


@operator("a", "b")
def minimum(a: Operand, b: Operand) -> Tensor:
    """The smaller of two; NaN if one is."""
    return _of_two("minimum", a, b, scalar.minimum)


@operator("a", "b")
def equal(a: Operand, b: Operand) -> Tensor:
    """True where a equals b, as bool."""
    return _of_two("equal", a, b, lambda u, v: u == v)


@operator("a", "b")
def less(a: Operand, b: Operand) -> Tensor:
    """True where a is less than b, as bool."""
    return _of_two("less", a, b, lambda u, v: u < v)


@operator("a", "b")
def greater(a: Operand, b: Operand) -> Tensor:
    """True where a is greater than b, as bool."""
    return _of_two("greater", a, b, lambda u, v: u > v)


@operator("a", "b")
def logical_and(a: Tensor, b: Tensor) -> Tensor:
    """True where both of two bools hold."""
    return _of_two("logical_and", a, b, scalar.logical_and)


@operator("a", "b")
def logical_or(a: Tensor, b: Tensor) -> Tensor:
    """True where one of two bools holds."""
    return _of_two("logical_or", a, b, scalar.logical_or)


@operator("condition", "a", "b")
def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """a where the condition, of bool, holds, else b; all three broadcast."""
    tensor("ops.where: condition", condition)
    if condition.dtype.kind != "bool":
        raise ArgumentError(f"ops.where: expected a condition of bool, but got {condition.dtype}")
    given = [one for one in (condition, a, b) if isinstance(one, Tensor)]
    shape = broadcast_shape("where", *(one.shape for one in given))

    def element(i: Any) -> Any:
        return scalar.select(at(condition, shape, i), at(a, shape, i), at(b, shape, i))

    return stage(shape, "where", element)
