"""Reductions: the usual ones, and `comm_reducer` for one of your own.

`sum_`, `max_`, `min_`, `all_`, `any_` are `mt.sum` and so on; here they would hide the built-ins.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, unexpected
from minitensor.lang.promotion import as_float, converted, is_number, is_whole
from minitensor.lang.scalar import Scalar, operand
from minitensor.lang.tensor import Reduction, as_bool, checked_axes, make_reduction, source


def _simple(name: str, op: ir.BinaryOp, dtype: ir.DType, identity: float) -> ir.Reducer:
    x, y = ir.Var("x", dtype), ir.Var("y", dtype)
    return ir.Reducer(name, (x,), (y,), (ir.Binary(op, x, y),), (ir.const(identity, dtype),))


def _number(expr: object) -> ir.Expr:
    """A source for arithmetic: bool counts as int64, as in numpy."""
    node = source(expr)
    return converted(node, ir.INT64) if node.dtype == ir.BOOL else node


def sum_(expr: Any, axis: Any = None) -> Reduction:
    """The sum over one reduction axis or several, in the type of `expr` (bool: int64)."""
    node = _number(expr)
    return make_reduction(_simple("sum", "+", node.dtype, 0), [node], axis)


def prod(expr: Any, axis: Any = None) -> Reduction:
    """The product over one reduction axis or several, in the type of `expr` (bool: int64)."""
    node = _number(expr)
    return make_reduction(_simple("prod", "*", node.dtype, 1), [node], axis)


def max_(expr: Any, axis: Any = None) -> Reduction:
    """The maximum; NaN if there is one; over nothing -inf, or the least integer of the type."""
    node = _number(expr)
    return make_reduction(_simple("max", "max", node.dtype, ir.lowest(node.dtype)), [node], axis)


def min_(expr: Any, axis: Any = None) -> Reduction:
    """The minimum; NaN if there is one; over nothing inf, or the greatest integer of the type."""
    node = _number(expr)
    return make_reduction(_simple("min", "min", node.dtype, ir.highest(node.dtype)), [node], axis)


def all_(expr: Any, axis: Any = None) -> Reduction:
    """Tell whether all are true (numbers: not 0)."""
    return make_reduction(_simple("all", "and", ir.BOOL, True), [as_bool(source(expr))], axis)


def any_(expr: Any, axis: Any = None) -> Reduction:
    """Tell whether one is true (numbers: not 0)."""
    return make_reduction(_simple("any", "or", ir.BOOL, False), [as_bool(source(expr))], axis)


def argmax(expr: Any, axis: Any = None) -> Reduction:
    """The position of the maximum: the first, and the first NaN if there is one, as numpy.argmax.

    int64; over several axes the position in row-major order. Over nothing: the greatest int64.
    """
    return _arg_extremum("argmax", expr, axis)


def argmin(expr: Any, axis: Any = None) -> Reduction:
    """The position of the minimum: the first, and the first NaN if there is one, as numpy.argmin.

    int64; over several axes the position in row-major order. Over nothing: the greatest int64.
    """
    return _arg_extremum("argmin", expr, axis)


def _arg_extremum(name: str, expr: object, axis: object) -> Reduction:
    node = _number(expr)
    position: ir.Expr = ir.Const(0)
    for a in checked_axes(axis, "axis"):
        position = position * a.extent + ir.Var(a.var)
    reducer = ir.arg_extremum(name, node.dtype)
    return make_reduction(reducer, [converted(position, ir.INT64), node], axis, only=0)


# ---- reducers of the user's own

_SAMPLES: Final = (0, 1, 2, 3, -1, -2, 5)
_PARTS: Final = (1, 2, 3, 5)
"""The numbers of tuples: positive, as one may be a count by which another is divided."""


def comm_reducer(
    combine: Callable[..., Any], identity: Any, name: str = "reducer"
) -> Callable[..., Reduction]:
    """A reduction of your own: `r = mt.comm_reducer(lambda x, y: ..., identity)`.

    combine   of two symbolic values, or of two tuples of them; returns a value or tuple like them.
              Must be associative and commutative: schedules change the order.
    identity  a number (or tuple), or a function of the dtypes that returns it, such that
              combining it with any value gives that value; mt.const(0, dtype) is one too
    name      what the printed program calls it

    Returns a function `r(expr, axis=k)`, with a tuple of expressions for tuples; `mt.compute` then
    gives one tensor for each. Raises ArgumentError if the identity is none, or if the reducer turns
    out not to be commutative or associative on small numbers.
    """
    if not callable(combine):
        raise unexpected("a function of two values", "combine", combine)
    if not isinstance(name, str) or not name:
        raise unexpected("a name", "name", name)

    def reduce(expr: Any, axis: Any) -> Reduction:
        several = isinstance(expr, (tuple, list))
        if several and not expr:
            raise unexpected("at least one value", "expr", expr)
        nodes = [source(e) for e in (expr if several else (expr,))]
        reducer = _trace(combine, identity, name, [n.dtype for n in nodes], several)
        return make_reduction(reducer, nodes, axis)

    return reduce


def _trace(
    combine: Callable[..., Any], identity: Any, name: str, dtypes: list[ir.DType], several: bool
) -> ir.Reducer:
    """The reducer for operands of these types."""
    old = tuple(ir.Var(f"x{n}" if several else "x", d) for n, d in enumerate(dtypes))
    new = tuple(ir.Var(f"y{n}" if several else "y", d) for n, d in enumerate(dtypes))
    x, y = [tuple(Scalar(v) for v in side) for side in (old, new)]
    given = (x, y) if several else (x[0], y[0])
    result = _called(combine, given, "a function of two values", "combine")
    start = identity
    if callable(identity):
        expected = f"a number, or a function of {len(dtypes)} dtypes"
        start = _called(identity, dtypes, expected, "identity")
    results = _as_tuple(result, len(dtypes), "combine", several)
    starts = _as_tuple(start, len(dtypes), "identity", several)
    known = {v.name for v in old + new}
    reducer = ir.Reducer(
        name,
        old,
        new,
        tuple(_checked_result(r, d, name, known) for r, d in zip(results, dtypes)),
        tuple(_checked_identity(s, d) for s, d in zip(starts, dtypes)),
    )
    _check_laws(reducer)
    return reducer


def _called(function: Callable[..., Any], args: Sequence[Any], expected: str, name: str) -> Any:
    """The result of a user's function, which must take these arguments."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        raise unexpected(expected, name, function) from None
    except ValueError:  # it has no signature
        pass
    return function(*args)


