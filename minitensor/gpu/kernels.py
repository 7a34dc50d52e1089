"""The kernels of an SPMD program, and the accesses and statements in each.

    blockIdx loops > shared arrays > threadIdx loops > the statements of a thread

A *site* is an access (a load, a store) or a statement, with the loops inside the threads and the
conditions under which it is executed. Not here: what a site costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from minitensor import codegen, ir

Guards: TypeAlias = tuple[tuple[ir.Expr, bool], ...]
"""Conditions, and whether each has to hold."""


class Site(NamedTuple):
    """A statement, or one of its accesses.

    stmt     the statement
    loops    around it inside the threads, outermost first
    guards   under which it is executed
    buffer   that is accessed; None for the statement itself
    indices  of the access
    writes   whether it stores
    together loops that an intrinsic of a warp does at once, its lanes together
    """

    stmt: ir.Stmt
    loops: tuple[ir.For, ...]
    guards: Guards
    buffer: ir.Buffer | None = None
    indices: tuple[ir.Expr, ...] = ()
    writes: bool = False
    together: tuple[ir.For, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a program.

    name      as in the text
    launches  the number of times that a call starts it
    parts     its blocks, shared arrays, threads and body
    buffers   all that it may access, by name
    private   the arrays of a thread
    """

    name: str
    launches: int
    parts: codegen.Kernel
    buffers: Mapping[str, ir.Buffer]
    private: tuple[ir.Buffer, ...]

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block, that of reductions across its warps among it."""
        return codegen.shared_offsets(self.parts)[1] + self.parts.combined_bytes

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return math.prod(self.parts.block)

    @property
    def warps(self) -> int:
        """The warps of a block; the last may be ragged."""
        return -(-self.threads // ir.WARP)

    @property
    def blocks(self) -> int:
        """The blocks of the grid."""
        return math.prod(self.parts.grid)

    def sites(self) -> list[Site]:
        """The statements and accesses in the order of the text; of each statement its accesses
        first.
        """
        return list(_sites(self, self.parts.body, (), ()))

    def in_registers(self, sites: list[Site]) -> frozenset[str]:
        """The private arrays whose indices are constants once unrolled loops are written out."""
        moving = set[str]()
        for site in sites:
            if site.buffer is not None:
                fixed = {loop.var for loop in site.loops if loop.kind is ir.LoopKind.UNROLL}
                used = {name for index in site.indices for name in ir.free_vars(index)}
                if not used <= fixed or any(map(ir.loads, site.indices)):
                    moving.add(site.buffer.name)
        return frozenset(b.name for b in self.private if b.name not in moving)


def kernels_of(program: ir.Program) -> list[Kernel]:
    """The kernels of an SPMD program, in the order of their launches."""
    found = list(_kernels(program.body, dict(program.buffers), 1))
    many = len(found) > 1
    kernels = []
    for number, (stmt, buffers, launches) in enumerate(found, start=1):
        parts = codegen.kernel_of(stmt)
        inner = [s.buffer for s in ir.stmts_of(parts.body) if isinstance(s, ir.Alloc)]
        every = {**buffers, **{buffer.name: buffer for buffer in (*parts.shared, *inner)}}
        private = tuple(b for b in inner if b.scope is not ir.Scope.SHARED)
        name = f"{program.name}_kernel_{number}" if many else f"{program.name}_kernel"
        kernels.append(Kernel(name, launches, parts, every, private))
    return kernels


def _kernels(
    stmt: ir.Stmt, buffers: dict[str, ir.Buffer], launches: int
) -> Iterator[tuple[ir.Stmt, dict[str, ir.Buffer], int]]:
    """The statements that are kernels, each with the buffers around it and its launches."""
    if not codegen.is_host(stmt):
        if stmt != ir.NOTHING:
            yield stmt, buffers, launches
        return
    match stmt:
        case ir.Seq(stmts):
            for child in stmts:
                yield from _kernels(child, buffers, launches)
        case ir.For(_, extent, body):
            yield from _kernels(body, buffers, launches * extent)
        case ir.Alloc(buffer, body):
            yield from _kernels(body, {**buffers, buffer.name: buffer}, launches)


def size_of(buffer: ir.Buffer) -> int:
    """The bytes of an element."""
    return buffer.dtype.lanes * buffer.dtype.bits // 8


def _sites(
    kernel: Kernel, stmt: ir.Stmt, loops: tuple[ir.For, ...], guards: Guards
) -> Iterator[Site]:
    """The sites of a statement. A condition is a site of its own."""
    match stmt:
        case ir.For():
            yield from _sites(kernel, stmt.body, (*loops, stmt), guards)
        case ir.Seq(stmts):
            for child in stmts:
                yield from _sites(kernel, child, loops, guards)
        case ir.Tensorized() if of_warp(stmt) is not None:
            yield from _of_warp(kernel, stmt, Site(stmt, loops, guards))
        case ir.Alloc(_, body) | ir.Tensorized(_, _, _, body):
            yield from _sites(kernel, body, loops, guards)
        case ir.If(condition, then, otherwise):
            yield from _loads(kernel, Site(stmt, loops, guards), condition, guards)
            yield Site(stmt, loops, guards)
            yield from _sites(kernel, then, loops, (*guards, (condition, True)))
            if otherwise is not None:
                yield from _sites(kernel, otherwise, loops, (*guards, (condition, False)))
        case ir.Store(name, indices, value):
            own = Site(stmt, loops, guards)
            for part in (*indices, value):
                yield from _loads(kernel, own, part, guards)
            yield own._replace(buffer=kernel.buffers[name], indices=indices, writes=True)
            yield own
        case _:
            yield Site(stmt, loops, guards)


def of_warp(stmt: ir.Tensorized) -> ir.Intrinsic | None:
    """The intrinsic that does a statement, if it is one of a GPU."""
    found = ir.known_intrinsic(stmt.intrinsic)
    return found if found is not None and found.cuda else None


def fragments_of(stmt: ir.Stmt) -> frozenset[str]:
    """The arrays that the registers of warps hold, each thread its part."""
    found = set[str]()
    for call in ir.stmts_of(stmt):
        intrinsic = of_warp(call) if isinstance(call, ir.Tensorized) else None
        if isinstance(call, ir.Tensorized) and intrinsic is not None:
            pairs = zip(intrinsic.operands, call.operands)
            found |= {there.buffer for own, there in pairs if own.name in intrinsic.fragments}
    return frozenset(found)


def _of_warp(kernel: Kernel, stmt: ir.Tensorized, own: Site) -> Iterator[Site]:
    """The accesses of an intrinsic of a warp: of what its registers do not hold."""
    loops, body = list[ir.For](), stmt.body
    while isinstance(body, ir.For):
        loops.append(body)
        body = body.body
    held = fragments_of(stmt)
    for site in _sites(kernel, body, own.loops, own.guards):
        if site.buffer is not None and site.buffer.name not in held:
            yield site._replace(stmt=stmt, together=tuple(loops))
    yield own


def _loads(kernel: Kernel, own: Site, expr: ir.Expr, guards: Guards) -> Iterator[Site]:
    """The loads of an expression, those inside an index first."""
    if isinstance(expr, ir.Select) and expr.lazy:
        yield from _loads(kernel, own, expr.condition, guards)
        yield from _loads(kernel, own, expr.a, (*guards, (expr.condition, True)))
        yield from _loads(kernel, own, expr.b, (*guards, (expr.condition, False)))
        return
    for child in ir.children(expr):
        if not isinstance(child, ir.For):
            yield from _loads(kernel, own, child, guards)  # type: ignore[arg-type]
    if isinstance(expr, ir.Load):
        buffer = kernel.buffers[expr.buffer]
        yield own._replace(buffer=buffer, indices=expr.indices, guards=guards)
