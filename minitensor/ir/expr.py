"""Expressions: immutable, compared by structure, never with side effects.

Expr = Var(name)                      a loop variable, or inside a block one of its iters
     | Const(value)
     | Unary(op, a)                   op: -  not
     | Binary(op, a, b)               op: + - * / // % & | ^ << >> min max < <= == != and or
     | Select(condition, a, b, lazy)  lazy: only the taken side is evaluated (padding)
     | Cast(dtype, a)
     | Load(buffer, indices)
     | Call(function, args)           a function of FUNCTIONS, elementwise
     | Ramp(base, stride, lanes)      the vector base, base + stride, …   } only
     | Broadcast(a, lanes)            the vector a, a, …                  } made by
     | Lanes(var, lanes, a)           the vector of `a` for var = 0, 1, … } code generation

Both operands of a Binary have one dtype. `//` and `%` are floor division and its remainder, on
integers only, and total: x // 0 = x % 0 = 0. `and`, `or` and Select without `lazy` evaluate
everything. min and max return NaN if either operand is NaN. `&`, `|` and `^` join the bits of
integers that are no indices; `<<` and `>>` shift them by `b` modulo the width of the type, `>>`
with copies of the sign.

Nodes have the arithmetic operators for writing index expressions (`i*8 + j`), which fold constants
but simplify nothing; comparisons are the functions below, for `==` on nodes is structural equality.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import index
from typing import Final, Literal, SupportsIndex, TypeAlias, get_args

from minitensor.ir.dtype import BOOL, INDEX, DType
from minitensor.ir.facts import Subject, hash_once

UnaryOp: TypeAlias = Literal["-", "not"]
BinaryOp: TypeAlias = Literal[
    "+", "-", "*", "/", "//", "%", "min", "max", "<", "<=", "==", "!=", "and", "or",
    "&", "|", "^", "<<", ">>",
]  # fmt: skip
COMPARISONS: Final = frozenset(("<", "<=", "==", "!="))
LOGICAL: Final = frozenset(("and", "or"))
SHIFTS: Final = frozenset(("<<", ">>"))
BITWISE: Final = SHIFTS | {"&", "|", "^"}

FUNCTIONS: Final[dict[str, int]] = {
    "exp": 1,
    "exp_nonpositive": 1,  # exp, of a number that is known not to be positive, or NaN
    "log": 1,
    "sqrt": 1,
    "rsqrt": 1,
    "tanh": 1,
    "sigmoid": 1,
    "erf": 1,
    "sin": 1,
    "sin_far": 1,  # sin, of a float32 of any size, where many are small (see `emit.wider`)
    "cos": 1,
    "cos_far": 1,
    "log1p": 1,
    "expm1": 1,
    "abs": 1,
    "popcount": 1,  # the bits that are set in an integer
    "floor": 1,
    "ceil": 1,
    "round": 1,
    "power": 2,
    "ldexp": 2,  # x * 2^n, rounded once, for a normal float32 x and a small whole n
    "ldexp_nonpositive": 2,  # the same of x and n + 12583103, for n <= 0
    "reinterpret": 1,  # a number of another type with the same bits (32 or 64 of them)
    "in_bounds": 2,  # in_bounds(index, extent): the index itself, or an execution error
}
"""Each function a Call may name, with its number of arguments. `round` rounds half to even."""


class _Arithmetic(Subject):
    """The operators with which index expressions are written; an int is taken on either side."""

    __slots__ = ()

    def __add__(self, other: Expr | int) -> Expr:
        return arithmetic("+", self, other)

    def __radd__(self, other: int) -> Expr:
        return arithmetic("+", other, self)

    def __sub__(self, other: Expr | int) -> Expr:
        return arithmetic("-", self, other)

    def __neg__(self) -> Expr:
        return 0 - self

    def __rsub__(self, other: int) -> Expr:
        return arithmetic("-", other, self)

    def __mul__(self, other: Expr | int) -> Expr:
        return arithmetic("*", self, other)

    def __rmul__(self, other: int) -> Expr:
        return arithmetic("*", other, self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return arithmetic("//", self, other)

    def __mod__(self, other: Expr | int) -> Expr:
        return arithmetic("%", self, other)


@dataclass(frozen=True, slots=True)
class Var(_Arithmetic):
    """A loop variable, or inside a block one of the block's iters."""

    name: str
    dtype: DType = INDEX


@dataclass(frozen=True, slots=True, eq=False)
class Const(_Arithmetic):
    """A number: `value` is a Python int for integer types, float for float types, bool for bool."""

    value: int | float | bool
    dtype: DType = INDEX

    def __eq__(self, other: object) -> bool:
        """Equal in type and in bits: 0.0 is not -0.0, and NaN is NaN."""
        return (
            isinstance(other, Const)
            and self.dtype == other.dtype
            and _identity(self.value) == _identity(other.value)
        )

    def __hash__(self) -> int:
        return hash((_identity(self.value), self.dtype))


