"""Pass: a value that a straight line of statements uses more than once is named once.

    before  C_0[()] = C_0[()] + broadcast(A[0, k], 16) * B[k, ramp(0, 1, 16)]
            C_1[()] = C_1[()] + broadcast(A[1, k], 16) * B[k, ramp(0, 1, 16)]
    after   B_0 = empty(float32x16[])  # register
            B_0[()] = B[k, ramp(0, 1, 16)]
            C_0[()] = C_0[()] + broadcast(A[0, k], 16) * B_0[()]
            C_1[()] = C_1[()] + broadcast(A[1, k], 16) * B_0[()]

Named are loads, broadcasts, conversions, calls, conditions of several parts and what they choose;
arithmetic is not, so that a compiler fuses the same products and sums as before. A value is named
where it is computed in any case, not where a condition may forbid that; a store to a buffer that it
reads ends its life.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from minitensor import ir
from minitensor.codegen.target import Target

MOST: Final = 96
"""The most values that are named in one straight line."""


def name_values(program: ir.Program, target: Target) -> ir.Program:
    """The program with its repeated values in register variables."""
    made = [s.buffer for s in ir.stmts_of(program.body) if isinstance(s, ir.Alloc)]
    memory = {b.name for b in program.params} | {b.name for b in made if b.shape}
    names = frozenset(ir.names_in(program))
    return program.replace(body=_statement(program.body, names, frozenset(memory)))


def _statement(stmt: ir.Stmt, names: frozenset[str], memory: frozenset[str]) -> ir.Stmt:
    if isinstance(stmt, ir.Store):
        return _Line(names, memory).named([stmt])
    if isinstance(stmt, ir.Tensorized):
        return stmt
    if not isinstance(stmt, ir.Seq):
        return ir.map_stmts(stmt, lambda child: _statement(child, names, memory))
    parts: list[ir.Stmt] = []
    for straight, group in groupby(stmt.stmts, lambda child: isinstance(child, ir.Store)):
        if straight:
            parts.append(_Line(names, memory).named(list(group)))
        else:
            parts += [_statement(child, names, memory) for child in group]
    return ir.sequence(*parts)


@dataclass(slots=True)
class _Value:
    """A value that may be named, which `mark` stands for until it is known whether it is."""

    mark: ir.Load
    expr: ir.Expr
    hint: str
    uses: int = 1


class _Line:
    """Names the values of statements that follow each other.

    names   that are taken
    memory  the buffers that are not register variables
    """

    def __init__(self, names: frozenset[str], memory: frozenset[str]) -> None:
        self.names = names
        self.memory = memory
        self.known: dict[ir.Expr, _Value] = {}
        """The values that are still what they were when they were computed."""
        self.readers: dict[str, set[ir.Expr]] = {}
        """Those that a store to a buffer makes unknown."""
        self.marks: set[str] = set()
        self.values: dict[str, _Value] = {}
        self.items: list[_Value | ir.Stmt] = []

    def named(self, stmts: list[Any]) -> ir.Stmt:
        """The statements, each value that is used again in a variable of its own."""
        for stmt in stmts:
            indices = tuple(self.expr(index, True) for index in stmt.indices)
            self.items.append(ir.Store(stmt.buffer, indices, self.expr(stmt.value, True)))
            for expr in self.readers.pop(stmt.buffer, ()):
                self.known.pop(expr, None)
        kept = [v for v in self.values.values() if v.uses > 1][:MOST]
        if not kept:
            return ir.sequence(*stmts)
        variables = self.variables(kept)

        def filled(node: Any) -> Any:
            """A node with variables for the marks of what is kept, values for the others."""
            if isinstance(node, ir.Load) and node.buffer in variables:
                return ir.Load(variables[node.buffer].name, (), node.dtype)
            if isinstance(node, ir.Load) and node.buffer in self.values:
                return ir.rewrite(self.values[node.buffer].expr, filled)
            return node

        parts: list[ir.Stmt] = []
        for item in self.items:
            if not isinstance(item, _Value):
                parts.append(ir.rewrite(item, filled))
            elif item.mark.buffer in variables:
                value = ir.rewrite(item.expr, filled)
                parts.append(ir.Store(variables[item.mark.buffer].name, (), value))
        return ir.allocated(variables.values(), ir.sequence(*parts))

    def variables(self, kept: list[_Value]) -> dict[str, ir.Buffer]:
        """A register variable for each value, by its mark."""
        taken = set(self.names)
        numbers: dict[str, int] = {}
        found = {}
        for value in kept:
            number = numbers[value.hint] = numbers.get(value.hint, -1) + 1
            name = ir.fresh_name(f"{value.hint}_{number}", taken)
            found[value.mark.buffer] = ir.Buffer(name, (), value.expr.dtype, ir.Scope.REGISTER)
        return found

    def expr(self, expr: ir.Expr, always: bool) -> ir.Expr:
        """The expression with marks for its values; `always`: it is computed in any case."""
        value = self.known.get(expr)
        if value is not None:
            value.uses += 1
            return value.mark
        if isinstance(expr, (ir.Const, ir.Var, ir.Lanes)):
            return expr
        inner = self.inside(expr, always)
        hint = self.hint(expr) if always else None
        if hint is None:
            return inner
        mark = ir.Load(ir.fresh_name("mark", self.marks, self.names), (), expr.dtype)
        value = self.known[expr] = self.values[mark.buffer] = _Value(mark, inner, hint)
        self.items.append(value)
        for load in ir.loads(expr):
            self.readers.setdefault(load.buffer, set()).add(expr)
        return mark

    def inside(self, expr: ir.Expr, always: bool) -> ir.Expr:
        """The expression with marks inside it."""
        match expr:
            case ir.Select(condition, a, b, lazy=True):
                test = self.expr(condition, always)
                return ir.Select(test, self.expr(a, False), self.expr(b, False), lazy=True)
            case ir.Binary("and" | "or" as op, a, b):
                return ir.Binary(op, self.expr(a, always), self.expr(b, False))
        return ir.map_children(expr, _each(self.expr, always))

    def hint(self, expr: ir.Expr) -> str | None:
        """The stem of the variable's name; None for a value that is not named."""
        dtype = expr.dtype
        narrow = dtype.is_float and dtype.bits < 32  # would be converted to and fro
        if dtype.scalar == ir.INDEX or narrow or (dtype.lanes > 1 and dtype.scalar == ir.BOOL):
            return None
        match expr:
            case ir.Load(buffer):
                return buffer if buffer in self.memory else None
            case ir.Call(function) if function != "reinterpret":
                return function
            case ir.Binary("and"):
                return "inside" if not ir.loads(expr) else None
            case ir.Broadcast() | ir.Cast() | ir.Select(lazy=True):
                return next((load.buffer for load in ir.loads(expr)), None)
        return None


def _each(f: Callable[[ir.Expr, bool], ir.Expr], always: bool) -> Callable[[ir.Expr], ir.Expr]:
    return lambda child: f(child, always)
