"""Variables that are declared where they are first stored to."""

from __future__ import annotations

from collections import Counter

from minitensor import ir


def starts_with_store(stmt: ir.Stmt, buffer: str) -> bool:
    """Tell whether the first statement that touches the variable initialises it for all others."""
    stmt = below_allocations(stmt)
    for child in stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,):
        if isinstance(child, ir.Store) and child.buffer == buffer:
            return all(load.buffer != buffer for load in ir.loads(child))
        if buffer in _touched(child):
            return False
    return False


def below_allocations(stmt: ir.Stmt) -> ir.Stmt:
    """The statement inside of allocations that stand one in the other."""
    while isinstance(stmt, ir.Alloc):
        stmt = stmt.body
    return stmt


@ir.fact
def _touched(stmt: ir.Stmt) -> frozenset[str]:
    """The buffers that a statement loads or stores."""
    return frozenset(n.buffer for n in ir.walk(stmt) if isinstance(n, (ir.Load, ir.Store)))


@ir.fact
def stores(stmt: ir.Stmt) -> Counter[str]:
    """The number of stores to each buffer below a statement."""
    return Counter(s.buffer for s in ir.stmts_of(stmt) if isinstance(s, ir.Store))
