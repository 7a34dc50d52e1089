"""Accesses of a kernel, and the question behind its barriers: do two of them, by different threads,
touch one element?

Thread loops still stand where the schedule has them (a nest forks and joins), but all of one index
have one variable. A *unit* is a statement that one thread executes as a whole: it holds no thread
loop, and threads do not meet in it. It may stand outside of the loops of an index: then thread 0
of that index executes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from minitensor import arith, ir

THREADS: Final = (ir.LoopKind.THREAD_IDX_Z, ir.LoopKind.THREAD_IDX_Y, ir.LoopKind.THREAD_IDX_X)
"""The thread indices of a block, in the order of their loops."""
Path: TypeAlias = tuple[ir.For, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A load or a store.

    indices   as linear forms of the variables around it
    path      the loops of the kernel around it, outermost first
    threads   how many threads along each index execute it, where that is more than thread 0
    is_known  whether its indices depend on nothing that the kernel stores
    """

    buffer: str
    writes: bool
    indices: tuple[arith.Linear, ...]
    path: Path
    threads: Mapping[ir.LoopKind, int]
    is_known: bool


def is_unit(stmt: ir.Stmt) -> bool:
    """Tell whether one thread executes a statement as a whole."""
    return not any(
        isinstance(node, (ir.Barrier, ir.ThreadReduce))
        or (isinstance(node, ir.For) and node.kind in THREADS)
        for node in ir.stmts_of(stmt)
    )


def threads_of(path: Path) -> dict[ir.LoopKind, int]:
    """The number of threads along each index for which there is a loop."""
    return {loop.kind: loop.extent for loop in path if loop.kind in THREADS}


def of_thread_0(unit: ir.Stmt, path: Path) -> tuple[ir.Stmt, frozenset[ir.LoopKind]]:
    """A unit without the condition that an index is 0, and the indices of which it said so."""
    if isinstance(unit, ir.If) and unit.otherwise is None:
        for loop in path:
            if loop.kind in THREADS and unit.condition == ir.equal(ir.Var(loop.var), 0):
                inner = ir.substitute(unit.then, {loop.var: ir.Const(0)})
                stmt, more = of_thread_0(inner, path)
                return stmt, more | {loop.kind}
    return unit, frozenset()


class Accesses:
    """The accesses of the units of one kernel."""

    def __init__(self, outer: arith.Ranges, kernel: ir.Stmt) -> None:
        self.outer = outer
        self.stored = ir.stored_buffers(kernel)
        self.known: dict[tuple[int, ...], tuple[ir.Stmt, list[Access]]] = {}
        self.answers: dict[tuple[Access, Access, int], bool] = {}

    def of(self, unit: ir.Stmt, path: Path) -> list[Access]:
        """The accesses of a unit."""
        key = (id(unit), *map(id, path))
        if key not in self.known:
            stmt, alone = of_thread_0(unit, path)
            threads = {kind: n for kind, n in threads_of(path).items() if kind not in alone}
            self.known[key] = unit, list(self._in(stmt, path, threads))
        return self.known[key][1]

    def below(self, stmt: ir.Stmt, path: Path) -> Iterator[Access]:
        """The accesses of all units of a statement."""
        if is_unit(stmt):
            yield from self.of(stmt, path)
            return
        match stmt:
            case ir.For(_, _, body):
                yield from self.below(body, (*path, stmt))
            case ir.Alloc(_, body):
                yield from self.below(body, path)
            case ir.Seq(stmts):
                for child in stmts:
                    yield from self.below(child, path)

    def _in(
        self, stmt: ir.Stmt, path: Path, threads: Mapping[ir.LoopKind, int]
    ) -> Iterator[Access]:
        match stmt:
            case ir.For(_, _, body):
                yield from self._in(body, (*path, stmt), threads)
            case ir.Alloc(_, body) | ir.Tensorized(body=body):
                yield from self._in(body, path, threads)
            case ir.Seq(stmts):
                for child in stmts:
                    yield from self._in(child, path, threads)
            case ir.If(condition, then, otherwise):
                yield from self._accesses(ir.loads(condition), path, threads)
                for part in (then, otherwise):
                    if part is not None:
                        yield from self._in(part, path, threads)
            case ir.Store():
                yield from self._accesses([*ir.loads(stmt), stmt], path, threads)

    def _accesses(
        self,
        found: Sequence[ir.Load | ir.Store],
        path: Path,
        threads: Mapping[ir.LoopKind, int],
    ) -> Iterator[Access]:
        simplifier = arith.Simplifier(self._ranges(path))
        for access in found:
            inner = [load.buffer for index in access.indices for load in ir.loads(index)]
            forms = tuple(simplifier.linear(index) for index in access.indices)
            writes = isinstance(access, ir.Store)
            known = self.stored.isdisjoint(inner)
            yield Access(access.buffer, writes, forms, path, threads, known)

    def meet(self, a: Access, b: Access, common: int) -> bool:
        """Tell whether different threads may touch one element by these accesses.

        common  the loops around both, from outside, that are in the same iteration (of a thread
                loop: that run at the same time; its iterations do not conflict)
        """
        key = a, b, common
        if key not in self.answers:
            self.answers[key] = self._meet(a, b, common)
        return self.answers[key]

    def _meet(self, a: Access, b: Access, common: int) -> bool:
        together = {loop.kind for loop in a.path[:common]}
        rest = (*a.path[common:], *b.path[common:])
        free = frozenset(loop.var for loop in rest)
        names = {loop.kind: loop.var for loop in rest}
        is_known = a.is_known and b.is_known
        for kind in THREADS:
            counts = [access.threads.get(kind, 1) for access in (a, b)]
            if kind in together or counts == [1, 1]:
                continue
            ranges = [self._ranges(a.path), self._ranges(b.path)]
            if 1 in counts:  # thread 0 there, and the others here
                others = counts.index(1) ^ 1
                ranges[others][names[kind]] = arith.Interval(1, counts[others] - 1)
            if is_known and _are_apart(a.indices, b.indices, free, *ranges):
                continue
            if 1 in counts or not is_known:
                return True
            longest = {**ranges[0], **ranges[1]}
            longest |= {n: r for n, r in ranges[0].items() if r.hi > longest[n].hi}
            if not arith.separates(names[kind], a.indices, b.indices, free, longest):
                return True
        return False

    def _ranges(self, path: Path) -> dict[str, arith.Interval]:
        return {**self.outer, **{loop.var: arith.extent_range(loop.extent) for loop in path}}


def _are_apart(
    a: Sequence[arith.Linear],
    b: Sequence[arith.Linear],
    free: frozenset[str],
    where_a: arith.Ranges,
    where_b: arith.Ranges,
) -> bool:
    """Tell whether two indices are never equal, the free variables having values of their own."""

    def is_free(atom: ir.Expr, _: int) -> bool:
        return not free.isdisjoint(ir.free_vars(atom))

    for left, right in zip(a, b):
        moving_a, moving_b = left.part(is_free), right.part(is_free)
        fixed = left.minus(moving_a).minus(right.minus(moving_b)).interval(where_a)
        low, high = moving_a.interval(where_a), moving_b.interval(where_b)
        if fixed.lo + low.lo > high.hi or fixed.hi + low.hi < high.lo:
            return True
    return False


def common_loops(a: Path, b: Path, most: int) -> int:
    """The number of loops around both of two places, from outside, `most` at most."""
    count = 0
    while count < min(len(a), len(b), most) and a[count] is b[count]:
        count += 1
    return count
