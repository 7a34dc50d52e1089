"""Terms of a sum that are zero by their place: what skip_zeros can leave out.

They are found in the value of a sum: `if_then_else(c, a, 0)`, `if_then_else(c, a, 0) * b`, or
`P[…] * b` where one block stores `P[…] = if_then_else(c, a, 0)`; of c, each condition
`(axis + tap) % n == m`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from minitensor import arith, ir
from minitensor.schedule import edit
from minitensor.schedule.refusal import refuse


@dataclass(frozen=True)
class Spread:
    """Terms that are zero unless `axis + tap` leaves `rest` when divided by `period`.

    axis   a spatial iter of the sum
    tap    a reduce iter, the place in a window
    place  the dimension of the stored zeros that `axis + tap + shift` indexes, where only every
           `period`-th element, from `first` on, is anything else; -1 if no zeros are stored
    """

    axis: str
    tap: str
    period: int
    rest: int
    place: int = -1
    shift: int = 0
    first: int = 0


@dataclass(frozen=True)
class Terms:
    """The terms of a sum, as far as they are known.

    spreads  the axes along which there are zeros
    value    the terms that are left, without the conditions that hold for them
    factor   what floating-point zeros are multiplied with; None if nothing
    buffer   where zeros are stored; "" if they are not
    """

    spreads: tuple[Spread, ...]
    value: ir.Expr
    factor: ir.Expr | None = None
    buffer: str = ""


def terms_of(program: ir.Program, block: ir.Block) -> Terms:
    """The terms of a sum that are left; refuses what breaks R1, R3, R4 or R5 of skip_zeros."""
    name, body = ir.print_name(block.name), block.body
    kinds = {i.kind for i in block.iters}
    if (
        not isinstance(body, ir.Reduce)
        or ir.operator_of(body.reducer) != "+"
        or block.init is None
        or not kinds <= {ir.IterKind.SPATIAL, ir.IterKind.REDUCE}
        or len(ir.writers(program, body.buffers[0])) > 1
    ):
        refuse("R1", f"{name} is no sum")
    terms = _terms(program, block, body.values[0])
    if terms is None:
        refuse("R1", f"no term of {name} is known to be zero by its place")
    if terms.buffer:
        _require_alone(program, block, terms.buffer)
    sizes = {i.var: i.extent for i in block.iters}
    for one in terms.spreads:
        if sizes[one.tap] < one.period:
            refuse("R4", f"{one.tap} has {sizes[one.tap]}, the period is {one.period}")
        if terms.factor is not None and ir.mentions(terms.factor, one.axis):
            refuse("R5", f"{ir.print_expr(terms.factor)} depends on {one.axis}")
    return terms


def has_zeros(program: ir.Program, block: ir.Block) -> bool:
    """Return whether terms of a block are known to be zero by their place."""
    body = block.body
    return isinstance(body, ir.Reduce) and _terms(program, block, body.values[0]) is not None


def _terms(program: ir.Program, block: ir.Block, value: ir.Expr) -> Terms | None:
    """The terms that a value tells of, a product or a choice."""
    if not isinstance(value, ir.Binary) or value.op != "*":
        return _chosen(block, value)
    for zero, factor in ((value.a, value.b), (value.b, value.a)):
        found = _operand(program, block, zero)
        if found is not None:
            pair = (found.value, factor) if zero is value.a else (factor, found.value)
            poison = factor if value.dtype.kind == "float" else None
            return replace(found, value=ir.Binary("*", *pair), factor=poison)
    return None


def _operand(program: ir.Program, block: ir.Block, value: ir.Expr) -> Terms | None:
    """The terms that a factor tells of: a choice, a read of stored zeros, or one converted."""
    match value:
        case ir.Cast(dtype, a):
            found = _operand(program, block, a)
            return None if found is None else replace(found, value=ir.Cast(dtype, found.value))
        case ir.Load(buffer, indices):
            spreads = _stored(program, block, buffer, indices)
            return Terms(spreads, value, buffer=buffer) if spreads else None
    return _chosen(block, value)


def _chosen(block: ir.Block, value: ir.Expr) -> Terms | None:
    """The terms that a choice between something and zero tells of."""
    if not is_choice(value):
        return None
    spreads: list[Spread] = []
    rest = []
    for part in ir.conjuncts(value.condition):
        form, period, left = _remainder(part)
        axes = _axes(block, form, spreads)
        if axes is None:
            rest.append(part)
        else:
            spreads.append(Spread(*axes, period, (left - int(form.constant)) % period))
    return Terms(tuple(spreads), unless(value, rest)) if spreads else None


def _stored(
    program: ir.Program, block: ir.Block, buffer: str, indices: Sequence[ir.Expr]
) -> tuple[Spread, ...]:
    """The spreads that the block which stores a buffer tells of what is read at these indices."""
    writers = ir.writers(program, buffer)
    choice = choice_of(writers[0]) if len(writers) == 1 else None
    spreads: list[Spread] = []
    for part in ir.conjuncts(choice.condition) if choice is not None else ():
        place, period, first = place_of(writers[0], part)
        form = arith.linear_of(indices[place]) if place >= 0 else arith.constant_form(0)
        axes = _axes(block, form, spreads)
        if axes is not None and all(place != s.place for s in spreads):
            shift = int(form.constant)
            spreads.append(Spread(*axes, period, (first - shift) % period, place, shift, first))
    return tuple(spreads)


def _axes(block: ir.Block, form: arith.Linear, spreads: Sequence[Spread]) -> tuple[str, str] | None:
    """The axis and the tap of which a form is the sum, but for a constant, if no other spread is
    along one of them.
    """
    names = {atom.name for atom in form.terms if isinstance(atom, ir.Var)}
    if len(form.terms) != 2 or set(form.terms.values()) != {1}:
        return None
    found = sorted((i for i in block.iters if i.var in names), key=lambda i: i.kind.value)
    if [i.kind for i in found] != [ir.IterKind.REDUCE, ir.IterKind.SPATIAL]:
        return None
    tap, axis = (i.var for i in found)
    return None if any({axis, tap} & {s.axis, s.tap} for s in spreads) else (axis, tap)


def place_of(writer: ir.Block, condition: ir.Expr) -> tuple[int, int, int]:
    """The dimension that a condition leaves every so many elements of, how many, and the first of
    them; -1 for the dimension if it is no such condition.
    """
    form, period, left = _remainder(condition)
    store = edit.plain_store(writer) or ()
    for number, name in enumerate(store):
        if form.minus(arith.variable(name)).is_constant and period:
            return number, period, (left - int(form.constant)) % period
    return -1, 0, 0


def _remainder(condition: ir.Expr) -> tuple[arith.Linear, int, int]:
    """The sum, the divisor and the remainder of a condition `sum % divisor == remainder`; a
    divisor of 0 if it is none.
    """
    match condition:
        case ir.Binary("==", ir.Binary("%", a, ir.Const(int(n))), ir.Const(int(left))) if n > 1:
            return arith.linear_of(a), n, left
    return arith.constant_form(0), 0, 0


def is_choice(value: ir.Expr) -> TypeGuard[ir.Select]:
    """Return whether it chooses between something and zero."""
    return isinstance(value, ir.Select) and isinstance(value.b, ir.Const) and value.b.value == 0


def choice_of(writer: ir.Block) -> ir.Select | None:
    """The value of a block that stores something or zero; None of any other."""
    body = writer.body
    found = body.value if isinstance(body, ir.Store) and writer.init is None else None
    return found if found is not None and is_choice(found) else None


def unless(choice: ir.Select, conditions: Sequence[ir.Expr]) -> ir.Expr:
    """A choice by other conditions; its value where there are none."""
    if not conditions:
        return choice.a
    return ir.Select(ir.conjunction(conditions), choice.a, choice.b, choice.lazy)


def _require_alone(program: ir.Program, block: ir.Block, buffer: str) -> None:
    """Rule R3."""
    name, (writer,) = ir.print_name(buffer), ir.writers(program, buffer)
    reading = [b.name for b in ir.readers(program, buffer)]
    places = {load.indices for load in edit.loads_of(block, (buffer,))}
    marks = ir.Marks(blocks=dict.fromkeys(reading, f"reads {name}"))
    if reading != [block.name] or len(places) > 1:
        refuse("R3", f"{name} is read elsewhere too", marks=marks)
    if buffer not in [b.name for b in program.temporaries]:
        refuse("R3", f"{name} is an output")
    if edit.written_extents(writer) != program.buffers[buffer].shape:
        refuse("R3", f"{name} is laid out anew")
