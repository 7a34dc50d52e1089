"""Pass: loops are cut so that guards leave their hot part.

    before  for i in range(8): if i*8 + j < 61: …
    after   for i in range(7): …            (the guard always holds)
            for i in range(1): if j < 5: …  (the rest; cut again by the loops inside it)

So are loops around and over the lanes of a vector where the padding of an image makes lanes differ:

    before  for x in vectorize(58): P[x] = if_then_else(1 <= x and x < 57, D[x - 1], 0.0)
    after   P[0] = 0.0;  for x in vectorize(56): P[x + 1] = D[x];  P[57] = 0.0

and around the place where an index of a lane wraps:

    before  for x in vectorize(64): C[x] = A[(x + 3) % 64]
    after   for x in vectorize(61): C[x] = A[x + 3];  for x in vectorize(3): C[x + 61] = A[x]

and where the least or greatest of two indices is the other one, as where they are clamped.

Iterations that do nothing, since a guard around all of a loop's body never holds in them, go.

A parallel or bound loop is not cut, which would cost a second fork: its body gets two versions
instead. One that was fused of several has them for each of these:

    before  for ij in parallel(8192): for k …: if ij % 64 * 16 + k < 1009: …
    after   for ij in parallel(8192): if ij % 64 < 63: for k …: …
                                      else:            for k in range(1): …

The text may grow to a bounded number of statements; beyond it guards stay where they are. So do
those of terms of a sum that are asked once for many iterations of loops inside.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minitensor import arith, ir
from minitensor.codegen.passes.simplify import simplified
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target

LARGEST: Final = 400
"""The most statements of a loop that is cut."""
MOST: Final = 512
"""The most statements that all cuts together add. Each cut doubles what stands in the loop: without
a bound sixteen guarded loops, one in the other, would become 65,536."""
FEW: Final = 16
"""A loop is not cut around fewer iterations than one of this many, for a guard that stays."""
CHEAP: Final = 48
"""The iterations of serial loops inside, at least, for which a guard that stays is asked once."""


def partition_loops(program: ir.Program, target: Target) -> ir.Program:
    """The program with its loops cut at the places where guards begin or cease to hold."""
    return program.replace(body=_Cutter().statement(program.body, {}))


@dataclass(slots=True)
class _Cutter:
    """Cuts loops while there is room for more statements; what stands outside comes first, and
    the hot part of a loop before what is left of it.

    whole  the loop that was fused, for what counts a part of it
    """

    room: int = MOST
    whole: dict[str, str] = field(default_factory=dict)

    def statement(self, stmt: ir.Stmt, ranges: dict[str, arith.Interval]) -> ir.Stmt:
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))
        if _is_forked(stmt):
            body, parts = _unfused(stmt)
            if parts:
                return self.fused(stmt, body, parts, ranges)
        live = _live_part(stmt, ranges)
        if live != (0, stmt.extent) and self.may_be_shorter(stmt):
            return self.statement(_iterations(stmt, *live, ranges), ranges)
        span = _hot_part(stmt, ranges)
        if span is None or not self.has_room(stmt, *span):
            inner = {**ranges, stmt.var: arith.extent_range(stmt.extent)}
            return ir.map_stmts(stmt, lambda child: self.statement(child, inner))
        start, end = span
        held = f"guards hold for {start} … {end - 1} of {stmt.extent}"
        if _is_forked(stmt):
            became(self.whole.get(stmt.var, stmt.var), f"two versions of its body: {held}")
            return self.versions(stmt, start, end, ranges)
        became(stmt.var, f"cut: {held}")
        hot = self.piece(stmt, start, end, ranges)
        before = self.piece(stmt, 0, start, ranges)
        after = self.piece(stmt, end, stmt.extent, ranges)
        return ir.sequence(before, hot, after)

    def may_be_shorter(self, loop: ir.For) -> bool:
        """Tell whether iterations may go: not those of a block of a GPU, nor those of a loop that
        was fused, which are counted with others.
        """
        return not _is_forked(loop) or (
            loop.kind is ir.LoopKind.PARALLEL and loop.var not in self.whole
        )

    def has_room(self, loop: ir.For, start: int, end: int) -> bool:
        """Tell whether a loop may be cut around the iterations start … end-1; if so, take the room.

        A loop that is too large to cut is recorded.
        """
        size = sum(1 for _ in ir.stmts_of(loop))
        more = size * ((start > 0) + (end < loop.extent))
        text = "not cut where its guards hold: "
        if size > LARGEST:
            text += f"it has {size} statements, and at most {LARGEST} are copied"
        elif more > self.room:
            text += f"it would add {more} statements, and of {MOST} {self.room} are left"
        else:
            self.room -= more
            return True
        missed("guard", loop.var, text, "unroll less inside it")
        return False

    def piece(self, loop: ir.For, lo: int, hi: int, ranges: dict[str, arith.Interval]) -> ir.Stmt:
        """The iterations lo … hi-1 as a loop of their own, simplified and cut further inside; lanes
        are cut again, where the next guard begins to hold.
        """
        piece = _iterations(loop, lo, hi, ranges)
        if (
            isinstance(piece, ir.For)
            and piece.var == loop.var
            and (piece.kind is not ir.LoopKind.VECTORIZE or _hot_part(piece, ranges) is None)
            and _live_part(piece, ranges) == (0, piece.extent)
        ):
            inner = {**ranges, piece.var: arith.extent_range(piece.extent)}
            return ir.map_stmts(piece, lambda child: self.statement(child, inner))
        return self.statement(piece, ranges)

    def versions(
        self, loop: ir.For, start: int, end: int, ranges: dict[str, arith.Interval]
    ) -> ir.Stmt:
        """The loop with one body for the hot part and one for the rest."""
        var = ir.Var(loop.var)
        hot = self.body(loop, arith.Interval(start, end - 1), ranges)
        if start == 0:
            cold = self.body(loop, arith.Interval(end, loop.extent - 1), ranges)
            body: ir.Stmt = ir.If(ir.less(var, end), hot, cold)
        elif end == loop.extent:
            cold = self.body(loop, arith.Interval(0, start - 1), ranges)
            body = ir.If(ir.less(start - 1, var), hot, cold)
        else:
            cold = self.body(loop, arith.Interval(0, loop.extent - 1), ranges)
            body = ir.If(ir.less(start - 1, var), ir.If(ir.less(var, end), hot, cold), cold)
        return ir.with_body(loop, body)

    def fused(
        self,
        loop: ir.For,
        body: ir.Stmt,
        parts: dict[str, ir.Expr],
        ranges: dict[str, arith.Interval],
    ) -> ir.Stmt:
        """A loop that was fused of several, as if it still were these (see `_unfused`)."""
        inner = {**ranges, loop.var: arith.extent_range(loop.extent)}
        self.whole |= dict.fromkeys(parts, loop.var)
        for name, part in parts.items():
            body = ir.For(name, int(arith.interval_of(part, inner).hi) + 1, body, loop.kind)
        found = _without_loops(self.statement(body, inner), parts)
        return ir.with_body(loop, ir.substitute(found, parts))

    def body(
        self, loop: ir.For, values: arith.Interval, ranges: dict[str, arith.Interval]
    ) -> ir.Stmt:
        inner = {**ranges, loop.var: values}
        return self.statement(simplified(loop.body, inner), inner)


def _iterations(loop: ir.For, lo: int, hi: int, ranges: dict[str, arith.Interval]) -> ir.Stmt:
    """The iterations lo … hi-1 as a loop of their own, simplified."""
    if lo == hi:
        return ir.NOTHING
    body = ir.substitute(loop.body, {loop.var: ir.Var(loop.var) + lo}) if lo else loop.body
    return simplified(ir.For(loop.var, hi - lo, body, loop.kind, loop.annotations), ranges)


def _is_forked(loop: ir.For) -> bool:
    """Tell whether several threads run the loop."""
    return loop.kind.is_concurrent and loop.kind is not ir.LoopKind.VECTORIZE


def _unfused(loop: ir.For) -> tuple[ir.Stmt, dict[str, ir.Expr]]:
    """The body of a loop that was fused of several, with a variable for the number of an iteration
    of each; and what it stands for, such as `ij // 64` and `ij % 64`, by that text.
    """
    parts: dict[str, ir.Expr] = {}

    def replaced(node: Any) -> Any:
        if isinstance(node, ir.Binary) and _is_part(node, loop.var):
            name = ir.print_expr(node)
            parts[name] = node
            return ir.Var(name)
        return ir.map_children(node, replaced)

    return replaced(loop.body), parts


def _without_loops(stmt: ir.Stmt, names: Container[str]) -> ir.Stmt:
    """The statement with the bodies of some loops in their place."""
    if isinstance(stmt, ir.For) and stmt.var in names:
        return _without_loops(stmt.body, names)
    return ir.map_stmts(stmt, lambda child: _without_loops(child, names))


def _is_part(expr: ir.Expr, var: str) -> bool:
    """Tell whether an expression is `var // n`, `var % n` or `var // n % m`."""
    if not isinstance(expr, ir.Binary) or not isinstance(expr.b, ir.Const):
        return False
    whole = expr.op in ("//", "%") and expr.a == ir.Var(var)
    return whole or (expr.op == "%" and _is_quotient(expr.a, var))


def _is_quotient(expr: ir.Expr, var: str) -> bool:
    return isinstance(expr, ir.Binary) and expr.op == "//" and _is_part(expr, var)


def _hot_part(loop: ir.For, ranges: dict[str, arith.Interval]) -> tuple[int, int] | None:
    """The iterations in which every guard that depends on the loop holds, but for guards that are
    known to hold in few and may hold in others; None if there are none, or if that is all of them
    or none can be decided.
    """
    inner = {**ranges, loop.var: arith.extent_range(loop.extent)}
    start, end = 0, loop.extent
    lanes = frozenset([loop.var]) if loop.kind is ir.LoopKind.VECTORIZE else frozenset()
    for form, around in _guards(loop.body, inner, lanes):
        first, last = _holds(form, loop, around, at_best=False)
        few = (min(last, end) - max(first, start)) * FEW < loop.extent
        if few and not lanes and (first, last) != _holds(form, loop, around, at_best=True):
            continue  # the guard would stay in the rest
        start, end = max(start, first), min(end, last)
    return None if start >= end or (start, end) == (0, loop.extent) else (start, end)


def _holds(
    form: arith.Linear, loop: ir.For, ranges: dict[str, arith.Interval], at_best: bool
) -> tuple[int, int]:
    """The iterations in which a form is at least zero: its other terms at their best, that is
    somewhere in the ranges, or at their worst, that is everywhere. All of them if it is not known.
    """
    coefficient = form.coefficient(loop.var)
    rest = form.part(lambda atom, _: atom != ir.Var(loop.var)).shifted(form.constant)
    if coefficient == 0 or rest.mentions_any([loop.var]):
        return 0, loop.extent
    interval = rest.interval(ranges)
    edge = interval.hi if at_best else interval.lo
    if math.isinf(edge):
        return 0, loop.extent
    if coefficient < 0:  # it holds while -c*var <= edge
        return 0, int(edge) // -coefficient + 1
    return -(int(edge) // coefficient), loop.extent  # from c*var >= -edge on


def _live_part(loop: ir.For, ranges: dict[str, arith.Interval]) -> tuple[int, int]:
    """The iterations outside of which guards around all that the body does hold nowhere."""
    inner = {**ranges, loop.var: arith.extent_range(loop.extent)}
    start, end = _live(loop.body, loop, inner)
    return (start, end) if start < end else (0, 0)


def _live(stmt: ir.Stmt, loop: ir.For, ranges: dict[str, arith.Interval]) -> tuple[int, int]:
    match stmt:
        case ir.For(var, extent, body):
            return _live(body, loop, {**ranges, var: arith.extent_range(extent)})
        case ir.Alloc(body=body):
            return _live(body, loop, ranges)
        case ir.Seq(stmts):
            parts = [part for one in stmts if (part := _live(one, loop, ranges))[0] < part[1]]
            starts, ends = zip(*parts or [(0, 0)])
            return min(starts), max(ends)
        case ir.If(condition, then, None):
            start, end = _live(then, loop, ranges)
            for form, _ in _forms(condition, ranges):
                first, last = _holds(form, loop, ranges, at_best=True)
                start, end = max(start, first), min(end, last)
            return start, end
    return 0, loop.extent


def _guards(
    stmt: ir.Stmt,
    ranges: dict[str, arith.Interval],
    lanes: frozenset[str],
    inside: Sequence[ir.For] = (),
) -> Iterator[tuple[arith.Linear, dict[str, arith.Interval]]]:
    """The conditions below, as forms that must be >= 0, with the ranges around them: those of Ifs,
    unless they are asked seldom, and those of values that differ between lanes (`lanes`: the
    variables that tell them apart).

    inside  the loops around the statement that have nothing else in them, outermost first
    """
    match stmt:
        case ir.For(var, extent, body, kind):
            wide = lanes | {var} if kind is ir.LoopKind.VECTORIZE else lanes
            every = {**ranges, var: arith.extent_range(extent)}
            yield from _guards(body, every, wide, (*inside, stmt))
        case ir.If(condition, then, otherwise):
            if otherwise is not None or not _is_seldom(condition, then, inside):
                yield from _forms(condition, ranges)
            yield from _guards(then, ranges, lanes, inside if otherwise is None else ())
            if otherwise is not None:
                yield from _guards(otherwise, ranges, lanes)
        case ir.Store(value=value) if lanes:
            for node in ir.walk(value):
                test = node.condition if isinstance(node, ir.Select) and node.lazy else ir.TRUE
                for form, around in (*_forms(test, ranges), *_unwrapped(node, ranges)):
                    if form.mentions_any(lanes):
                        yield form, around
        case ir.Seq(stmts):
            for child in stmts:
                yield from _guards(child, ranges, lanes)
        case ir.Alloc(body=body):
            yield from _guards(body, ranges, lanes, inside)


def _unwrapped(
    node: ir.Node, ranges: dict[str, arith.Interval]
) -> Iterator[tuple[arith.Linear, dict[str, arith.Interval]]]:
    """The form that is >= 0 before an index `x % c` wraps, if it does so once; or where an index
    `min(x, y)` or `max(x, y)` is the one that it is more often.
    """
    if not isinstance(node, ir.Binary) or node.dtype.scalar != ir.INDEX:
        return
    form = arith.linear_of(node.a)
    if node.op in ("min", "max"):
        form = form.minus(arith.linear_of(node.b))
        values = form.interval(ranges)
        if values.is_bounded and values.lo < 0 < values.hi:
            yield (form if values.lo + values.hi >= 0 else form.times(-1)), ranges
    elif node.op == "%" and isinstance(node.b, ir.Const):
        size, values = int(node.b.value), form.interval(ranges)
        if size > 0 and values.is_bounded:
            first, last = int(values.lo) // size, int(values.hi) // size
            if last == first + 1:
                yield form.times(-1).shifted(last * size - 1), ranges


def _is_seldom(condition: ir.Expr, then: ir.Stmt, inside: Sequence[ir.For]) -> bool:
    """Tell whether a guard of some terms of a sum is asked once for many iterations, outside of the
    loops that it does not depend on (see `hoist_guards`). A guard of elements is not meant: what
    is stored is in registers only where it is gone (see `promote_accumulators`).
    """
    stores = [node for node in ir.walk(then) if isinstance(node, ir.Store)]
    stored = {name for store in stores for i in store.indices for name in ir.free_vars(i)}
    if stored.issuperset(ir.free_vars(condition)):
        return False
    count = 1
    for loop in reversed(inside):
        if ir.mentions(condition, loop.var):
            break
        count *= loop.extent if loop.kind is ir.LoopKind.SERIAL else 1
    return count >= CHEAP


def _forms(
    condition: ir.Expr, ranges: dict[str, arith.Interval]
) -> Iterator[tuple[arith.Linear, dict[str, arith.Interval]]]:
    """Forms that must be >= 0 for the condition to hold, as far as they are found."""
    for part in ir.conjuncts(arith.Simplifier(ranges).expr(condition)):
        if part != ir.FALSE:
            for form in arith.at_least_zero(part, ranges) or ():
                yield form, ranges
