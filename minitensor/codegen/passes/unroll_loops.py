"""Pass: unrolled loops are written out.

    before  for i in unroll(2): C[i] = f(i)
    after   C[0] = f(0)
            C[1] = f(1)

A loop that would make the text too long stays a loop. Compilers take more than twice as long for
twice as much in one function: for 1,000 statements on vectors gcc 12 needs 1.1 s, for 2,000 4.4 s,
and where they stand in another loop and call functions, 12 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target

MOST_STATEMENTS: Final = 1024
"""The most statements that all unrolled loops of a program together add."""
MOST_OPERATIONS: Final = 200_000
"""The most operations, loads and numbers of these."""


def unroll_loops(program: ir.Program, target: Target) -> ir.Program:
    """The program with its unrolled loops written out, innermost first."""
    return program.replace(body=_Unroller().statement(program.body))


@dataclass(slots=True)
class _Unroller:
    """Writes loops out while there is room for more statements, and more operations in them."""

    statements: int = MOST_STATEMENTS
    operations: int = MOST_OPERATIONS

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, self.statement)
        body = self.statement(stmt.body)
        if stmt.kind is not ir.LoopKind.UNROLL:
            return ir.with_body(stmt, body)
        if not self.has_room(stmt.var, stmt.extent, body):
            return ir.For(stmt.var, stmt.extent, body, ir.LoopKind.SERIAL, stmt.annotations)
        became(stmt.var, "written out")
        return ir.sequence(
            *[ir.substitute(body, {stmt.var: ir.Const(n)}) for n in range(stmt.extent)]
        )

    def has_room(self, loop: str, extent: int, body: ir.Stmt) -> bool:
        """Tell whether `extent` copies of a body may be written; if so, the room is taken."""
        more = max(0, extent - 1) * sum(1 for _ in ir.stmts_of(body))
        operations = max(0, extent - 1) * _operations(body)
        if more > self.statements:
            text = f"{more} statements more, and of {MOST_STATEMENTS} {self.statements} are left"
        elif operations > self.operations:
            left = f"{self.operations} are left"
            text = f"{operations} operations more, and of {MOST_OPERATIONS} {left}"
        else:
            self.statements -= more
            self.operations -= operations
            return True
        text = f"stays a loop: written out it would be {text}"
        missed("unroll", loop, text, "unroll a shorter loop")
        return False


def _operations(stmt: ir.Stmt) -> int:
    """The nodes of a statement, those that are collected lane by lane counted for each lane."""
    return ir.measured(
        stmt, lambda n, below: 1 + sum(below) * (n.lanes if isinstance(n, ir.Lanes) else 1)
    )
