"""A program from the Python text of its definition, which is read and never run.

It reads the language that `definition_as_python` writes, and no other: assignments, calls of the
functions below, lambdas of indices, arithmetic. So a definition in a file of unknown origin can do
no more than define a program, or be refused.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from minitensor import ir
from minitensor.errors import ArgumentError, printable, reason_of, unexpected
from minitensor.lang import elementwise, reduce, scalar, tensor
from minitensor.lang.lower import lower
from minitensor.lang.update import update

LONGEST: Final = 100_000
"""Characters of a text."""
LONGEST_LINE: Final = 8_000
"""Characters of a line."""
MOST_NODES: Final = 20_000
"""Parts of a text: names, numbers, operations, calls."""
DEEPEST: Final = 100
"""Parts of a text inside each other."""

_STAGES: Final[Mapping[str, Callable[..., Any]]] = {
    "placeholder": tensor.placeholder, "reduce_axis": tensor.reduce_axis,
    "compute": tensor.compute, "update": update,
    "comm_reducer": reduce.comm_reducer, "lower": lower,
}  # fmt: skip
"""The functions of which a line assigns the result."""
_REDUCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": reduce.sum_, "prod": reduce.prod, "max": reduce.max_, "min": reduce.min_,
    "all": reduce.all_, "any": reduce.any_, "argmax": reduce.argmax, "argmin": reduce.argmin,
}  # fmt: skip
_VALUES: Final[Mapping[str, Callable[..., Any]]] = {
    **{f.__name__.rstrip("_"): f for f in (
        scalar.const, scalar.select, scalar.if_then_else, scalar.minimum, scalar.maximum,
        scalar.logical_and, scalar.logical_or, scalar.logical_not, scalar.abs_, scalar.power,
        scalar.popcount,
        *elementwise.FUNCTIONS,
    )},
    **_REDUCTIONS,
}  # fmt: skip
"""The functions inside a lambda."""
_OPERATORS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
"""Those of the language; a power is none, as it is written `mt.power`."""
_RESERVED: Final = ("mt", "float")
_NUMBERS: Final = ("inf", "-inf", "nan")

_Names: TypeAlias = "Mapping[str, Any]"


def program_from_python(text: str, result: str = "program") -> ir.Program:
    """The program of a text that `definition_as_python` wrote; nothing of the text is run.

    result  the variable that it is assigned to, on the last line

    Raises ArgumentError, with the line and what is wrong there, for any other text.
    """
    names: dict[str, Any] = {}
    for number, line in _lines(text):
        try:
            if not isinstance(line, ast.Assign) or len(line.targets) != 1:
                raise _refused(_kind(line))
            _assign(line.targets[0], _stage(line.value, names), names)
        except Exception as failure:  # also of arguments that a function does not take
            raise ArgumentError(f"line {number} of a definition: {reason_of(failure)}") from None
    program = names.get(result)
    if not isinstance(program, ir.Program):
        raise ArgumentError(f"a definition must assign what mt.lower makes to {printable(result)}")
    return program


def _refused(what: str) -> ArgumentError:
    return ArgumentError(f"{what} is not of the language of definitions")


def _lines(text: object) -> list[tuple[int, ast.stmt]]:
    """The statements of a text, one on each line, small enough for what follows.

    Lines are parsed one by one, and short: the parser of Python is recursive itself.
    """
    if not isinstance(text, str):
        raise unexpected("text", "text", text)
    if len(text) > LONGEST:
        raise ArgumentError(
            f"expected a definition of at most {LONGEST:,} characters, but got {len(text):,}"
        )
    count, found = 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            raise ArgumentError(
                f"line {number} of a definition: {len(line):,} characters are too long"
            )
        try:
            statements = ast.parse(line).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            what = printable(str(getattr(problem, "msg", problem)))
            raise ArgumentError(f"line {number} of a definition: {what}") from None
        if len(statements) != 1:
            raise ArgumentError(f"line {number} of a definition: expected one assignment")
        level: list[tuple[ast.AST, int]] = [(statements[0], 1)]
        while level:
            node, depth = level.pop()
            count += 1
            if depth > DEEPEST or count > MOST_NODES:
                kind = "deep" if depth > DEEPEST else "long"
                raise ArgumentError(f"line {number} of a definition: an expression is too {kind}")
            level += [(below, depth + 1) for below in ast.iter_child_nodes(node)]
        found.append((number, statements[0]))
    return found


def _assign(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    values = list(value) if isinstance(target, ast.Tuple) else [value]
    if len(parts) != len(values):
        raise _refused(f"an assignment of {len(values)} values to {len(parts)} names")
    for part, one in zip(parts, values):
        if not isinstance(part, ast.Name) or part.id in _RESERVED:
            raise _refused(f"an assignment to {_shown(part)}")
        names[part.id] = one


def _stage(node: ast.expr, names: _Names) -> Any:
    """The result of the call on the right of an assignment."""
    function = _named(node.func, _STAGES) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or function is None:
        raise _refused(_shown(node))
    return function(*_positional(node, names), **_keywords(node, names))


def _positional(node: ast.Call, names: _Names) -> list[Any]:
    return [_value(argument, names) for argument in node.args]


def _keywords(node: ast.Call, names: _Names) -> dict[str, Any]:
    values = {keyword.arg or "**": _value(keyword.value, names) for keyword in node.keywords}
    if "**" in values or len(values) < len(node.keywords):
        raise _refused("** or a keyword given twice")
    return values


def _named(node: ast.expr, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The function that `mt.name` names; None for anything else."""
    match node:
        case ast.Attribute(ast.Name("mt"), name):
            return functions.get(name)
    return None


