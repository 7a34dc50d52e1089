"""Pass: small arrays with constant indices become variables, one for each vector or number.

    before  T = empty(float32[2, 32])  # local;   T[1, ramp(16, 1, 16)] = …
    after   T_1_16 = empty(float32x16[])  # register;   T_1_16 = …

The compiler would find most of them itself; written so, the text shows what is in registers, and
code that is not optimised, or too large for that part of the optimiser, has them there as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from minitensor import ir
from minitensor.codegen.remarks import missed, stands_for, stored
from minitensor.codegen.target import Target

MOST: Final = 64
"""The most variables that one array may become."""
IN_SCOPE: Final = 256
"""The most variables that there may be at one place."""

Part: TypeAlias = tuple[tuple[int, ...], int]
"""Constant indices of the first element, and how many elements follow each other from there."""
Variables: TypeAlias = dict[Part, ir.Buffer]
"""The variables that an array becomes."""
N = TypeVar("N", bound=ir.Node)


def name_registers(program: ir.Program, target: Target) -> ir.Program:
    """The program with its small arrays as variables, where all indices are constants."""
    return program.replace(body=_Namer(ir.names_in(program)).statement(program.body, {}))


@dataclass(slots=True)
class _Namer:
    """Replaces accesses of arrays by variables; names: all that are taken."""

    names: set[str]
    in_scope: int = 0

    def statement(self, stmt: ir.Stmt, known: Mapping[str, Variables]) -> ir.Stmt:
        """The statement where `known` arrays have become variables."""
        match stmt:
            case ir.Alloc(buffer, body) if buffer.shape:
                return self.allocation(buffer, body, known)
            case ir.Alloc(buffer, body):
                return ir.Alloc(buffer, self.statement(body, known))
            case ir.Store():
                return self.renamed(stmt, known)
            case ir.If(condition, then, otherwise):
                no = None if otherwise is None else self.statement(otherwise, known)
                return ir.If(self.renamed(condition, known), self.statement(then, known), no)
            case ir.Tensorized(intrinsic, operands, axes, body):
                first = tuple(self.renamed(operand, known) for operand in operands)
                return ir.Tensorized(intrinsic, first, axes, self.statement(body, known))
            case ir.Prefetch(buffer) if buffer in known:
                missed("prefetch", buffer, "is in registers, and not prefetched")
                return ir.NOTHING
            case _:
                return ir.map_stmts(stmt, lambda child: self.statement(child, known))

    def allocation(
        self, buffer: ir.Buffer, body: ir.Stmt, known: Mapping[str, Variables]
    ) -> ir.Stmt:
        parts = _parts(buffer, body)
        if parts is None or self.in_scope + len(parts) > IN_SCOPE:
            _record_array(buffer)
            others = {name: variables for name, variables in known.items() if name != buffer.name}
            return ir.Alloc(buffer, self.statement(body, others))
        variables: Variables = {}
        for start, lanes in sorted(parts):
            place = map(str, start if len(parts) > 1 else ())
            name = ir.fresh_name("_".join([buffer.name, *place]), self.names)
            dtype = buffer.dtype.with_lanes(lanes) if lanes > 1 else buffer.dtype
            stands_for(name, buffer.name)
            variables[start, lanes] = ir.Buffer(name, (), dtype, ir.Scope.REGISTER)
        size = sum(b.dtype.bits * b.dtype.lanes for b in variables.values()) // 8
        stored(buffer.name, "registers", size)
        self.in_scope += len(parts)
        whole = self.statement(body, {**known, buffer.name: variables})
        self.in_scope -= len(parts)
        return ir.allocated(variables.values(), whole)

    def renamed(self, node: N, known: Mapping[str, Variables]) -> N:
        """A statement or an expression with variables for the elements of arrays."""

        def one(node: Any) -> Any:
            if not isinstance(node, (ir.Load, ir.Store)) or node.buffer not in known:
                return node
            part = _part(node.indices)
            assert part is not None
            new = known[node.buffer][part]
            if isinstance(node, ir.Load):
                return ir.Load(new.name, (), new.dtype)
            return ir.Store(new.name, (), node.value)

        return ir.rewrite(node, one) if known else node


def _record_array(buffer: ir.Buffer) -> None:
    """Say that an array meant for registers stays one."""
    if buffer.scope is ir.Scope.REGISTER:
        text = (
            f"is an array in memory: it is not indexed by constants, has more than {MOST} parts, "
            f"or would make more than {IN_SCOPE} variables with others"
        )
        missed("registers", buffer.name, text, "unroll the loops that index it, or make it smaller")


def _parts(buffer: ir.Buffer, body: ir.Stmt) -> set[Part] | None:
    """The parts of the buffer that accesses touch; None if they depend on loops, or overlap."""
    if buffer.scope is ir.Scope.SHARED or buffer.dtype.lanes > 1:
        return None
    parts: set[Part] = set()
    for access in ir.accesses(body, buffer.name):
        part = _part(access.indices)
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


def _part(indices: tuple[ir.Expr, ...]) -> Part | None:
    last, lanes = indices[-1], 1
    if isinstance(last, ir.Ramp):
        if last.stride != 1:
            return None
        lanes, last = last.lanes, last.base
    start: list[int] = []
    for index in (*indices[:-1], last):
        if not isinstance(index, ir.Const):
            return None
        start.append(int(index.value))
    return tuple(start), lanes
