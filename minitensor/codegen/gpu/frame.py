"""One frame of threads a kernel: forks and joins become guards.

    for t in bind(8, "threadIdx.x"): A            for tx in bind(8, "threadIdx.x"):
    B                                                 A
    barrier()                               =>        if tx == 0: B
    for u in bind(4, "threadIdx.x"): C                barrier()
                                                      if tx < 4: C

A guard stands around as much as it can, and never around a barrier: all threads reach those.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TypeAlias

from minitensor import ir
from minitensor.codegen.gpu.accesses import THREADS, Path, is_unit, of_thread_0, threads_of

Guard: TypeAlias = ir.Expr | None
"""The condition under which a thread executes a statement; None if it is in the statement."""


def with_names(stmt: ir.Stmt, names: set[str]) -> ir.Stmt:
    """The statement with one variable for all thread loops of an index.

    names  those that are taken
    """
    found = {loop.kind for loop in ir.loops_of(stmt)}
    chosen: dict[ir.LoopKind, str] = {
        kind: ir.fresh_name(f"t{kind.value[-1]}", names) for kind in THREADS if kind in found
    }
    return _named(stmt, chosen)


def _named(stmt: ir.Stmt, chosen: Mapping[ir.LoopKind, str]) -> ir.Stmt:
    stmt = ir.map_stmts(stmt, lambda child: _named(child, chosen))
    if not isinstance(stmt, ir.For) or stmt.kind not in chosen:
        return stmt
    name = chosen[stmt.kind]
    body = ir.substitute(stmt.body, {stmt.var: ir.Var(name)})
    return ir.For(name, stmt.extent, body, stmt.kind, stmt.annotations)


def in_frame(stmt: ir.Stmt) -> ir.Stmt:
    """The statement, its barriers placed, as one chain of thread loops around all of it."""
    longest: dict[ir.LoopKind, ir.For] = {}
    for loop in ir.loops_of(stmt):
        if loop.kind in THREADS:
            known = longest.get(loop.kind)
            longest[loop.kind] = loop if known is None or known.extent < loop.extent else known
    frame = tuple(longest[kind] for kind in THREADS if kind in longest)
    body, guard = _Flattener(frame, stmt).flat(stmt, ())
    return ir.nest(frame, _guarded(body, guard))


class _Flattener:
    def __init__(self, frame: Path, stmt: ir.Stmt) -> None:
        self.frame = frame
        self.combined = {
            name
            for node in ir.stmts_of(stmt)
            if isinstance(node, ir.ThreadReduce)
            for name in node.buffers
        }

    def flat(self, stmt: ir.Stmt, path: Path) -> tuple[ir.Stmt, Guard]:
        """The statement without thread loops, and its guard."""
        match stmt:
            case ir.Barrier() | ir.ThreadReduce():
                return stmt, None
            case ir.Store(buffer, _, ir.Const()) if buffer in self.combined:
                return stmt, ir.TRUE  # what those contribute that contribute nothing
            case _ if is_unit(stmt):
                return self.unit(stmt, path)
            case ir.For(_, _, body) if stmt.kind in THREADS:
                return self.flat(body, (*path, stmt))
            case ir.For(_, _, body):
                inner, guard = self.flat(body, path)
                return ir.with_body(stmt, inner), guard
            case ir.Alloc(buffer, body):
                inner, guard = self.flat(body, path)
                return ir.Alloc(buffer, inner), guard
            case ir.Seq(stmts):
                return _in_order([self.flat(child, path) for child in stmts])
        raise AssertionError(f"threads meet in {type(stmt).__name__}")

    def unit(self, unit: ir.Stmt, path: Path) -> tuple[ir.Stmt, Guard]:
        stmt, alone = of_thread_0(unit, path)
        threads = threads_of(path)
        guards = []
        for loop in self.frame:
            count = 1 if loop.kind in alone else threads.get(loop.kind, 1)
            if count < loop.extent:
                var = ir.Var(loop.var)
                guards.append(ir.equal(var, 0) if count == 1 else ir.less(var, count))
        return stmt, ir.conjunction(guards)


def _in_order(parts: list[tuple[ir.Stmt, Guard]]) -> tuple[ir.Stmt, Guard]:
    """Statements in order, neighbours of one guard behind it."""
    groups = [(guard, list(group)) for guard, group in groupby(parts, lambda part: part[1])]
    joined = [(ir.sequence(*[stmt for stmt, _ in group]), guard) for guard, group in groups]
    if len(joined) == 1:
        return joined[0]
    return ir.sequence(*[_guarded(stmt, guard) for stmt, guard in joined]), None


def _guarded(stmt: ir.Stmt, guard: Guard) -> ir.Stmt:
    return stmt if guard is None or guard == ir.TRUE else ir.If(guard, stmt)