@dataclass(frozen=True, slots=True)
class Unary(_Arithmetic):
    """`-a` on numbers or `not a` on booleans."""

    op: UnaryOp
    a: Expr
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, slots=True)
class Binary(_Arithmetic):
    """`a op b`, both of one dtype; a comparison gives bool."""

    op: BinaryOp
    a: Expr
    b: Expr
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _binary_dtype(self.op, self.a.dtype))


@dataclass(frozen=True, slots=True)
class Select(_Arithmetic):
    """`a` where the condition holds, else `b`; if `lazy`, the other side is not evaluated."""

    condition: Expr
    a: Expr
    b: Expr
    lazy: bool = False
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, slots=True)
class Cast(_Arithmetic):
    """`a` converted: to an integer by truncation and wrapping (what no 64-bit integer holds, NaN
    too, becomes 0), to a float by rounding to nearest.
    """

    dtype: DType
    a: Expr


@dataclass(frozen=True, slots=True)
class Load(_Arithmetic):
    """One element of a buffer (or, after vectorization, one a lane)."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(_Arithmetic):
    """An elementwise function of FUNCTIONS."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ramp(_Arithmetic):
    """The vector (base, base + stride, …) of `lanes` integers."""

    base: Expr
    stride: int
    lanes: int
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.base.dtype.with_lanes(self.lanes))


@dataclass(frozen=True, slots=True)
class Broadcast(_Arithmetic):
    """The vector that holds the scalar `a` in every lane."""

    a: Expr
    lanes: int
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype.with_lanes(self.lanes))


@dataclass(frozen=True, slots=True)
class Lanes(_Arithmetic):
    """The vector whose lane l is the scalar `a` evaluated with `var` = l."""

    var: str
    lanes: int
    a: Expr
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype.with_lanes(self.lanes))


Expr: TypeAlias = (
    Var | Const | Unary | Binary | Select | Cast | Load | Call | Ramp | Broadcast | Lanes
)
for _kind in get_args(Expr):
    hash_once(_kind)

TRUE: Final = Const(True, BOOL)
FALSE: Final = Const(False, BOOL)


def _binary_dtype(op: BinaryOp, operand: DType) -> DType:
    return BOOL.with_lanes(operand.lanes) if op in COMPARISONS else operand


def _identity(value: float) -> object:
    """A key equal exactly for equal numbers, with NaN equal to itself and -0.0 not to 0.0."""
    if value != value:
        return "nan"
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def const(value: float, dtype: DType = INDEX) -> Const:
    """The constant as `dtype` holds it: integers wrapped, floats as Python floats."""
    if dtype.kind == "float":
        return Const(float(value), dtype)
    if dtype.kind == "bool":
        return Const(bool(value), dtype)
    return Const(wrap_integer(int(value), dtype), dtype)


def wrap_integer(value: int, dtype: DType) -> int:
    """`value` modulo 2**bits, in the range of the integer type; `index` does not wrap."""
    if dtype.kind == "index":
        return value
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def floor_div(a: int, b: int) -> int:
    """Python's `//`, with x // 0 = 0."""
    return a // b if b else 0


def floor_mod(a: int, b: int) -> int:
    """Python's `%`, with x % 0 = 0."""
    return a % b if b else 0


def as_expr(value: _Arithmetic | Expr | SupportsIndex) -> Expr:
    """An integer as an index constant; a node as itself."""
    return Const(index(value)) if hasattr(value, "__index__") else value  # type: ignore


def arithmetic(op: BinaryOp, a: _Arithmetic | Expr | int, b: _Arithmetic | Expr | int) -> Expr:
    """`a op b` on index expressions, folded if both are constants."""
    left, right = as_expr(a), as_expr(b)
    if isinstance(left, Const) and isinstance(right, Const) and left.dtype == INDEX:
        x, y = int(left.value), int(right.value)
        match op:
            case "+":
                return Const(x + y)
            case "-":
                return Const(x - y)
            case "*":
                return Const(x * y)
            case "//":
                return Const(floor_div(x, y))
            case "%":
                return Const(floor_mod(x, y))
    return Binary(op, left, right)


def less(a: Expr | int, b: Expr | int) -> Expr:
    """`a < b` on index expressions."""
    return Binary("<", as_expr(a), as_expr(b))


def at_most(a: Expr | int, b: Expr | int) -> Expr:
    """`a <= b` on index expressions."""
    return Binary("<=", as_expr(a), as_expr(b))


def equal(a: Expr | int, b: Expr | int) -> Expr:
    """`a == b` on index expressions, as an expression."""
    return Binary("==", as_expr(a), as_expr(b))


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of the conditions: TRUE for none of them, each one once, TRUE left out."""
    result: Expr = TRUE
    for part in dict.fromkeys(part for one in conditions for part in conjuncts(one)):
        result = part if result == TRUE else Binary("and", result, part)
    return result


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that `condition` joins by `and`; none for TRUE."""
    if condition == TRUE:
        return ()
    if isinstance(condition, Binary) and condition.op == "and":
        return conjuncts(condition.a) + conjuncts(condition.b)
    return (condition,)
