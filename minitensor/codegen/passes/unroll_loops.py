"""Pass: unrolled loops are written out.

    before  for i in unroll(2): C[i] = f(i)
    after   C[0] = f(0)
            C[1] = f(1)

A loop of many statements that means the same as text of its own is left to the compiler to unroll:
it stays an unrolled loop, which is emitted with a pragma. Text must be written out where that lets
later passes do more: arrays that are indexed by the loop become registers, conditions are decided,
and rows that several places of a window read are loaded once.

A loop around a tile that fills the vector registers stays a plain loop: in copies of its body a
compiler gives a sum another register from one to the next, and reads again what it has no register
for (gcc 12, tiles of 12 sums of 3x3 convolutions on Zen 3: 30 % longer).

A loop that would make too much code stays a plain loop. Compilers take more than twice as long for
twice as much in one function: for 1,000 statements on vectors gcc 12 needs 1.1 s, for 2,000 4.4 s,
and where they stand in another loop and call functions, 12 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.passes.name_registers import MOST as MOST_REGISTERS
from minitensor.codegen.pressure import fills_registers
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target

MOST_STATEMENTS: Final = 1024
"""The most statements that all unrolled loops of a program together add."""
MOST_OPERATIONS: Final = 200_000
"""The most operations, loads and numbers of these."""
SHORT: Final = 32
"""Up to so many statements, a loop is written out in any case."""
SHARED: Final = 128
"""Up to so many, one whose iterations read what others have read."""


def unroll_loops(program: ir.Program, target: Target) -> ir.Program:
    """The program with its unrolled loops written out, innermost first."""
    tiles = frozenset(
        stmt.buffer.name
        for stmt in ir.stmts_of(program.body)
        if isinstance(stmt, ir.Alloc) and _is_small(stmt.buffer, target)
    )
    unroller = _Unroller(tiles=tiles, bits=target.vector_bits or 0)
    return program.replace(body=unroller.statement(program.body))


def _is_small(buffer: ir.Buffer, target: Target) -> bool:
    """Tell whether an array may become registers."""
    lanes = max(1, (target.vector_bits or 0) // buffer.dtype.bits)
    return math.prod(buffer.shape) <= MOST_REGISTERS * lanes


@dataclass(slots=True)
class _Unroller:
    """Writes loops out while there is room for more statements, and more operations in them.

    tiles  arrays that may become registers where constants index them
    bits   of a vector register
    """

    statements: int = MOST_STATEMENTS
    operations: int = MOST_OPERATIONS
    tiles: frozenset[str] = frozenset()
    bits: int = 0

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, self.statement)
        body = self.statement(stmt.body)
        if stmt.kind is not ir.LoopKind.UNROLL:
            return ir.with_body(stmt, body)
        statements = _statements(body)
        if self.is_full(stmt.var, body) or not self.has_room(
            stmt.var, stmt.extent, body, statements
        ):
            return ir.For(stmt.var, stmt.extent, body, ir.LoopKind.SERIAL, stmt.annotations)
        copies = stmt.extent * statements
        if copies > SHORT and self.is_plain(stmt.var, body) and not self.shares(stmt, body, copies):
            became(stmt.var, "unrolled by the compiler")
            return ir.with_body(stmt, body)
        became(stmt.var, "written out")
        return ir.sequence(
            *[ir.substitute(body, {stmt.var: ir.Const(n)}) for n in range(stmt.extent)]
        )

    def is_plain(self, loop: str, body: ir.Stmt) -> bool:
        """Tell whether a loop decides nothing but places in memory: no condition and no register
        depends on it, nor an index by more than a multiple of it.
        """
        for node in ir.walk(body):
            match node:
                case ir.Load(buffer, indices) | ir.Store(buffer, indices):
                    depends = buffer in self.tiles and any(map(_of(loop), indices))
                case ir.If(condition) | ir.Select(condition):
                    depends = _of(loop)(condition)
                case ir.Binary(op, a, b):
                    depends = op in ("//", "%") and (_of(loop)(a) or _of(loop)(b))
                case _:
                    depends = False
            if depends:
                return False
        return True

    def shares(self, loop: ir.For, body: ir.Stmt, copies: int) -> bool:
        """Tell whether an iteration reads vectors that the one before it has read at another place
        of the body, as the rows of a window do, so that text can share them.
        """
        loads = {
            n for n in ir.loads(body) if n.dtype.lanes > 1 and any(map(_of(loop.var), n.indices))
        }
        if copies > SHARED or len(loads) < 2:
            return False
        first, second = (
            {(n.buffer, *(_place(index, loop.var, at) for index in n.indices)) for n in loads}
            for at in (0, 1)
        )
        return not first.isdisjoint(second)

    def is_full(self, loop: str, body: ir.Stmt) -> bool:
        """Tell whether a body is a tile that fills the registers, each time the same one."""
        stmts = body.stmts if isinstance(body, ir.Seq) else ()
        stores = [stmt for stmt in stmts if isinstance(stmt, ir.Store)]
        if len(stores) < len(stmts) or any(map(_of(loop), (i for s in stores for i in s.indices))):
            return False
        if not fills_registers(stores, self.bits):
            return False
        text = "stays a loop: what it repeats fills the vector registers"
        missed("unroll", loop, text, "a smaller tile has room for several iterations")
        return True

    def has_room(self, loop: str, extent: int, body: ir.Stmt, statements: int) -> bool:
        """Tell whether `extent` copies of a body may be written; if so, the room is taken."""
        more = max(0, extent - 1) * statements
        operations = max(0, extent - 1) * _operations(body)
        if more > self.statements:
            text = f"{more} statements more, and of {MOST_STATEMENTS} {self.statements} are left"
        elif operations > self.operations:
            left = f"{self.operations} are left"
            text = f"{operations} operations more, and of {MOST_OPERATIONS} {left}"
        else:
            self.statements -= more
            self.operations -= operations
            return True
        text = f"stays a loop: written out it would be {text}"
        missed("unroll", loop, text, "unroll a shorter loop")
        return False


def _place(index: ir.Expr, loop: str, value: int) -> str:
    """The text of an index in an iteration, the same for equal sums."""
    expr = index.base if isinstance(index, ir.Ramp) else index
    return ir.print_expr(arith.linear_of(ir.substitute(expr, {loop: ir.Const(value)})).expr())


def _of(loop: str) -> Callable[[ir.Expr], bool]:
    return lambda expr: loop in ir.free_vars(expr)


def _statements(stmt: ir.Stmt) -> int:
    """The statements, those of loops that the compiler unrolls in each iteration."""
    return ir.measured(stmt, lambda n, below: _times(n) * (isinstance(n, ir.Stmt) + sum(below)))


def _operations(stmt: ir.Stmt) -> int:
    """The nodes of a statement, those that are collected lane by lane counted for each lane."""
    return ir.measured(stmt, lambda n, below: 1 + _times(n) * sum(below))


def _times(node: ir.Node) -> int:
    """The times that what stands in a node is executed where the node is."""
    if isinstance(node, ir.For) and node.kind is ir.LoopKind.UNROLL:
        return node.extent
    return node.lanes if isinstance(node, ir.Lanes) else 1
