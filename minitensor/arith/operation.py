"""Atoms that hold numbers of many candidates: operations on linear forms.

`opened` makes a form whose atoms are variables and operations only, so that variables can be
replaced by forms with arrays in them. How far one moves with a loop is a property of the function
and not of how it is written: simplified forms and others give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.arith.linear import Linear, linear_of
from minitensor.arith.numeric import Num, product, same

DATA: Final = "data"
"""The operation of an atom that stands for a loaded element."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation that is no sum; compared by identity (see `same_operation`)."""

    op: str
    args: tuple[Linear, ...]

    @property
    def is_data(self) -> bool:
        """Return whether it depends on what a buffer holds."""
        return self.op == DATA or any(a.is_data for arg in self.args for a in operations(arg))

    def at(self, name: str, points: Num) -> Num:
        """Its value where one variable is at each of some points, and all others at 0."""
        return _VALUES[self.op](*[at(arg, name, points) for arg in self.args])


def operation(op: str, *args: Linear) -> Linear:
    """The form of an operation alone."""
    return Linear({Operation(op, args): 1})


def variable(name: str) -> Linear:
    """The form of a variable alone."""
    return Linear({ir.Var(name): 1})


def operations(form: Linear) -> list[Operation]:
    """The atoms of a form that are operations."""
    return [atom for atom in form.terms if isinstance(atom, Operation)]


def is_inside_operation(form: Linear, names: Collection[str]) -> bool:
    """Return whether an operation of a form is on one of some variables."""
    arguments = (arg for atom in operations(form) for arg in atom.args)
    return any(not variables(arg).isdisjoint(names) for arg in arguments)


def variables(form: Linear) -> set[str]:
    """The variables in an opened form."""
    found: set[str] = set()
    for atom in form.terms:
        if isinstance(atom, ir.Var):
            found.add(atom.name)
        elif isinstance(atom, Operation):
            found.update(*map(variables, atom.args))
    return found


def replaced(form: Linear, values: Mapping[str, Linear]) -> Linear:
    """An opened form with variables replaced; those that `values` does not have stay."""
    found = Linear({}, form.constant)
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Operation):
            moved = operation(atom.op, *(replaced(arg, values) for arg in atom.args))
        else:
            moved = values.get(atom.name) or Linear({atom: 1})
        found = found.plus(moved, coefficient)
    return found


def at(form: Linear, name: str, points: Num) -> Num:
    """The value of an opened form where one variable is at each of some points, others at 0.

    points  (candidates,) or (points, candidates)
    """
    value = form.constant
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Operation):
            value = value + product(coefficient, atom.at(name, points))
        elif isinstance(atom, ir.Var) and atom.name == name:
            value = value + product(coefficient, points)
    return value


def alike(a: Linear, b: Linear) -> bool:
    """Return whether two opened forms are written alike for all candidates."""
    mine, others = operations(a), operations(b)
    names = {atom for atom in a.terms if isinstance(atom, ir.Var)}
    return (
        names == {atom for atom in b.terms if isinstance(atom, ir.Var)}
        and all(same(a.terms[name], b.terms[name]) for name in names)
        and same(a.constant, b.constant)
        and len(mine) == len(others)
        and all(same(a.terms[x], b.terms[y]) and same_operation(x, y) for x, y in zip(mine, others))
    )


def same_operation(a: Operation, b: Operation) -> bool:
    """Return whether two operations are written alike for all candidates."""
    return a is b or (a.op == b.op and all(map(alike, a.args, b.args)))


def opened(expr: ir.Expr) -> Linear:
    """An index expression as a form of the variables in it.

    An element that is loaded counts as the sum of its own indices: what depends on data is taken to
    move as the data's position does. Numbers that are no integers count as 0.
    """
    linear = linear_of(expr)
    found = Linear({}, linear.constant)
    for atom, coefficient in linear.terms.items():
        found = found.plus(_opened(atom), coefficient)
    return found


def _opened(expr: ir.Expr) -> Linear:
    match expr:
        case ir.Var():
            return Linear({expr: 1})
        case ir.Const(value):
            return Linear({}, int(value) if isinstance(value, int) else 0)
        case ir.Cast(_, a) | ir.Call("in_bounds", (a, _)):
            return opened(a)
        case ir.Load(_, indices):
            position = Linear({})
            for index in indices:
                position = position.plus(opened(index))
            return operation(DATA, position)
        case ir.Unary("not", a):
            return operation("not", opened(a))
        case ir.Binary(op, a, b) if op in _VALUES:
            return operation(op, opened(a), opened(b))
        case ir.Select(condition, a, b):
            return operation("select", opened(condition), opened(a), opened(b))
    return Linear({})


def _floor_div(a: Num, b: Num) -> Num:
    if isinstance(b, int):
        return a // b if b else a * 0
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _floor_mod(a: Num, b: Num) -> Num:
    if isinstance(b, int):
        return a % b if b else a * 0
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


_VALUES: Final[Mapping[str, Callable[..., Num]]] = {
    "*": product,
    "//": _floor_div,
    "%": _floor_mod,
    "min": np.minimum,
    "max": np.maximum,
    "<": lambda a, b: np.less(a, b).astype(np.int64),
    "<=": lambda a, b: np.less_equal(a, b).astype(np.int64),
    "==": lambda a, b: np.equal(a, b).astype(np.int64),
    "!=": lambda a, b: np.not_equal(a, b).astype(np.int64),
    "and": lambda a, b: np.logical_and(a, b).astype(np.int64),
    "or": lambda a, b: np.logical_or(a, b).astype(np.int64),
    "not": lambda a: np.equal(a, 0).astype(np.int64),
    DATA: lambda a: a,
    "select": lambda c, a, b: np.where(np.not_equal(c, 0), a, b),
}
