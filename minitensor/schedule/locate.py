"""Finding things in a program: loops and blocks by name, what is around them and below them."""

from __future__ import annotations

from minitensor import ir
from minitensor.arith import Ranges, extent_range


def loops_around(program: ir.Program, block: str) -> tuple[ir.For, ...]:
    """The loops around a block, outermost first."""
    return ir.paths(program)[block]


def parts(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements of a sequence; anything else alone."""
    return stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,)


def holds_block(stmt: ir.Stmt, names: set[str]) -> bool:
    """Whether one of the blocks is at or below the statement."""
    return any(block.name in names for block in ir.blocks_of(stmt))


def ranges_of(loops: tuple[ir.For, ...]) -> Ranges:
    """The values of the variables of some loops."""
    return {loop.var: extent_range(loop.extent) for loop in loops}


def readers(program: ir.Program, buffer: str) -> list[ir.Block]:
    """The blocks that read a buffer, those that only accumulate into it left out."""
    return [b for b in program.blocks.values() if buffer in ir.accessed_buffers(b)[0]]


def writers(program: ir.Program, buffer: str) -> list[ir.Block]:
    """The blocks that write a buffer."""
    return [b for b in program.blocks.values() if buffer in ir.accessed_buffers(b)[1]]


def chain(outermost: ir.For, innermost: str) -> tuple[ir.For, ...] | None:
    """The loops from one to another if each is all there is in the one before; else None."""
    loops = [outermost]
    while loops[-1].var != innermost:
        body = loops[-1].body
        if not isinstance(body, ir.For):
            return None
        loops.append(body)
    return tuple(loops)
