"""Pass: a function of what a loop does not change is called once, outside of the loop.

    before  for y in range(28):
                C[c, y] = A[c, y] * sigmoid(B[c])
    after   sigmoid_0 = empty(float32[])  # register
            sigmoid_0[()] = sigmoid(B[c])
            for y in range(28):
                C[c, y] = A[c, y] * sigmoid_0[()]

Compilers do so for what is one instruction, but seldom for a function with choices inside. Hoisted
is what is computed in each iteration, under no condition, from variables outside of the loop and
from buffers that it does not write; not out of a parallel loop, whose threads would share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, cast

from minitensor import ir
from minitensor.codegen.target import Target


def hoist_values(program: ir.Program, target: Target) -> ir.Program:
    """The program with calls of functions as far outside as they go."""
    hoister = _Hoister(ir.names_in(program))
    return program.replace(body=hoister.statement(program.body))


class _Hoister:
    """names: all that are taken"""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Tensorized):
            return stmt
        if not isinstance(stmt, ir.For) or stmt.kind.is_concurrent:
            return ir.map_stmts(stmt, self.statement)
        calls = list(dict.fromkeys(_calls(stmt)))
        if not calls:
            return ir.map_stmts(stmt, self.statement)
        registers = {call: self.register(call) for call in calls}

        def read(node: Any) -> Any:
            found = registers.get(node) if isinstance(node, ir.Call) else None
            return node if found is None else ir.Load(found.name, (), found.dtype)

        first = [ir.Store(register.name, (), call) for call, register in registers.items()]
        loop = ir.map_stmts(ir.rewrite(stmt, read), self.statement)
        return ir.allocated(registers.values(), ir.sequence(*first, loop))

    def register(self, call: ir.Call) -> ir.Buffer:
        """A variable for the result of a call."""
        self.names.add(name := ir.fresh_name(f"{call.function}_0", self.names))
        return ir.Buffer(name, (), call.dtype, ir.Scope.REGISTER)


def _calls(loop: ir.For) -> Iterator[ir.Call]:
    """The outermost calls that give the same in each iteration, and are made in each."""
    stmts = list(ir.stmts_of(loop))
    inside = {s.var for s in stmts if isinstance(s, ir.For)}
    written = {s.buffer for s in stmts if isinstance(s, ir.Store)}
    written |= {s.buffer.name for s in stmts if isinstance(s, ir.Alloc)}
    if any(isinstance(s, ir.Tensorized) for s in stmts):
        return
    for store in _always(loop.body):
        for value in (*store.indices, store.value):
            yield from _fixed(value, inside, written)


def _always(stmt: ir.Stmt) -> Iterator[ir.Store]:
    """The stores that each iteration makes."""
    match stmt:
        case ir.Store():
            yield stmt
        case ir.Seq(stmts):
            for child in stmts:
                yield from _always(child)
        case ir.For(extent=extent, body=body) if extent > 0 and not stmt.kind.is_concurrent:
            yield from _always(body)
        case ir.Alloc(body=body):
            yield from _always(body)


def _fixed(expr: ir.Expr, inside: Set[str], written: Set[str]) -> Iterator[ir.Call]:
    """The outermost calls of an expression, computed in any case, that depend on nothing inside."""
    match expr:
        case ir.Lanes():
            return
        case ir.Call(function) if function != "reinterpret" and _is_free(expr, inside, written):
            yield expr
            return
        case ir.Select(condition, lazy=True):
            yield from _fixed(condition, inside, written)
            return
        case ir.Binary("and" | "or", a):
            yield from _fixed(a, inside, written)
            return
    for child in ir.children(expr):
        yield from _fixed(cast("ir.Expr", child), inside, written)


def _is_free(call: ir.Call, inside: Set[str], written: Set[str]) -> bool:
    """Return whether a call depends on nothing inside, and is of a type that variables hold."""
    narrow = call.dtype.is_float and call.dtype.bits < 32
    if narrow or call.dtype.scalar == ir.BOOL or not inside.isdisjoint(ir.free_vars(call)):
        return False
    return all(load.buffer not in written for load in ir.loads(call))