def _value(node: ast.expr, names: _Names) -> Any:
    """The value of an expression."""
    match node:
        case ast.Name(name) if name in names:
            return names[name]
        case ast.Constant(bool() | int() | float() | str() as value):
            if isinstance(value, int) and value.bit_length() > 64:
                raise _refused("a number of more than 64 bits")
            return value
        case ast.UnaryOp(ast.USub(), below):
            return -_number(below, _value(below, names))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _operated(node, op, left, right, names)
        case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
            return _operated(node, op, left, right, names)
        case ast.Subscript(of, at):
            return _element(node, _value(of, names), _value(at, names))
        case ast.Tuple(parts):
            return tuple(_value(part, names) for part in parts)
        case ast.List(parts):
            return [_value(part, names) for part in parts]
        case ast.Lambda():
            return _function(node, names)
        case ast.Call():
            return _called(node, names)
    raise _refused(_shown(node))


def _number(node: ast.expr, value: Any) -> Any:
    if not isinstance(value, (int, float, scalar.Scalar)):
        raise _refused(f"arithmetic with {_shown(node)}")
    return value


def _operated(
    node: ast.expr, op: ast.AST, left: ast.expr, right: ast.expr, names: _Names
) -> scalar.Scalar:
    """An operation; one on two plain numbers is never written, and could be endless work."""
    a, b = (_number(side, _value(side, names)) for side in (left, right))
    if not isinstance(a, scalar.Scalar) and not isinstance(b, scalar.Scalar):
        raise _refused("arithmetic with numbers alone")
    made: scalar.Scalar = _OPERATORS[type(op)](a, b)
    return made


def _element(node: ast.expr, of: Any, at: Any) -> Any:
    """An element of a tensor, or one of the values that a reducer combines."""
    if isinstance(of, tensor.Tensor):
        return of[at]
    if isinstance(of, tuple) and type(at) is int and 0 <= at < len(of):
        return of[at]
    raise _refused(_shown(node))


def _function(node: ast.Lambda, names: _Names) -> Callable[..., Any]:
    """A lambda as a function with its parameters, of which loops take their names."""
    given = node.args
    others = (given.posonlyargs, given.kwonlyargs, given.defaults, given.vararg, given.kwarg)
    parameters = [argument.arg for argument in given.args]
    if any(others) or len(set(parameters)) < len(parameters) or {*parameters} & {*_RESERVED}:
        raise _refused(_shown(node))
    outer = dict(names)

    def function(*values: Any) -> Any:
        if len(values) != len(parameters):
            raise _refused(f"a lambda of {len(parameters)} for {len(values)} values")
        return _value(node.body, {**outer, **dict(zip(parameters, values))})

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _called(node: ast.Call, names: _Names) -> Any:
    """A call inside a lambda: of ours, a reducer, a conversion, or of `float` for infinities."""
    made = _named(node.func, _VALUES)
    match node:
        case ast.Call(ast.Name("float"), [ast.Constant(str() as text)], []) if text in _NUMBERS:
            return float(text)
        case ast.Call(ast.Name(name)) if callable(names.get(name)):
            made = names[name]
        case ast.Call(ast.Attribute(of, "astype"), [ast.Constant(str() as dtype)], []):
            value = _value(of, names)
            if isinstance(value, scalar.Scalar):
                return value.astype(dtype)
    if made is None:
        raise _refused(_shown(node.func))
    given, named = _positional(node, names), _keywords(node, names)
    if made in (scalar.power, scalar.abs_) and not all(map(_is_data, given)):
        raise _refused(_shown(node))  # of integers they would repeat their operands
    return made(*given, **named)


def _is_data(value: object) -> bool:
    return isinstance(value, scalar.Scalar) and value.dtype != ir.INDEX


def _shown(node: ast.AST) -> str:
    """A few words for a refused part, whose text may be long and deep."""
    match node:
        case ast.Name(name):
            return f"the name {printable(name)[:40]}"
        case ast.Attribute(attr=name):
            return f"the attribute {printable(name)[:40]}"
        case ast.Call(function):
            return _shown(function)
    return _kind(node)


def _kind(node: ast.AST) -> str:
    """The kind of a part of Python."""
    name = "".join(f" {c.lower()}" if c.isupper() else c for c in type(node).__name__).strip()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
