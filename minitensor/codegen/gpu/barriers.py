"""Barriers: where an element passes from one thread to another.

The statements of a kernel are visited in the order of execution, with the accesses that no barrier
has ended yet. A unit that meets one of them, by another thread, gets a barrier in front; that ends
them all. So each barrier stands as late as it can and serves all pairs of accesses around it.

    for k in range(n):                         the end of an iteration is in front of the next one:
        S[tx] = A[k, tx]                       a barrier between the load of S and the store to it
        barrier()
        C[tx] = C[tx] + S[n - 1 - tx]

Only in a loop that needs one in each iteration does a barrier stand in it: what is pending in front
of a loop is ended there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from minitensor import ir
from minitensor.codegen.gpu.accesses import THREADS, Access, Accesses, Path, common_loops, is_unit

Pending: TypeAlias = Mapping[Access, int]
"""Accesses since the last barrier, with how many of the loops around each (from outside) are in the
same iteration as the statement that is looked at, at most."""


class _Placed(NamedTuple):
    """A statement with its barriers.

    end    what is pending behind it
    first  the accesses in front of its first barrier
    ends   whether it has a barrier, which all threads reach
    """

    stmt: ir.Stmt
    end: Pending
    first: tuple[Access, ...] = ()
    ends: bool = False


def with_barriers(kernel: ir.Stmt, accesses: Accesses, private: Collection[str]) -> ir.Stmt:
    """The statement of a kernel with its barriers.

    private  buffers of which each thread has its own
    """
    return _Placer(accesses, frozenset(private)).after({}, kernel, ()).stmt


class _Placer:
    def __init__(self, accesses: Accesses, private: frozenset[str]) -> None:
        self.accesses = accesses
        self.private = private

    def after(self, pending: Pending, stmt: ir.Stmt, path: Path) -> _Placed:
        """The statement behind accesses that are pending."""
        if is_unit(stmt):
            found = self.accesses.of(stmt, path)
            here = tuple(a for a in found if a.buffer not in self.private)
            return self.fenced(pending, _Placed(stmt, dict.fromkeys(here, len(path)), here), path)
        match stmt:
            case ir.Seq(stmts):
                placed = _Placed(ir.NOTHING, pending)
                for child in stmts:
                    placed = _joined(placed, self.after(placed.end, child, path))
                return placed
            case ir.Alloc(buffer, body):
                inner = self.after(pending, body, path)
                return inner._replace(stmt=ir.Alloc(buffer, inner.stmt))
            case ir.For(_, _, body) if stmt.kind in THREADS:
                inner = self.after(pending, body, (*path, stmt))
                return inner._replace(stmt=ir.with_body(stmt, inner.stmt))
            case ir.For():
                return self.fenced(pending, self.serial(stmt, path), path)
        return _Placed(stmt, pending)  # threads meet here over what is theirs alone

    def serial(self, loop: ir.For, path: Path) -> _Placed:
        """A loop in which threads may meet; in front of an iteration is the end of the last one."""
        assumed: dict[Access, int] = {}
        while True:
            body = self.after(assumed, loop.body, (*path, loop))
            crossed = {access: min(most, len(path)) for access, most in body.end.items()}
            more = {a: n for a, n in crossed.items() if n < assumed.get(a, n + 1)}
            if not more:
                return body._replace(stmt=ir.with_body(loop, body.stmt))
            assumed |= more

    def fenced(self, pending: Pending, placed: _Placed, path: Path) -> _Placed:
        """The statement with a barrier in front, if what it does first meets what is pending."""
        if any(self.meet(a, most, b) for b in placed.first for a, most in pending.items()):
            return _Placed(ir.sequence(ir.Barrier(), placed.stmt), placed.end, (), True)
        return placed if placed.ends else placed._replace(end=_least(pending, placed.end))

    def meet(self, a: Access, most: int, b: Access) -> bool:
        if a.buffer != b.buffer or not (a.writes or b.writes):
            return False
        return self.accesses.meet(a, b, common_loops(a.path, b.path, most))


def _least(a: Pending, b: Pending) -> Pending:
    """All that is pending of the two; of an access in both, the more general."""
    return {access: min(p.get(access, 1 << 30) for p in (a, b)) for access in (*a, *b)}


def _joined(before: _Placed, after: _Placed) -> _Placed:
    """Two statements in order."""
    first = before.first if before.ends else before.first + after.first
    stmt = ir.sequence(before.stmt, after.stmt)
    return _Placed(stmt, after.end, first, before.ends or after.ends)
