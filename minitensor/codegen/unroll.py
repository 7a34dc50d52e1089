"""Pass: unrolled loops are written out.

    before  for i in unroll(2): C[i] = f(i)
    after   C[0] = f(0)
            C[1] = f(1)

A loop that would make the text too long stays a loop: gcc needs 0.6 s for 1,000 such statements and
32 s for 16,000.
"""

from __future__ import annotations

from typing import Final

from minitensor.codegen.notes import became, missed
from minitensor.ir import (
    Const,
    For,
    LoopKind,
    Program,
    Stmt,
    map_stmts,
    sequence,
    stmts_of,
    substitute,
)

LONGEST: Final = 1024
"""How many statements one unrolled loop may become."""


def unroll_loops(program: Program) -> Program:
    """The program with its unrolled loops written out, innermost first."""
    return program.replace(body=_statement(program.body))


def _statement(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For):
        return map_stmts(stmt, _statement)
    body = _statement(stmt.body)
    if stmt.kind is not LoopKind.UNROLL:
        return For(stmt.var, stmt.extent, body, stmt.kind, stmt.annotations)
    length = stmt.extent * sum(1 for _ in stmts_of(body))
    if length > LONGEST:
        text = (
            f"stays a loop: written out it would be {length} statements, and at most {LONGEST} are"
        )
        missed("unroll", stmt.var, text, "unroll a shorter loop")
        return For(stmt.var, stmt.extent, body, LoopKind.SERIAL, stmt.annotations)
    became(stmt.var, "written out")
    return sequence(*[substitute(body, {stmt.var: Const(n)}) for n in range(stmt.extent)])
