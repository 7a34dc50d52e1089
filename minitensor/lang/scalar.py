"""Symbolic scalars: what a user computes with inside `compute`.

A `Scalar` wraps an IR expression and gives it Python's operators and numpy's habits. Types are
promoted by category, as in PyTorch: bool < integer < float, a Python number takes the type of the
other operand, within a category the wider type wins. Loop indices count as int64 when mixed with
data. Nothing is computed here; every operation builds a node.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Final, Literal, NoReturn

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, shown, unexpected
from minitensor.lang.numpy_names import OURS, REFLECTED
from minitensor.lang.promotion import as_float, converted, is_number, is_whole, promote

_SYMBOLIC: Final = (
    "it is symbolic: its value is known only when the kernel runs. "
    "Use mt.if_then_else or mt.select instead of `if`, and mt.logical_and / or / not "
    "instead of `and` / `or` / `not` and of chained comparisons"
)


class Label(str):
    """A variable's name, unique in the process, that remembers what the user called it."""

    label: str
    counter = 0

    @classmethod
    def fresh(cls, label: str) -> Label:
        """A name that no other variable has."""
        cls.counter += 1
        name = cls(f"{label}#{cls.counter}")
        name.label = label
        return name


def _infix(op: ir.BinaryOp, swapped: bool = False) -> Callable[[Scalar, Any], Scalar]:
    """The method of a Scalar for an operator; `swapped` where the Scalar stands on its right."""

    def method(self: Scalar, other: Any) -> Scalar:
        return binary(op, other, self) if swapped else binary(op, self, other)

    return method


class Scalar:
    """One symbolic value, with the arithmetic of Python and the types of numpy.

    & | ^ ~ join conditions, or the bits of integers; << and >> shift an integer, which keeps its
    type: what leaves at the top is lost, >> keeps the sign. A number of places that is known now
    must be below the width of the type; another, negative or too large, counts modulo the width.
    """

    __slots__ = ("node",)

    def __init__(self, node: ir.Expr) -> None:
        self.node = node

    @property
    def dtype(self) -> ir.DType:
        """The type of the value; "index" for what is computed from loop indices alone."""
        return self.node.dtype

    def astype(self, dtype: str) -> Scalar:
        """The value converted: rounded to a float, truncated to an integer, which wraps.

        What no 64-bit integer holds, NaN too, becomes the integer 0.
        """
        return Scalar(converted(self.node, ir.DType.of(dtype)))

    def __repr__(self) -> str:
        return describe(self.node)

    def __bool__(self) -> NoReturn:
        raise ArgumentError(f"{describe(self.node)} has no truth value: {_SYMBOLIC}")

    def __float__(self) -> NoReturn:
        raise ArgumentError(f"{describe(self.node)} is symbolic, no number: for math.exp, mt.exp")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> Scalar:
        """An operator with a number of numpy on its left. Functions are answered with ours."""
        name = ufunc.__name__
        if method == "__call__" and name in REFLECTED and inputs[-1] is self and not options:
            left = inputs[0]
            number = left[()] if isinstance(left, np.ndarray) else left
            result: Scalar = getattr(self, REFLECTED[name])(number)
            return result
        ours = OURS.get(name, name)
        here = f"write mt.{ours}" if name in OURS or ours in ir.FUNCTIONS else "see docs/math.md"
        if method != "__call__":
            here = "a reduction is mt.sum(…, axis=k) and its like, with k = mt.reduce_axis(n)"
        raise ArgumentError(f"np.{name} is for numbers, and {self!r} is symbolic; {here}")

    __hash__ = object.__hash__

    __add__, __radd__ = _infix("+"), _infix("+", swapped=True)
    __sub__, __rsub__ = _infix("-"), _infix("-", swapped=True)
    __mul__, __rmul__ = _infix("*"), _infix("*", swapped=True)
    __truediv__, __rtruediv__ = _infix("/"), _infix("/", swapped=True)
    __floordiv__, __rfloordiv__ = _infix("//"), _infix("//", swapped=True)
    __mod__, __rmod__ = _infix("%"), _infix("%", swapped=True)

    def __pow__(self, other: Any) -> Scalar:
        return power(self, other)

    def __rpow__(self, other: Any) -> Scalar:
        return power(other, self)

    def __neg__(self) -> Scalar:
        if self.dtype.kind == "bool":
            raise ArgumentError(f"expected a number to negate, but got the bool {self!r}")
        return Scalar(ir.Unary("-", self.node))

    def __abs__(self) -> Scalar:
        return abs_(self)

    __lt__, __gt__ = _infix("<"), _infix("<", swapped=True)
    __le__, __ge__ = _infix("<="), _infix("<=", swapped=True)

    def __eq__(self, other: object) -> Scalar:  # type: ignore[override]
        return binary("==", self, other)

    def __ne__(self, other: object) -> Scalar:  # type: ignore[override]
        return binary("!=", self, other)

    def __and__(self, other: Any) -> Scalar:
        return _joined("&", self, other)

    def __rand__(self, other: Any) -> Scalar:
        return _joined("&", other, self)

    def __or__(self, other: Any) -> Scalar:
        return _joined("|", self, other)

    def __ror__(self, other: Any) -> Scalar:
        return _joined("|", other, self)

    def __xor__(self, other: Any) -> Scalar:
        return _joined("^", self, other)

    def __rxor__(self, other: Any) -> Scalar:
        return _joined("^", other, self)

    def __invert__(self) -> Scalar:
        if self.dtype.is_integer:  # -1 - x, in which no bit is borrowed
            return binary("-", Scalar(ir.const(-1, self.dtype)), self)
        if self.dtype != ir.BOOL:
            raise ArgumentError(
                f"~ is for integers and conditions, but got {self!r} of type {self.dtype}"
            )
        return logical_not(self)

    def __lshift__(self, places: Any) -> Scalar:
        return _shifted("<<", self, places)

    def __rshift__(self, places: Any) -> Scalar:
        return _shifted(">>", self, places)

    def __rlshift__(self, other: Any) -> Scalar:
        return _shifted("<<", Scalar(operand(other, self.dtype)), self)

    def __rrshift__(self, other: Any) -> Scalar:
        return _shifted(">>", Scalar(operand(other, self.dtype)), self)

    def __iter__(self) -> NoReturn:
        raise ArgumentError(f"{self!r} is one value and cannot be iterated over")