def _checked_result(value: Any, dtype: ir.DType, name: str, known: set[str]) -> ir.Expr:
    if not isinstance(value, Scalar) and not is_number(value):
        raise unexpected("a symbolic value", "combine(x, y)", value)
    node = operand(value, dtype)
    if node.dtype != dtype:
        raise ArgumentError(
            f"combine of {name} gives {node.dtype} for {dtype}; convert with .astype"
        )
    if ir.loads(node) or not known.issuperset(ir.free_vars(node)):
        raise ArgumentError(
            f"combine of {name} uses something other than its two arguments; "
            "reduce a tuple to pass more"
        )
    return node


def _checked_identity(value: Any, dtype: ir.DType) -> ir.Const:
    if isinstance(value, Scalar) and isinstance(value.node, ir.Const):
        value = value.node.value  # of mt.const(0, dtype)
    if not is_number(value):
        raise unexpected("a number", "identity", value)
    if dtype.is_integer and not _fits(value, dtype):
        raise unexpected(f"a number that {dtype} holds", "identity", value)
    return ir.const(as_float(value, "identity") if dtype.is_float else int(value), dtype)


def _fits(value: Any, dtype: ir.DType) -> bool:
    """Tell whether a number is an integer that the type holds."""
    if not is_whole(value):
        return False
    return dtype.min_value <= int(value) <= dtype.max_value


def _as_tuple(value: Any, count: int, name: str, several: bool) -> Sequence[Any]:
    values = value if several and isinstance(value, (tuple, list)) else (value,)
    if len(values) != count:
        raise unexpected(f"{count} values", name, value)
    return values


def _check_laws(reducer: ir.Reducer) -> None:
    """Refuse a reducer whose laws fail on small numbers."""
    names = [v.name for v in reducer.lhs + reducer.rhs]
    dtypes = [v.dtype for v in reducer.lhs]

    def combined(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        values = dict(zip(names, (*a, *b)))
        return tuple(ir.evaluate(result, values) for result in reducer.results)

    def held(values: Sequence[float]) -> tuple[Any, ...]:
        return tuple(ir.evaluate(ir.const(v, d), {}) for v, d in zip(values, dtypes))

    neutral = held([c.value for c in reducer.identity])
    samples = [held(values) for values in _samples(len(dtypes))]
    negative = [held([-value for value in range(1, len(dtypes) + 1)])]
    for a in samples + negative:
        for left, right in ((neutral, a), (a, neutral)):
            if not _same(combined(left, right), a):
                raise ArgumentError(
                    f"the identity of {reducer.name} is none: combining {_text(left)} with "
                    f"{_text(right)} gives {_text(combined(left, right))}; give "
                    "a value that changes no other"
                )
    for a, b in itertools.combinations(samples, 2):
        if not _same(combined(a, b), combined(b, a)):
            raise ArgumentError(
                f"{reducer.name} is not commutative: ({_text(a)}, {_text(b)}) gives "
                f"{_text(combined(a, b))}, the other way round {_text(combined(b, a))}; "
                f"{_IN_ORDER if len(dtypes) == 1 else _LEVEL}"
            )
    for a, b, c in itertools.combinations(samples[:5] if len(dtypes) == 1 else samples[:8], 3):
        left, right = combined(combined(a, b), c), combined(a, combined(b, c))
        if not _same(left, right):
            raise ArgumentError(
                f"{reducer.name} is not associative: on {_text(a)}, {_text(b)}, {_text(c)} it "
                f"gives {_text(left)} or {_text(right)}; {_IN_ORDER}"
            )


_IN_ORDER: Final = "mt.update is for what must run in order"
_LEVEL: Final = (
    "where two are level, let another of their values decide, as mt.argmax takes the smaller "
    f"position; {_IN_ORDER}"
)


def _samples(count: int) -> list[tuple[int, ...]]:
    """Tuples of `count` small numbers, some of which have one in common."""
    if count == 1:
        return [(value,) for value in _SAMPLES]
    size = len(_PARTS)
    return [
        tuple(_PARTS[(start + step * position) % size] for position in range(count))
        for step in range(size)
        for start in range(size)
    ]


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(
        bool(x == y) or bool(np.isclose(float(x), float(y), rtol=1e-2, equal_nan=True))
        for x, y in zip(a, b)
    )


def _text(values: tuple[Any, ...]) -> str:
    text = ", ".join(str(v) for v in values)
    return text if len(values) == 1 else f"({text})"
