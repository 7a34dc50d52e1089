"""Quotients and remainders of loops, simplified for many candidates as `arith` simplifies them.

The region that an index reaches is worked out of its simplified form, which is needed here. Where a
divisor divides a coefficient, the term leaves the division; where what is left is less than the
divisor, the division is over. Both may be so for some candidates only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from minitensor.search.features.forms import (
    Atom,
    Form,
    Num,
    StructureError,
    Truth,
    lesser,
    product,
)

ENDLESS: Final = 1 << 62
"""The divisor of a remainder that is no more than the number itself."""


def reduced(form: Form, extents: Mapping[str, Num]) -> Form:
    """The form with its quotients and remainders simplified."""
    if not form.atoms:
        return form
    found = Form(form.terms, form.constant)
    for coefficient, atom in form.atoms:
        found = found.plus(_reduced(atom, extents), coefficient)
    return found


def _reduced(atom: Atom, extents: Mapping[str, Num]) -> Form:
    as_it_is = Form({}, 0, ((1, atom),))
    if atom.op not in ("//", "%") or atom.is_data or atom.args[1].variables():
        return as_it_is
    number, by = reduced(atom.args[0], extents), atom.args[1].constant
    if not is_natural(number) or np.any(np.less(by, 1)):
        return as_it_is
    whole, rest = _parted(number, by)
    fits = np.less(greatest(rest, extents), by)
    if atom.op == "//":
        if np.all(fits):
            return whole
        return whole.plus(Form({}, 0, ((1, Atom("//", (rest, Form({}, by)))),)))
    if np.all(fits):
        return rest
    endless = np.where(fits, ENDLESS, by) if np.any(fits) else by
    return Form({}, 0, ((1, Atom("%", (rest, Form({}, endless)))),))


def is_natural(form: Form) -> bool:
    """Whether nothing in a form is known to be negative."""
    numbers = [form.constant, *form.terms.values(), *(c for c, _ in form.atoms)]
    known = all(atom.op in ("//", "%") and is_natural(atom.args[0]) for _, atom in form.atoms)
    return known and not any(np.any(np.less(x, 0)) for x in numbers)


def _parted(form: Form, by: Num) -> tuple[Form, Form]:
    """q and r of q*by + r: the terms that a divisor divides, divided, and the others."""
    whole, rest = Form({}, form.constant // by), Form({}, form.constant % by)
    parts = [(c, Form({name: 1})) for name, c in form.terms.items()]
    parts += [(c, Form({}, 0, ((1, atom),))) for c, atom in form.atoms]
    for coefficient, part in parts:
        divides = np.equal(coefficient % by, 0)
        if np.any(divides):
            whole = whole.plus(part, _where(divides, coefficient // by))
        if not np.all(divides):
            rest = rest.plus(part, _where(~divides, coefficient))
    return whole, rest


def _where(truth: Truth, number: Num) -> Num:
    return number if np.all(truth) else np.where(truth, number, 0)


def greatest(form: Form, extents: Mapping[str, Num]) -> Num:
    """The greatest value of a form in which nothing is negative."""
    found = form.constant
    for name, coefficient in form.terms.items():
        found = found + product(coefficient, extents[name] - 1)
    for coefficient, atom in form.atoms:
        number, by = greatest(atom.args[0], extents), atom.args[1].constant
        most = number // by if atom.op == "//" else lesser(number, by - 1)
        found = found + product(coefficient, most)
    return found


def require_whole(number: Form, by: Num, where: Truth, extents: Mapping[str, Num]) -> None:
    """Raise StructureError where a remainder would be simplified further: what all terms but a few
    have in common with the divisor is more than those few.
    """
    terms = [(c, product(c, extents[name] - 1)) for name, c in number.terms.items()]
    terms += [(c, greatest(Form({}, 0, ((c, atom),)), extents)) for c, atom in number.atoms]
    for coefficient, _ in terms:
        common = np.gcd(coefficient, by)
        few = number.constant % common
        for other, most in terms:
            few = few + np.where(np.equal(other % common, 0), 0, most)
        if np.any(where & np.greater(common, 1) & np.not_equal(coefficient, 0) & (few < common)):
            raise StructureError("a region through a remainder of several loops is not known")