def var(name: str, dtype: str = "index") -> Scalar:
    """A free variable, for writing expressions outside of `compute` (see `mt.simplify`)."""
    if not isinstance(name, str) or not name:
        raise unexpected("a name", "name", name)
    return Scalar(ir.Var(name, ir.INDEX if dtype == "index" else ir.DType.of(dtype)))


def const(value: float, dtype: str) -> Scalar:
    """A number of a given type: integers wrap, floats are held as Python floats until used."""
    if not is_number(value):
        raise unexpected("a number", "value", value)
    kind = ir.DType.of(dtype)
    if kind.is_float:
        return Scalar(ir.const(as_float(value, "value"), kind))
    if not is_whole(value):
        raise unexpected(f"an integer for {kind}", "value", value)
    return Scalar(ir.const(int(value), kind))


def describe(node: ir.Expr) -> str:
    """An expression as text, with the names that the user gave; a large one in a few words."""

    def rename(n: Any) -> Any:
        if isinstance(n, ir.Var):
            return ir.Var(getattr(n.name, "label", n.name), n.dtype)
        is_load = isinstance(n, ir.Load)
        return ir.Load(getattr(n.buffer, "label", n.buffer), n.indices, n.dtype) if is_load else n

    return ir.summary_if_large(node) or ir.print_expr(ir.rewrite(node, rename))


# ---- operands and their types


