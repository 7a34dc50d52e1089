"""Pass: a guard is asked once, outside of the loop or the straight line that does not change it.

    before  for k in range(64):
                if i < 9:
                    C[i] = C[i] + A[i, k]
    after   if i < 9:
                for k in range(64):
                    C[i] = C[i] + A[i, k]

A straight line of statements whose values are guarded alike (the rows of an image's padding, say)
gets two versions, one where the guards hold and one where they do not:

    before  C_0 = C_0 + if_then_else(1 <= y and 1 <= x, D[y, x], 0.0) * w
            C_1 = C_1 + if_then_else(1 <= y, D[y, x + 1], 0.0) * w          and one more
    after   if 1 <= y: C_0 = C_0 + if_then_else(1 <= x, D[y, x], 0.0) * w
                       C_1 = C_1 + D[y, x + 1] * w                          and one more
            else:      C_0 = C_0 + 0.0 * w                                  and so on

That takes 32 vector registers, as AVX-512 has: compilers load what both versions read in front of
the branch, and with 16 of them (AVX2) the accumulators of a tile are then spilled in each step, at
a cost of 20 to 50 % (gcc 12, 3x3 and 7x7 convolutions on Zen 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from minitensor import ir
from minitensor.codegen.target import Target

FEWEST: Final = 3
"""The guarded values from which on a straight line gets two versions."""
MOST_GUARDED: Final = 16
"""The most of them: compilers keep them all in registers where no condition stands between."""
NARROWEST: Final = 512
"""Bits of the vectors of machines that have 32 registers for them."""
MOST: Final = 512
"""The most statements that all second versions together add."""


def hoist_guards(program: ir.Program, target: Target) -> ir.Program:
    """The program with its guards as far outside as they go."""
    room = MOST if (target.vector_bits or 0) >= NARROWEST else 0
    return program.replace(body=_Hoister(room).statement(program.body))


@dataclass(slots=True)
class _Hoister:
    """room: the statements that second versions may still add"""

    room: int

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.For():
                return _unswitched(ir.with_body(stmt, self.statement(stmt.body)))
            case ir.Seq(stmts):
                return self.sequence(_joined([self.statement(child) for child in _joined(stmts)]))
            case ir.Store():
                return self.versions([stmt])
            case ir.Tensorized():
                return stmt
        return ir.map_stmts(stmt, self.statement)

    def sequence(self, stmts: Sequence[ir.Stmt]) -> ir.Stmt:
        parts: list[ir.Stmt] = []
        for straight, group in groupby(stmts, lambda stmt: isinstance(stmt, ir.Store)):
            line = list(group)
            parts += [self.versions(line)] if straight else line
        return ir.sequence(*parts)

    def versions(self, line: list[ir.Stmt]) -> ir.Stmt:
        """A straight line, in two versions if many of its values have guards in common."""
        if len(line) > self.room:
            return ir.sequence(*line)
        nodes = [node for stmt in line for node in ir.walk(stmt)]
        lanes = {node.var for node in nodes if isinstance(node, ir.Lanes)}
        guarded = {
            node: ir.conjuncts(node.condition)
            for node in nodes
            if isinstance(node, ir.Select) and node.lazy and _is_fixed(node.condition)
            if lanes.isdisjoint(ir.free_vars(node.condition))
        }
        counts = Counter(part for parts in guarded.values() for part in parts)
        common = [part for part, n in counts.items() if n >= max(FEWEST, len(guarded) / 2)]
        if not common or len(guarded) > MOST_GUARDED:
            return ir.sequence(*line)
        self.room -= len(line)

        def held(node: Any) -> Any:
            if node not in guarded:
                return node
            rest = [part for part in guarded[node] if part not in common]
            return ir.Select(ir.conjunction(rest), node.a, node.b, True) if rest else node.a

        def failed(node: Any) -> Any:
            return node.b if node in guarded and not {*common} - {*guarded[node]} else node

        versions = [
            ir.sequence(*[ir.rewrite(stmt, _selects(change)) for stmt in line])
            for change in (held, failed)
        ]
        return ir.If(ir.conjunction(common), *versions)


def _selects(change: Any) -> Any:
    """A change of lazy selects, other nodes left alone."""
    return lambda node: change(node) if isinstance(node, ir.Select) and node.lazy else node


def _is_fixed(condition: ir.Expr) -> bool:
    """Tell whether a condition is one for all lanes and depends on loops alone."""
    return condition.dtype.lanes == 1 and not any(
        isinstance(node, (ir.Load, ir.Call, ir.Lanes)) for node in ir.walk(condition)
    )


def _unswitched(loop: ir.For) -> ir.Stmt:
    """A loop whose whole body has a guard that it does not drive, with the guard around it."""
    guard = loop.body
    if not isinstance(guard, ir.If) or not _is_fixed(guard.condition):
        return loop
    if loop.kind.is_concurrent or ir.mentions(guard.condition, loop.var):
        return loop
    return ir.map_stmts(guard, lambda body: _unswitched(ir.with_body(loop, body)))


def _joined(stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
    """Statements with neighbours that have the same guard behind one."""
    parts: list[ir.Stmt] = []
    for condition, group in groupby(stmts, _only_guard):
        same = list(group)
        if condition is None or len(same) == 1:
            parts += same
        else:
            body = [stmt.then for stmt in same if isinstance(stmt, ir.If)]
            parts.append(ir.If(condition, ir.sequence(*body)))
    return parts


def _only_guard(stmt: ir.Stmt) -> ir.Expr | None:
    if isinstance(stmt, ir.If) and stmt.otherwise is None and _is_fixed(stmt.condition):
        return stmt.condition
    return None
