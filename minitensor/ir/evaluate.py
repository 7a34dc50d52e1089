"""Expressions as closures: the meaning of each node, given what variables and loads mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from minitensor.errors import ExecutionError, VerifyError
from minitensor.ir.dtype import INDEX, DType, compute_dtype, numpy_dtype
from minitensor.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from minitensor.ir.numbers import FUNCTION, UNARY, Value, binary, cast, constant, round_to
from minitensor.ir.printer import print_expr


class HasValues(Protocol):
    """The view of an expression: the values of its variables."""

    @property
    def values(self) -> dict[str, Value]:
        """By name."""


F = TypeVar("F", bound=HasValues)


class Evaluator(Generic[F]):
    """Compiles expressions once to functions of a frame; loads are the business of `reader`."""

    def __init__(self, reader: Callable[[Load], Callable[[F], Value]]) -> None:
        self.reader = reader

    def expr(self, expr: Expr) -> Callable[[F], Value]:
        """The expression as a function of the frame."""
        match expr:
            case Var(name):
                return lambda frame: frame.values[name]
            case Const(value, dtype):
                held = constant(value, dtype)
                return lambda frame: held
            case Unary(op, a):
                return self._operation(UNARY[op], expr.dtype, self.expr(a))
            case Binary(op, Var(name), Const(value, dtype)) if not expr.dtype.is_packed:
                compute, held = binary(op, dtype), constant(value, dtype)
                return lambda frame: compute(frame.values[name], held)
            case Binary(op, a, Const(value, dtype)) if not expr.dtype.is_packed:
                left, compute, held = self.expr(a), binary(op, dtype), constant(value, dtype)
                return lambda frame: compute(left(frame), held)
            case Binary(op, a, Var(name)) if not expr.dtype.is_packed:
                left, compute = self.expr(a), binary(op, a.dtype)
                return lambda frame: compute(left(frame), frame.values[name])
            case Binary(op, a, b):
                return self._operation(binary(op, a.dtype), expr.dtype, self.expr(a), self.expr(b))
            case Select():
                return self._select(expr)
            case Cast(dtype, a):
                inner, source = self.expr(a), a.dtype
                return lambda frame: cast(inner(frame), source, dtype)
            case Load():
                return self.reader(expr)
            case Call("in_bounds", (index, extent)):
                where, limit, text = self.expr(index), self.expr(extent), print_expr(index)

                def checked(frame: F) -> Value:
                    value = where(frame)
                    if not np.all((value >= 0) & (value < limit(frame))):
                        raise ExecutionError(
                            f"{text} = {value} is outside [0, {limit(frame)})", "out of bounds"
                        )
                    return value

                return checked
            case Call("reinterpret", (a,), dtype):
                same, held_as = self.expr(a), numpy_dtype(dtype)
                return lambda frame: np.asarray(same(frame)).view(held_as)[()]
            case Call(function, args, dtype):
                return self._operation(FUNCTION[function], dtype, *[self.expr(a) for a in args])
            case Ramp(a, _, 1) | Broadcast(a, 1):
                return self.expr(a)
            case Ramp(base, stride, lanes):
                start, steps = self.expr(base), np.arange(lanes) * stride
                if base.dtype != INDEX:
                    steps = steps.astype(compute_dtype(base.dtype))
                return lambda frame: start(frame) + steps
            case Broadcast(a, lanes):
                one = self.expr(a)
                return lambda frame: np.full(lanes, one(frame))
            case Lanes(var, lanes, a):
                each = self.expr(a)

                def run_lanes(frame: F) -> Value:
                    values = frame.values
                    outer = values.get(var)
                    results = []
                    for lane in range(lanes):
                        values[var] = lane
                        results.append(each(frame))
                    values[var] = outer
                    return np.array(results) if lanes > 1 else results[0]

                return run_lanes
        raise VerifyError(f"not an expression: {expr!r}")

    def _operation(
        self, function: Callable[..., Value], dtype: DType, *args: Callable[[F], Value]
    ) -> Callable[[F], Value]:
        if dtype.is_packed:
            return lambda frame: round_to(function(*[a(frame) for a in args]), dtype)
        if len(args) == 1:
            (a,) = args
            return lambda frame: function(a(frame))
        a, b = args
        return lambda frame: function(a(frame), b(frame))

    def _select(self, expr: Select) -> Callable[[F], Value]:
        test, a, b = self.expr(expr.condition), self.expr(expr.a), self.expr(expr.b)
        if expr.condition.dtype.lanes > 1:
            return lambda frame: np.where(test(frame), a(frame), b(frame))
        if expr.lazy:
            return lambda frame: a(frame) if test(frame) else b(frame)

        def both(frame: F) -> Value:
            yes, no = a(frame), b(frame)
            return yes if test(frame) else no

        return both


@dataclass
class _Values:
    values: dict[str, Value]


def evaluate(expr: Expr, values: Mapping[str, Value]) -> Any:
    """The value of an expression without loads, for the given values of its variables."""

    def no_memory(load: Load) -> Callable[[_Values], Value]:
        raise VerifyError(f"{print_expr(load)} cannot be evaluated: there is no memory here")

    with np.errstate(all="ignore"):
        return Evaluator(no_memory).expr(expr)(_Values(dict(values)))