def operand(value: object, other: ir.DType | None = None) -> ir.Expr:
    """A Scalar's node, or a number as a constant that suits an operand of type `other`."""
    if isinstance(value, Scalar):
        return value.node
    if not is_number(value):
        misplaced = getattr(value, "misplaced", None)
        if misplaced is not None:
            raise misplaced()
        raise unexpected("a number or a symbolic value", "operand", value)
    if isinstance(value, (bool, np.bool_)):
        among = other is not None and other.kind == "index"  # A[i + (n == axis)]
        return ir.const(int(value), ir.INDEX) if among else ir.const(bool(value), ir.BOOL)
    if isinstance(value, numbers.Integral):
        number = int(value)
        if other is None or other.kind == "index":
            dtype = ir.INDEX
        elif other.kind == "bool":
            dtype = ir.INT64
        else:
            dtype = other
        if dtype.is_float and abs(number) > 2**1023:
            raise ArgumentError(f"a number of {number.bit_length()} bits does not fit {dtype}")
        if dtype.is_integer and not dtype.min_value <= number <= dtype.max_value:
            raise ArgumentError(f"the number {number} does not fit {dtype}; convert with .astype")
        return ir.const(number, dtype)
    assert isinstance(value, numbers.Real)
    return ir.const(
        as_float(value, "operand"), other if other is not None and other.is_float else ir.FLOAT32
    )


def operands(a: object, b: object) -> tuple[ir.Expr, ir.Expr]:
    """Two operands brought to their common type."""
    x = operand(a, b.dtype if isinstance(b, Scalar) else None)
    y = operand(b, a.dtype if isinstance(a, Scalar) else None)
    common = promote(x.dtype, y.dtype)
    return converted(x, common), converted(y, common)


def binary(op: ir.BinaryOp, a: object, b: object) -> Scalar:
    """`a op b`, after promotion."""
    x, y = operands(a, b)
    kind = x.dtype.kind
    if op in ("==", "!=", "<", "<="):
        return Scalar(ir.Binary(op, x, y))
    if op in ("min", "max"):
        if kind == "bool":
            op = "and" if op == "min" else "or"
        return Scalar(ir.Binary(op, x, y))
    if kind == "bool":
        x, y = converted(x, ir.INT64), converted(y, ir.INT64)
    if op in ("//", "%"):
        if not x.dtype.is_integer:
            raise ArgumentError(
                f"{op} is for integers, but got {x.dtype}; write mt.floor(a / b) for floats"
            )
        if isinstance(y, ir.Const) and y.value == 0:
            raise ArgumentError(f"{describe(x)} {op} 0 divides by zero")
    if op == "/" and not x.dtype.is_float:
        x, y = converted(x, ir.FLOAT32), converted(y, ir.FLOAT32)
    if x.dtype == ir.INDEX:
        return Scalar(ir.arithmetic(op, x, y))
    return Scalar(ir.Binary(op, x, y))


def _shifted(op: Literal["<<", ">>"], value: Scalar, places: Any) -> Scalar:
    """An integer with its bits moved by a number of places; a Scalar counts modulo the width.

    Of an index that is a product or a quotient, which is understood where elements are accessed.
    """
    dtype = value.dtype
    if not dtype.is_integer:
        raise ArgumentError(f"{op} is for integers, but got {value!r} of type {dtype}")
    known = places.node.value if _is_constant(places) else places
    node = _as_data(value.node)
    if isinstance(known, Scalar) and known.dtype.is_integer:
        return Scalar(ir.Binary(op, node, converted(known.node, node.dtype)))
    if not isinstance(known, numbers.Integral) or isinstance(known, bool):
        raise unexpected("a whole number of places", "places", places)
    if not 0 <= int(known) < dtype.bits:
        raise unexpected(f"from 0 to {dtype.bits - 1} places of {dtype}", "places", places)
    if dtype == ir.INDEX and int(known) < dtype.bits - 1:
        return binary("*" if op == "<<" else "//", value, 1 << int(known))
    return Scalar(ir.Binary(op, node, ir.const(int(known), node.dtype)))


def _joined(op: Literal["&", "|", "^"], a: Any, b: Any) -> Scalar:
    """The bits of two integers joined, or two conditions."""
    if _is_integer(a) and _is_integer(b):
        x, y = (_as_data(side) for side in operands(a, b))
        return Scalar(ir.Binary(op, x, y))
    for side, other in ((a, b), (b, a)):
        if isinstance(side, Scalar) and side.dtype != ir.BOOL:
            beside = (
                f"{other!r} of type {other.dtype}" if isinstance(other, Scalar) else shown(other)
            )
            raise ArgumentError(
                f"{op} is for two integers or two conditions, but got {side!r} of type "
                f"{side.dtype} beside {beside}; astype() makes an integer of a float"
            )
    if op == "^":
        return binary("!=", Scalar(condition(a)), Scalar(condition(b)))
    return logical_and(a, b) if op == "&" else logical_or(a, b)


