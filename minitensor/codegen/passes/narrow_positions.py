"""Pass: int64 temporaries that hold positions are int32, so that a vector holds twice as many.

    before  I = empty(int64[16]);  I[j] = 9223372036854775807
            … I[j] = select(X[k*16 + j] < V[j], I[j], int64(k*16 + j))
            Y[i] = I[0]
    after   I = empty(int32[16]);  I[j] = 2147483647
            … I[j] = select(X[k*16 + j] < V[j], I[j], int32(k*16 + j))
            Y[i] = select(I[0] == 2147483647, 9223372036854775807, int64(I[0]))

So the position of a maximum takes as many lanes as the maximum. The largest int64, with which a
search for a position begins, is the largest int32 meanwhile: every other value must be known to be
less, and no less than the least int32. Comparisons come out the same, as the order does. A
temporary that is used for anything but comparisons and copies stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.target import Target

WIDE: Final = ir.INT64
NARROW: Final = ir.DType.of("int32")
LARGEST: Final = ir.const(WIDE.max_value, WIDE)
LARGEST_NARROW: Final = ir.const(NARROW.max_value, NARROW)


def narrow_positions(program: ir.Program, target: Target) -> ir.Program:
    """The program with narrow positions."""
    body = program.body
    held = {s.buffer.name for s in ir.stmts_of(body) if isinstance(s, ir.Alloc) and _is_wide(s)}
    for call in (s for s in ir.stmts_of(body) if isinstance(s, ir.Tensorized)):
        held -= {n.buffer for n in ir.walk(call) if isinstance(n, (ir.Load, ir.Store))}
    while held:
        narrower = _Narrower(frozenset(held))
        narrow = narrower.statement(body, {})
        if not narrower.refuted:
            return program.replace(body=narrow)
        held -= narrower.refuted
    return program


def _is_wide(stmt: ir.Alloc) -> bool:
    return stmt.buffer.dtype == WIDE and stmt.buffer.scope is not ir.Scope.SHARED


class _Narrower:
    """Rewrites statements as if some buffers were narrow.

    held     these buffers
    refuted  those of them of which it turned out that they must not be, or need not
    """

    def __init__(self, held: frozenset[str]) -> None:
        self.held = held
        self.refuted: set[str] = set()

    def statement(self, stmt: ir.Stmt, ranges: Mapping[str, arith.Interval]) -> ir.Stmt:
        """The statement inside of loops with these ranges."""
        match stmt:
            case ir.For(var=var, extent=extent):
                inner = {**ranges, var: arith.extent_range(extent)}
                return ir.map_stmts(stmt, lambda child: self.statement(child, inner))
            case ir.Alloc(buffer, body) if buffer.name in self.held:
                narrow = ir.Buffer(buffer.name, buffer.shape, NARROW, buffer.scope)
                return ir.Alloc(narrow, self.statement(body, ranges))
            case ir.If(condition, then, otherwise):
                no = None if otherwise is None else self.statement(otherwise, ranges)
                return ir.If(self.expr(condition, ranges), self.statement(then, ranges), no)
            case ir.Store(buffer, indices, value):
                places = tuple(self.expr(index, ranges) for index in indices)
                return ir.Store(buffer, places, self.stored(buffer, value, ranges))
        return ir.map_stmts(stmt, lambda child: self.statement(child, ranges))

    def stored(self, buffer: str, value: ir.Expr, ranges: arith.Ranges) -> ir.Expr:
        """The value that is stored in a buffer."""
        narrow = self.narrow(value, ranges) if self.mentions(value) or buffer in self.held else None
        if buffer not in self.held:
            return self.expr(value, ranges) if narrow is None else _wide(narrow)
        if narrow is None:
            self.refuted.add(buffer)
            return value
        return narrow

    def narrow(self, expr: ir.Expr, ranges: arith.Ranges) -> ir.Expr | None:
        """The narrow position that stands for a wide one; None if it might be out of range."""
        match expr:
            case ir.Const(value, dtype) if dtype == WIDE:
                if expr == LARGEST:
                    return LARGEST_NARROW
                return ir.const(value, NARROW) if _in_range(arith.Interval(value, value)) else None
            case ir.Load(buffer, indices) if buffer in self.held:
                return ir.Load(buffer, tuple(self.expr(i, ranges) for i in indices), NARROW)
            case ir.Cast(dtype, a) if dtype == WIDE and _in_range(_interval(a, ranges)):
                return ir.Cast(NARROW, self.expr(a, ranges))
            case ir.Select(condition, a, b, lazy) if expr.dtype == WIDE:
                yes, no = self.narrow(a, ranges), self.narrow(b, ranges)
                if yes is not None and no is not None:
                    return ir.Select(self.expr(condition, ranges), yes, no, lazy)
        return None

    def expr(self, expr: ir.Expr, ranges: arith.Ranges) -> ir.Expr:
        """An expression with narrow comparisons."""
        if not self.mentions(expr):
            return expr
        match expr:
            case ir.Load(buffer) if buffer in self.held:
                self.refuted.add(buffer)
            case ir.Binary(op, a, b) if op in ir.COMPARISONS and a.dtype == WIDE:
                one, other = self.narrow(a, ranges), self.narrow(b, ranges)
                if one is not None and other is not None:
                    return ir.Binary(op, one, other)
        return ir.map_children(expr, lambda child: self.expr(child, ranges))

    def mentions(self, expr: ir.Expr) -> bool:
        """Tell whether an expression reads one of the buffers."""
        return any(load.buffer in self.held for load in ir.loads(expr))


def _interval(expr: ir.Expr, ranges: arith.Ranges) -> arith.Interval:
    """An interval that holds an integer; of a float, everything."""
    known = expr.dtype == ir.INDEX or expr.dtype.kind in ("int", "uint")
    return arith.interval_of(expr, ranges) if known else arith.EVERYTHING


def _in_range(interval: arith.Interval) -> bool:
    return interval.within(NARROW.min_value, NARROW.max_value - 1)


def _wide(narrow: ir.Expr) -> ir.Expr:
    """The wide position that a narrow one stands for."""
    if isinstance(narrow, ir.Cast):
        return ir.Cast(WIDE, narrow.a)
    if isinstance(narrow, ir.Select):
        return ir.Select(narrow.condition, _wide(narrow.a), _wide(narrow.b), narrow.lazy)
    if isinstance(narrow, ir.Const):
        return LARGEST if narrow == LARGEST_NARROW else ir.const(narrow.value, WIDE)
    return ir.Select(ir.Binary("==", narrow, LARGEST_NARROW), LARGEST, ir.Cast(WIDE, narrow))
