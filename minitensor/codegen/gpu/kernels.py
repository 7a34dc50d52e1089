"""A program of a GPU in parts: what the host does, the kernels, and the parts of a kernel.

    host    Seq | Alloc GLOBAL (device memory) | For SERIAL, UNROLL around kernels | kernel
    kernel  blockIdx loops > Alloc SHARED … > threadIdx loops > body

A loop or a sequence that holds no bound loop is a kernel of one thread as a whole. The loops of a
kernel are a chain; each may be missing. Variables of the host's loops are free in its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitensor import ir

AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class Kernel:
    """The parts of a kernel.

    blocks   the blockIdx loops, outermost first
    shared   the buffers in shared memory
    threads  the threadIdx loops, outermost first
    body     the statement that each thread executes
    """

    blocks: tuple[ir.For, ...]
    shared: tuple[ir.Buffer, ...]
    threads: tuple[ir.For, ...]
    body: ir.Stmt

    @property
    def grid(self) -> tuple[int, int, int]:
        """The numbers of blocks along x, y and z."""
        return _extents(self.blocks, "blockIdx")

    @property
    def block(self) -> tuple[int, int, int]:
        """The numbers of threads of a block along x, y and z."""
        return _extents(self.threads, "threadIdx")

    @property
    def combined(self) -> int:
        """The values of a block that a reduction across threads hands over in shared memory: one of
        each warp of a row, or of each thread where a row is no aligned part of a warp.
        """
        x, y, z = self.block
        if x % ir.WARP == 0:
            return y * z * (x // ir.WARP if x > ir.WARP else 0)
        return 0 if ir.WARP % x == 0 else x * y * z

    @property
    def combined_bytes(self) -> int:
        """The shared memory of a block that its reductions across threads take."""
        nodes = list(ir.stmts_of(self.body))
        held = {node.buffer.name: node.buffer for node in nodes if isinstance(node, ir.Alloc)}
        reductions = [node for node in nodes if isinstance(node, ir.ThreadReduce)]
        return self.combined * sum(nbytes(held[name]) for r in reductions for name in r.buffers)

    @property
    def stmt(self) -> ir.Stmt:
        """The kernel as a statement."""
        inner = ir.allocated(self.shared, ir.nest(self.threads, self.body))
        return ir.nest(self.blocks, inner)


def _extents(loops: Sequence[ir.For], word: str) -> tuple[int, int, int]:
    found = {loop.kind.value: loop.extent for loop in loops}
    x, y, z = (found.get(f"{word}.{axis}", 1) for axis in AXES)
    return x, y, z


def is_block(loop: ir.For) -> bool:
    """Tell whether the iterations of a loop are blocks of a grid."""
    return loop.kind.is_bound and not loop.kind.is_thread


def is_host(stmt: ir.Stmt) -> bool:
    """Tell whether a statement of the host holds kernels, and is none."""
    match stmt:
        case ir.Seq():
            return _holds_bound_loop(stmt)
        case ir.Alloc(buffer):
            return buffer.scope is ir.Scope.GLOBAL
        case ir.For():
            return not stmt.kind.is_bound and _holds_bound_loop(stmt)
    return False


def _holds_bound_loop(stmt: ir.Stmt) -> bool:
    return any(isinstance(node, ir.For) and node.kind.is_bound for node in ir.stmts_of(stmt))


def kernels_in(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    """The kernels of a statement of the host, in the order of the text."""
    if not is_host(stmt):
        if stmt != ir.NOTHING:
            yield stmt
    elif isinstance(stmt, ir.Seq):
        for child in stmt.stmts:
            yield from kernels_in(child)
    elif isinstance(stmt, (ir.For, ir.Alloc)):
        yield from kernels_in(stmt.body)


def kernel_of(stmt: ir.Stmt) -> Kernel:
    """The parts of a kernel."""
    blocks: list[ir.For] = []
    shared: list[ir.Buffer] = []
    threads: list[ir.For] = []
    while isinstance(stmt, ir.For) and is_block(stmt):
        blocks.append(stmt)
        stmt = stmt.body
    while isinstance(stmt, ir.Alloc) and stmt.buffer.scope is ir.Scope.SHARED:
        shared.append(stmt.buffer)
        stmt = stmt.body
    while isinstance(stmt, ir.For) and stmt.kind.is_thread:
        threads.append(stmt)
        stmt = stmt.body
    return Kernel(tuple(blocks), tuple(shared), tuple(threads), stmt)


def nbytes(buffer: ir.Buffer) -> int:
    """The bytes of a buffer, with what an alignment leaves free."""
    elements = ir.strides_of(buffer)[0] * buffer.shape[0] if buffer.shape else 1
    return elements * buffer.dtype.lanes * buffer.dtype.bits // 8


SHARED_ALIGNMENT = 16
"""Each buffer in shared memory starts at a multiple of so many bytes."""


def shared_offsets(kernel: Kernel) -> tuple[dict[str, int], int]:
    """For each buffer in shared memory where it starts, and the bytes of all of them."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in kernel.shared:
        offsets[buffer.name] = end
        end += -(-nbytes(buffer) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
    return offsets, end
