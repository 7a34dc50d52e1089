"""Pass: loops that index a thread's own arrays are written out, so that these end in registers.

    for i in range(8):                   for i in unroll(8):
        C[i*64 + tx] = C_local[i]            C[i*64 + tx] = C_local[i]

    before  kernels of a GPU, in which loops that a schedule has not unrolled index small arrays
    after   those loops are unrolled, as far as that makes no more than MOST copies of a statement

Registers have no addresses: an array of which one index is not constant is in local memory, which
is a part of the GPU's main memory.
"""

from __future__ import annotations

import math
from typing import Final

from minitensor import ir
from minitensor.codegen.intrinsics import fragments_in
from minitensor.codegen.target import Target

MOST: Final = 1024
"""The most copies of a statement that come of it."""
LARGEST: Final = 256
"""The most elements of an array that ends in registers: a thread has 255 of these."""


def unroll_registers(program: ir.Program, target: Target) -> ir.Program:
    """The program with loops unrolled that index arrays in registers."""
    return program.replace(body=_statement(program.body, frozenset(), 1))


def _statement(stmt: ir.Stmt, arrays: frozenset[str], around: int) -> ir.Stmt:
    """A statement where `arrays` are in scope, under `around` copies that unrolling makes."""
    if isinstance(stmt, ir.Alloc):
        elements = math.prod(stmt.buffer.shape)
        if stmt.buffer.name in fragments_in(stmt.body):
            elements //= ir.WARP
        small = stmt.buffer.shape != () and elements <= LARGEST
        if small and stmt.buffer.scope in (ir.Scope.LOCAL, ir.Scope.REGISTER):
            arrays |= {stmt.buffer.name}
    if isinstance(stmt, ir.For):
        kind = stmt.kind
        copies = around * stmt.extent
        if kind is ir.LoopKind.SERIAL and _indexes(stmt, arrays) and copies <= MOST:
            kind = ir.LoopKind.UNROLL
        inner = _statement(stmt.body, arrays, copies if kind is ir.LoopKind.UNROLL else around)
        return ir.For(stmt.var, stmt.extent, inner, kind, stmt.annotations)
    return ir.map_stmts(stmt, lambda child: _statement(child, arrays, around))


def _indexes(loop: ir.For, arrays: frozenset[str]) -> bool:
    """Tell whether the loop's variable is in an index of one of the arrays."""
    return any(
        node.buffer in arrays and any(ir.mentions(index, loop.var) for index in node.indices)
        for node in ir.walk(loop.body)
        if isinstance(node, (ir.Load, ir.Store))
    )