def _is_integer(value: Any) -> bool:
    """Tell whether a value is an integer, known or not, and no bool."""
    if isinstance(value, Scalar):
        return value.dtype.is_integer
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_constant(value: Any) -> bool:
    return isinstance(value, Scalar) and isinstance(value.node, ir.Const)


def _as_data(node: ir.Expr) -> ir.Expr:
    """An index as the int64 that it counts as beside data."""
    return converted(node, ir.INT64) if node.dtype == ir.INDEX else node


def condition(value: object) -> ir.Expr:
    """A value as a condition: a number is true if it is not 0."""
    return converted(operand(value), ir.BOOL)


# ---- functions, under the names that users call


def logical_and(*conditions: object) -> Scalar:
    """The conjunction of one condition or more. Each is evaluated; a number is true if not 0."""
    return _join("and", conditions)


def logical_or(*conditions: object) -> Scalar:
    """The disjunction of one condition or more. Each is evaluated; a number is true if not 0."""
    return _join("or", conditions)


def _join(op: Literal["and", "or"], conditions: tuple[object, ...]) -> Scalar:
    if not conditions or any(isinstance(one, (list, tuple)) for one in conditions):
        form = f"mt.logical_{op}(a, b); of a list mt.logical_{op}(*conditions)"
        got = ", ".join(map(shown, conditions)) or "none"
        raise ArgumentError(f"expected one condition or more, {form}; but got {got}")
    result = condition(conditions[0])
    for value in conditions[1:]:
        result = ir.Binary(op, result, condition(value))
    return Scalar(result)


def logical_not(a: object) -> Scalar:
    """The negation of a condition."""
    return Scalar(ir.Unary("not", condition(a)))


def select(cond: object, a: object, b: object) -> Scalar:
    """`a` where the condition holds, else `b`. Both are evaluated, so both must be in bounds."""
    x, y = operands(a, b)
    return Scalar(ir.Select(condition(cond), x, y))


def if_then_else(cond: object, a: object, b: object) -> Scalar:
    """`a` where the condition holds, else `b`; only that side is evaluated. For padding."""
    x, y = operands(a, b)
    return Scalar(ir.Select(condition(cond), x, y, lazy=True))


def minimum(a: object, b: object) -> Scalar:
    """The smaller one; NaN if either is NaN, as numpy.minimum."""
    return binary("min", a, b)


def maximum(a: object, b: object) -> Scalar:
    """The larger one; NaN if either is NaN, as numpy.maximum."""
    return binary("max", a, b)


def popcount(x: object) -> Scalar:
    """The number of bits that are set in an integer, as its type; of -1 all of them.

    Raises ArgumentError for what is no integer of a type such as uint32.
    """
    node = operand(x, ir.INT64)
    if node.dtype.kind not in ("int", "uint"):
        raise unexpected("an integer of a type, such as uint32", "x", x)
    return Scalar(ir.Call("popcount", (node,), node.dtype))


def abs_(x: object) -> Scalar:
    """The absolute value (of the least integer of a type: itself, as it wraps)."""
    node = operand(x, ir.FLOAT32)
    if node.dtype.kind == "bool":
        raise unexpected("a number", "x", x)
    if node.dtype.kind == "uint":
        return Scalar(node)
    if node.dtype == ir.INDEX:
        return Scalar(ir.Binary("max", node, ir.Unary("-", node)))
    return Scalar(ir.Call("abs", (node,), node.dtype))


def power(a: object, b: object) -> Scalar:
    """`a` to the power `b` as C's pow has it, in floats, on float32 within 0.6 ulp; a small integer
    power of an integer is multiplied out.
    """
    if isinstance(b, numbers.Integral) and isinstance(a, Scalar) and not isinstance(b, bool):
        exponent = int(b)
        if a.dtype.is_integer and 1 <= exponent <= 8:
            result = a
            for _ in range(exponent - 1):
                result = result * a
            return result
    x, y = operands(a, b)
    if not x.dtype.is_float:
        x, y = converted(x, ir.FLOAT32), converted(y, ir.FLOAT32)
    return Scalar(ir.Call("power", (x, y), x.dtype))
