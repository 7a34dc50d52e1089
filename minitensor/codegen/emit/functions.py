"""Functions such as exp in the terms of the IR: the language they are written in, and their text.

A definition is a few lines in the syntax of Python (`math32` and `math64` have them), which become
expressions of the IR: so they can be verified, run in the interpreter, widened to vectors of any
length, and written for any target. A kernel's text has each as a small function of its own, with
the names and the lines of the definition.

    def relu(x: float32):            float32x16 relu_float32x16(float32x16 x) {
        return x if x > 0.0 else 0.0     return select_float32x16(x > 0.0f, x, splat_…(0.0f));
                                     }

Numbers take the type of what they meet. `x if c else y` evaluates both sides, on vectors (but see
`vectors.RARELY`). Besides `float64(x)` and the like, which convert, there are `bits(x)`, the
integer with the bits of a float, `number(i)`, its inverse, `horner(x, a, b, c)` = a + x*(b + x*c),
and every function of `ir.FUNCTIONS`. `i << 23` and `i >> 23` are a multiplication and a floor
division by 2^23.

It does not say which functions are defined: that is `mathematics`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Final, Protocol

from minitensor import ir
from minitensor.codegen.emit.c_types import compute_type
from minitensor.codegen.emit.helpers import FUNCTION, Helpers
from minitensor.codegen.emit.names import Names
from minitensor.errors import LoweringError


@dataclass(frozen=True, slots=True)
class Function:
    """A function of scalars, or of vectors: named values, each of those before it, and a result."""

    name: str
    params: tuple[ir.Var, ...]
    values: tuple[tuple[str, ir.Expr], ...]
    result: ir.Expr

    def widened(self, lanes: int) -> Function:
        """The function on vectors."""

        def one(node: Any) -> Any:
            match node:
                case ir.Var(name, dtype):
                    return ir.Var(name, dtype.with_lanes(lanes))
                case ir.Const():
                    return ir.Broadcast(node, lanes)
                case ir.Cast(dtype, a):
                    return ir.Cast(dtype.with_lanes(lanes), a)
                case ir.Call(function, args, dtype):
                    return ir.Call(function, args, dtype.with_lanes(lanes))
            return node

        def wide(expr: ir.Expr) -> ir.Expr:
            return ir.rewrite(expr, one)

        return Function(
            self.name,
            tuple(ir.Var(p.name, p.dtype.with_lanes(lanes)) for p in self.params),
            tuple((name, wide(value)) for name, value in self.values),
            wide(self.result),
        )


# ---- from the text of a definition


def parse_functions(text: str) -> dict[tuple[str, ir.DType], Function]:
    """The functions that a text defines, by name and the type of their first parameter."""
    found: dict[tuple[str, ir.DType], Function] = {}
    for tree in ast.parse(text).body:
        assert isinstance(tree, ast.FunctionDef)
        function = _Parser().function(tree)
        found[function.name, function.params[0].dtype] = function
    return found


_ARITHMETIC: Final[dict[type[ast.operator], ir.BinaryOp]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[ir.BinaryOp, bool]]] = {
    ast.Lt: ("<", False),
    ast.LtE: ("<=", False),
    ast.Gt: ("<", True),
    ast.GtE: ("<=", True),
    ast.Eq: ("==", False),
    ast.NotEq: ("!=", False),
}
"""Each comparison in the terms of the IR, and whether its operands change places."""
_NUMBERS: Final = {"inf": float("inf"), "nan": float("nan")}


class _Parser:
    def __init__(self) -> None:
        self.types: dict[str, ir.DType] = {}

    def function(self, tree: ast.FunctionDef) -> Function:
        for argument in tree.args.args:
            assert isinstance(argument.annotation, ast.Name)
            self.types[argument.arg] = ir.USER_DTYPES[argument.annotation.id]
        params = tuple(ir.Var(name, dtype) for name, dtype in self.types.items())
        values: list[tuple[str, ir.Expr]] = []
        for line in tree.body:
            match line:
                case ast.Assign([ast.Name(name)], value):
                    values.append((name, self.expr(value)))
                    self.types[name] = values[-1][1].dtype
                case ast.Return(ast.expr() as value):
                    return Function(tree.name, params, tuple(values), self.expr(value))
        raise LoweringError(f"{tree.name} returns nothing")

    def expr(self, tree: ast.expr, like: ir.DType | None = None) -> ir.Expr:
        """An expression; a number gets the type `like`."""
        match tree:
            case ast.Constant(int() | float() as value) if like is not None:
                return ir.const(value, like)
            case ast.Name(name) if name in _NUMBERS and like is not None:
                return ir.const(_NUMBERS[name], like)
            case ast.Name(name) if name in self.types:
                return ir.Var(name, self.types[name])
            case ast.UnaryOp(ast.USub(), operand) if _is_number(operand):
                found = self.expr(operand, like)
                assert isinstance(found, ir.Const)
                return ir.const(-found.value, found.dtype)
            case ast.UnaryOp(ast.USub(), operand):
                return ir.Unary("-", self.expr(operand, like))
            case ast.UnaryOp(ast.Not(), operand):
                return ir.Unary("not", self.expr(operand))
            case ast.BinOp(left, ast.LShift() | ast.RShift() as op, ast.Constant(int(places))):
                shifted = self.expr(left, like)
                power = ir.const(1 << places, shifted.dtype)
                return ir.Binary("*" if isinstance(op, ast.LShift) else "//", shifted, power)
            case ast.BinOp(left, op, right):
                a, b = self.pair(left, right, like)
                return ir.Binary(_ARITHMETIC[type(op)], a, b)
            case ast.Compare(left, [op], [right]):
                name, swapped = _COMPARISONS[type(op)]
                a, b = self.pair(left, right, None)
                return ir.Binary(name, b, a) if swapped else ir.Binary(name, a, b)
            case ast.BoolOp(op, operands):
                first, *others = [self.expr(o) for o in operands]
                for other in others:
                    first = ir.Binary("and" if isinstance(op, ast.And) else "or", first, other)
                return first
            case ast.IfExp(test, yes, no):
                a, b = self.pair(yes, no, like)
                return ir.Select(self.expr(test), a, b)
            case ast.Call(ast.Name(name), args):
                return self.call(name, args, like)
        raise LoweringError(f"{ast.unparse(tree)} cannot stand in a definition")

    def pair(
        self, left: ast.expr, right: ast.expr, like: ir.DType | None
    ) -> tuple[ir.Expr, ir.Expr]:
        """Two operands of one type; a number takes that of the other."""
        if _is_number(left):
            b = self.expr(right, like)
            return self.expr(left, b.dtype), b
        a = self.expr(left, like)
        return a, self.expr(right, a.dtype)

    def call(self, name: str, args: list[ast.expr], like: ir.DType | None) -> ir.Expr:
        if name == "horner":
            x = self.expr(args[0])
            total = self.expr(args[-1], x.dtype)
            for coefficient in reversed(args[1:-1]):
                total = ir.Binary("+", ir.Binary("*", total, x), self.expr(coefficient, x.dtype))
            return total
        first = self.expr(args[0], like)
        if name in ("bits", "number"):
            kind = "int" if name == "bits" else "float"
            return ir.Call("reinterpret", (first,), ir.USER_DTYPES[f"{kind}{first.dtype.bits}"])
        if name in ir.USER_DTYPES:
            return ir.Cast(ir.USER_DTYPES[name], first)
        if name not in ir.FUNCTIONS:
            raise LoweringError(f"{name} is not a function")
        return ir.Call(name, (first, *(self.expr(a, first.dtype) for a in args[1:])), first.dtype)


def _is_number(tree: ast.expr) -> bool:
    if isinstance(tree, ast.UnaryOp):
        return _is_number(tree.operand)
    return isinstance(tree, ast.Constant) or (isinstance(tree, ast.Name) and tree.id in _NUMBERS)


# ---- to the text of a target


class Writer(Protocol):
    """A writer of expressions: the emitter of a target."""

    names: Names
    helpers: Helpers

    def expr(self, expr: ir.Expr) -> str:
        """An expression as text."""

    def result(self, value: ir.Expr) -> str:
        """The result of a function as text."""


def write_function(function: Function, name: str, lanes: int, writer: Writer) -> str:
    """The definition of a function, called `name`, on vectors (scalars if `lanes` is 1)."""
    wide = function if lanes == 1 else function.widened(lanes)

    def kind(dtype: ir.DType) -> str:
        return compute_type(dtype) if lanes == 1 else writer.helpers.vector(dtype)

    params = ", ".join(f"{kind(p.dtype)} {writer.names.push(p.name)}" for p in wide.params)
    lines = [f"{FUNCTION} {kind(wide.result.dtype)} {name}({params}) {{"]
    for own, value in wide.values:
        text = writer.expr(value)
        lines.append(f"    {kind(value.dtype)} {writer.names.push(own)} = {text};")
    return "\n".join([*lines, f"    return {writer.result(wide.result)};", "}"])


def computes_wider(function: Function) -> bool:
    """Tell whether a value in the function is wider than its arguments."""
    widest = max((value.dtype.bits for _, value in function.values), default=0)
    return widest > function.params[0].dtype.bits


def write_in_halves(function: Function, name: str, half: str, lanes: int, writer: Writer) -> str:
    """A function on vectors that calls `half`, the same on half as many lanes, for each half.

    For one that computes wider numbers: its vectors are then no longer than those it is given,
    which compilers would otherwise take apart operation by operation.
    """
    dtype = function.params[0].dtype
    whole = writer.helpers.vector(dtype.with_lanes(lanes))
    half_dtype = dtype.with_lanes(lanes // 2)
    part = writer.helpers.vector(half_dtype) if lanes > 2 else compute_type(dtype)
    names = [p.name for p in function.params]
    calls = "".join(
        f"    {names[0]}_.part[{i}] = {half}({', '.join(f'{n}_.part[{i}]' for n in names)});\n"
        for i in (0, 1)
    )
    united = ", ".join(f"{n}_ = {{{n}}}" for n in names)
    return (
        f"{FUNCTION} {whole} {name}({', '.join(f'{whole} {n}' for n in names)}) {{\n"
        f"    union {{ {whole} whole; {part} part[2]; }} {united};\n"
        f"{calls}    return {names[0]}_.whole;\n}}"
    )
