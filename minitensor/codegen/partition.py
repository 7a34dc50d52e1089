"""Pass: loops are cut so that guards leave their hot part.

    before  for i in range(8): if i*8 + j < 61: …
    after   for i in range(7): …            (the guard always holds)
            for i in range(1): if j < 5: …  (the rest; cut again by the loops inside it)

So are loops around and over the lanes of a vector where the padding of an image makes lanes differ:

    before  for x in vectorize(58): P[x] = if_then_else(1 <= x and x < 57, D[x - 1], 0.0)
    after   P[0] = 0.0;  for x in vectorize(56): P[x + 1] = D[x];  P[57] = 0.0

A parallel or bound loop is not cut, which would cost a second fork: its body gets two versions
instead.
The text may grow to a bounded number of statements; beyond it guards stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from minitensor.arith import Interval, Linear, Simplifier, at_least_zero, extent_range
from minitensor.codegen.notes import became, missed
from minitensor.codegen.tidy import tidied
from minitensor.ir import (
    FALSE,
    Alloc,
    Expr,
    For,
    If,
    LoopKind,
    Program,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    conjuncts,
    less,
    map_stmts,
    sequence,
    stmts_of,
    substitute,
    walk,
)

LARGEST = 400
"""How many statements a cut loop may hold."""


def partition_loops(program: Program) -> Program:
    """The program with its loops cut at the places where guards begin or cease to hold."""
    return program.replace(body=_statement(program.body, {}))


def _statement(stmt: Stmt, ranges: dict[str, Interval]) -> Stmt:
    if not isinstance(stmt, For):
        return map_stmts(stmt, lambda child: _statement(child, ranges))
    span = _hot_part(stmt, ranges)
    size = sum(1 for _ in stmts_of(stmt))
    if span is None or size > LARGEST:
        if span is not None:
            text = f"not cut where its guards hold: it has {size} statements, and at most {LARGEST}"
            missed("guard", stmt.var, f"{text} are copied", "unroll less inside it")
        inner = {**ranges, stmt.var: extent_range(stmt.extent)}
        return map_stmts(stmt, lambda child: _statement(child, inner))
    start, end = span
    held = f"guards hold for {start} … {end - 1} of {stmt.extent}"
    if stmt.kind.is_concurrent and stmt.kind is not LoopKind.VECTORIZE:
        became(stmt.var, f"two versions of its body: {held}")
        return _versions(stmt, start, end, ranges)
    became(stmt.var, f"cut: {held}")
    pieces = ((0, start), (start, end), (end, stmt.extent))
    return sequence(*[_piece(stmt, lo, hi, ranges) for lo, hi in pieces if lo < hi])


def _piece(loop: For, lo: int, hi: int, ranges: dict[str, Interval]) -> Stmt:
    """The iterations lo … hi-1 as a loop of their own, simplified and cut further inside."""
    body = substitute(loop.body, {loop.var: Var(loop.var) + lo}) if lo else loop.body
    piece = tidied(For(loop.var, hi - lo, body, loop.kind, loop.annotations), ranges)
    if isinstance(piece, For) and piece.var == loop.var:
        inner = {**ranges, piece.var: extent_range(piece.extent)}
        return map_stmts(piece, lambda child: _statement(child, inner))
    return _statement(piece, ranges)


def _versions(loop: For, start: int, end: int, ranges: dict[str, Interval]) -> Stmt:
    """The loop with one body for the hot part and one for the rest."""
    var = Var(loop.var)
    hot = _body(loop, Interval(start, end - 1), ranges)
    if start == 0:
        cold = _body(loop, Interval(end, loop.extent - 1), ranges)
        body: Stmt = If(less(var, end), hot, cold)
    else:
        cold = _body(loop, Interval(0, loop.extent - 1), ranges)
        body = If(less(start - 1, var), If(less(var, end), hot, cold), cold)
        if end == loop.extent:
            cold = _body(loop, Interval(0, start - 1), ranges)
            body = If(less(start - 1, var), hot, cold)
    return For(loop.var, loop.extent, body, loop.kind, loop.annotations)


def _body(loop: For, values: Interval, ranges: dict[str, Interval]) -> Stmt:
    inner = {**ranges, loop.var: values}
    return _statement(tidied(loop.body, inner), inner)


def _hot_part(loop: For, ranges: dict[str, Interval]) -> tuple[int, int] | None:
    """The iterations in which every guard that depends on the loop holds; None if there are none,
    or if that is all of them or none can be decided.
    """
    inner = {**ranges, loop.var: extent_range(loop.extent)}
    start, end = 0, loop.extent
    lanes = frozenset([loop.var]) if loop.kind is LoopKind.VECTORIZE else frozenset()
    for form, around in _guards(loop.body, inner, lanes):
        coefficient = form.coefficient(loop.var)
        rest = form.part(lambda atom, _: atom != Var(loop.var)).shifted(form.constant)
        if coefficient == 0 or rest.mentions_any([loop.var]):
            continue
        worst = rest.interval(around).lo
        if math.isinf(worst):
            continue
        if coefficient < 0:  # holds while -c*var <= worst
            end = min(end, int(worst) // -coefficient + 1)
        else:  # holds from c*var >= -worst on
            start = max(start, -(int(worst) // coefficient))
    if start >= end or (start, end) == (0, loop.extent):
        return None
    return start, end


def _guards(
    stmt: Stmt, ranges: dict[str, Interval], lanes: frozenset[str]
) -> Iterator[tuple[Linear, dict[str, Interval]]]:
    """The conditions below, as forms that must be >= 0, with the ranges around them: those of Ifs,
    and those of values that differ between lanes (`lanes`: the variables that tell them apart).
    """
    match stmt:
        case For(var, extent, body, kind):
            wide = lanes | {var} if kind is LoopKind.VECTORIZE else lanes
            yield from _guards(body, {**ranges, var: extent_range(extent)}, wide)
        case If(condition, then, otherwise):
            yield from _forms(condition, ranges)
            yield from _guards(then, ranges, lanes)
            if otherwise is not None:
                yield from _guards(otherwise, ranges, lanes)
        case Store(value=value) if lanes:
            for node in walk(value):
                if isinstance(node, Select) and node.lazy:
                    for form, around in _forms(node.condition, ranges):
                        if form.mentions_any(lanes):
                            yield form, around
        case Seq(stmts):
            for child in stmts:
                yield from _guards(child, ranges, lanes)
        case Alloc(body=body):
            yield from _guards(body, ranges, lanes)


def _forms(
    condition: Expr, ranges: dict[str, Interval]
) -> Iterator[tuple[Linear, dict[str, Interval]]]:
    """What must be >= 0 for the condition to hold, as far as that can be said."""
    for part in conjuncts(Simplifier(ranges).expr(condition)):
        if part != FALSE:
            for form in at_least_zero(part, ranges) or ():
                yield form, ranges
