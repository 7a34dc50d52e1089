"""Quotients and remainders of loops, simplified for many candidates as `arith` simplifies them.

The region that an index reaches is worked out of its simplified form, which is needed here. Where a
divisor divides a coefficient, the term leaves the division; where what is left is less than the
divisor, the division is over. Both may be so for some candidates only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from minitensor.arith.linear import Linear, constant_form
from minitensor.arith.numeric import Num, Truth, lesser, product
from minitensor.arith.operation import Operation, operation, variables
from minitensor.errors import MinitensorError

ENDLESS: Final = 1 << 62
"""The divisor of a remainder that is no more than the number itself."""


class BatchError(MinitensorError):
    """A schedule whose numbers cannot be computed for a whole batch: replay each candidate."""


def reduced(form: Linear, extents: Mapping[str, Num]) -> Linear:
    """The form with its quotients and remainders simplified."""
    found = Linear({}, form.constant)
    for atom, coefficient in form.terms.items():
        one = _reduced(atom, extents) if isinstance(atom, Operation) else Linear({atom: 1})
        found = found.plus(one, coefficient)
    return found


def _reduced(atom: Operation, extents: Mapping[str, Num]) -> Linear:
    as_it_is = Linear({atom: 1})
    if atom.op not in ("//", "%") or atom.is_data or variables(atom.args[1]):
        return as_it_is
    number, by = reduced(atom.args[0], extents), atom.args[1].constant
    if not is_natural(number) or np.any(np.less(by, 1)):
        return as_it_is
    whole, rest = _parted(number, by)
    fits = np.less(greatest(rest, extents), by)
    if atom.op == "//":
        return whole if np.all(fits) else whole.plus(operation("//", rest, constant_form(by)))
    if np.all(fits):
        return rest
    endless = np.where(fits, ENDLESS, by) if np.any(fits) else by
    return operation("%", rest, constant_form(endless))


def is_natural(form: Linear) -> bool:
    """Return whether nothing in a form is known to be negative."""
    for atom in form.terms:
        if isinstance(atom, Operation) and not (
            atom.op in ("//", "%") and is_natural(atom.args[0])
        ):
            return False
    return not any(np.any(np.less(x, 0)) for x in (form.constant, *form.terms.values()))


def _parted(form: Linear, by: Num) -> tuple[Linear, Linear]:
    """q and r of q*by + r: the terms that a divisor divides, divided, and the others."""
    whole, rest = constant_form(form.constant // by), constant_form(form.constant % by)
    for atom, coefficient in form.terms.items():
        divides = np.equal(coefficient % by, 0)
        if np.any(divides):
            whole = whole.plus(Linear({atom: _where(divides, coefficient // by)}))
        if not np.all(divides):
            rest = rest.plus(Linear({atom: _where(~divides, coefficient)}))
    return whole, rest


def _where(truth: Truth, number: Num) -> Num:
    return number if np.all(truth) else np.where(truth, number, 0)


def greatest(form: Linear, extents: Mapping[str, Num]) -> Num:
    """The greatest value of a form in which nothing is negative."""
    found = form.constant
    for atom, coefficient in form.terms.items():
        found = found + product(coefficient, _greatest(atom, extents))
    return found


def _greatest(atom: Any, extents: Mapping[str, Num]) -> Num:
    if not isinstance(atom, Operation):
        return extents[atom.name] - 1
    number, by = greatest(atom.args[0], extents), atom.args[1].constant
    return number // by if atom.op == "//" else lesser(number, by - 1)


def require_whole(number: Linear, by: Num, where: Truth, extents: Mapping[str, Num]) -> None:
    """Raise BatchError where a remainder would be simplified further: what all terms but a few
    have in common with the divisor is more than those few.
    """
    terms = [(c, product(c, _greatest(atom, extents))) for atom, c in number.terms.items()]
    for coefficient, _ in terms:
        common = np.gcd(coefficient, by)
        few = number.constant % common
        for other, most in terms:
            few = few + np.where(np.equal(other % common, 0), 0, most)
        if np.any(where & np.greater(common, 1) & np.not_equal(coefficient, 0) & (few < common)):
            raise BatchError("a region through a remainder of several loops is not known")
