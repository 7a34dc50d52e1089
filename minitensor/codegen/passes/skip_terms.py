"""Pass: terms of a sum that a condition on its place makes zero are left out.

    before  for k in range(384):
                for i in unroll(8):
                    C[i0*8 + i] = C[i0*8 + i] + if_then_else(k <= i0*8 + i, A[k] * B[k], 0.0)
    after   for k in range(384):
                if k <= i0*8:
                    for i in unroll(8): C[i0*8 + i] = C[i0*8 + i] + A[k] * B[k]
                elif k <= i0*8 + 7:
                    for i in unroll(8): …                               (as before)

A tile of unrolled and vectorized loops has three versions: the condition holds for all of it, for
some, or for none, where nothing is done. So have 16 iterations of the loop around it, together.
Half of a product with a triangular matrix goes so, and of the scores that a causal mask keeps. What
begins at +0 and is added to is never -0, and adding +0 changes nothing else; what begins at another
number and takes maxima is never below it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.remarks import became
from minitensor.codegen.target import UNEVEN, Target

TILE: Final = (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE)
PIECES: Final = (16, 24, 32, 12, 8)
"""The iterations of a piece of a loop, the first that divides the loop's: one that does nothing
takes half of the time of a small tile."""
BOUNDS: Final = ("max", "min")


def skip_terms(program: ir.Program, target: Target) -> ir.Program:
    """The program without the terms that a condition makes zero, as far as tiles go."""
    first = _first_values(program)
    if not first:
        return program
    skipper = _Skipper(first, ir.names_in(program))
    return program.replace(body=skipper.statement(program.body, {}))


def _first_values(program: ir.Program) -> dict[str, ir.Const]:
    """The buffers that begin at one constant and are only added to, or only take maxima or minima,
    where a term that is that constant changes nothing; none if there is no choice between terms.
    """
    values: dict[str, set[ir.Const | str]] = {b.name: {""} for b in program.inputs}
    choices = False
    for store in ir.stmts_of(program.body):
        if isinstance(store, ir.Store):
            update = _update_of(store)
            choices = choices or (update is not None and isinstance(update.b, ir.Select))
            known: ir.Const | str = "" if update is None else update.op
            if isinstance(store.value, ir.Const):
                known = store.value
            values.setdefault(store.buffer, set()).add(known)
    found: dict[str, ir.Const] = {}
    for name, kinds in values.items() if choices else ():
        match sorted(kinds, key=lambda kind: isinstance(kind, str)):
            case [ir.Const() as first, str(op)] if _is_neutral(op, first):
                found[name] = first
    return found


def _is_neutral(op: str, first: ir.Const) -> bool:
    """Tell whether terms that are the first value change nothing."""
    value = first.value
    if op == "+":
        return value == 0 and math.copysign(1, value) > 0
    return op in BOUNDS and value == value != 0


def _update_of(store: ir.Store) -> ir.Binary | None:
    """The value of `C[i] = C[i] + term`, whose term does not read C; None for any other."""
    match store.value:
        case ir.Binary(op, ir.Load(name, indices), term) as value if op in ("+", *BOUNDS):
            if (name, indices) == (store.buffer, store.indices):
                return value if all(load.buffer != name for load in ir.loads(term)) else None
    return None


class _Skipper:
    """Leaves out terms.

    first  the constants that buffers begin with, by name
    names  all that are taken
    used   the variables on which it depends what is left out
    """

    def __init__(self, first: Mapping[str, ir.Const], names: set[str]) -> None:
        self.first = first
        self.names = names
        self.used: set[str] = set()

    def statement(self, stmt: ir.Stmt, ranges: Mapping[str, arith.Interval]) -> ir.Stmt:
        """The statement inside of loops with these ranges."""
        if isinstance(stmt, ir.Tensorized):
            return stmt
        if (new := self.tile(stmt, ranges)) is not None:
            return new
        if isinstance(stmt, ir.For):
            return stmt if stmt.kind is ir.LoopKind.VECTORIZE else self.loop(stmt, ranges)
        return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))

    def loop(self, loop: ir.For, ranges: Mapping[str, arith.Interval]) -> ir.Stmt:
        """A loop; threads take turns at one in which what is left out depends on the iteration."""
        before, self.used = self.used, set()
        inside = {**ranges, loop.var: arith.extent_range(loop.extent)}
        new = ir.with_body(loop, self.statement(loop.body, inside))
        if loop.var in self.used and isinstance(new.body, ir.If):
            new = self.in_pieces(loop, ranges) or new
        uneven = loop.kind is ir.LoopKind.PARALLEL and loop.var in self.used
        self.used |= before
        if not uneven or UNEVEN in dict(loop.annotations):
            return new
        return dataclasses.replace(new, annotations=(*loop.annotations, (UNEVEN, 1)))

    def in_pieces(self, loop: ir.For, ranges: Mapping[str, arith.Interval]) -> ir.For | None:
        """A loop around a tile cut in pieces, so that not each iteration asks what is left out."""
        size = next((n for n in PIECES if loop.extent % n == 0 and loop.extent > n), None)
        if size is None or loop.kind is not ir.LoopKind.SERIAL:
            return None
        self.names.add(name := ir.fresh_name(f"{loop.var}_in", self.names))
        place = ir.Var(loop.var) * size + ir.Var(name)
        piece = ir.For(name, size, ir.substitute(loop.body, {loop.var: place}))
        pieces = ir.For(loop.var, loop.extent // size, piece, loop.kind, loop.annotations)
        outside = {**ranges, loop.var: arith.extent_range(pieces.extent)}
        inside = {**outside, name: arith.extent_range(size)}
        some = ir.with_body(piece, self.statement(piece.body, inside))
        found = self.tile(piece, outside, some)
        return None if found is None else ir.with_body(pieces, found)

    def tile(
        self,
        nest: ir.Stmt,
        outer: Mapping[str, arith.Interval],
        some: ir.Stmt | None = None,
    ) -> ir.Stmt | None:
        """The versions of a tile of sums; None if it is none, or nothing is known of its terms.

        some  the version for a part of a piece of a loop; None for a tile alone
        """
        loops, stmt = _innermost(nest, some is not None)
        update = _update_of(stmt) if isinstance(stmt, ir.Store) else None
        if not isinstance(stmt, ir.Store) or update is None:
            return None
        choice = update.b
        if not isinstance(choice, ir.Select) or choice.b != self.first.get(stmt.buffer):
            return None
        inner = {loop.var: arith.extent_range(loop.extent) for loop in loops}
        found = _everywhere_and_anywhere(choice.condition, inner, outer)
        if found is None:
            return None
        all_of, any_of = found
        self.used.update(ir.free_vars(any_of))
        value = dataclasses.replace(update, b=choice.a)
        hot = _with_innermost(nest, ir.Store(stmt.buffer, stmt.indices, value))
        other = None if all_of == any_of else ir.If(any_of, nest if some is None else some)
        if all_of == ir.FALSE:
            return other
        if loops:
            became(loops[0].var, "has a version without terms that are zero by their place")
        return ir.If(all_of, hot, other)


def _innermost(nest: ir.Stmt, in_piece: bool = False) -> tuple[list[ir.For], ir.Stmt]:
    """The unrolled and vectorized loops of a nest, and what stands in them and in guards.

    in_piece  whether the outermost is a serial loop
    """
    match nest:
        case ir.For(kind=kind, body=body) if in_piece or kind in TILE:
            loops, stmt = _innermost(body)
            return [nest, *loops], stmt
        case ir.If(then=then, otherwise=None):
            return _innermost(then)
    return [], nest


def _with_innermost(nest: ir.Stmt, stmt: ir.Stmt) -> ir.Stmt:
    """The nest with another statement in its loops and guards."""
    if isinstance(nest, (ir.For, ir.If)):
        return ir.map_stmts(nest, lambda child: _with_innermost(child, stmt))
    return stmt


def _everywhere_and_anywhere(
    condition: ir.Expr, inner: Mapping[str, arith.Interval], outer: Mapping[str, arith.Interval]
) -> tuple[ir.Expr, ir.Expr] | None:
    """Conditions on outer loops under which one holds in all of a tile, and without which nowhere.

    None if that is not known of each of its parts, or nothing is ever left out.
    """
    ranges = {**outer, **inner}
    least: list[arith.Linear] = []
    most: list[arith.Linear] = []
    for part in ir.conjuncts(condition):
        forms = arith.at_least_zero(part, ranges)
        if forms is None or ir.loads(part):
            return None
        for form in forms:
            tile = form.part(lambda atom, _: isinstance(atom, ir.Var) and atom.name in inner)
            rest = form.minus(tile)
            if rest.mentions_any(inner):
                return None
            reached = tile.interval(inner)
            least.append(rest.shifted(int(reached.lo)))
            most.append(rest.shifted(int(reached.hi)))
    all_of, any_of = (_not_negative(forms, outer) for forms in (least, most))
    return None if any_of in (ir.TRUE, ir.FALSE) else (all_of, any_of)


def _not_negative(forms: Sequence[arith.Linear], ranges: Mapping[str, arith.Interval]) -> ir.Expr:
    """The condition that all forms are >= 0; FALSE if one is never, or two are never both."""
    parts: list[ir.Expr] = []
    tight: list[arith.Linear] = []
    for form in forms:
        below = form.part(lambda _, factor: factor < 0).times(-1)
        above = form.plus(below)
        part = arith.simplify(ir.at_most(below.expr(), above.expr()), ranges)
        parts.append(part)
        tight += arith.at_least_zero(part, ranges) or ()
        if part == ir.FALSE or any(tight[-1].plus(o).interval(ranges).hi < 0 for o in tight[:-1]):
            return ir.FALSE
    return ir.conjunction(parts)
