"""Regions for many candidates: `arith.region` and `schedule.place` with arrays for numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor.search.features.forms import (
    Atom,
    Form,
    Num,
    StructureError,
    Truth,
    greater,
    is_zero,
    lesser,
    magnitude,
    product,
)
from minitensor.search.features.quotients import (
    ENDLESS,
    greatest,
    is_natural,
    reduced,
    require_whole,
)


@dataclass(frozen=True, slots=True)
class Span:
    """The integers from `low`, a form of the loops that stand still, to `low + spread`."""

    low: Form
    spread: Num

    @property
    def extent(self) -> Num:
        """How many integers that is."""
        return self.spread + 1


def span_of(
    form: Form, inner: Collection[str], extents: Mapping[str, Num], units: bool = True
) -> Span:
    """The span of a form, its quotients reduced, while the loops in `inner` run.

    units  whether loops of one iteration stay in `low`

    Raises StructureError if it is not known: for quotients that not even replaying simplifies.
    """
    terms: dict[str, Num] = {}
    constant = form.constant
    spread: Num = 0
    for name, coefficient in form.terms.items():
        if name not in inner:
            own = coefficient if units else product(coefficient, as_number(extents[name] > 1))
            if not is_zero(own):
                terms[name] = own
            continue
        reached = product(coefficient, extents[name] - 1)
        constant = constant + lesser(reached, 0)
        spread = spread + magnitude(reached)
    found = Span(Form(terms, constant), spread)
    moving = 0
    for coefficient, atom in form.atoms:
        if not atom.is_data and atom.variables().isdisjoint(inner):
            found = Span(found.low.plus(Form({}, 0, ((coefficient, atom),))), found.spread)
            continue
        moving += 1
        one = _span_of_atom(atom, inner, extents, units)
        if moving > 1 or np.any(np.less(coefficient, 0)):
            raise StructureError(_NOT_LINEAR)
        low = found.low.plus(one.low, coefficient)
        found = Span(low, found.spread + product(coefficient, one.spread))
    return found


_NOT_LINEAR: Final = (
    "what a block needs of a buffer whose index divides sums of loops is not known without "
    "replaying the schedule"
)


def _span_of_atom(
    atom: Atom, inner: Collection[str], extents: Mapping[str, Num], units: bool
) -> Span:
    """The span of a quotient or a remainder in which loops run."""
    if atom.op not in ("//", "%") or atom.is_data or not is_natural(atom.args[0]):
        raise StructureError(_NOT_LINEAR)
    number, by = atom.args[0], atom.args[1].constant
    if atom.args[1].variables():
        raise StructureError(_NOT_LINEAR)
    span = span_of(number, inner, extents, units)
    if span.low.atoms:
        raise StructureError(_NOT_LINEAR)
    still: Truth = False
    for coefficient in span.low.terms.values():
        still = still | np.not_equal(coefficient, 0)
    start = span.low.constant
    if atom.op == "//":
        common = by
        for coefficient in span.low.terms.values():
            common = np.gcd(common, coefficient)
        small = still & np.less(start + span.spread, common)
        require_whole(number, by, still & np.logical_not(small), extents)
        spread = (chosen(still, by - 1, start) + span.spread) // by
        spread = chosen(small, 0, spread)
        base = reduced(Form({}, 0, ((1, Atom("//", (span.low, atom.args[1]))),)), extents)
        most = greatest(number, extents) // by
        if np.any(np.less(most, spread)):
            base = base.times(as_number(np.greater_equal(most, spread)))
        return Span(base, lesser(most, spread))
    fits = np.equal(by, ENDLESS)
    require_whole(number, by, ~fits, extents)
    whole = ~fits & (still | np.greater_equal(start + span.spread, by))
    low = Form(span.low.terms, start).times(as_number(~whole)) if np.any(whole) else span.low
    return Span(low, np.where(whole, by - 1, span.spread) if np.any(whole) else span.spread)


def clipped(span: Span, size: Num) -> Span:
    """The span without what lies outside of the axis, where its low end is a constant."""
    fixed: Truth = True
    for coefficient in span.low.terms.values():
        fixed = False if isinstance(coefficient, int) else fixed & np.equal(coefficient, 0)
        if fixed is False:
            return span
    low, last = span.low.constant, greater(size - 1, 0)
    start = lesser(greater(low, 0), last)
    spread = greater(start, lesser(last, low + span.spread)) - start
    if span.low.atoms:
        if not (same(start, low) and same(spread, span.spread)):
            raise StructureError("a region at the border of a buffer begins at a quotient")
        return span
    return Span(Form(span.low.terms, chosen(fixed, start, low)), chosen(fixed, spread, span.spread))


def union(a: Span, b: Span, size: Num) -> Span:
    """A span that holds both; the whole axis where they cannot be compared."""
    alike, shift = _distance(a.low, b.low)
    whole = size - 1
    if alike is False:
        return Span(Form({}), whole)
    start, end = lesser(0, shift), greater(a.spread, shift + b.spread)
    joined = Span(a.low.plus(Form({}, start)), end - start)
    if alike is True:
        return joined
    low = joined.low.times(as_number(alike))
    return Span(low, chosen(alike, joined.spread, whole))


def _distance(a: Form, b: Form) -> tuple[Truth, Num]:
    """Where b - a is a constant, and which."""
    rest = list(b.atoms)
    for coefficient, atom in a.atoms:
        found = [n for n, (c, x) in enumerate(rest) if same(c, coefficient) and alike(atom, x)]
        if not found:
            raise StructureError("regions that begin at quotients cannot be compared")
        del rest[found[0]]
    if rest:
        raise StructureError("regions that begin at quotients cannot be compared")
    constant: Truth = True
    for coefficient in b.plus(Form(a.terms), -1).terms.values():
        if isinstance(coefficient, int):
            return False, 0
        constant = constant & np.equal(coefficient, 0)
    if constant is not True and np.all(constant):
        constant = True
    return constant, b.constant - a.constant


def alike(a: Atom, b: Atom) -> bool:
    """Whether two atoms are written alike for all candidates."""
    return a is b or (a.op == b.op and all(map(_alike, a.args, b.args)))


def _alike(a: Form, b: Form) -> bool:
    return (
        a.terms.keys() == b.terms.keys()
        and all(same(c, b.terms[name]) for name, c in a.terms.items())
        and same(a.constant, b.constant)
        and len(a.atoms) == len(b.atoms)
        and all(same(c, d) and alike(x, y) for (c, x), (d, y) in zip(a.atoms, b.atoms))
    )


def box_of(
    forms: Sequence[Form],
    inner: Collection[str],
    extents: Mapping[str, Num],
    sizes: Sequence[Num],
    units: bool = True,
) -> list[Span]:
    """The box of places that forms reach while the loops in `inner` run, clipped to the sizes."""
    return [
        clipped(span_of(reduced(form, extents), inner, extents, units), size)
        for form, size in zip(forms, sizes)
    ]


def same(a: Num, b: Num) -> bool:
    """Whether two numbers are equal for all candidates."""
    return a is b or bool(np.all(np.equal(a, b)))


def chosen(where: Truth, a: Num, b: Num) -> Num:
    """The one where something holds, else the other."""
    if np.ndim(where) == 0:
        return a if where else b
    return np.where(where, a, b)


def as_number(truth: Truth) -> Num:
    """1 where it holds, else 0."""
    return int(truth) if isinstance(truth, bool) else np.asarray(truth).astype(np.int64)
