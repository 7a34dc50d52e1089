"""Pass: from nests of threads that fork and join to kernels in which all threads run all along.

    before  for b in bind(4, "blockIdx.x"):           after  for b in bind(4, "blockIdx.x"):
                for t in bind(8, "threadIdx.x"):                 S = empty(float32[8])  # shared
                    S[t] = A[b*8 + t]                            for tx in bind(8, "threadIdx.x"):
                for u in bind(4, "threadIdx.x"):                     S[tx] = A[b*8 + tx]
                    C[b*4 + u] = S[u] + S[7 - u]                     barrier()
                                                                     if tx < 4:
                                                                         C[b*4 + tx] = …

A statement at the top is a kernel; serial loops around kernels and memory between them are the
host's (see `gpu.kernels` for the form of the result). In a kernel, in this order: virtual threads
are written out (`gpu.vthreads`), temporaries get their memory (`gpu.owners`), barriers are placed
where elements pass between threads (`gpu.barriers`), and nests become guards (`gpu.frame`).
"""

from __future__ import annotations

from typing import NoReturn

from minitensor import arith, ir
from minitensor.codegen.gpu.accesses import Accesses
from minitensor.codegen.gpu.barriers import with_barriers
from minitensor.codegen.gpu.devices import device_of
from minitensor.codegen.gpu.frame import in_frame, with_names
from minitensor.codegen.gpu.kernels import is_block
from minitensor.codegen.gpu.owners import Placer
from minitensor.codegen.gpu.vthreads import indexed, with_axes, without_vthreads
from minitensor.codegen.remarks import missed
from minitensor.codegen.target import Target
from minitensor.errors import LoweringError


def map_threads(program: ir.Program, target: Target) -> ir.Program:
    """The program as kernels. Raises LoweringError for what no kernel can do."""
    return program.replace(body=_Mapper(program, target).host(program.body, {}))


class _Mapper:
    def __init__(self, program: ir.Program, target: Target) -> None:
        self.program = program
        self.device = device_of(target)
        self.names = ir.names_in(program)

    def fail(self, loop: str, label: str, message: str) -> NoReturn:
        raise LoweringError(
            f"{ir.print_name(self.program.name)}: {message}",
            lambda: ir.print_program(self.program, ir.Marks({loop: label})),
        )

    def host(self, stmt: ir.Stmt, ranges: arith.Ranges) -> ir.Stmt:
        """A statement outside of kernels."""
        match stmt:
            case ir.Seq(stmts) if any(loop.kind.is_bound for loop in ir.loops_of(stmt)):
                return ir.sequence(*[self.host(child, ranges) for child in stmts])
            case ir.Alloc(buffer, body) if self.is_between(body):
                return ir.Alloc(self.between(buffer), self.host(body, ranges))
            case ir.For(var, extent, body) if not is_block(stmt) and _has_blocks(body):
                if stmt.kind not in (ir.LoopKind.SERIAL, ir.LoopKind.UNROLL):
                    self.no_loop(stmt)
                inside = {**ranges, var: arith.extent_range(extent)}
                return ir.For(var, extent, self.host(body, inside))
        return self.kernel(stmt, ranges)

    def is_between(self, body: ir.Stmt) -> bool:
        """Tell whether what is allocated around a statement outlives a kernel."""
        while isinstance(body, ir.Alloc):
            body = body.body
        if _has_blocks(body):
            return True
        return isinstance(body, ir.Seq) and any(x.kind.is_bound for x in ir.loops_of(body))

    def between(self, buffer: ir.Buffer) -> ir.Buffer:
        """A buffer that several kernels use, in device memory."""
        name = ir.print_name(buffer.name)
        if buffer.scope is ir.Scope.SHARED:
            raise LoweringError(
                f"{ir.print_name(self.program.name)}: {name} is in shared memory, which lives in "
                "one block, but several kernels use it; compute_at what writes it into the "
                f'blockIdx loop of what reads it, or set_scope("{buffer.name}", "global")'
            )
        if buffer.scope is not ir.Scope.GLOBAL:
            text = "is in device memory: several kernels use it"
            missed("owner", buffer.name, text, "compute_at what writes it into the other's nest")
        return ir.Buffer(buffer.name, buffer.shape, buffer.dtype, ir.Scope.GLOBAL, buffer.alignment)

    def no_loop(self, loop: ir.For) -> NoReturn:
        self.fail(
            loop.var,
            f"is {loop.kind.value}",
            f"the loop {ir.print_name(loop.var)} is {loop.kind.value}, which a kernel has not; "
            "bind it to threads or blocks, or make it serial again",
        )

    def kernel(self, stmt: ir.Stmt, ranges: arith.Ranges) -> ir.Stmt:
        """A statement that is a kernel."""
        blocks: list[ir.For] = []
        body = stmt
        while isinstance(body, ir.For) and is_block(body):
            blocks.append(body)
            body = body.body
        for loop in ir.loops_of(body):
            if is_block(loop):
                self.fail(
                    loop.var,
                    "not at the top",
                    f"the loop {ir.print_name(loop.var)} ({loop.kind.value}) stands beside other "
                    "statements, or inside of a loop that is no block index; the blockIdx loops of "
                    "a kernel are a chain at its top: compute_at or reorder the others away",
                )
            if loop.kind is ir.LoopKind.PARALLEL:
                self.no_loop(loop)
        outer = {**ranges, **{n.var: arith.extent_range(n.extent) for n in blocks}}
        body = with_names(without_vthreads(body), set(self.names))
        placer = Placer(outer, self.device)
        body = placer.place(body)
        for buffer in placer.device:
            own = tuple(ir.Var(loop.var) for loop in blocks)
            body = indexed(body, buffer.name, own)
        body = with_barriers(body, Accesses(outer, body), placer.private)
        inner = ir.allocated(placer.shared, in_frame(body))
        extents = tuple(loop.extent for loop in blocks)
        wide = [with_axes(buffer, extents) for buffer in placer.device]
        return ir.allocated(wide, ir.nest(blocks, inner))


def _has_blocks(stmt: ir.Stmt) -> bool:
    return any(is_block(loop) for loop in ir.loops_of(stmt))
