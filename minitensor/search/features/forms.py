"""Index expressions whose constants are arrays: one number for each of many candidates.

A `Form` is a sum of multiples of variables and of atoms (a division, a remainder, …). Its numbers
are ints where all candidates agree, else int64 arrays (candidates,). What features need of one is
how far it swings while one loop runs and all others stand at 0. That is a property of the function
and not of how it is written, so that simplified and unsimplified forms give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import ir
from minitensor.arith import linear_of
from minitensor.errors import MinitensorError

Integers: TypeAlias = npt.NDArray[np.int64]
Num: TypeAlias = "int | Integers"
Truth: TypeAlias = "bool | npt.NDArray[np.bool_]"
DATA: Final = "data"
"""The operation of an atom that stands for a loaded element."""


class StructureError(MinitensorError):
    """A schedule whose numbers cannot be told without replaying it; replay each candidate."""


@dataclass(frozen=True, slots=True)
class Atom:
    """An operation that is no sum, on forms."""

    op: str
    args: tuple[Form, ...]

    def replaced(self, values: Mapping[str, Form]) -> Atom:
        """With variables replaced."""
        return Atom(self.op, tuple(arg.replaced(values) for arg in self.args))

    def variables(self) -> set[str]:
        """The variables in it."""
        return {name for arg in self.args for name in arg.variables()}

    @property
    def is_data(self) -> bool:
        """Whether it depends on what a buffer holds."""
        return self.op == DATA or any(a.is_data for arg in self.args for _, a in arg.atoms)

    def at(self, name: str, points: Num) -> Num:
        """Its value where one variable is at each of some points, and all others at 0."""
        found: Num = _OPERATIONS[self.op](*[arg.at(name, points) for arg in self.args])
        return found


@dataclass(frozen=True, slots=True)
class Form:
    """constant + Σ coefficient * variable + Σ coefficient * atom. Treat `terms` as immutable."""

    terms: Mapping[str, Num]
    constant: Num = 0
    atoms: tuple[tuple[Num, Atom], ...] = ()

    def plus(self, other: Form, factor: Num = 1) -> Form:
        """self + factor * other."""
        return _sum(((1, self), (factor, other)))

    def times(self, factor: Num) -> Form:
        """self * factor."""
        return _sum(((factor, self),))

    def replaced(self, values: Mapping[str, Form]) -> Form:
        """With variables replaced; those that `values` does not have stay."""
        parts: list[tuple[Num, Form]] = [(1, Form({}, self.constant))]
        parts += [(c, values.get(name) or variable(name)) for name, c in self.terms.items()]
        parts += [(c, Form({}, 0, ((1, atom.replaced(values)),))) for c, atom in self.atoms]
        return _sum(parts)

    def variables(self) -> set[str]:
        """The variables in it."""
        return {*self.terms, *(name for _, atom in self.atoms for name in atom.variables())}

    def at(self, name: str, points: Num) -> Num:
        """Its value where one variable is at each of some points, and all others at 0.

        points  (candidates,) or (points, candidates)
        """
        value = self.constant
        if name in self.terms:
            value = value + product(self.terms[name], points)
        for coefficient, atom in self.atoms:
            value = value + product(coefficient, atom.at(name, points))
        return value


def variable(name: str) -> Form:
    """The form of a variable alone."""
    return Form({name: 1})


def product(a: Num, b: Num) -> Num:
    """a * b, as an int where that is known."""
    if isinstance(a, int) and a in (0, 1):
        return b if a else 0
    if isinstance(b, int) and b in (0, 1):
        return a if b else 0
    return a * b


def is_zero(a: Num) -> bool:
    """Whether a number is known to be 0 for all candidates."""
    return isinstance(a, int) and a == 0


def lesser(a: Num, b: Num) -> Num:
    """The least of two numbers."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def greater(a: Num, b: Num) -> Num:
    """The greatest of two numbers."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def magnitude(a: Num) -> Num:
    """The number without its sign."""
    return abs(a) if isinstance(a, int) else np.abs(a)


def _sum(parts: Iterable[tuple[Num, Form]]) -> Form:
    """Σ factor * form."""
    terms: dict[str, Num] = {}
    constant: Num = 0
    atoms: list[tuple[Num, Atom]] = []
    for factor, form in parts:
        if is_zero(factor):
            continue
        for name, coefficient in form.terms.items():
            own = product(factor, coefficient)
            terms[name] = terms[name] + own if name in terms else own
        if not is_zero(form.constant):
            constant = constant + product(factor, form.constant)
        atoms.extend((product(factor, c), atom) for c, atom in form.atoms)
    kept = {name: c for name, c in terms.items() if not is_zero(c)}
    return Form(kept, constant, tuple(atoms))


@dataclass(frozen=True, slots=True)
class Swing:
    """How a form moves while one loop runs from 0 to its end, all others standing at 0.

    up, down  how far above and below where it started it comes: both at least 0
    step      how far its second value is from its first (0 for a loop of one iteration)
    moves     whether it moves at all; True if it does wherever the loop has several iterations
    """

    up: Num
    down: Num
    step: Num
    moves: Truth


def swing(form: Form, name: str, last: Num) -> Swing | None:
    """How a form moves with one loop; None if it does not depend on it.

    last  the last value of the loop's variable: its extent less 1, and at least 0

    A form that is linear in the loop is followed to its end. Any other is looked at where the
    variable is 1, 2, 4, 8, …, and at its end.
    """
    if any(name in atom.variables() for _, atom in form.atoms):
        return _sampled(form, name, last)
    if name not in form.terms:
        return None
    coefficient = form.terms[name]
    reached = product(coefficient, last)
    some = last > 0
    if isinstance(coefficient, int):
        up, down = (reached, 0) if coefficient > 0 else (0, -reached)
        return Swing(up, down, coefficient * some, True)
    step = coefficient * some
    if coefficient.size and coefficient.min() > 0:
        return Swing(reached, 0, step, True)
    up, down = np.maximum(reached, 0), np.maximum(-reached, 0)
    return Swing(up, down, step, reached != 0)


def _sampled(form: Form, name: str, last: Num) -> Swing:
    ends = np.atleast_1d(np.asarray(last, np.int64))
    most = int(ends.max()) if ends.size else 0
    powers = 1 << np.arange(max(1, (most - 1).bit_length() + 1), dtype=np.int64)
    points = np.minimum(powers[:, None], ends)
    found = form.at(name, points) - form.at(name, 0)
    moved = np.broadcast_to(found, np.broadcast_shapes(np.shape(found), points.shape))
    up, down = np.maximum(moved.max(0), 0), np.maximum(-moved.min(0), 0)
    return Swing(up, down, moved[0], (up > 0) | (down > 0))


def _floor_div(a: Num, b: Num) -> Num:
    if isinstance(b, int):
        return a // b if b else a * 0
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _floor_mod(a: Num, b: Num) -> Num:
    if isinstance(b, int):
        return a % b if b else a * 0
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
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


def form_of(expr: ir.Expr) -> Form:
    """An index expression as a form of the variables in it.

    An element that is loaded counts as the sum of its own indices: what depends on data is taken to
    move as the data's place does. Numbers that are no integers count as 0.
    """
    linear = linear_of(expr)
    parts: list[tuple[Num, Form]] = [(1, Form({}, linear.constant))]
    parts += [(coefficient, _atom(atom)) for atom, coefficient in linear.terms.items()]
    return _sum(parts)


def _atom(expr: ir.Expr) -> Form:
    match expr:
        case ir.Var(name):
            return variable(name)
        case ir.Const(value):
            return Form({}, int(value) if isinstance(value, int) else 0)
        case ir.Cast(_, a) | ir.Call("in_bounds", (a, _)):
            return form_of(a)
        case ir.Load(_, indices):
            return _operation(DATA, _sum([(1, form_of(index)) for index in indices]))
        case ir.Unary("not", a):
            return _operation("not", form_of(a))
        case ir.Binary(op, a, b) if op in _OPERATIONS:
            return _operation(op, form_of(a), form_of(b))
        case ir.Select(condition, a, b):
            return _operation("select", form_of(condition), form_of(a), form_of(b))
    return Form({})


def _operation(op: str, *args: Form) -> Form:
    return Form({}, 0, ((1, Atom(op, args)),))
