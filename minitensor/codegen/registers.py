"""Pass: small arrays with constant indices become variables, one for each vector or number.

    before  T = empty(float32[2, 32])  # local;   T[1, ramp(16, 1, 16)] = …
    after   T_1_16 = empty(float32x16[])  # register;   T_1_16 = …

The compiler would find most of them itself; written so, the text shows what is in registers, and
code that is not optimised, or too large for that part of the optimiser, has them there as well.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from minitensor.codegen.notes import missed, stands_for, stored
from minitensor.ir import (
    Alloc,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Ramp,
    Scope,
    Stmt,
    Store,
    fresh_name,
    loops_of,
    map_stmts,
    rewrite,
    stmts_of,
    walk,
)

MOST: Final = 64
"""The most variables that one array may become."""

Part: TypeAlias = tuple[tuple[int, ...], int]
"""Constant indices of the first element, and how many elements follow each other from there."""


def name_registers(program: Program) -> Program:
    """The program with its small arrays as variables, where all indices are constants."""
    names = set(program.buffers) | {loop.var for loop in loops_of(program.body)}
    names |= {s.buffer.name for s in stmts_of(program.body) if isinstance(s, Alloc)}
    return program.replace(body=_statement(program.body, names))


def _statement(stmt: Stmt, names: set[str]) -> Stmt:
    new = map_stmts(stmt, lambda child: _statement(child, names))
    if not isinstance(new, Alloc) or not new.buffer.shape:
        return new
    parts = _parts(new.buffer, new.body)
    if parts is None:
        _tell_array(new.buffer)
        return new
    variables: dict[Part, Buffer] = {}
    for start, lanes in sorted(parts):
        name = fresh_name("_".join([new.buffer.name, *map(str, start)]), names)
        names.add(name)
        dtype = new.buffer.dtype.with_lanes(lanes) if lanes > 1 else new.buffer.dtype
        stands_for(name, new.buffer.name)
        variables[start, lanes] = Buffer(name, (), dtype, Scope.REGISTER)
    stored(
        new.buffer.name,
        "registers",
        sum(b.dtype.bits * b.dtype.lanes for b in variables.values()) // 8,
    )
    body = _renamed(new.body, new.buffer.name, variables)
    for buffer in reversed(variables.values()):
        body = Alloc(buffer, body)
    return body


def _tell_array(buffer: Buffer) -> None:
    """Say that an array meant for registers stays one."""
    if buffer.scope is Scope.REGISTER:
        text = (
            f"is an array in memory: it is not indexed by constants, or has more than {MOST} parts"
        )
        missed("registers", buffer.name, text, "unroll the loops that index it, or make it smaller")


def _parts(buffer: Buffer, body: Stmt) -> set[Part] | None:
    """What the accesses of the buffer touch; None if that depends on anything, or overlaps."""
    if buffer.scope is Scope.SHARED or buffer.dtype.lanes > 1:
        return None
    parts: set[Part] = set()
    for node in walk(body):
        if isinstance(node, (Load, Store)) and node.buffer == buffer.name:
            part = _part(node.indices)
            if part is None:
                return None
            parts.add(part)
    taken: set[tuple[int, ...]] = set()
    for (*outer, last), lanes in parts:
        elements = {(*outer, last + lane) for lane in range(lanes)}
        if not taken.isdisjoint(elements):
            return None
        taken |= elements
    return parts if 0 < len(parts) <= MOST else None


def _part(indices: tuple[Expr, ...]) -> Part | None:
    last, lanes = indices[-1], 1
    if isinstance(last, Ramp):
        if last.stride != 1:
            return None
        lanes, last = last.lanes, last.base
    start: list[int] = []
    for index in (*indices[:-1], last):
        if not isinstance(index, Const):
            return None
        start.append(int(index.value))
    return tuple(start), lanes


def _renamed(stmt: Stmt, buffer: str, variables: dict[Part, Buffer]) -> Stmt:
    def one(node: Any) -> Any:
        if not isinstance(node, (Load, Store)) or node.buffer != buffer:
            return node
        part = _part(node.indices)
        assert part is not None
        new = variables[part]
        if isinstance(node, Load):
            return Load(new.name, (), new.dtype)
        return Store(new.name, (), node.value)

    return rewrite(stmt, one)
